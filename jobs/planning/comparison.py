"""The plans of all mechanisms for one workload and budget, and of one mechanism for several budgets.

Nothing here predicts anything itself: every figure is that of a mechanism's own plan, as ``marquee plan`` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from dpcore.errors import MarqueeError
from dpcore.kernel.budget import Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.api import Mechanism, Plan
from dpcore.mechanisms.recommendation import Recommendation, recommended
from dpcore.mechanisms.registry import MECHANISMS
from jobs.config import LARGEST_EPSILON, MechanismChoice
from jobs.mechanisms import mechanism_of
from jobs.planning.job import Job, currency_of, terms_at
from jobs.planning.smallest_budget import plan_within_budget
from jobs.planning.time_limit import OutOfTimeError, within
from jobs.planning.work import work_of

FACTORS: Final = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Multiples of the config's epsilon for which an error is predicted."""


@dataclass(frozen=True)
class Option:
    """One mechanism for the workload and the budget of a config.

    name: Name of the mechanism.
    reason: Why it cannot make this release, or was skipped; empty if there is a plan.
    skipped: Whether its plan took too long, so that it is not known whether it can.
    error: Expected absolute error of an answer from the noise alone, in counts; None where there is no formula.
    seconds: CPU seconds for rounds and rows, at least; None without a plan.
    predicted: CPU seconds of mechanism and rows, as its plan predicts them; None without a prediction.
    memory_bytes: Peak memory of the driver's arrays; None without a plan.
    rounds: Number of adaptive rounds; None without a plan.
    currency: Accounting of the release; None without a plan.
    rows: Whether a release has synthetic rows.
    """

    name: str
    reason: str = ""
    skipped: bool = False
    error: float | None = None
    seconds: float | None = None
    predicted: float | None = None
    memory_bytes: int | None = None
    rounds: int | None = None
    currency: Currency | None = None
    rows: bool = False


@dataclass(frozen=True)
class ErrorAt:
    """The predicted error of a mechanism at one epsilon.

    epsilon: Epsilon of the release.
    error: As for ``Option``; None without a formula or a plan.
    reason: Why there is no plan; empty if there is one.
    """

    epsilon: float
    error: float | None
    reason: str = ""


def recommended_for(job: Job) -> Recommendation:
    """The recommended mechanism for the same workload and budget, whichever mechanism the config names."""
    rows = job.config.output.synthetic_rows
    return recommended(PrivacyTerms(job.unit, job.rest), job.stand_in, rows=isinstance(rows, int) and rows > 0)


def compared(job: Job, seconds: float) -> Iterator[Option]:
    """Yields every registered mechanism for the workload, the budget and the data of a config.

    The config's own mechanism has the config's settings, the recommended one those that are recommended, and all others
    have their defaults.

    job: The release.
    seconds: Time limit of each plan. What takes longer is skipped.
    """
    advice = recommended_for(job)
    for name in MECHANISMS:
        yield _option(job, name, seconds, advice.settings if name == advice.name else {})


def errors_at(job: Job, seconds: float) -> Iterator[ErrorAt]:
    """Yields the predicted error of the config's mechanism at multiples of the config's epsilon.

    job: The release.
    seconds: Time limit of each plan.
    """
    for factor in FACTORS:
        epsilon = factor * job.config.privacy.epsilon
        if epsilon <= LARGEST_EPSILON:
            yield _error_at(job, epsilon, seconds)


def _option(job: Job, name: str, seconds: float, settings: Mapping[str, str]) -> Option:
    own = name == job.config.mechanism.name
    mechanism = job.mechanism if own else mechanism_of(MechanismChoice(name=name, **settings))
    if not own and (wanted := _wanted(job, mechanism)):
        return Option(name, wanted)
    try:
        plan = job.plan if own else within(seconds, partial(_plan, job, mechanism, job.config.privacy.epsilon))
        rows = job.config.output.synthetic_rows
        gives_rows = mechanism.traits.gives_rows(mechanism)
        units = (rows if isinstance(rows, int) else job.unit.units) if gives_rows else 0
        work = work_of(plan, job.stand_in.requested.size, units, job.layout)
    except OutOfTimeError:
        return Option(name, f"its plan takes longer than {seconds:g} seconds", skipped=True)
    except (MarqueeError, ValueError) as error:
        return Option(name, " ".join(str(error).split()).removeprefix("mechanism: "))
    currency = currency_of(job.config.privacy, mechanism)
    figures = (plan.predicted_error, work.seconds, work.predicted, plan.memory_bytes, plan.rounds)
    return Option(name, "", False, *figures, currency, gives_rows)


def _wanted(job: Job, mechanism: Mechanism) -> str:
    """What a config wants that a mechanism has not; empty if there is nothing."""
    rows = job.config.output.synthetic_rows
    if isinstance(rows, int) and rows > 0 and not mechanism.traits.gives_rows(mechanism):
        return "it fits no model to draw output.synthetic_rows from"
    if job.series is not None:
        return "a series is for the mechanism continual"
    return ""


def _error_at(job: Job, epsilon: float, seconds: float) -> ErrorAt:
    try:
        return ErrorAt(epsilon, within(seconds, partial(_plan, job, job.mechanism, epsilon)).predicted_error)
    except OutOfTimeError:
        return ErrorAt(epsilon, None, f"the plan takes longer than {seconds:g} seconds")
    except (MarqueeError, ValueError) as error:
        return ErrorAt(epsilon, None, " ".join(str(error).split()))


def _plan(job: Job, mechanism: Mechanism, epsilon: float) -> Plan:
    terms = partial(terms_at, job.config, mechanism, job.unit, job.layout.view)
    return plan_within_budget(mechanism, job.stand_in, terms, epsilon, LARGEST_EPSILON)
