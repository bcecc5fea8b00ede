"""Exact answers that the kernel has already asked for, held in memory only, and checked as they come in. SENSITIVE."""

from __future__ import annotations

from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import IntegrityError
from dpcore.exact_statistics import QueryAnswers, Request, Shape, Statistics
from dpcore.queries import Conjunctions, Marginals, Products, Queries, UnitCount

LARGEST_ROWS: Final = 1 << 44  # Of a table, and units: scores and sums of products then stay within 64 bits.


@final
class ExactAnswers:
    """Asks the statistics once for each query and remembers.

    What comes back must be int64 of the right shape, non-negative and not above ``LARGEST_ROWS`` rows; all tables of
    one dataset, in whatever calls, must sum to one number of rows, which ``units`` units can hold.

    Raises IntegrityError where they do not: the aggregates are then not those of one dataset within its declared
    contribution, and no sensitivity holds. No message names a value.
    """

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._tables: dict[tuple[Domain, Clique], NDArray[np.int64]] = {}
        self._vectors: dict[str, NDArray[np.int64]] = {}
        self._rows: int | None = None
        self._units: int | None = None

    def expect(self, queries: Queries) -> None:
        match queries:
            case Marginals():
                self._fetch_tables(queries)
            case Products():
                self._fetch_tables(queries.marginals)
            case Conjunctions():
                self.of(queries)

    def of(self, queries: Queries | UnitCount) -> NDArray[np.int64]:
        """The exact answer vector; of products the integers before the denominator."""
        match queries:
            case Marginals():
                self._fetch_tables(queries)
                return np.concatenate([self._tables[queries.domain, clique] for clique in queries.cliques])
            case Products():
                self._fetch_tables(queries.marginals)
                tables = [self._tables[queries.domain, term.clique] for term in queries.terms]
                return queries.of_tables(tables, LARGEST_ROWS)
            case Conjunctions():
                return self._vector(queries.digest(), QueryAnswers(queries), queries.size)
            case UnitCount():
                return self._vector(queries.digest(), queries, queries.size)

    def with_complements(self, queries: Conjunctions, total: int) -> NDArray[np.float64]:
        """Counts of the queries, then of their complements among all units, each clamped to [0, total]."""
        counts, units = self.of(queries), self.of(UnitCount())
        if (counts > units).any():
            raise IntegrityError("a conjunction counts more than all units; want units of one row, or of one basket")
        return np.asarray(np.clip(np.concatenate([counts, units - counts]), 0, total), dtype=np.float64)

    def _vector(self, key: str, request: Request, size: int) -> NDArray[np.int64]:
        if key not in self._vectors:
            answers = _counts(self._statistics.aggregate(request), size)
            if isinstance(request, UnitCount):
                self._units = int(answers[0])
            self._check_total(self._rows, self._units)
            self._vectors[key] = answers
        return self._vectors[key]

    def _fetch_tables(self, queries: Marginals) -> None:
        missing = tuple(c for c in dict.fromkeys(queries.cliques) if (queries.domain, c) not in self._tables)
        if missing:
            wanted = queries.only(missing)
            tables = wanted.split(_counts(self._statistics.aggregate(QueryAnswers(wanted)), wanted.size))
            for clique, table in zip(missing, tables, strict=True):
                self._check_rows(np.asarray(table))
                self._tables[queries.domain, clique] = np.asarray(table, dtype=np.int64).ravel()

    def _check_rows(self, table: NDArray[np.generic]) -> None:
        # A cell is at most 2^44, so that the sum in doubles cannot hide an overflow.
        rows = int(table.sum(dtype=np.int64)) if table.sum(dtype=np.float64) <= 2 * LARGEST_ROWS else LARGEST_ROWS + 1
        if rows > LARGEST_ROWS:
            raise IntegrityError("a marginal holds more than 2^44 rows; want a table of at most that many")
        if self._rows is not None and rows != self._rows:
            raise IntegrityError("two marginals differ in their number of rows; want tables of one dataset")
        self._rows = rows
        self._check_total(rows, self._units)

    def _check_total(self, rows: int | None, units: int | None) -> None:
        """A table's unit holds between one row and its bound."""
        contribution = self._statistics.contribution
        if rows is None or units is None or contribution.shape is not Shape.TABLE:
            return
        if not units <= rows <= units * contribution.bound:
            raise IntegrityError(f"the rows are too few or too many for the units; want 1 .. {contribution.bound} each")


def _counts(answers: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The answers, when they can be counts at all."""
    if answers.dtype != np.int64 or answers.shape != (size,):
        raise IntegrityError(f"the statistics gave {answers.dtype} {answers.shape}; want int64 ({size},)")
    if answers.size and (answers.min() < 0 or answers.max() > LARGEST_ROWS):
        raise IntegrityError("the statistics gave an answer that is no count; want 0 .. 2^44")
    return answers
