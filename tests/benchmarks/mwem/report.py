"""The figures as tables: one per panel and measure, a row per series, a column per epsilon, with the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.benchmarks.mwem import contingency, cubes, ranges
from tests.benchmarks.mwem.lines import Line

_HEAD: Final = """# The experiments of the MWEM paper

Hardt, Ligett and McSherry, "A Simple and Practical Algorithm for Differentially Private Data Release" (2012), Fig. 2
to 5, made again with this project's mechanisms; `python -m tests.benchmarks mwem_figures` computes them. Pure DP,
neighbours that add or remove a row, the number of rows public, as the algorithm of the paper knows it. A figure is a
mean of the given number of releases ± their standard deviation, or exact where there is no ±. The paper prints no
numbers, only plots; what can be read from its text and axes stands above each table.
"""
_PAPER: Final[Mapping[str, str]] = {
    ranges.MEASURE: f"""Mean squared error of {ranges.QUERIES} random ranges, T = {ranges.ROUNDS}. Paper, Fig. 2: the
same four epsilons and T = 10; MWEM lies below the SVD bound for mechanisms with delta = 1/n, most of all at small
epsilon. It does not say which variations of section 2.3.2 it ran: "Fig. 1" is the algorithm as printed. Its axes start
at 10^6: no answer between 0 and the 748 rows of Transfusion can be off by so much, so that they must be sums over
queries, whose number is not given. Here capital loss is in 512 bins and Adult has all its 48,842 rows; Transfusion has
747. Lines without ± are expected errors.""",
    contingency.MEASURE: """Relative entropy of the whole released table in nats, each table mixed with a millionth of
the uniform one, so that a cell at 0 costs no more than ln(10^6 cells). "Barak + MW" follows its measured parities to
the end, "stopped" until what is missing is noise. Paper, Fig. 3 (axes to 50 for mildew and to 0.5 for czech) and Fig. 4
(axes to 5 and 2): MWEM is below Barak, but for the 2-way marginals of NLTCS from epsilon 0.1 on.""",
    cubes.AVERAGE: """Mean absolute error of a cell, averaged over the 256 cuboids. Paper, Fig. 5: MWEM (T = 10) is
about a factor of four below PMostC; the axis ends at 250. Here PMostC has the threshold that is best for this average,
and its errors, like those of BMaxC, are expected ones; hdmm was released at epsilon 1 and scaled. "sec. 3.3" has the
paper's score; all other releases weigh a cuboid by 1 / sqrt(cells), which the paper does not. "product" is of exact
one-way marginals, and not private. Adult has 48,842 rows and income as the eighth attribute, 1,814,400 cells.""",
    cubes.LARGEST: """Mean absolute error of a cell in the worst of the 256 cuboids. Paper, Fig. 5: MWEM against BMaxC
is "less clear"; the axis ends at 800.""",
}  # fmt: skip


def markdown(lines: Sequence[Line], claims: Mapping[str, float]) -> str:
    """The whole page. claims: Of the paper, as ratios that are below 1 where they hold."""
    said = [f"| {claim} | {ratio:,.3g} | {'yes' if ratio < 1 else 'no'} |" for claim, ratio in claims.items()]
    parts = [
        _HEAD,
        "\n".join(["| what the paper says, as a ratio below 1 | here | holds |", "| --- | --- | --- |", *said]),
    ]
    parts.append("")
    for measure, said in _PAPER.items():
        here = [line for line in lines if line.measure == measure]
        if not here:
            continue
        parts.append(f"## {measure.capitalize()}\n\n{said}\n")
        panels = dict.fromkeys(line.panel for line in here)
        parts += [f"### {panel}\n\n{_table([line for line in here if line.panel == panel])}\n" for panel in panels]
    return "\n".join(parts)


def _table(lines: Sequence[Line]) -> str:
    epsilons = list(dict.fromkeys(line.epsilon for line in lines))
    rows = [["series", *(f"epsilon {epsilon:g}" for epsilon in epsilons), "releases"], ["---"] * (len(epsilons) + 2)]
    for series in dict.fromkeys(line.series for line in lines):
        mine = {line.epsilon: line for line in lines if line.series == series}
        runs = {line.runs for line in mine.values()}
        rows.append([series, *(_cell(mine[epsilon]) for epsilon in epsilons), str(max(runs) or "exact")])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(line: Line) -> str:
    return f"{line.mean:,.4g} ± {line.spread:,.2g}" if line.runs > 1 else f"{line.mean:,.4g}"
