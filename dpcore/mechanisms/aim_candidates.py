"""What AIM may measure: the downward closure of a workload, with weights; public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.pgm.triangulation import Triangulation
from dpcore.queries import Marginals
from dpcore.workload import Workload, downward_closure

LARGEST_CELLS: Final = 1 << 26  # Of all candidates together: half a gibibyte for each vector over them.


@final
@dataclass(frozen=True, eq=False)
class Candidates:
    """Cliques over the attributes of a workload.

    domain: Those attributes.
    weights: w_r = sum over workload cliques s of c_s |r intersected with s| (Algorithm 6, line 8); float64 [cliques].
    sizes: Cells of each clique, int64 [cliques].
    """

    domain: Domain
    full: Domain
    cliques: tuple[Clique, ...]
    weights: NDArray[np.float64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, workload: Workload) -> Candidates:
        """The downward closure W_+; the largest cliques are left out where all of them would not fit in memory."""
        queries = _marginals(workload)
        of_attribute = dict.fromkeys(queries.domain.names, 0.0)
        for clique, weight in zip(queries.cliques, workload.weights.tolist(), strict=True):
            for name in clique:
                of_attribute[name] += weight
        closure = [queries.domain.canonical(clique) for clique in downward_closure(queries.cliques)]
        if not closure:
            raise ConfigError("mechanism aim needs a workload that names an attribute; want one clique or more")
        sizes = np.array([min(queries.domain.size(clique), 2 * LARGEST_CELLS) for clique in closure], dtype=np.int64)
        order = np.argsort(sizes, kind="stable")
        fits = np.zeros(len(closure), dtype=np.bool_)
        fits[order] = np.cumsum(sizes[order]) <= LARGEST_CELLS
        weights = np.array([sum(of_attribute[name] for name in clique) for clique in closure])
        used = queries.domain.project(name for name in queries.domain.names if of_attribute[name] > 0)
        return cls(used, queries.domain, tuple(closure), weights, sizes).only(fits)

    def only(self, kept: NDArray[np.bool_]) -> Candidates:
        cliques = tuple(clique for clique, keep in zip(self.cliques, kept.tolist(), strict=True) if keep)
        return Candidates(self.domain, self.full, cliques, self.weights[kept], self.sizes[kept])

    @property
    def queries(self) -> Marginals:
        return Marginals(self.full, self.cliques)

    def marginal(self, clique: Clique) -> Marginals:
        return Marginals(self.full, (clique,))

    @property
    def cells(self) -> int:
        return int(self.sizes.sum())

    def asked(self, workload: Workload) -> Candidates:
        """Those that the workload asks itself."""
        asked = set(_marginals(workload).cliques)
        return self.only(np.array([clique in asked for clique in self.cliques]))

    def one_way(self) -> Candidates:
        return self.only(np.array([len(clique) == 1 for clique in self.cliques]))

    def within(self, structure: Triangulation, cells: float) -> Candidates:
        """Those that, added to the structure, leave its junction tree at so many cells, or do not make it larger."""
        most = max(cells, structure.cells)
        return self.only(np.array([structure.cells_with(clique) <= most for clique in self.cliques]))


def _marginals(workload: Workload) -> Marginals:
    if not isinstance(workload.queries, Marginals):
        raise ConfigError("mechanism aim answers marginals of a table; want workload.marginals")
    return workload.queries
