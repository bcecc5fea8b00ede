"""Exact answers that the kernel has already asked for, held in memory only, and checked as they come in. SENSITIVE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import IntegrityError
from dpcore.exact_statistics import QueryAnswers, Request, Shape, Statistics
from dpcore.kernel.clipped_sensitivity import largest_clipped
from dpcore.kernel.integers import exact_sum
from dpcore.kernel.weighted_sampler import UnitCounts
from dpcore.queries import (
    ClippedSums,
    Conjunctions,
    CountingQueries,
    Marginals,
    Measurable,
    Parities,
    Products,
    Queries,
    SatisfactionHistogram,
    SymmetricQueries,
    UnitCount,
)

LARGEST_ROWS: Final = 1 << 44  # Of a table, and units: scores and sums of products then stay within 64 bits.
LARGEST_REQUEST: Final = 1 << 25  # Cells of tables that are asked for at once.
LARGEST_KEPT: Final = 1 << 27  # Cells of tables that are remembered.


@final
class ExactAnswers:
    """Asks the statistics once for each query and remembers.

    Tables are asked for in batches of at most ``LARGEST_REQUEST`` cells, or one table. Where all that were asked for
    are more than ``LARGEST_KEPT`` cells, those that were used least recently are dropped, and asked for again when they
    are needed: the same integers, checked as always. What is asked for depends on public sizes alone.

    What comes back must be int64 of the right shape, non-negative and not above ``LARGEST_ROWS`` rows; all tables of
    one dataset, in whatever calls, must sum to one number of rows, which ``units`` units can hold.

    Raises IntegrityError where they do not: the aggregates are then not those of one dataset within its declared
    contribution, and no sensitivity holds. No message names a value.
    """

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._tables: dict[tuple[Domain, Clique], NDArray[np.integer[Any]]] = {}  # The least recently used first.
        self._kept = 0  # Cells of all of them.
        self._vectors: dict[str, NDArray[np.int64]] = {}
        self._counted: dict[str, UnitCounts] = {}
        self._rows: int | None = None
        self._units: int | None = None

    def expect(self, queries: Queries) -> None:
        match queries:
            case Marginals():
                self._expect_tables(queries)
            case Products():
                self._expect_tables(queries.marginals)
            case Conjunctions() | Parities():
                self.of(queries)

    def of(self, queries: Measurable) -> NDArray[np.int64]:
        """The exact answer vector; of products and clipped sums the integers before the denominator."""
        match queries:
            case Marginals():
                tables = dict(self.tables(queries))
                return np.concatenate([tables[index] for index in range(len(tables))])
            case Products():
                tables = dict(self.tables(queries))
                return queries.of_tables([tables[index] for index in range(len(tables))], LARGEST_ROWS)
            case SymmetricQueries():
                ((_, table),) = self.tables(queries.marginal)
                return queries.of_table(table, exact_sum(table))
            case Conjunctions() | Parities():
                return self._vector(queries.digest(), QueryAnswers(queries), queries.size)
            case UnitCount():
                return self._vector(queries.digest(), queries, queries.size)
            case SatisfactionHistogram():
                return self._histogram(queries)
            case ClippedSums():
                return self._clipped(queries)

    def tables(self, queries: Marginals | Products) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """(place, table) of each clique, or of the clique of each term, int64 [cells]; those at hand come first.

        No more than one batch is held beside what is remembered, unless the caller keeps what it is given.
        """
        every = queries.cliques if isinstance(queries, Marginals) else [term.clique for term in queries.terms]
        indices: dict[Clique, list[int]] = {}
        for index, clique in enumerate(every):
            indices.setdefault(clique, []).append(index)
        missing = [clique for clique in indices if (queries.domain, clique) not in self._tables]
        for clique in [clique for clique in indices if (queries.domain, clique) in self._tables]:
            kept = self._tables[queries.domain, clique] = self._tables.pop((queries.domain, clique))
            table = kept.astype(np.int64)
            yield from ((index, table) for index in indices[clique])
        for batch in _batches(queries.domain, missing):
            for clique, table in zip(batch.cliques, self._asked(batch), strict=True):
                yield from ((index, table) for index in indices[clique])

    def counted(self, queries: CountingQueries) -> UnitCounts:
        """Units that satisfy each query, where a unit holds one row or one basket; kept for the next round.

        The rows of a table whose units hold one row each are its units, so that marginals need no further pass.
        """
        key = queries.digest()
        if key not in self._counted:
            counts = self.of(queries)
            units = self._rows if isinstance(queries, Marginals) else int(self.of(UnitCount())[0])
            if units is None or (counts > units).any():
                raise IntegrityError("a query counts more than all units; want units of one row, or of one basket")
            self._counted[key] = UnitCounts(counts.astype(_kind(units)), units)
        return self._counted[key]

    def _vector(self, key: str, request: Request, size: int) -> NDArray[np.int64]:
        if key not in self._vectors:
            answers = _counts(self._statistics.aggregate(request), size)
            if isinstance(request, UnitCount):
                if self._units not in (None, int(answers[0])):
                    raise IntegrityError("a histogram holds another number of units; want all units once each")
                self._units = int(answers[0])
            self._check_total(self._rows, self._units)
            self._vectors[key] = answers
        return self._vectors[key]

    def _histogram(self, queries: SatisfactionHistogram) -> NDArray[np.int64]:
        """Every unit is in one cell of each group."""
        cells = self._vector(queries.digest(), queries, queries.size)
        totals = queries.split(cells).sum(axis=1)  # At most 2^22 cells of at most 2^44.
        if self._units is None:
            self._units = int(totals[0])
            self._check_total(self._rows, self._units)
        if (totals != self._units).any():
            raise IntegrityError("a histogram does not hold every unit once; want one cell a unit in each group")
        return cells

    def _clipped(self, queries: ClippedSums) -> NDArray[np.int64]:
        """No unit adds more than its weight to an answer, nor more than its clipped norm to those of a group."""
        key = queries.digest()
        if key not in self._vectors:
            sums = _integers(self._statistics.aggregate(queries), queries.size)
            units = LARGEST_ROWS if self._units is None else self._units
            groups = np.zeros(sums.size, dtype=np.int32) if queries.groups is None else queries.groups
            for group, largest in enumerate(largest_clipped(queries, 1)):
                here = sums[groups == group]
                if int(here.max()) > units * int(queries.weights[group].max()) or exact_sum(here) > units * largest:
                    raise IntegrityError("a clipped sum is larger than its units can make it; want all units once each")
            self._vectors[key] = sums
        return self._vectors[key]

    def _expect_tables(self, queries: Marginals) -> None:
        """Asks for no more than can be remembered until it is used."""
        cliques = list(dict.fromkeys(queries.cliques))
        cells = np.cumsum(queries.only(cliques).sizes)
        expected = cliques[: int(np.searchsorted(cells, LARGEST_KEPT, side="right"))]
        if expected:
            for _ in self.tables(queries.only(expected)):
                pass

    def _asked(self, batch: Marginals) -> list[NDArray[np.int64]]:
        """The tables of one request, which are also remembered, as far as there is room."""
        answers = _counts(self._statistics.aggregate(QueryAnswers(batch)), batch.size)
        tables = [table.astype(np.int64, copy=False).ravel() for table in batch.split(answers)]
        for clique, table in zip(batch.cliques, tables, strict=True):
            # A view would keep the whole batch alive.
            self._tables[batch.domain, clique] = np.array(table, dtype=_kind(self._check_rows(table)))
            self._kept += table.size
        while self._kept > LARGEST_KEPT:
            self._kept -= self._tables.pop(next(iter(self._tables))).size
        return tables

    def _check_rows(self, table: NDArray[np.generic]) -> int:
        """The number of rows, which no cell exceeds."""
        # A cell is at most 2^44, so that the sum in doubles cannot hide an overflow.
        rows = int(table.sum(dtype=np.int64)) if table.sum(dtype=np.float64) <= 2 * LARGEST_ROWS else LARGEST_ROWS + 1
        if rows > LARGEST_ROWS:
            raise IntegrityError("a marginal holds more than 2^44 rows; want a table of at most that many")
        if self._rows is not None and rows != self._rows:
            raise IntegrityError("two marginals differ in their number of rows; want tables of one dataset")
        self._rows = rows
        self._check_total(rows, self._units)
        return rows

    def _check_total(self, rows: int | None, units: int | None) -> None:
        """A table's unit holds between one row and its bound."""
        contribution = self._statistics.contribution
        if rows is None or units is None or contribution.shape is not Shape.TABLE:
            return
        if not units <= rows <= units * contribution.bound:
            raise IntegrityError(f"the rows are too few or too many for the units; want 1 .. {contribution.bound} each")


def _kind(largest: int) -> type[np.int32 | np.int64]:
    """Integers that hold what is not above ``largest``: mostly half the memory."""
    return np.int32 if largest < 1 << 31 else np.int64


def _counts(answers: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The answers, when they can be counts at all."""
    if _integers(answers, size).size and answers.max() > LARGEST_ROWS:
        raise IntegrityError("the statistics gave an answer that is no count; want 0 .. 2^44")
    return answers


def _integers(answers: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The answers, when they can be sums of what is not negative."""
    if answers.dtype != np.int64 or answers.shape != (size,):
        raise IntegrityError(f"the statistics gave {answers.dtype} {answers.shape}; want int64 ({size},)")
    if answers.size and answers.min() < 0:
        raise IntegrityError("the statistics gave an answer that is no count; want 0 .. 2^44")
    return answers


def _batches(domain: Domain, cliques: Sequence[Clique]) -> Iterator[Marginals]:
    """The cliques in their order, in runs of at most ``LARGEST_REQUEST`` cells or of one clique."""
    batch: list[Clique] = []
    cells = 0
    for clique in cliques:
        size = domain.size(clique)
        if batch and cells + size > LARGEST_REQUEST:
            yield Marginals(domain, tuple(batch))
            batch, cells = [], 0
        batch.append(clique)
        cells += size
    if batch:
        yield Marginals(domain, tuple(batch))
