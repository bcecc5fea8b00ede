"""The marginals that MWEM may still select, and how badly the model answers them."""

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
class RemainingCandidates:
    """The marginals of a workload whose measurement keeps every table within its size limit.

    Which marginals remain depends only on which ones were measured, never on a measured value. Tables only grow, so
    that a marginal that was dropped never returns. A marginal that was measured remains a candidate.

    queries: The marginals of the workload.
    weights: The weight of each clique, float64 [cliques]; only ratios matter.
    """

    def __init__(self, queries: Marginals, weights: NDArray[np.float64]) -> None:
        self.queries = queries
        self._weights = relative(weights)
        self._answers = FactoredAnswers(queries)
        self._remains = np.ones(len(queries.cliques), np.bool_)
        self._cells = np.array(queries.sizes, np.int64)
        self._remaining_cells: NDArray[np.bool_] | None = None  # For each answer of the workload; None if all remain.

    def refresh(self, model: FactoredWeights) -> None:
        """Drops the marginals whose measurement would now join a table above the limit."""
        remains = self._remains & (self._answers.joined_cells(model.factors) <= model.limit)
        if (remains == self._remains).all():
            return
        self.queries = self.queries.only(compress(self.queries.cliques, remains[self._remains]))
        self._remains, self._remaining_cells = remains, np.repeat(remains, self._cells)

    def score(self, model: FactoredWeights, penalty: float) -> L1Error:
        """The L1 distance between the data and the model on each candidate, less a penalty.

        penalty: What to subtract from a score for each cell of the candidate, in counts.
        """
        estimate = self._answers.values(model.factors, model.total)
        if self._remaining_cells is not None:
            estimate = estimate[self._remaining_cells]
        penalties = np.asarray(penalty * self._cells[self._remains], dtype=np.float64)
        return L1Error(estimate, self._weights[self._remains], penalties)


def count_candidates(queries: Marginals, domain: Domain, limit: int) -> int:
    """The number of marginals that have at most ``limit`` cells themselves.

    domain: The attributes that the marginals name.
    limit: Size limit of a table in cells.

    Raises DomainTooLargeError where an attribute, or every marginal, has more cells.
    """
    advice = "a larger mechanism.max_table_mb, fewer attributes or coarser bins, or mechanism independent or gaussian"
    widest = max(domain.names, key=lambda name: domain.size((name,)), default=None)
    if widest is not None and domain.size((widest,)) > limit:
        raise DomainTooLargeError(f"attribute {widest!r} of mechanism mwem", domain.size((widest,)), limit, advice)
    if min(queries.sizes) > limit:
        raise DomainTooLargeError("the smallest marginal of mechanism mwem", min(queries.sizes), limit, advice)
    return sum(size <= limit for size in queries.sizes)


def max_total_cells(domain: Domain, limit: int) -> int:
    """The maximum number of cells of disjoint tables together, if each table has at most ``limit`` cells.

    Of two pairs of tables with the same product of sizes, the more unequal pair has the larger sum. The worst case is
    therefore as many full tables as the whole domain fills.
    """
    remaining_size, full_tables = domain.size(), 0
    while remaining_size > 1:
        remaining_size, full_tables = -(-remaining_size // max(2, limit)), full_tables + 1
    return min(domain.size(), full_tables * limit) if full_tables else 1
