"""What AIM may measure: linear functions of marginals, those of a workload and of what lies below it; public."""

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


class Candidates(Protocol):
    """The marginals, or linear queries of marginals, that a round may select.

    full: The domain of the workload.
    domain: The attributes that the workload names.
    cliques: The marginal that each candidate is about.
    sizes: Number of answers of each candidate, int64 [candidates].
    weights: How much an error of each candidate matters to the workload, float64 [candidates]; only ratios matter.
    asked: Which candidates the workload itself asks for, bool [candidates].
    noisiness: Sum of the standard deviations of each candidate's answers where all are measured for the same share,
        float64 [candidates]; only ratios matter.
    cells: Number of answers of all candidates together, the length of the vectors that a round holds.
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
    def asked(self) -> NDArray[np.bool_]: ...
    @property
    def noisiness(self) -> NDArray[np.float64]: ...
    @property
    def cells(self) -> int: ...

    @property
    def queries(self) -> Marginals | Products:
        """All candidates, for the kernel to select from."""
        ...

    def only(self, kept: NDArray[np.bool_]) -> Candidates:
        """The candidates where ``kept`` is true, bool [candidates]."""
        ...

    def one_way(self) -> Candidates:
        """The candidates about one attribute; their weights say what the first measurement of each is worth."""
        ...

    def answers(self, fit: GraphicalFit) -> NDArray[np.float64]:
        """The answers of the fitted model, float64 [queries.size], in counts."""
        ...

    def score(self, estimate: NDArray[np.float64], penalties: NDArray[np.float64]) -> L1Error | LinearL1Error:
        """Scores weight * (L1 distance of the exact answers to ``estimate`` - penalty), for the kernel to select by."""
        ...

    def strategy(self, index: int) -> Marginals | Products:
        """The queries that are measured for one candidate."""
        ...

    def stddevs(self, terms: PrivacyTerms, share: Fraction) -> NDArray[np.float64]:
        """Standard deviation of each answer where its candidate is measured for this share: [queries.size], or one."""
        ...

    def value_stddev(self, terms: PrivacyTerms, share: Fraction) -> float | None:
        """Standard deviation of a measured value for this share; None where it depends on the candidate."""
        ...


def candidates_of(workload: Workload, terms: PrivacyTerms) -> Candidates:
    """The candidates of a workload. Raises ConfigError for queries other than marginals and products."""
    if isinstance(workload.queries, Marginals):
        return MarginalCandidates.of(workload)
    if isinstance(workload.queries, Products):
        return ProductCandidates.of(workload, terms)
    raise ConfigError(
        "mechanism aim answers marginals, prefixes and ranges of a table; want workload.marginals or "
        "workload.products, or mechanism dual_query for conjunctions and parities"
    )


def within(candidates: Candidates, structure: Triangulation, cells: float) -> Candidates:
    """The candidates that leave the junction tree at no more than ``cells`` cells, or no larger than it is."""
    max_cells = max(cells, structure.cells)
    return candidates.only(np.array([structure.cells_with(clique) <= max_cells for clique in candidates.cliques]))
