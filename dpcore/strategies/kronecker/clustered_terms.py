"""OPT_+ over clusters of terms under Laplace noise: terms that ask alike share one product of p-Identity strategies."""

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
Places = tuple[int, ...]  # Of terms.

_LARGEST_CELLS: Final = 1 << 21  # Of the attributes of a cluster, together.
_MOST_TERMS: Final = 64
_MOST_TRIED: Final = 100  # Pairs of clusters that are optimised together: a tenth of a second each, about.
_LEAST_GAIN: Final = 1e-3  # Of the error.


@final
@dataclass(frozen=True, eq=False)
class Cluster:
    """Terms of a workload by their places, what is measured for them, and its part of the budget."""

    places: Places
    strategy: KroneckerStrategy
    share: Fraction


def clustered_terms(queries: Products, weights: Real) -> tuple[Cluster, ...]:
    """Clusters of terms whose strategies, measured one by one with the best shares, have a small weighted error.

    weights: float64 [terms], of squared errors.

    Each term begins alone. Two clusters become one as long as that lowers the error of all, the pair that lowers it
    most first, out of those in which one has all attributes of the other. An error E at unit noise costs E / share^2,
    so that all clusters together have (sum of E^(1/3))^3 at shares proportional to E^(1/3).

    Source: thesis of McKenna (2022), Definition 21 and the partition of a workload that comes with it; the order in
    which clusters are joined is this project's.

    Raises ValueError for more than 64 terms, attributes of too many cells in a term, and as ``kronecker_strategy``.
    """
    if len(queries.terms) > _MOST_TERMS:
        raise ValueError(f"{len(queries.terms)} terms; want at most {_MOST_TERMS} to be clustered")
    search = _Search(queries, np.asarray(weights, dtype=np.float64))
    clusters: list[Places] = [(place,) for place in range(len(queries.terms))]
    while len(clusters) > 1:
        whole = search.error(clusters)
        joined = [
            _joined(clusters, one, other) for one, other in combinations(clusters, 2) if search.may_join(one, other)
        ]
        best = min(joined, key=search.error, default=clusters)
        if search.error(best) > (1 - _LEAST_GAIN) * whole:
            break
        clusters = best
    roots = np.array([search.strategy(places).error for places in clusters]) ** (1 / 3)
    shares = exact_shares(roots / roots.sum())
    return tuple(
        Cluster(places, search.strategy(places), share) for places, share in zip(clusters, shares, strict=True)
    )


@final
class _Search:
    """Strategies of clusters, each optimised once."""

    def __init__(self, queries: Products, weights: Real) -> None:
        self._queries, self._weights = queries, weights
        self._found: dict[Places, KroneckerStrategy] = {}
        self._refused: set[Places] = set()
        self._left = _MOST_TRIED

    def strategy(self, places: Places) -> KroneckerStrategy:
        if places not in self._found:
            terms = tuple(self._queries.terms[place] for place in places)
            cells = max(map(self._queries.domain.size, (term.clique for term in terms)))
            if cells > _LARGEST_CELLS:
                raise ValueError(f"a term over {cells:,} cells; want at most {_LARGEST_CELLS:,}")
            asked = Products(self._queries.domain, terms, self._queries.denominator)
            self._found[places] = kronecker_strategy(asked, self._weights[list(places)])
        return self._found[places]

    def error(self, clusters: list[Places]) -> float:
        return float(sum(self.strategy(places).error ** (1 / 3) for places in clusters) ** 3)

    def may_join(self, one: Places, other: Places) -> bool:
        """Whether one has all attributes of the other; counts the pairs that were not tried before."""
        places = tuple(sorted((*one, *other)))
        if places in self._found:
            return True
        if places in self._refused or not self._left:
            return False
        mine, others = ({name for place in each for name in self._queries.terms[place].clique} for each in (one, other))
        domain = self._queries.domain
        if not (mine <= others or others <= mine) or domain.size(domain.canonical(mine | others)) > _LARGEST_CELLS:
            self._refused.add(places)
            return False
        self._left -= 1
        return True


def _joined(clusters: list[Places], one: Places, other: Places) -> list[Places]:
    return [*(each for each in clusters if each not in (one, other)), tuple(sorted((*one, *other)))]
