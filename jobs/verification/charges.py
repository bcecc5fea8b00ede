"""The cost of a release, recomputed from its certificate: every charge, their sum, the budget and epsilon.

The formulas are written out here once more, apart from those of the kernel, as a reader would apply them by hand.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpcore.kernel.budget import Bound, Budget, Currency
from dpcore.kernel.conversion import budget_of, epsilon_of
from dpcore.kernel.events import Event, Loss
from dpcore.kernel.gaussian_dp import gdp_of_bounded_range
from dpcore.kernel.item_threshold import epsilon_with_threshold_delta, without_threshold_delta
from dpcore.kernel.scales import noise_of
from dpcore.numerical_bound import epsilon_of_events
from jobs.outputs.certificate import CURRENCIES, epsilon_at_other_deltas
from jobs.outputs.certificate_format import Certificate, CertifiedCharge, ExactAmount
from jobs.verification.findings import Finding, failed, judged, not_checked, passed
from jobs.wording import number_of

_CURRENCIES = {name: currency for currency, name in CURRENCIES.items()}
_MEASUREMENTS = ("measure", "measure_errors", "discover")
_STEP = Fraction(1, 1 << 80)  # Costs of draws are rounded up to a multiple of this amount.
_SMALLEST_SCALE = Fraction(1, 1 << 20)  # Smaller scales are raised to this one, which costs less than was charged.
_LARGEST_GAP = 700.0  # The kernel counts larger gaps as this one.
_TOLERANCE = Fraction(1, 10**7)  # Relative; scales are rounded up, and Gaussian DP is computed with doubles.


def currency_of(certificate: Certificate) -> Currency:
    """The currency of all amounts of a certificate."""
    return _CURRENCIES[certificate.guarantee.currency]


def reserved_budget(certificate: Certificate) -> Budget:
    """The budget that the certificate says was reserved. Raises ValueError for an amount of 0."""
    return Budget(currency_of(certificate), Fraction(certificate.guarantee.reserved_in_the_ledger.amount))


def threshold_delta_in(certificate: Certificate) -> Fraction:
    """What the threshold of a discovery takes from delta, as the certificate says; 0 without one."""
    return Fraction(0) if certificate.discovery is None else Fraction(certificate.discovery.threshold_delta)


def cost_findings(certificate: Certificate) -> list[Finding]:
    """Recomputes the whole cost of a release."""
    with np.errstate(all="ignore"):  # Forged numbers may overflow a double.
        return [
            *charge_findings(certificate),
            *sum_findings(certificate),
            *_epsilon_findings(certificate),
            *_bound_findings(certificate),
        ]


def sum_findings(certificate: Certificate) -> list[Finding]:
    """Compares the sum of all charges with the total and the reservation of a certificate."""
    total = sum((Fraction(charge.amount) for charge in certificate.charges), Fraction(0))
    used, reserved = certificate.used_by_kernel_calls, certificate.guarantee.reserved_in_the_ledger
    problems = []
    if Fraction(used.amount) != total:
        problems.append(f"the charges add up to {as_number(total):.6g}, but used_by_kernel_calls is {used.amount}")
    if total > Fraction(reserved.amount):
        problems.append(f"the charges add up to {as_number(total):.6g}, more than the reserved {reserved.amount}")
    for name, amount in (("used_by_kernel_calls", used), ("reserved_in_the_ledger", reserved)):
        problems += _number_problems(name, amount)
    calls = certificate.hashes.kernel_answers.answers
    if calls != len(certificate.charges):
        problems.append(
            f"listed: {number_of(len(certificate.charges), 'charge')}, but the journal has {number_of(calls, 'answer')}"
        )
    share = as_number(total / Fraction(reserved.amount)) if Fraction(reserved.amount) else 0.0
    return judged(
        "sum of charges",
        problems,
        f"{number_of(len(certificate.charges), 'charge')} with {share:.4%} of the reservation",
    )


def charge_findings(certificate: Certificate) -> list[Finding]:
    """Recomputes the amount of every charge from its sensitivity, and its noise scale or number of draws."""
    currency = currency_of(certificate)
    problems: list[str] = []
    for number, charge in enumerate(certificate.charges):
        try:
            problem = _charge_problem(currency, charge) or next(iter(_number_problems("the amount", charge)), None)
        except OverflowError:  # Of a forged number: no double is as large as the cost.
            problem = "its sensitivity and scale cost more than any budget"
        if problem:
            problems.append(f"charge {number} ({charge.label}): {problem}")
    found = f"{len(certificate.charges)} amounts follow from their sensitivities and scales"
    return judged("charges", problems, found)


def _charge_problem(currency: Currency, charge: CertifiedCharge) -> str | None:
    """What contradicts the amount of one charge; None if nothing does."""
    if (charge.law, charge.sensitivity_bounds) != _expected_law(currency, charge.verb):
        return f"{charge.law} with a sensitivity of {charge.sensitivity_bounds} is not how {charge.verb} is accounted"
    amount, sensitivity = Fraction(charge.amount), Fraction(charge.sensitivity)
    if (charge.verb == "retain") != bool(charge.gaps):
        return "acceptance bits without gaps, or gaps of a call that draws no bits"
    if charge.verb in ("sample", "retain"):
        return _draws_problem(currency, charge)
    if charge.noise_scale is None or charge.draws != 1:
        return "a noise scale is missing, or there are several draws of it"
    scale = Fraction(charge.noise_scale)
    if charge.verb == "select":
        exact = _cost_of_range(currency, 2 * sensitivity / scale)
    else:
        exact = {
            Currency.PURE: sensitivity / scale,
            Currency.ZCDP: sensitivity / (2 * scale**2),
            Currency.GDP: sensitivity / scale**2,
        }[currency]
    rounded = charge.verb == "select" and currency is Currency.GDP
    if exact > amount * (1 + (_TOLERANCE if rounded else 0)):
        return _says(charge, exact)
    raised = charge.verb in _MEASUREMENTS and scale == _SMALLEST_SCALE
    return _says(charge, exact) if exact < amount * (1 - _TOLERANCE) and not raised else None


def _draws_problem(currency: Currency, charge: CertifiedCharge) -> str | None:
    """What contradicts the amount of draws or of acceptance bits, which add no noise."""
    if charge.noise_scale is not None:
        return "a noise scale of a call that adds no noise"
    bits = sum(gap.bits for gap in charge.gaps or ())
    if charge.gaps and bits != charge.draws:
        return f"its gaps are those of {bits} bits, but {charge.draws} were drawn"
    if charge.gaps:
        exact = _cost_of_bits(currency, charge)
    else:
        exact = charge.draws * _cost_of_range(currency, Fraction(charge.sensitivity))
    # g and 1 - exp(-gap) are computed with doubles.
    rounding = _STEP + (exact * _TOLERANCE if charge.gaps or currency is Currency.GDP else 0)
    return None if abs(exact - Fraction(charge.amount)) <= rounding else _says(charge, exact)


def _says(charge: CertifiedCharge, exact: Fraction) -> str:
    amount = as_number(Fraction(charge.amount))
    return f"its sensitivity and scale cost {as_number(exact):.9g}, but the amount is {amount:.9g}"


def as_number(exact: Fraction) -> float:
    """The nearest double; infinity for a forged number beyond all doubles."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf


def _expected_law(currency: Currency, verb: str) -> tuple[str, str]:
    """The law of a verb's randomness, and what its sensitivity bounds."""
    if verb in _MEASUREMENTS:
        return noise_of(currency).value, (Bound.L1 if currency is Currency.PURE else Bound.SQUARED_L2).value
    if verb == "select":
        law = "permute_and_flip" if currency is Currency.PURE else "exponential_mechanism"
        return law, Bound.SCORE.value
    if verb == "sample":
        return "exponential_mechanism", Bound.RANGE.value
    return "bernoulli", Bound.LOG_PROBABILITY.value


def _cost_of_range(currency: Currency, width: Fraction) -> Fraction:
    """The cost of permute-and-flip under pure DP, or of one draw of this bounded range."""
    if currency is Currency.GDP:
        return gdp_of_bounded_range(width)
    return width if currency is Currency.PURE else width**2 / 8


def _cost_of_bits(currency: Currency, charge: CertifiedCharge) -> Fraction:
    """The cost of acceptance bits, whose log-probabilities move by at most the sensitivity."""
    move, cost = Fraction(charge.sensitivity), Fraction(0)
    for entry in charge.gaps or ():
        gap = min(float(Fraction(entry.gap)), _LARGEST_GAP)
        if gap <= 0:
            raise OverflowError("the probability of a bit is not bounded")
        if currency is Currency.PURE:
            one = move * max(Fraction(1), Fraction(1 / math.expm1(gap)))
        else:
            one = _cost_of_range(currency, move * Fraction(-1 / math.expm1(-gap)))
        cost += entry.bits * one
    return cost


def _number_problems(name: str, amount: ExactAmount | CertifiedCharge) -> list[str]:
    if as_number(Fraction(amount.amount)) == amount.amount_as_number:
        return []
    return [f"{name} is {amount.amount} exactly, but {amount.amount_as_number} as a number"]


def _epsilon_findings(certificate: Certificate) -> list[Finding]:
    """Recomputes epsilon from the reserved amount and delta, and the reserved amount from epsilon and delta."""
    guarantee = certificate.guarantee
    try:
        budget = reserved_budget(certificate)
        if (budget.currency is Currency.PURE) != (guarantee.delta == 0):
            return [failed("epsilon", f"delta is {guarantee.delta} for a budget of {guarantee.currency}")]
        threshold_delta = threshold_delta_in(certificate)
        epsilon = epsilon_with_threshold_delta(budget, guarantee.delta, threshold_delta)
        largest = budget_of(
            *without_threshold_delta(guarantee.epsilon, guarantee.delta, threshold_delta), budget.currency
        ).amount
        others = epsilon_at_other_deltas(budget, threshold_delta)
    except (ValueError, OverflowError) as error:
        return [failed("epsilon", f"epsilon cannot be computed from the reservation ({error})")]
    problems = []
    if not _near(Fraction(epsilon), Fraction(guarantee.epsilon)) and epsilon > guarantee.epsilon:
        problems.append(f"the reservation implies epsilon {epsilon:.9g}, but {guarantee.epsilon:g} is promised")
    elif not _near(budget.amount, largest):
        problems.append(
            f"epsilon {guarantee.epsilon:g} is worth {float(largest):.9g}, but {float(budget.amount):.9g} is reserved"
        )
    said = guarantee.epsilon_at_other_deltas
    if said.keys() != others.keys() or not all(_near(Fraction(said[key]), Fraction(others[key])) for key in others):
        problems.append("epsilon_at_other_deltas does not follow from the reservation")
    return judged("epsilon", problems, f"the reservation implies epsilon {epsilon:.9g} at delta {guarantee.delta:g}")


def _near(first: Fraction, second: Fraction) -> bool:
    return abs(first - second) <= _TOLERANCE * max(first, second)


def _bound_findings(certificate: Certificate) -> list[Finding]:
    """Compares the numerical bound with the Renyi divergences of the listed calls, which are all or some of the plan.

    Calls that were planned and not made may make the bound larger than what the listed calls come to, never smaller.
    """
    bound = certificate.numerical_bound.epsilon_at_delta
    if not bound:
        return [not_checked("numerical bound", "the certificate gives none")]
    if any(charge.verb == "retain" for charge in certificate.charges):
        return [failed("numerical bound", "a bound is given, but the cost of acceptance bits is not fixed in advance")]
    try:
        budget = reserved_budget(certificate)
        events = [event for charge in certificate.charges for event in _events(budget.currency, charge)]
        for delta, epsilon in bound.items():
            least, most = epsilon_of_events(events, float(delta)), epsilon_of(budget, float(delta))
            if not least * (1 - 1e-6) <= epsilon <= most:
                text = f"the listed calls come to epsilon {least:.6g} at delta {delta}, but the bound is {epsilon:.6g}"
                return [failed("numerical bound", text)]
    except (ValueError, OverflowError) as error:
        return [failed("numerical bound", f"it cannot be recomputed from the charges ({error})")]
    return [passed("numerical bound", "it covers the listed calls, and is below what the reservation implies")]


def _events(currency: Currency, charge: CertifiedCharge) -> list[Event]:
    """The privacy loss of one charge as an event; none for a free call."""
    amount = Fraction(charge.amount)
    if not amount:
        return []
    if charge.verb == "sample":
        return [Event(Loss.BOUNDED_RANGE, Fraction(charge.sensitivity), charge.draws, amount)]
    if currency is Currency.PURE:
        return [Event(Loss.PURE, amount, 1, amount)]
    if charge.verb == "select":
        return [
            Event(Loss.BOUNDED_RANGE, 2 * Fraction(charge.sensitivity) / Fraction(charge.noise_scale or 1), 1, amount)
        ]
    return [Event(Loss.GAUSSIAN, amount * (2 if currency is Currency.ZCDP else 1), 1, amount)]
