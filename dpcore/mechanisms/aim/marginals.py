"""The candidates of AIM for a workload of marginals: all marginals of subsets of its cliques."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import DomainTooLargeError
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import L1Error
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.shared.pgm_common import check_names_attribute
from dpcore.queries import Marginals
from dpcore.workload import Workload, downward_closure, relative

MANY_CANDIDATES: Final = 5_000  # AIM scores all candidates in every round: more take hours.
LARGEST_CELLS: Final = 1 << 26  # Largest number of cells of all candidates: half a gibibyte per vector over them.


@final
@dataclass(frozen=True, eq=False)
class MarginalCandidates:
    """The downward closure of a workload's cliques. Implements ``RoundCandidates``.

    weights: w_r = sum over workload cliques s of c_s |r intersected with s| (Algorithm 6, line 8). The weights c_s of
        the workload are divided by their maximum.
    sizes: Number of cells of each clique, int64 [candidates].
    """

    domain: Domain
    full: Domain
    cliques: tuple[Clique, ...]
    sizes: NDArray[np.int64]
    weights: NDArray[np.float64]
    requested: NDArray[np.bool_]

    @classmethod
    def of(cls, workload: Workload) -> MarginalCandidates:
        """The closure W_+ of the workload, without its largest cliques if all of them would not fit in memory.

        Raises: ConfigError for a workload without attributes, or with an attribute that does not fit in memory.
        """
        queries = workload.queries
        assert isinstance(queries, Marginals)
        attribute_weights = dict.fromkeys(queries.domain.names, 0.0)
        for clique, weight in zip(queries.cliques, relative(workload.weights).tolist(), strict=True):
            for name in clique:
                attribute_weights[name] += weight
        closure = [queries.domain.canonical(clique) for clique in downward_closure(queries.cliques)]
        weights = np.array([sum(attribute_weights[name] for name in clique) for clique in closure])
        sizes, fits = sizes_that_fit([queries.domain.size(clique) for clique in closure], closure)
        workload_cliques = set(queries.cliques)
        requested = np.array([clique in workload_cliques for clique in closure])
        named_domain = queries.domain.project(queries.domain.named(closure))
        return cls(named_domain, queries.domain, tuple(closure), sizes, weights, requested).only(fits)

    def only(self, kept: NDArray[np.bool_]) -> MarginalCandidates:
        cliques = tuple(clique for clique, keep in zip(self.cliques, kept.tolist(), strict=True) if keep)
        return MarginalCandidates(
            self.domain, self.full, cliques, self.sizes[kept], self.weights[kept], self.requested[kept]
        )

    def one_way(self) -> MarginalCandidates:
        """All have the weight 1, whatever the workload weighs: their product is the base of every model."""
        one_way = self.only(np.array([len(clique) == 1 for clique in self.cliques]))
        return replace(one_way, weights=np.ones(len(one_way.cliques)))

    def whole(self) -> MarginalCandidates:
        return self.only(self.requested)

    @property
    def queries(self) -> Marginals:
        return Marginals(self.full, self.cliques)

    @property
    def total_noise(self) -> NDArray[np.float64]:
        """All cells of all marginals have the same noise."""
        return self.sizes.astype(np.float64)

    @property
    def cells(self) -> int:
        return int(self.sizes.sum())

    def answers(self, fit: GraphicalFit) -> NDArray[np.float64]:
        answers = fit.calibrated.vector(self.cliques)
        answers *= fit.total
        return answers

    def score(self, estimate: NDArray[np.float64], penalties: NDArray[np.float64]) -> L1Error:
        return L1Error(estimate, self.weights, penalties)

    def strategy(self, index: int) -> Marginals:
        return Marginals(self.full, (self.cliques[index],))

    def stddevs(self, terms: PrivacyTerms, share: Fraction) -> NDArray[np.float64]:
        return np.array(self.value_stddev(terms, share))

    def value_stddev(self, terms: PrivacyTerms, share: Fraction) -> float:
        return noise_stddev(terms.noise, terms.measure_scale(self.strategy(0), share))


def sizes_that_fit(sizes: Sequence[int], cliques: Sequence[Clique]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Which candidates fit in memory together, taking the smallest first.

    sizes: Number of cells of each candidate.
    cliques: Attributes of each candidate.

    Returns: The sizes, int64 [candidates], with enormous ones cut to a number that never fits; and which candidates
        fit, bool [candidates].

    Raises: ConfigError without candidates. DomainTooLargeError if a candidate of one attribute does not fit.
    """
    check_names_attribute(cliques, "aim")
    cut = np.array([min(size, 2 * LARGEST_CELLS) for size in sizes], dtype=np.int64)
    order = np.argsort(cut, kind="stable")
    fits = np.zeros(len(sizes), dtype=np.bool_)
    fits[order] = np.cumsum(cut[order]) <= LARGEST_CELLS
    one_way = np.array([len(clique) == 1 for clique in cliques])
    if not fits[one_way].all():
        advice = "wider bins, or fewer attributes"
        raise DomainTooLargeError("single attributes of mechanism aim", int(cut[one_way].sum()), LARGEST_CELLS, advice)
    return cut, fits
