"""The batch of AIM: marginals of several attributes, chosen by noisy errors and measured before the first round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

from dpcore.estimation.graphical.confidence.error_round import ErrorRound
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.shared.marginal_selection import Design, noisy_errors, select_marginals
from dpcore.mechanisms.shared.pgm_common import table_marginals
from dpcore.queries import Marginals
from dpcore.workload import Workload

_ORDER: Final = 3  # Largest marginals whose errors are measured: those of larger ones would be mostly noise.


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """Marginals that were chosen and measured together.

    error_rounds: What the noisy errors prove about the model of the one-way marginals. It is empty if the errors would
        have been mostly noise, and were not measured.
    chosen: The chosen marginals, each with the share of the whole budget that measured it.
    measured: The measurements of these marginals, in the same order.
    """

    error_rounds: tuple[ErrorRound, ...]
    chosen: tuple[tuple[Marginals, Fraction], ...]
    measured: tuple[Measurement, ...]

    @property
    def mean_share(self) -> Fraction:
        """Mean share of the whole budget per chosen marginal."""
        return sum((share for _, share in self.chosen), Fraction(0)) / len(self.chosen)

    def remeasure(self, private: PrivateStatistics) -> list[Measurement]:
        """Measures the same marginals again with all that remains of the budget, in the same proportions."""
        factor = private.remaining_share / (self.mean_share * len(self.chosen))
        return [private.measure(queries, share * factor) for queries, share in self.chosen]


def design_of(workload: Workload) -> Design:
    """The public description of what a batch may contain, for a workload of marginals."""
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
    """Measures noisy errors of pairs and triples, chooses marginals by these errors, and measures the marginals.

    The selection assumes the whole remaining budget, because ``Batch.remeasure`` may later spend all of it on these
    marginals.

    private: The kernel.
    workload: The workload of marginals.
    measured: Measurements of the one-way marginals.
    fit: The model fitted to those measurements.
    budget: Share of the whole budget for the errors and the measurements together.
    errors_budget: Largest part of ``budget`` for the noisy errors.
    max_model_mb: Largest size of the junction tree of the chosen marginals, in MiB.
    """
    design, share_after_batch = design_of(workload), private.remaining_share - budget
    errors = noisy_errors(private, design, fit, errors_budget)
    remaining = private.remaining_share
    selected = select_marginals(private.terms, design, measured, fit, errors, remaining, max_model_mb)  # SELECT
    chosen = tuple((queries, share * (remaining - share_after_batch) / remaining) for queries, share in selected)
    error_rounds = tuple(ErrorRound(fit.model, noisy) for noisy in errors)
    return Batch(error_rounds, chosen, tuple(private.measure(queries, share) for queries, share in chosen))  # MEASURE
