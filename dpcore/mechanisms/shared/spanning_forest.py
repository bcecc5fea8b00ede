"""A spanning forest of dependent pairs of attributes, whose edges are selected privately, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpcore.domain import Clique
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.queries import Marginals


def select_forest(
    private: PrivateStatistics,
    queries: Marginals,
    pairs: Sequence[Clique],
    independent: GraphicalFit,
    share_per_call: Fraction,
) -> list[Clique]:
    """Selects the edges of a spanning forest, one per round, among the pairs that join two components.

    The forest grows as in Kruskal's algorithm. The score of a pair is the L1 error of ``independent`` on it.

    queries: Marginals of the workload, for their domain.
    pairs: The candidates.
    independent: The model of the one-way marginals.
    share_per_call: Share of the budget for each round; there are as many as ``edges_of_forest``.

    Source: McKenna, Miklau and Sheldon, "Winning the NIST Contest" (2021), section 4.
    """
    estimates = dict(zip(pairs, independent.calibrated.marginals(pairs), strict=True))
    forest = _Forest(pairs)
    while candidates := forest.joining(pairs):
        estimate = independent.total * np.concatenate([estimates[pair].ravel() for pair in candidates])
        score = L1Error(estimate, np.ones(len(candidates)), np.zeros(len(candidates)))
        forest.join(candidates[private.select(queries.only(candidates), score, share_per_call)])  # SELECT
    return forest.edges


def edges_of_forest(pairs: Sequence[Clique]) -> int:
    """The number of edges of a spanning forest of the pairs; all spanning forests have equally many."""
    from scipy.cluster.hierarchy import DisjointSet  # Only where it is called: it is slow to import.

    joined = DisjointSet(name for pair in pairs for name in pair)
    return sum(joined.merge(*pair) for pair in pairs)


class _Forest:
    """A forest over the attributes of some pairs, which starts without edges."""

    def __init__(self, pairs: Sequence[Clique]) -> None:
        self._component = {name: name for pair in pairs for name in pair}
        self.edges: list[Clique] = []

    def joining(self, pairs: Sequence[Clique]) -> list[Clique]:
        """The pairs whose attributes lie in different components."""
        return [pair for pair in pairs if self._component[pair[0]] != self._component[pair[1]]]

    def join(self, pair: Clique) -> None:
        kept, merged = (self._component[name] for name in pair)
        self._component = {
            name: kept if component == merged else component for name, component in self._component.items()
        }
        self.edges.append(pair)
