"""Marginals that noisy errors call for, all chosen at once and measured together: shared by clique_tree and AIM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.errors import ScaleError
from dpcore.estimation.graphical.fitting.expected_error import expected_errors
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.estimation.graphical.fitting.linear_measurements import precision_of
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise, NoisyErrors
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, clique_weights, modelled
from dpcore.queries import Marginals
from dpcore.strategies.allocation import split_by_size
from dpcore.strategies.clique_selection import NoisyDependence, ShareToNoise, choose_cliques
from dpcore.workload import Workload

_LARGEST_CELLS: Final = 1 << 26  # Of all candidates together: half a gibibyte for each vector over them.
_LARGEST_NOISE: Final = (0.3, 0.05)  # Of the rows, in errors of pairs and triples: with more, chance would choose.


@final
@dataclass(frozen=True)
class Design:
    """What may be asked, from public facts alone.

    queries: The marginals of the workload. order: Of the largest candidates.
    """

    queries: Marginals
    workload: Workload
    order: int

    @cached_property
    def one_way(self) -> tuple[Clique, ...]:
        return tuple((name,) for name in modelled(self.queries))

    @cached_property
    def by_order(self) -> tuple[tuple[Clique, ...], ...]:
        """Candidates of two attributes, of three and so on: small ones as long as all of them fit in memory."""
        orders = range(2, self.order + 1)
        found = [dict.fromkeys(c for clique in self.queries.cliques for c in combinations(clique, k)) for k in orders]
        every = [clique for group in found for clique in group]
        sizes = np.array(
            [min(self.queries.domain.size(clique), 2 * _LARGEST_CELLS) for clique in every], dtype=np.int64
        )
        order = np.argsort(sizes, kind="stable")
        kept = {every[index] for index in order[np.cumsum(sizes[order]) <= _LARGEST_CELLS].tolist()}
        return tuple(tuple(clique for clique in group if clique in kept) for group in found)

    @cached_property
    def candidates(self) -> tuple[Clique, ...]:
        return tuple(clique for group in self.by_order for clique in group)

    @property
    def cells(self) -> int:
        return int(self.sizes([*self.one_way, *self.candidates]).sum())

    def starts(self, share: Fraction) -> list[tuple[Clique, Fraction]]:
        """The one-way marginals with their parts of a share."""
        shares = split_by_size(self.sizes(self.one_way), np.ones(len(self.one_way)), share)
        return list(zip(self.one_way, shares, strict=True))

    def marginal(self, clique: Clique) -> Marginals:
        return self.queries.only([clique])

    def sizes(self, cliques: Sequence[Clique]) -> NDArray[np.int64]:
        return np.array([self.queries.domain.size(clique) for clique in cliques], dtype=np.int64)


def noisy_errors(private: PrivateStatistics, design: Design, fit: GraphicalFit, share: Fraction) -> list[NoisyErrors]:
    """Noisy distances of candidates to a model, for at most this share, as long as they are more than noise: pairs
    where the noise is below 30 % of the rows, triples where it is below 5 %.
    """
    parts = [design.queries.only(group) for group in design.by_order if group]
    part = share / max(1, len(parts))
    found: list[NoisyErrors] = []
    for queries, limit in zip(parts, _LARGEST_NOISE, strict=False):
        if not _stand_out(private.terms, queries, part, limit * fit.total):
            break
        estimate = fit.total * fit.calibrated.vector(queries.cliques)
        found.append(private.measure_errors(queries, estimate, part))
    return found


def _stand_out(terms: PrivacyTerms, queries: Marginals, share: Fraction, max_noise: float) -> bool:
    """Whether the noise of errors would be at most this; more than can be drawn is not."""
    try:
        return terms.errors_scale(queries, share) <= max_noise
    except ScaleError:
        return False


def select_marginals(
    terms: PrivacyTerms,
    design: Design,
    measured: Sequence[Measurement],
    fit: GraphicalFit,
    errors: Sequence[NoisyErrors],
    budget: Fraction,
    max_model_mb: float,
) -> list[tuple[Marginals, Fraction]]:
    """What to measure for a share of the budget, with parts of that share.

    measured, fit: One-way marginals, and the model of them.
    errors: Of that model.
    max_model_mb: Largest junction tree of the chosen cliques, in MiB.
    """
    cliques = [*design.one_way, *(clique for part in errors for clique in part.queries.cliques)]
    before = _precisions(cliques, measured)
    alone = len(design.one_way)
    first = [
        expected(fit, clique, precision**-0.5)
        for clique, precision in zip(cliques[:alone], before[:alone].tolist(), strict=True)
    ]
    dependence = NoisyDependence(
        cliques,
        np.concatenate([first, *(part.values for part in errors)]),
        np.concatenate([np.zeros(alone), *(np.full(len(part.values), part.stddev) for part in errors)]),
        design.queries.cliques,
        clique_weights(design.workload, design.queries),
    )
    power = 1.0 if terms.noise is Noise.LAPLACE else 0.5
    unit = terms.measure_scale(design.marginal(cliques[0]), budget)
    purse = ShareToNoise(unit, power, design.sizes(cliques), before, _left(fit, cliques))
    structure = Triangulation.of(fit.tree.domain, [])
    chosen = choose_cliques(dependence, purse, structure, max_model_mb * CELLS_IN_MB)
    selection = [(cliques[selected.candidate_index], budget * selected.share) for selected in chosen]
    pairs = selection or design.starts(budget)
    return [(design.marginal(clique), share) for clique, share in pairs]


def _precisions(cliques: Sequence[Clique], measured: Sequence[Measurement]) -> NDArray[np.float64]:
    """1 / sigma^2 of all that was measured of each clique itself, float64 [cliques]."""
    place = {clique: index for index, clique in enumerate(cliques)}
    found = np.zeros(len(cliques))
    for measurement in measured:
        assert isinstance(measurement.queries, Marginals)
        found[place[measurement.queries.cliques[0]]] += precision_of(measurement)
    return found


def expected(fit: GraphicalFit, clique: Clique, stddev: float) -> float:
    """Expected L1 error of a marginal that is measured with this noise."""
    return float(expected_errors(fit.total * fit.calibrated.vector([clique]), stddev).sum())


def _left(fit: GraphicalFit, cliques: Sequence[Clique]) -> Callable[[int, NDArray[np.float64]], NDArray[np.float64]]:
    def left(index: int, stddevs: NDArray[np.float64]) -> NDArray[np.float64]:
        counts = fit.total * fit.calibrated.vector([cliques[index]])
        return np.array([expected_errors(counts, stddev).sum() for stddev in stddevs.tolist()])

    return left
