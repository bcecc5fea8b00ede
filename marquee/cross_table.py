"""A marginal of a release as a table: for notebooks, as a frame, as CSV."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpcore.errors import ConfigError
from jobs.reading.cross_table import ALL, CrossTable
from jobs.reading.marginals import BARS


@dataclass(frozen=True, eq=False)
class Table:
    """A marginal with its margins, in counts. The last attribute runs across the columns.

    counts: The marginal and its margins, as ``marquee table`` shows them.
    """

    counts: CrossTable = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes."""
        return self.counts.whole.attributes

    @property
    def source(self) -> str:
        """Where the counts come from: the published answers, or the model."""
        return self.counts.whole.source

    def to_arrow(self) -> pa.Table:
        """One row for each count, margins included: a label of each attribute, answer, stddev, lower, upper.

        A margin has the label ``(all)``; what is not known is null.
        """
        records = list(zip(*self.counts.records(), strict=True))
        types = [pa.string()] * len(self.names) + [pa.float64()] * len(BARS)
        return pa.table(
            [pa.array(values, kind) for values, kind in zip(records, types, strict=True)], names=self.counts.columns
        )

    def to_pandas(self, values: str = "answer") -> Any:
        """The table as a frame of pandas. Margins have the label ``(all)``.

        values: What the cells hold if there are two attributes or more: answer, stddev, lower or upper. With one
            attribute, all four are columns.

        Raises: ConfigError when pandas is not installed, or for other values.
        """
        pandas = _pandas()
        if values not in BARS:
            raise ConfigError(f"values is {values!r}; want one of {', '.join(BARS)}")
        *down, across = [[*labels, ALL] for labels in self.counts.whole.labels]
        counts = {record[: len(self.names)]: record[len(self.names) :] for record in self.counts.records()}
        columns = pandas.Index(across, name=self.names[-1])
        if not down:
            return pandas.DataFrame([counts[(label,)] for label in across], index=columns, columns=BARS, dtype=float)
        number = BARS.index(values)
        cells = np.array([counts[labels][number] for labels in product(*down, across)], dtype=np.float64)
        index = pandas.MultiIndex.from_product(down, names=self.names[:-1])
        rows = index.get_level_values(0) if len(down) == 1 else index
        return pandas.DataFrame(cells.reshape(-1, len(across)), index=rows, columns=columns)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The rows of ``to_arrow`` as CSV with a line of headings; what is not known is empty.

        path: The file to write; None to write none.

        Returns: The text.
        """
        text = self.counts.to_csv()
        if path is not None:
            Path(path).write_text(text, encoding="utf-8", newline="")
        return text

    def __str__(self) -> str:
        return self.counts.to_text()

    def _repr_html_(self) -> str:
        return self.counts.to_html()


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ConfigError(
            "pandas is not installed; want pip install pandas, or to_arrow() in place of to_pandas()"
        ) from error
    return pd
