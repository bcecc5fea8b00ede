"""The first marginals of AIM, chosen and measured together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from dpcore.estimation.pgm.error_round import ErrorRound
from dpcore.estimation.pgm.fit import GraphicalFit
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.graphical import table_marginals
from dpcore.mechanisms.one_shot import Design, called_for, noisy_errors
from dpcore.workload import Workload

_ORDER = 3


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """What was measured together.

    told: What the noisy errors prove about the model before.
    measured: Of the chosen marginals.
    typical: Share of the budget that one of them got, on average.
    """

    told: tuple[ErrorRound, ...]
    measured: tuple[Measurement, ...]
    typical: Fraction


def design_of(workload: Workload) -> Design:
    """What a batch may hold for a workload of marginals."""
    return Design(table_marginals(workload, "aim"), workload, _ORDER)


def bought_together(
    private: PrivateStatistics,
    workload: Workload,
    measured: Sequence[Measurement],
    fit: GraphicalFit,
    budget: Fraction,
    errors_budget: Fraction,
    max_model_mb: float,
) -> Batch:
    """For a share of the budget: noisy errors of pairs and triples for at most another, then what they call for for the
    rest.

    measured, fit: One-way marginals, and the model of them.
    max_model_mb: Largest junction tree of what is measured, in MiB.
    """
    design, left = design_of(workload), private.remaining_share - budget
    errors = noisy_errors(private, design, fit, errors_budget)
    rest = private.remaining_share - left
    chosen = called_for(private.terms, design, measured, fit, errors, rest, max_model_mb)  # SELECT
    told = tuple(ErrorRound(fit.model, one) for one in errors)
    bought = tuple(private.measure(queries, share) for queries, share in chosen)  # MEASURE
    return Batch(told, bought, rest / len(bought))
