"""Every conversion of the accounting against dp-accounting, on random logs of events whose parameters are fixed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import dp_accounting
import numpy as np
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution as pld
from numpy.random import Generator

from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import epsilon_of_gdp, epsilon_of_zcdp
from dpcore.kernel.events import Event, Loss
from dpcore.kernel.gaussian_dp import gdp_of_pure
from dpcore.kernel.privacy_terms import bounded_range_cost
from dpcore.numerical_bound import epsilon_of_events
from tests.audit.section import Row, Size

TITLE = "Accounting against dp-accounting"
CLAIM = (
    "No conversion claims a smaller epsilon than dp-accounting finds for the same events: its Renyi bound (the same "
    "bound: within 0.1 %), its exact Gaussian (within 1e-6) and lower estimates of privacy-loss distributions. "
    "Deterministic given the logs; a selection is the middle or a random pair of its bounded range. Rejected when "
    "planted: the root halved, ten times the delta, half of a selection's cost, Gaussian DP's pi/2 left out."
)
LOGS = {Size.FAST: 12, Size.FULL: 200}  # Of each of five families.
ORDERS = tuple(1 + np.geomspace(1e-3, 1e5, 1000))
RENYI = "zCDP, Renyi accountant"
NUMERICAL = "numerical bound, privacy loss"
# Of a privacy-loss distribution, over one standard deviation or range of its events; the losses of coins are multiples.
_STEPS = 1000
_FEW_STEPS = 100


@dataclass(frozen=True)
class Claims:
    """The functions under audit."""

    epsilon_of_zcdp: Callable[[float, float], float] = epsilon_of_zcdp
    epsilon_of_gdp: Callable[[float, float], float] = epsilon_of_gdp
    bounded_range_cost: Callable[[Currency, Fraction], Fraction] = bounded_range_cost
    gdp_of_pure: Callable[[Fraction], Fraction] = gdp_of_pure
    epsilon_of_events: Callable[[Sequence[Event], float], float] = epsilon_of_events


@dataclass(frozen=True)
class Comparison:
    """One log: what we claim and what the reference finds, both epsilons at one delta."""

    claim: float
    reference: float


Family = Callable[[Generator, Claims], dict[str, Comparison]]


def run(size: Size, claims: Claims | None = None) -> list[Row]:
    """One row a family and reference."""
    rows = []
    for number, (name, (family, limits)) in enumerate(FAMILIES.items()):
        generator = np.random.default_rng(number)
        logs = [family(generator, claims or Claims()) for _ in range(LOGS[size])]
        for reference, limit in limits.items():
            rows.append(_row(name, reference, [log[reference] for log in logs], limit))
    return rows


def _row(name: str, reference: str, found: Sequence[Comparison], limit: float) -> Row:
    """Passed when no claim is below its reference, but for the reference's own rounding, and none is too far above."""
    telling = [one for one in found if one.reference > 1e-6]
    ratios = [one.claim / one.reference for one in telling]
    least, largest = float(min(ratios)), float(max(ratios))
    cells = {"events": name, "reference": reference, "logs": len(found), "telling": len(telling)}
    # The Renyi accountant knows a thousand orders, our minimum is over all: it may be a little below.
    rounding = 1e-4 if reference == RENYI else 1e-7
    passed = least >= 1 - rounding and largest <= limit and len(telling) >= len(found) // 4
    return Row(cells | {"least claim / reference": round(least, 9), "largest": round(largest, 9)}, passed)


def _gaussians(generator: Generator, claims: Claims) -> dict[str, Comparison]:
    """Gaussian measurements alone: zCDP is the Renyi accountant's bound, Gaussian DP is exact."""
    count, delta = int(generator.integers(1, 31)), _delta(generator, 1e-2)
    sigmas = np.exp(generator.uniform(-1, 4, count)) * math.sqrt(count)
    accountant = rdp.RdpAccountant(ORDERS)
    for sigma in sigmas:
        accountant.compose(dp_accounting.GaussianDpEvent(sigma))
    mu_squared = float((sigmas**-2.0).sum())
    exact = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(mu_squared), delta)
    zcdp = claims.epsilon_of_zcdp(mu_squared / 2, delta)
    return {
        RENYI: Comparison(zcdp, accountant.get_epsilon(delta)),
        "zCDP, exact Gaussian": Comparison(zcdp, exact),
        "Gaussian DP, exact Gaussian": Comparison(claims.epsilon_of_gdp(mu_squared, delta), exact),
    }


def _discrete_gaussians(generator: Generator, claims: Claims) -> dict[str, Comparison]:
    """Discrete Gaussian measurements of sensitivity 1, of one scale."""
    sigma, delta = math.exp(generator.uniform(-0.5, 2)), _delta(generator, 1e-2)
    count = int(generator.integers(1, 1 + max(1, int(sigma**2))))
    one = pld.from_discrete_gaussian_mechanism(
        sigma, pessimistic_estimate=False, value_discretization_interval=1 / sigma / _STEPS
    )
    claim = claims.epsilon_of_zcdp(count / (2 * sigma**2), delta)
    return {"zCDP, privacy loss": Comparison(claim, one.self_compose(count).get_epsilon_for_delta(delta))}


def _laplaces(generator: Generator, claims: Claims) -> dict[str, Comparison]:
    """Discrete Laplace measurements: pure, in zCDP and Gaussian DP by epsilon alone."""
    count = int(generator.choice([1, 2, 5, 20]))
    epsilon = math.exp(generator.uniform(-3, 1)) / math.sqrt(count)
    delta = _delta(generator, 0.1)
    one = pld.from_discrete_laplace_mechanism(
        epsilon, pessimistic_estimate=False, value_discretization_interval=epsilon / _STEPS
    )
    whole = one.self_compose(count)
    pure = Fraction(epsilon)
    truth = whole.get_epsilon_for_delta(delta)
    return {
        "pure, privacy loss at 1e-15": Comparison(float(count * pure), whole.get_epsilon_for_delta(1e-15)),
        "epsilon^2/2 in zCDP, privacy loss": Comparison(
            claims.epsilon_of_zcdp(float(count * pure**2 / 2), delta), truth
        ),
        "Gaussian DP, privacy loss": Comparison(
            claims.epsilon_of_gdp(float(count * claims.gdp_of_pure(pure)), delta), truth
        ),
        NUMERICAL: Comparison(claims.epsilon_of_events([Event(Loss.PURE, pure, count, count * pure)], delta), truth),
    }


def _selections(generator: Generator, claims: Claims) -> dict[str, Comparison]:
    """Selections of one bounded range, each the same extreme pair: the middle one, or one at random.

    Every third log is one selection, at a delta where Gaussian DP's cost of it has next to nothing to spare: just below
    the total variation distance tanh(width / 4) of the middle pair.
    """
    count = int(generator.choice([1, 2, 5, 20, 60]))
    width = math.exp(generator.uniform(-2, 1.5)) / math.sqrt(count)
    delta = _delta(generator, 0.3)
    part = 0.5 if generator.random() < 0.5 else float(generator.uniform(0.05, 0.95))
    if generator.random() < 1 / 3:
        count, part, delta = 1, 0.5, math.tanh(width / 4) * float(generator.uniform(0.8, 0.99))
    truth = _coins(width, part * width).self_compose(count).get_epsilon_for_delta(delta)
    return _in_both(claims, [(width, count)], 0.0, delta, truth)


def _mixtures(generator: Generator, claims: Claims) -> dict[str, Comparison]:
    """Selections and Gaussian measurements by turns, as adaptive mechanisms make them."""
    count, delta = int(generator.integers(1, 31)), _delta(generator, 0.1)
    mu = math.exp(generator.uniform(-1.5, 1.5))
    width = math.exp(generator.uniform(-2, 0.7)) / math.sqrt(count)
    gaussian = pld.from_gaussian_mechanism(
        1 / mu, pessimistic_estimate=False, value_discretization_interval=width / _FEW_STEPS, use_connect_dots=False
    )
    selections = _coins(width, width / 2, _FEW_STEPS).self_compose(count)
    truth = gaussian.compose(selections).get_epsilon_for_delta(delta)
    return _in_both(claims, [(width, count)], mu**2, delta, truth)


def _in_both(
    claims: Claims, ranges: Sequence[tuple[float, int]], mu_squared: float, delta: float, truth: float
) -> dict[str, Comparison]:
    """Selections and a Gaussian part as zCDP and as Gaussian DP against the same truth."""

    def cost(currency: Currency) -> float:
        return float(sum(count * claims.bounded_range_cost(currency, Fraction(width)) for width, count in ranges))

    zcdp = claims.epsilon_of_zcdp(cost(Currency.ZCDP) + mu_squared / 2, delta)
    gdp = claims.epsilon_of_gdp(cost(Currency.GDP) + mu_squared, delta)
    events = [Event(Loss.BOUNDED_RANGE, Fraction(width), count, Fraction(0)) for width, count in ranges]
    events.append(Event(Loss.GAUSSIAN, Fraction(mu_squared), 1, Fraction(0)))
    found = {"zCDP, privacy loss": zcdp, "Gaussian DP, privacy loss": gdp}
    found[NUMERICAL] = claims.epsilon_of_events(events, delta)
    return {reference: Comparison(claim, truth) for reference, claim in found.items()}


def _coins(width: float, t: float, steps: int = _STEPS) -> pld.PrivacyLossDistribution:
    """Privacy loss, rounded down, of coins with log-ratios t (heads) and t - width (tails)."""
    heads = math.expm1(t - width) / math.expm1(-width)
    other = heads * math.exp(-t)
    return pld.from_two_probability_mass_functions(
        {0: math.log(other), 1: math.log1p(-other)},
        {0: math.log(heads), 1: math.log1p(-heads)},
        pessimistic_estimate=False,
        value_discretization_interval=width / steps,
    )


def _delta(generator: Generator, largest: float) -> float:
    return float(np.exp(generator.uniform(math.log(1e-12), math.log(largest))))


_BOTH = ("zCDP, privacy loss", "Gaussian DP, privacy loss", NUMERICAL)
# Events, how a log is made and compared, and how far above each reference a claim may be.
FAMILIES: dict[str, tuple[Family, dict[str, float]]] = {
    "Gaussians": (
        _gaussians,
        {
            RENYI: 1.001,
            "zCDP, exact Gaussian": math.inf,
            "Gaussian DP, exact Gaussian": 1 + 1e-6,
        },
    ),
    "discrete Gaussians": (_discrete_gaussians, {"zCDP, privacy loss": math.inf}),
    "discrete Laplaces": (
        _laplaces,
        {
            "pure, privacy loss at 1e-15": math.inf,
            "epsilon^2/2 in zCDP, privacy loss": math.inf,
            "Gaussian DP, privacy loss": math.inf,
            NUMERICAL: math.inf,
        },
    ),
    "selections": (_selections, dict.fromkeys(_BOTH, math.inf)),
    "Gaussians and selections": (_mixtures, dict.fromkeys(_BOTH, math.inf)),
}
