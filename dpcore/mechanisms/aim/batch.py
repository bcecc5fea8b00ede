"""The first marginals of AIM, chosen and measured together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from dpcore.estimation.graphical.confidence.error_round import ErrorRound
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.shared.marginal_selection import Design, noisy_errors, select_marginals
from dpcore.mechanisms.shared.pgm_common import table_marginals
from dpcore.queries import Marginals
from dpcore.workload import Workload

_ORDER = 3


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """What was measured together.

    told: What the noisy errors prove about the model before; empty where they were not asked, being noise.
    chosen: Marginals with their shares of the budget.
    measured: Of these, in their order.
    """

    told: tuple[ErrorRound, ...]
    chosen: tuple[tuple[Marginals, Fraction], ...]
    measured: tuple[Measurement, ...]

    @property
    def typical(self) -> Fraction:
        """Share of the budget that one marginal got, on average."""
        return sum((share for _, share in self.chosen), Fraction(0)) / len(self.chosen)

    def remeasure(self, private: PrivateStatistics) -> list[Measurement]:
        """All that is left of the budget for the same marginals, in the same proportions: as if it had been theirs."""
        factor = private.remaining_share / (self.typical * len(self.chosen))
        return [private.measure(queries, share * factor) for queries, share in self.chosen]


def design_of(workload: Workload) -> Design:
    """What a batch may hold for a workload of marginals."""
    return Design(table_marginals(workload, "aim"), workload, _ORDER)


def select_and_measure(
    private: PrivateStatistics,
    workload: Workload,
    measured: Sequence[Measurement],
    fit: GraphicalFit,
    budget: Fraction,
    errors_budget: Fraction,
    max_model_mb: float,
) -> Batch:
    """For a share of the budget: noisy errors of pairs and triples for at most another, then what they call for for the
    rest. It is chosen as if there were all that is left of the whole budget: ``again`` may come to that.

    measured, fit: One-way marginals, and the model of them.
    max_model_mb: Largest junction tree of what is measured, in MiB.
    """
    design, left = design_of(workload), private.remaining_share - budget
    errors = noisy_errors(private, design, fit, errors_budget)
    whole = private.remaining_share
    wanted = select_marginals(private.terms, design, measured, fit, errors, whole, max_model_mb)  # SELECT
    chosen = tuple((queries, share * (whole - left) / whole) for queries, share in wanted)
    told = tuple(ErrorRound(fit.model, one) for one in errors)
    return Batch(told, chosen, tuple(private.measure(queries, share) for queries, share in chosen))  # MEASURE
