"""Requests, checks and caches exact answers; they are held in memory only. SENSITIVE and TRUSTED."""

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

LARGEST_ROWS: Final = 1 << 44  # Maximum number of rows or units, so that scores and sums stay within 64 bits.
LARGEST_REQUEST: Final = 1 << 25  # Maximum number of cells that one request asks for.
LARGEST_KEPT: Final = 1 << 27  # Maximum number of cells in the cache.


@final
class ExactAnswers:
    """Exact answers of one dataset, each requested from the statistics when it is first needed, and cached.

    Tables are requested in batches of at most ``LARGEST_REQUEST`` cells, or of one larger table. When the cached tables
    exceed ``LARGEST_KEPT`` cells, the least recently used ones are evicted. An evicted table is requested and checked
    again when it is needed. Requests and evictions depend on public sizes alone.

    Checks. Every answer must be an int64 array of the right shape with entries in 0 .. ``LARGEST_ROWS``. For clipped
    sums the upper limit is what the units can contribute. All tables must have the same number of rows, at most
    ``LARGEST_ROWS``, and the number of units, once known, must be able to hold these rows.

    Raises IntegrityError when a check fails: the aggregates are then not those of one dataset within its declared
    contribution, so no sensitivity bound applies. No message contains a value.
    """

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._tables: dict[tuple[Domain, Clique], NDArray[np.integer[Any]]] = {}  # In order of last use.
        self._kept = 0  # Number of cells of all cached tables.
        self._vectors: dict[str, NDArray[np.int64]] = {}
        self._counted: dict[str, UnitCounts] = {}
        self._rows: int | None = None
        self._units: int | None = None

    def expect(self, queries: Queries) -> None:
        """Requests and caches the answers to queries of later calls, as far as they fit the cache."""
        match queries:
            case Marginals():
                self._expect_tables(queries)
            case Products():
                self._expect_tables(queries.marginals)
            case Conjunctions() | Parities():
                self.of(queries)

    def of(self, queries: Measurable) -> NDArray[np.int64]:
        """The exact answers, int64 [queries.size]. SENSITIVE.

        For products and clipped sums these are the integer answers, before division by the denominator.
        """
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
        """Yields (index, exact table as int64 [cells]) for each clique, or for the clique of each term. SENSITIVE.

        Cached tables come first. Memory holds at most one batch beside the cache, unless the caller keeps the tables.
        """
        cliques = queries.cliques if isinstance(queries, Marginals) else [term.clique for term in queries.terms]
        indices: dict[Clique, list[int]] = {}
        for index, clique in enumerate(cliques):
            indices.setdefault(clique, []).append(index)
        missing = [clique for clique in indices if (queries.domain, clique) not in self._tables]
        for clique in [clique for clique in indices if (queries.domain, clique) in self._tables]:
            cached = self._tables[queries.domain, clique] = self._tables.pop((queries.domain, clique))
            table = cached.astype(np.int64)
            yield from ((index, table) for index in indices[clique])
        for batch in _batches(queries.domain, missing):
            for clique, table in zip(batch.cliques, self._request_tables(batch), strict=True):
                yield from ((index, table) for index in indices[clique])

    def counted(self, queries: CountingQueries) -> UnitCounts:
        """The number of units that satisfy each query, and the number of units. SENSITIVE.

        Requires that a unit holds one row or one basket. For marginals the number of units is the number of rows, so no
        further request is needed. Raises IntegrityError when a count exceeds the number of units.
        """
        key = queries.digest()
        if key not in self._counted:
            counts = self.of(queries)
            units = self._rows if isinstance(queries, Marginals) else int(self.of(UnitCount())[0])
            if units is None or (counts > units).any():
                raise IntegrityError("a query counts more than all units; want units of one row, or of one basket")
            self._counted[key] = UnitCounts(counts.astype(_smallest_type(units)), units)
        return self._counted[key]

    def _vector(self, key: str, request: Request, size: int) -> NDArray[np.int64]:
        """The checked answer to a request that is no batch of marginals, cached under its digest."""
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
        """The cells of a satisfaction histogram, after checking that each group holds every unit once."""
        cells = self._vector(queries.digest(), queries, queries.size)
        totals = queries.split(cells).sum(axis=1)  # No overflow: at most 2^22 cells of at most 2^44 units.
        if self._units is None:
            self._units = int(totals[0])
            self._check_total(self._rows, self._units)
        if (totals != self._units).any():
            raise IntegrityError("a histogram does not hold every unit once; want one cell per unit in each group")
        return cells

    def _clipped(self, queries: ClippedSums) -> NDArray[np.int64]:
        """Clipped sums, after checking that the known number of units can make every sum and every group total."""
        key = queries.digest()
        if key not in self._vectors:
            sums = _integers(self._statistics.aggregate(queries), queries.size)
            units = LARGEST_ROWS if self._units is None else self._units
            groups = np.zeros(sums.size, dtype=np.int32) if queries.groups is None else queries.groups
            for group, largest in enumerate(largest_clipped(queries, 1)):
                group_sums = sums[groups == group]
                max_sum = units * int(queries.weights[group].max())
                if int(group_sums.max()) > max_sum or exact_sum(group_sums) > units * largest:
                    raise IntegrityError("a clipped sum is larger than its units can make it; want all units once each")
            self._vectors[key] = sums
        return self._vectors[key]

    def _expect_tables(self, queries: Marginals) -> None:
        """Requests the first distinct cliques whose tables fit the cache together."""
        cliques = list(dict.fromkeys(queries.cliques))
        cumulative_cells = np.cumsum(queries.only(cliques).sizes)
        expected = cliques[: int(np.searchsorted(cumulative_cells, LARGEST_KEPT, side="right"))]
        if expected:
            for _ in self.tables(queries.only(expected)):
                pass

    def _request_tables(self, batch: Marginals) -> list[NDArray[np.int64]]:
        """Requests one batch of tables, checks and caches them, and evicts the least recently used ones."""
        answers = _counts(self._statistics.aggregate(QueryAnswers(batch)), batch.size)
        tables = [table.astype(np.int64, copy=False).ravel() for table in batch.split(answers)]
        for clique, table in zip(batch.cliques, tables, strict=True):
            # A copy, because a view would keep the whole batch in memory.
            self._tables[batch.domain, clique] = np.array(table, dtype=_smallest_type(self._check_rows(table)))
            self._kept += table.size
        while self._kept > LARGEST_KEPT:
            self._kept -= self._tables.pop(next(iter(self._tables))).size
        return tables

    def _check_rows(self, table: NDArray[np.generic]) -> int:
        """The number of rows of a table, after checking it against all earlier tables and the number of units."""
        # Cells are at most 2^44, so the sum of doubles is accurate enough to detect an overflow of the integer sum.
        rows = int(table.sum(dtype=np.int64)) if table.sum(dtype=np.float64) <= 2 * LARGEST_ROWS else LARGEST_ROWS + 1
        if rows > LARGEST_ROWS:
            raise IntegrityError("a marginal holds more than 2^44 rows; want a table of at most that many")
        if self._rows is not None and rows != self._rows:
            raise IntegrityError("two marginals differ in their number of rows; want tables of one dataset")
        self._rows = rows
        self._check_total(rows, self._units)
        return rows

    def _check_total(self, rows: int | None, units: int | None) -> None:
        """Checks that each unit of a table can hold at least one row and at most the declared bound."""
        contribution = self._statistics.contribution
        if rows is None or units is None or contribution.shape is not Shape.TABLE:
            return
        if not units <= rows <= units * contribution.bound:
            raise IntegrityError(f"the rows are too few or too many for the units; want 1 .. {contribution.bound} each")


def _smallest_type(largest: int) -> type[np.int32 | np.int64]:
    """The smaller integer type that holds 0 .. ``largest``; it usually halves the memory."""
    return np.int32 if largest < 1 << 31 else np.int64


def _counts(answers: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Returns the answers. Raises IntegrityError unless they are counts in 0 .. 2^44 of the right shape."""
    if _integers(answers, size).size and answers.max() > LARGEST_ROWS:
        raise IntegrityError("the statistics gave an answer that is no count; want 0 .. 2^44")
    return answers


def _integers(answers: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Returns the answers. Raises IntegrityError unless they are non-negative int64 of the right shape."""
    if answers.dtype != np.int64 or answers.shape != (size,):
        raise IntegrityError(f"the statistics gave {answers.dtype} {answers.shape}; want int64 ({size},)")
    if answers.size and answers.min() < 0:
        raise IntegrityError("the statistics gave an answer that is no count; want 0 .. 2^44")
    return answers


def _batches(domain: Domain, cliques: Sequence[Clique]) -> Iterator[Marginals]:
    """Splits the cliques, in their order, into batches of at most ``LARGEST_REQUEST`` cells, or of one clique."""
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
