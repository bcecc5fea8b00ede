"""Tables 3.2 and 3.3 of McKenna's thesis as printed: RMSE of strategies for queries about one attribute.

Epsilon is 1. Table 3.2 is for Laplace noise, Table 3.3 for Gaussian noise with delta 1e-6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ALL_RANGE, PREFIX, WIDTH_32, PERMUTED = "all range", "prefix", "width 32 range", "permuted range"
OPT_0, SVDB = "opt_0", "svdb"
# COA and LRM, one of which stands in each table, are other optimisers, and of Permuted Range the permutation is not
# published, on which all columns depend but these.
COLUMNS: Final = ("identity", "h2", "privelet", "hb", "greedy_h", "optimiser", OPT_0, SVDB)
WITHOUT_ORDER: Final = ("identity", SVDB)
HALF_A_DIGIT: Final = 0.005 + 1e-9


@dataclass(frozen=True)
class Row:
    """One line of a table.

    printed: By column; one without a figure is missing.
    """

    workload: str
    size: int
    printed: Mapping[str, float]

    @property
    def comparable(self) -> tuple[str, ...]:
        """Columns that this project computes again: all but OPT_0 and the other optimiser."""
        again = [name for name in self.printed if name not in ("optimiser", OPT_0)]
        return tuple(name for name in again if self.workload != PERMUTED or name in WITHOUT_ORDER)


def agrees(figure: float, printed: float) -> bool:
    """Whether a figure is the printed one, to its two digits after the point."""
    return abs(figure - printed) <= HALF_A_DIGIT


def exceeds(figure: float, printed: float) -> bool:
    """Whether a figure would be printed as a larger one."""
    return figure > printed + HALF_A_DIGIT


def _rows(text: str) -> tuple[Row, ...]:
    """Lines of workload, size and the COLUMNS, with - where the table has no figure."""
    rows = []
    for line in text.strip().splitlines():
        name, size, *figures = (part.strip() for part in line.split("|"))
        printed = {column: float(each) for column, each in zip(COLUMNS, figures, strict=True) if each != "-"}
        rows.append(Row(name, int(size), printed))
    return tuple(rows)


LAPLACE: Final = _rows("""
all range      |   64 |  6.63 |  11.28 |  10.11 |   6.63 |  6.34 |  7.02 |  5.55 | 3.22
all range      |  256 | 13.11 |  16.27 |  14.87 |   8.90 |  9.72 | 15.73 |  8.07 | 4.07
all range      | 1024 | 26.15 |  21.83 |  20.26 |  12.82 | 14.70 |     - | 11.08 | 4.94
all range      | 4096 | 52.27 |  27.90 |  26.18 |  16.19 | 22.21 |     - | 14.38 | 5.82
prefix         |   64 |  8.06 |   9.42 |   9.37 |   8.06 |  6.04 |  7.67 |  5.32 | 2.89
prefix         |  256 | 16.03 |  13.16 |  13.09 |   8.97 |  9.13 | 12.64 |  7.35 | 3.50
prefix         | 1024 | 32.02 |  17.29 |  17.20 |  12.87 | 14.32 | 15.43 |  9.58 | 4.11
prefix         | 4096 | 64.01 |  21.77 |  21.67 |  14.91 | 22.40 |     - | 12.20 | 4.74
width 32 range |   64 |  8.00 |  12.02 |  11.09 |   8.00 |  7.32 |  9.44 |  5.88 | 2.75
width 32 range |  256 |  8.00 |  15.50 |  13.57 |   7.41 |  8.00 | 25.81 |  6.34 | 3.26
width 32 range | 1024 |  8.00 |  18.98 |  16.56 |   9.50 |  8.00 | 16.98 |  6.41 | 3.36
width 32 range | 4096 |  8.00 |  22.45 |  19.58 |  10.96 |  8.00 |     - |  6.46 | 3.38
permuted range |   64 |  6.63 |  25.02 |  18.97 |   6.63 |  6.83 |  7.02 |  5.55 | 3.22
permuted range |  256 | 13.11 |  66.25 |  49.09 |  18.48 | 13.02 | 15.73 |  8.06 | 4.07
permuted range | 1024 | 26.15 | 157.50 | 117.06 |  37.07 | 23.94 |     - | 11.08 | 4.94
permuted range | 4096 | 52.27 | 374.29 | 277.42 | 107.83 | 45.77 |     - | 14.37 | 5.82
""")

GAUSSIAN: Final = _rows("""
all range      |   64 |  19.82 |  12.74 |  11.42 |  19.82 |  14.64 |  9.73 |  9.73 |  9.62
all range      |  256 |  39.18 |  16.20 |  14.81 |  18.80 |  23.34 | 12.26 | 12.26 | 12.15
all range      | 1024 |  78.13 |  19.66 |  18.24 |  27.07 |  36.20 | 14.89 | 14.85 | 14.75
all range      | 4096 | 156.14 |  23.12 |  21.69 |  27.92 |  56.21 | 17.92 | 17.46 | 17.38
prefix         |   64 |  24.08 |  10.64 |  10.58 |  24.08 |  14.04 |  8.87 |  8.87 |  8.62
prefix         |  256 |  47.89 |  13.11 |  13.03 |  18.95 |  22.11 | 10.70 | 10.66 | 10.44
prefix         | 1024 |  95.64 |  15.57 |  15.49 |  27.18 |  35.59 | 16.29 | 12.49 | 12.29
prefix         | 4096 | 191.21 |  18.03 |  17.95 |  25.72 |  56.70 | 26.50 | 14.32 | 14.15
width 32 range |   64 |  23.90 |  13.57 |  12.52 |  23.90 |  17.30 |  8.79 |  8.74 |  8.23
width 32 range |  256 |  23.90 |  15.44 |  13.52 |  15.65 |  23.90 | 12.24 |  9.93 |  9.73
width 32 range | 1024 |  23.90 |  17.10 |  14.92 |  20.08 |  23.90 | 16.00 | 10.08 | 10.02
width 32 range | 4096 |  23.90 |  18.60 |  16.22 |  18.90 |  23.90 | 18.38 | 10.11 | 10.09
permuted range |   64 |  19.82 |  28.26 |  21.42 |  19.82 |  16.13 |  9.73 |  9.73 |  9.62
permuted range |  256 |  39.18 |  65.97 |  48.88 |  39.04 |  35.22 | 12.26 | 12.26 | 12.15
permuted range | 1024 |  78.13 | 141.86 | 105.44 |  78.30 |  60.60 | 14.89 | 14.85 | 14.75
permuted range | 4096 | 156.14 | 310.11 | 229.85 | 185.98 | 118.03 | 17.92 | 17.45 | 17.38
""")
