"""OPT_+ over clusters of terms under Laplace noise: similar terms share one product of p-Identity strategies."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import Products
from dpcore.strategies.allocation import exact_shares
from dpcore.strategies.kronecker.joint_strategy import KroneckerStrategy, kronecker_strategy

Real = NDArray[np.float64]
TermIndices = tuple[int, ...]

_MAX_CELLS: Final = 1 << 21  # Largest number of cells over all attributes of a cluster.
_MAX_TERMS: Final = 64  # Largest number of terms.
_MAX_PAIRS: Final = 100  # Largest number of merged clusters to optimise; each takes about a tenth of a second.
_MIN_GAIN: Final = 1e-3  # Two clusters are merged only if that lowers the error by this relative amount.


@final
@dataclass(frozen=True, eq=False)
class Cluster:
    """Some terms of a workload, with one strategy for all of them.

    term_indices: The indices of the terms in the workload.
    strategy: The queries that are measured for these terms.
    share: The strategy's share of the budget.
    """

    term_indices: TermIndices
    strategy: KroneckerStrategy
    share: Fraction


def clustered_terms(queries: Products, weights: Real) -> tuple[Cluster, ...]:
    """Clusters of terms, and a strategy and a budget share for each, chosen for a small weighted error.

    queries: The workload.
    weights: float64 [terms], non-negative weights of the squared error of each term.

    Each term starts as a cluster of its own. Among the pairs of clusters where one has all attributes of the other, the
    pair whose merge lowers the total error most is merged, until no merge lowers it. A cluster with the error E at unit
    noise has the error E / share^2 at its share of the budget. At the optimal shares, which are proportional to
    E^(1/3), the total error is (sum of E^(1/3))^3.

    Raises ValueError for more than 64 terms, for a term over more than 2^21 cells, and as ``kronecker_strategy`` does.

    Source: thesis of McKenna (2022), Definition 21 with the partition of the workload; the order of the merges is this
    project's.
    """
    if len(queries.terms) > _MAX_TERMS:
        raise ValueError(f"{len(queries.terms)} terms; want at most {_MAX_TERMS} to be clustered")
    search = _Search(queries, np.asarray(weights, dtype=np.float64))
    clusters: list[TermIndices] = [(index,) for index in range(len(queries.terms))]
    while len(clusters) > 1:
        total_error = search.error(clusters)
        merged = [
            _merged(clusters, left, right) for left, right in combinations(clusters, 2) if search.may_merge(left, right)
        ]
        best = min(merged, key=search.error, default=clusters)
        if search.error(best) > (1 - _MIN_GAIN) * total_error:
            break
        clusters = best
    roots = np.array([search.strategy(indices).error for indices in clusters]) ** (1 / 3)
    shares = exact_shares(roots / roots.sum())
    return tuple(
        Cluster(indices, search.strategy(indices), share) for indices, share in zip(clusters, shares, strict=True)
    )


@final
class _Search:
    """The strategies of all clusters tried so far; each is optimised once."""

    def __init__(self, queries: Products, weights: Real) -> None:
        self._queries, self._weights = queries, weights
        self._strategies: dict[TermIndices, KroneckerStrategy] = {}
        self._refused: set[TermIndices] = set()
        self._remaining_pairs = _MAX_PAIRS

    def strategy(self, indices: TermIndices) -> KroneckerStrategy:
        """The strategy of one cluster. Raises ValueError for a term over too many cells."""
        if indices not in self._strategies:
            terms = tuple(self._queries.terms[index] for index in indices)
            cells = max(map(self._queries.domain.size, (term.clique for term in terms)))
            if cells > _MAX_CELLS:
                raise ValueError(f"a term over {cells:,} cells; want at most {_MAX_CELLS:,}")
            workload = Products(self._queries.domain, terms, self._queries.denominator)
            self._strategies[indices] = kronecker_strategy(workload, self._weights[list(indices)])
        return self._strategies[indices]

    def error(self, clusters: list[TermIndices]) -> float:
        """The total error of the clusters at their optimal shares."""
        return float(sum(self.strategy(indices).error ** (1 / 3) for indices in clusters) ** 3)

    def may_merge(self, left: TermIndices, right: TermIndices) -> bool:
        """Whether one cluster has all attributes of the other, and the limits on cells and pairs allow the merge."""
        indices = tuple(sorted((*left, *right)))
        if indices in self._strategies:
            return True
        if indices in self._refused or not self._remaining_pairs:
            return False
        left_names, right_names = (
            {name for index in cluster for name in self._queries.terms[index].clique} for cluster in (left, right)
        )
        domain = self._queries.domain
        nested = left_names <= right_names or right_names <= left_names
        if not nested or domain.size(domain.canonical(left_names | right_names)) > _MAX_CELLS:
            self._refused.add(indices)
            return False
        self._remaining_pairs -= 1
        return True


def _merged(clusters: list[TermIndices], left: TermIndices, right: TermIndices) -> list[TermIndices]:
    return [*(cluster for cluster in clusters if cluster not in (left, right)), tuple(sorted((*left, *right)))]
