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
    """Parts of marginals or products, each a candidate.

    full: The domain of the workload. domain: The attributes that it names.
    cliques: The marginal that each candidate is about.
    sizes: Answers of each, int64 [candidates].
    weights: How much an error of each matters to the workload, float64 [candidates]; only ratios matter.
    asked: Which the workload asks itself, bool [candidates].
    noisiness: Sum of the standard deviations of each one's answers where it is measured for a common share, float64
        [candidates]; only ratios matter.
    cells: Of all vectors over candidates that a round holds.
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

    def only(self, kept: NDArray[np.bool_]) -> Candidates: ...
    def one_way(self) -> Candidates:
        """Those about one attribute, with what the first measurement of each is worth as weights."""
        ...

    def answers(self, fit: GraphicalFit) -> NDArray[np.float64]:
        """What the model answers, float64 [queries.size], in counts."""
        ...

    def score(self, estimate: NDArray[np.float64], penalties: NDArray[np.float64]) -> L1Error | LinearL1Error:
        """weight * (L1 distance of exact answers to ``estimate`` - penalty)."""
        ...

    def strategy(self, place: int) -> Marginals | Products:
        """What is measured for a candidate."""
        ...

    def stddevs(self, terms: PrivacyTerms, share: Fraction) -> NDArray[np.float64]:
        """Of each answer, read off its measured strategy, each candidate for this share: [queries.size], or one."""
        ...

    def value_stddev(self, terms: PrivacyTerms, share: Fraction) -> float | None:
        """Of each measured value, any candidate for this share; None where it depends on the candidate."""
        ...


def candidates_of(workload: Workload, terms: PrivacyTerms) -> Candidates:
    """Raises ConfigError for queries other than marginals and products."""
    if isinstance(workload.queries, Marginals):
        return MarginalCandidates.of(workload)
    if isinstance(workload.queries, Products):
        return ProductCandidates.of(workload, terms)
    raise ConfigError(
        "mechanism aim answers marginals, prefixes and ranges of a table; want workload.marginals or "
        "workload.products, or mechanism dual_query for conjunctions and parities"
    )


def within(candidates: Candidates, structure: Triangulation, cells: float) -> Candidates:
    """Those that, added to the structure, leave its junction tree at so many cells, or do not make it larger."""
    most = max(cells, structure.cells)
    return candidates.only(np.array([structure.cells_with(clique) <= most for clique in candidates.cliques]))
