"""Marginals that AIM may measure for a workload of marginals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import L1Error
from dpcore.measurement import noise_stddev
from dpcore.queries import Marginals
from dpcore.workload import Workload, downward_closure, relative

LARGEST_CELLS: Final = 1 << 26  # Of all candidates together: half a gibibyte for each vector over them.


@final
@dataclass(frozen=True, eq=False)
class MarginalCandidates:
    """The downward closure of a workload, with weights; see ``Candidates``.

    weights: w_r = sum over workload cliques s of c_s |r intersected with s| (Algorithm 6, line 8), with c_s as parts of
        the largest.
    sizes: Cells of each clique.
    """

    domain: Domain
    full: Domain
    cliques: tuple[Clique, ...]
    sizes: NDArray[np.int64]
    weights: NDArray[np.float64]
    asked: NDArray[np.bool_]

    @classmethod
    def of(cls, workload: Workload) -> MarginalCandidates:
        """W_+; the largest cliques are left out where all of them would not fit in memory."""
        queries = workload.queries
        assert isinstance(queries, Marginals)
        of_attribute = dict.fromkeys(queries.domain.names, 0.0)
        for clique, weight in zip(queries.cliques, relative(workload.weights).tolist(), strict=True):
            for name in clique:
                of_attribute[name] += weight
        closure = [queries.domain.canonical(clique) for clique in downward_closure(queries.cliques)]
        weights = np.array([sum(of_attribute[name] for name in clique) for clique in closure])
        asked = set(queries.cliques)
        sizes, fits = sizes_that_fit([queries.domain.size(clique) for clique in closure], closure)
        itself = np.array([clique in asked for clique in closure])
        used = used_domain(queries.domain, closure)
        return cls(used, queries.domain, tuple(closure), sizes, weights, itself).only(fits)

    def only(self, kept: NDArray[np.bool_]) -> MarginalCandidates:
        cliques = tuple(clique for clique, keep in zip(self.cliques, kept.tolist(), strict=True) if keep)
        return MarginalCandidates(
            self.domain, self.full, cliques, self.sizes[kept], self.weights[kept], self.asked[kept]
        )

    def one_way(self) -> MarginalCandidates:
        """All are worth the same: products of them are the base of every model."""
        single = self.only(np.array([len(clique) == 1 for clique in self.cliques]))
        return replace(single, weights=np.ones(len(single.cliques)))

    @property
    def queries(self) -> Marginals:
        return Marginals(self.full, self.cliques)

    @property
    def noisiness(self) -> NDArray[np.float64]:
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
    """The sizes, and which of the candidates fit in memory: the small ones first.

    Raises ConfigError where there is none, DomainTooLargeError where one of a single attribute does not fit.
    """
    if not sizes:
        raise ConfigError("mechanism aim needs a workload that names an attribute; want one clique or more")
    cut = np.array([min(size, 2 * LARGEST_CELLS) for size in sizes], dtype=np.int64)
    order = np.argsort(cut, kind="stable")
    fits = np.zeros(len(sizes), dtype=np.bool_)
    fits[order] = np.cumsum(cut[order]) <= LARGEST_CELLS
    single = np.array([len(clique) == 1 for clique in cliques])
    if not fits[single].all():
        advice = "wider bins, or fewer attributes"
        raise DomainTooLargeError("single attributes of mechanism aim", int(cut[single].sum()), LARGEST_CELLS, advice)
    return cut, fits


def used_domain(domain: Domain, cliques: Iterable[Clique]) -> Domain:
    """The attributes that some clique names."""
    used = {name for clique in cliques for name in clique}
    return domain.project(name for name in domain.names if name in used)
