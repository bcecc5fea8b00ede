"""The answer of one query with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.uncertainty import CONFIDENCE
from jobs.reading.marginals import MODEL, PUBLISHED, SUM, Marginal
from jobs.workload.query_text import LiteralError, read_conjunctions
from pipelines.layout import Layout, TableLayout

_WHY_NONE: Final = {
    MODEL: "it is an answer of the model, and the release did not publish this answer with an interval",
    SUM: "it is a sum of published answers, whose errors depend on each other",
    PUBLISHED: "the release published this answer without an interval",
}


@dataclass(frozen=True)
class Interval:
    """The answer of a query. In advance of the release, an interval holds the exact answer with ``confidence``.

    query: The query as text.
    answer: The answer in counts.
    lower, upper: Ends of the interval; None if nothing bounds the answer.
    stddev: Standard deviation of the answer; None where it is unknown.
    source: Where the answer comes from: the published answers, a sum of them, or the model.
    confidence: Confidence of the interval, if there is one.
    """

    query: str
    answer: float
    lower: float | None
    upper: float | None
    stddev: float | None
    source: str
    confidence: float = CONFIDENCE

    @property
    def known(self) -> bool:
        """Whether the answer has an interval."""
        return self.lower is not None and self.upper is not None

    def __str__(self) -> str:
        if self.lower is None or self.upper is None:
            return f"{self.query}: {count(self.answer)}; no interval, because {_WHY_NONE[self.source]}"
        ends = f"{count(self.lower)} to {count(self.upper)}"
        return f"{self.query}: {count(self.answer)} ({self.confidence:.0%} interval {ends})"


@dataclass(frozen=True)
class Selection:
    """The cells of a marginal that a conjunction counts.

    clique: The attributes of the conjunction, in the order of the domain.
    allowed: For each of them, which of its codes satisfy the conjunction, bool [codes].
    """

    clique: tuple[str, ...]
    allowed: tuple[NDArray[np.bool_], ...]

    def interval(self, query: str, marginal: Marginal) -> Interval:
        """The answer of the conjunction from the marginal of its attributes. A sum of several cells has no interval.

        query: The query as text.
        marginal: The marginal of ``clique``.
        """
        chosen = np.ix_(*map(np.flatnonzero, self.allowed)) if self.clique else ()
        answers = np.asarray(marginal.answer[chosen])
        if answers.size == 1:
            bars = (marginal.answer, marginal.stddev, marginal.lower, marginal.upper)
            return interval_of(query, *(float(np.asarray(bar[chosen]).item()) for bar in bars), source=marginal.source)
        source = MODEL if marginal.source == MODEL else SUM
        return interval_of(query, float(answers.sum()), math.nan, math.nan, math.nan, source=source)


def interval_of(query: str, answer: float, stddev: float, lower: float, upper: float, *, source: str) -> Interval:
    """An interval from numbers of which NaN stands for what is unknown."""
    return Interval(query, answer, _known(lower), _known(upper), _known(stddev), source)


def selection(query: str, layout: Layout) -> Selection:
    """The conjunction that a text is, such as ``sex=female & age=[25, 35)`` or ``sex!=female``.

    query: The text, as ``answers.parquet`` writes queries; ``all`` is the number of rows.
    layout: The public layout of the data.

    Raises: ConfigError when the text is no conjunction about a table.
    """
    if not isinstance(layout, TableLayout):
        raise ConfigError(
            f"the release is about baskets and does not answer {query!r}; want a query of answers(), as it is written"
        )
    if query == "all":
        return Selection((), ())
    try:
        read = read_conjunctions([query], layout)
    except LiteralError as error:
        raise ConfigError(f"query {query!r}: {error}; want attribute=value literals joined by &") from error
    domain = layout.schema.domain
    groups, starts = layout.view.group_of_column(), np.cumsum([0, *domain.sizes])
    allowed: dict[str, NDArray[np.bool_]] = {}
    for column, negated in zip(read.columns[0].tolist(), read.negated[0].tolist(), strict=True):
        index = int(groups[column])
        chosen = np.arange(domain.sizes[index]) == column - starts[index]
        name = domain.names[index]
        allowed[name] = allowed.get(name, np.ones(domain.sizes[index], dtype=np.bool_)) & (chosen ^ negated)
    clique = domain.canonical(allowed)
    return Selection(clique, tuple(allowed[name] for name in clique))


def count(value: float) -> str:
    """A number of rows as text, with a decimal if it is small."""
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
