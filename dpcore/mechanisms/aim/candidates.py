"""The candidates of a round: the marginals, or linear queries on marginals, that AIM may select and measure; public."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import L1Error, LinearL1Error
from dpcore.mechanisms.aim.marginals import MarginalCandidates
from dpcore.mechanisms.aim.products import ProductCandidates
from dpcore.queries import Marginals, Products
from dpcore.workload import Workload


class RoundCandidates(Protocol):
    """The marginals, or linear queries on marginals, that a round may select: those of a workload and their parts.

    Implemented by ``marginals.MarginalCandidates`` and ``products.ProductCandidates``.

    full: The domain of the workload.
    domain: The attributes that the workload names, as a domain.
    cliques: The attributes of each candidate.
    sizes: Number of answers of each candidate, int64 [candidates].
    weights: How much an error of each candidate matters to the workload, float64 [candidates]; only ratios matter.
    requested: Which candidates are queries of the workload, and not only parts of one; bool [candidates].
    total_noise: Sum of the standard deviations of each candidate's answers if the same share measures each candidate,
        float64 [candidates]; only ratios matter.
    cells: Number of values per vector that a round holds in memory: all answers and, for products, the marginals that
        they are computed from.
    """

    @property
    def domain(self) -> Domain: ...
    @property
    def full(self) -> Domain: ...
    @property
    def cliques(self) -> tuple[Clique, ...]: ...
    @property
    def sizes(self) -> NDArray[np.int64]: ...
    @property
    def weights(self) -> NDArray[np.float64]: ...
    @property
    def requested(self) -> NDArray[np.bool_]: ...
    @property
    def total_noise(self) -> NDArray[np.float64]: ...
    @property
    def cells(self) -> int: ...

    @property
    def queries(self) -> Marginals | Products:
        """The queries of all candidates, among which the kernel selects."""
        ...

    def only(self, kept: NDArray[np.bool_]) -> RoundCandidates:
        """The candidates for which ``kept`` is true, bool [candidates]."""
        ...

    def one_way(self) -> RoundCandidates:
        """The candidates of one attribute, with the weights by which their first measurements share the budget."""
        ...

    def whole(self) -> RoundCandidates:
        """The queries of the workload, with the weights by which they share the budget if all are measured at once."""
        ...

    def answers(self, fit: GraphicalFit) -> NDArray[np.float64]:
        """The answers of the fitted model, float64 [queries.size], in counts."""
        ...

    def score(self, estimate: NDArray[np.float64], penalties: NDArray[np.float64]) -> L1Error | LinearL1Error:
        """The scores by which the kernel selects: weight * (L1 distance of exact answers from ``estimate`` - penalty).

        estimate: Answers of the model, float64 [queries.size], in counts.
        penalties: Subtracted from the distance of each candidate, float64 [candidates], in counts.
        """
        ...

    def strategy(self, index: int) -> Marginals | Products:
        """The queries to measure in order to answer one candidate."""
        ...

    def stddevs(self, terms: PrivacyTerms, share: Fraction) -> NDArray[np.float64]:
        """Standard deviation of each answer if this share measures its candidate: [queries.size], or one number.

        share: Share of the whole budget for one candidate.
        """
        ...

    def value_stddev(self, terms: PrivacyTerms, share: Fraction) -> float | None:
        """Standard deviation of the noise in a measured value for this share; None if the candidates differ in it."""
        ...


def candidates_of(workload: Workload, terms: PrivacyTerms) -> RoundCandidates:
    """The candidates of a workload. Raises: ConfigError for queries other than marginals and products."""
    if isinstance(workload.queries, Marginals):
        return MarginalCandidates.of(workload)
    if isinstance(workload.queries, Products):
        return ProductCandidates.of(workload, terms)
    raise ConfigError(
        "mechanism aim answers marginals, prefixes and ranges of a table; want workload.marginals or "
        "workload.products, or mechanism dual_query for conjunctions and parities"
    )


def candidates_within(candidates: RoundCandidates, structure: Triangulation, max_cells: float) -> RoundCandidates:
    """The candidates C_t of a round: those with which the junction tree stays within a size (Algorithm 6, line 13).

    structure: The triangulation of everything measured so far.
    max_cells: Largest number of cells of the junction tree. A candidate that does not make the tree larger than it is
        remains a candidate in any case.
    """
    limit = max(max_cells, structure.cells)
    return candidates.only(np.array([structure.cells_with(clique) <= limit for clique in candidates.cliques]))
