"""What MWEM may select from, and how badly the model answers it."""

from __future__ import annotations

from itertools import compress
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.errors import DomainTooLargeError
from dpcore.estimation.multiplicative_weights.factored import FactoredWeights
from dpcore.estimation.multiplicative_weights.factored_answers import FactoredAnswers
from dpcore.kernel.scores import L1Error
from dpcore.queries import Marginals
from dpcore.workload import relative


@final
class Candidates:
    """The marginals of a workload whose measurement keeps every table within its limit.

    Which those are follows from what was measured, never from a value. Tables only grow, so that a marginal that is
    dropped stays so, and one that was measured stays a candidate.

    queries: The marginals of the workload.
    weights: The weight of each of its cliques; only ratios matter.
    """

    def __init__(self, queries: Marginals, weights: NDArray[np.float64]) -> None:
        self.queries = queries
        self._weights = relative(weights)
        self._answers = FactoredAnswers(queries)
        self._fitting = np.ones(len(queries.cliques), np.bool_)
        self._cells = np.array(queries.sizes, np.int64)
        self._fitting_cells: NDArray[np.bool_] | None = None  # Of all answers; None for all of them.

    def refresh(self, model: FactoredWeights) -> None:
        """Drops the marginals that would pass the limit by now."""
        fitting = self._fitting & (self._answers.joined_cells(model.factors) <= model.limit)
        if (fitting == self._fitting).all():
            return
        kept = fitting[self._fitting]
        self.queries = self.queries.only(compress(self.queries.cliques, kept))
        self._fitting, self._fitting_cells = fitting, np.repeat(fitting, self._cells)

    def score(self, model: FactoredWeights, penalty: float) -> L1Error:
        """The L1 distance of each candidate to the model.

        penalty: Taken off for each cell of a candidate, in counts.
        """
        estimate = self._answers.values(model.factors, model.total)
        if self._fitting_cells is not None:
            estimate = estimate[self._fitting_cells]
        penalties = np.asarray(penalty * self._cells[self._fitting], dtype=np.float64)
        return L1Error(estimate, self._weights[self._fitting], penalties)


def first_candidates(queries: Marginals, domain: Domain, limit: int) -> int:
    """Marginals that fit a table of ``limit`` cells by themselves.

    Raises DomainTooLargeError where an attribute or every marginal is larger.
    """
    advice = "a larger mechanism.max_table_mb, fewer attributes or coarser bins, or mechanism independent or gaussian"
    widest = max(domain.names, key=lambda name: domain.size((name,)), default=None)
    if widest is not None and domain.size((widest,)) > limit:
        raise DomainTooLargeError(f"attribute {widest!r} of mechanism mwem", domain.size((widest,)), limit, advice)
    if min(queries.sizes) > limit:
        raise DomainTooLargeError("the smallest marginal of mechanism mwem", min(queries.sizes), limit, advice)
    return sum(size <= limit for size in queries.sizes)


def largest_cells(domain: Domain, limit: int) -> int:
    """Cells that disjoint tables of at most ``limit`` each can have together.

    Of two tables with one product of cells, the more unequal pair has the larger sum: the worst case is as many full
    tables as the whole domain takes.
    """
    whole, full = domain.size(), 0
    while whole > 1:
        whole, full = -(-whole // max(2, limit)), full + 1
    return min(domain.size(), full * limit) if full else 1
