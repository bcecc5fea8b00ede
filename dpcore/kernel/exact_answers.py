"""Exact answers that the kernel has already asked for, held in memory only. SENSITIVE."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.exact_statistics import QueryAnswers, Statistics
from dpcore.queries import Conjunctions, Marginals, Queries, UnitCount


@final
class ExactAnswers:
    """Asks the statistics once for each query and remembers."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._tables: dict[tuple[Domain, Clique], NDArray[np.int64]] = {}
        self._vectors: dict[str, NDArray[np.int64]] = {}

    def expect(self, queries: Queries) -> None:
        if isinstance(queries, Marginals):
            self._fetch_tables(queries)
        else:
            self.of(queries)

    def of(self, queries: Queries | UnitCount) -> NDArray[np.int64]:
        """The exact answer vector."""
        if isinstance(queries, Marginals):
            self._fetch_tables(queries)
            return np.concatenate([self._tables[queries.domain, clique] for clique in queries.cliques])
        key = queries.digest()
        if key not in self._vectors:
            request = queries if isinstance(queries, UnitCount) else QueryAnswers(queries)
            self._vectors[key] = self._statistics.aggregate(request)
        return self._vectors[key]

    def with_complements(self, queries: Conjunctions, total: int) -> NDArray[np.float64]:
        """Counts of the queries, then of their complements among all units, each clamped to [0, total]."""
        counts, units = self.of(queries), self.of(UnitCount())
        return np.asarray(np.clip(np.concatenate([counts, units - counts]), 0, total), dtype=np.float64)

    def _fetch_tables(self, queries: Marginals) -> None:
        missing = tuple(c for c in dict.fromkeys(queries.cliques) if (queries.domain, c) not in self._tables)
        if missing:
            wanted = queries.only(missing)
            tables = wanted.split(self._statistics.aggregate(QueryAnswers(wanted)))
            for clique, table in zip(missing, tables, strict=True):
                self._tables[queries.domain, clique] = np.asarray(table, dtype=np.int64).ravel()
