"""The end-to-end audit at a small size, and that it finds a loss that is larger than claimed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import beta

from dpcore.kernel import privacy_terms as terms
from dpcore.kernel import scales, weighted_sampler
from dpcore.kernel.budget import Currency
from dpcore.kernel.weighted_sampler import SlotScores
from dpcore.mechanisms.additive_noise import Gaussian, Laplace
from dpcore.testing.doubles import ADD_REMOVE
from tests.audit.end_to_end import DELTA, EPSILONS, FAMILY_ERROR, Case, audit, cases, claim_of, run
from tests.audit.lower_bounds import Loss, choose_event, epsilon_loss, largest_chance, least_chance, mu_loss, rho_loss
from tests.audit.mechanism_table import EVERY, STAGES, TABLES, VERBS, Audited
from tests.audit.section import Size
from tests.audit.worst_cases import Copies, Retaining, Sampling, Selecting, Trial, one_marginal

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.

ERROR = 1e-6


@pytest.mark.false_alarm(FAMILY_ERROR[Size.FAST])
def test_every_line_of_the_fast_audit_passes() -> None:
    rows = run(Size.FAST)
    assert [row.cells for row in rows if not row.passed] == []
    assert len({tuple(row.cells) for row in rows}) == 1


def test_every_mechanism_and_verb_is_audited_under_all_it_has_a_proof_for() -> None:
    for size in Size:
        found = {(case.name, case.claim.budget.currency, case.claim.epsilon, case.claim.neighbours)
                 for case in cases(size)}  # fmt: skip
        pairs = sum(len(row.currencies) for row in (*TABLES, *VERBS, *STAGES))
        assert len(found) == pairs * len(EPSILONS[size]) * 2
    assert EPSILONS[Size.FULL] == (0.1, 1.0, 4.0)


def test_what_the_issue_asks_to_come_near_is_held_to_it_at_full_size() -> None:
    wanted = {(case.name, case.claim.budget.currency, case.audited.wanted, case.claim.epsilon)
              for case in cases(Size.FULL) if case.audited.wanted}  # fmt: skip
    for epsilon in EPSILONS[Size.FULL]:
        assert {("laplace", Currency.PURE, 0.8, epsilon), ("select", Currency.PURE, 0.8, epsilon)} <= wanted
        assert {("gaussian", currency, 0.9, epsilon) for currency in EVERY if currency is not Currency.PURE} <= wanted
    assert min(case.audited.full for case in cases(Size.FULL) if case.audited.wanted) >= 50_000  # On each neighbour.


def audited(currency: Currency, make: Callable[[Any], Trial], runs: int, *, epsilon: float = 1.0) -> bool:
    claim = claim_of(currency, epsilon, ADD_REMOVE)
    in_mu = currency is not Currency.PURE
    return audit(Case("planted", claim, Audited(make(claim), runs, runs, in_mu=in_mu)), Size.FAST, ERROR).passed


def scaled(function: Callable[..., float], factor: float) -> Callable[..., float]:
    return lambda *given: function(*given) * factor


def steeper(scores: SlotScores, factor: float) -> SlotScores:
    return replace(scores, slope=factor * scores.slope)


HALF_THE_NOISE = (terms, "noise_scale", scaled(scales.noise_scale, 0.5))
DRAW, SPLIT = weighted_sampler.draw, weighted_sampler.split_weights
PLANTED: list[tuple[str, tuple[Any, str, Any], Currency, Callable[[Any], Trial], int]] = [
    ("half the Laplace noise", HALF_THE_NOISE, Currency.PURE, lambda claim: Copies(Laplace(), claim), 20_000),
    ("half the discrete Gaussian", HALF_THE_NOISE, Currency.ZCDP, lambda claim: Copies(Gaussian(), claim), 20_000),
    ("half the rounded Gaussian", HALF_THE_NOISE, Currency.GDP, lambda claim: Copies(Gaussian(), claim), 20_000),
    ("half the noise of whole runs", HALF_THE_NOISE, Currency.PURE, lambda c: one_marginal(Laplace(), c), 3_000),
    ("selections twice too sharp", (terms, "selection_scale", scaled(scales.selection_scale, 0.5)), Currency.PURE,
     Selecting, 1_000),
    ("slope twice too steep",
     (weighted_sampler, "draw", lambda scores, *given: DRAW(steeper(scores, 2), *given)), Currency.GDP,
     lambda claim: Sampling(claim, -2.0), 20_000),
    ("chances of bits half as steep again",
     (weighted_sampler, "split_weights", lambda scores, *given: SPLIT(steeper(scores, 1.5), *given)), Currency.PURE,
     Retaining, 20_000),
]  # fmt: skip


@pytest.mark.false_alarm(ERROR + 1e-9)
@pytest.mark.smoke(2)
@pytest.mark.parametrize(
    ("place", "currency", "make", "runs"), [row[1:] for row in PLANTED], ids=[row[0] for row in PLANTED]
)
def test_a_loss_above_the_claim_is_found(
    place: tuple[Any, str, Any],
    currency: Currency,
    make: Callable[[Any], Trial],
    runs: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert audited(currency, make, runs)
    monkeypatch.setattr(*place)
    assert not audited(currency, make, runs)


@pytest.mark.parametrize(("hits", "runs"), [(0, 50), (3, 1000), (500, 1000), (1000, 1000)])
def test_chances_are_bounded_as_by_clopper_and_pearson(hits: int, runs: int) -> None:
    low = beta.ppf(1e-3, hits, runs - hits + 1) if hits else 0.0
    high = beta.isf(1e-3, hits + 1, runs - hits) if hits < runs else 1.0
    assert math.isclose(least_chance(hits, runs, 1e-3), low, rel_tol=1e-9, abs_tol=1e-12)
    assert math.isclose(largest_chance(hits, runs, 1e-3), high, rel_tol=1e-9)


def test_losses_of_two_coins_are_those_of_the_definitions() -> None:
    assert math.isclose(epsilon_loss(0.5, 0.5 * math.exp(-1.5)), 1.5)
    assert math.isclose(mu_loss(float(ndtr(0.3)), float(ndtr(-0.5))), 0.8, rel_tol=1e-12)
    # Coins around 1/2 of bounded range 0.2: rho is 0.2^2 / 8 to leading order.
    assert math.isclose(rho_loss(1 / (1 + math.exp(-0.1)), 1 / (1 + math.exp(0.1))), 0.005, rel_tol=0.01)
    for loss in (epsilon_loss, mu_loss, rho_loss):
        assert loss(0.3, 0.3) == loss(0.2, 0.3) == 0.0


@pytest.mark.parametrize(
    ("loss", "true", "near"), [(epsilon_loss, 0.0, 0.0), (mu_loss, 1.0, 0.9), (rho_loss, 0.5, 0.5)]
)
def test_a_bound_of_known_laws_is_below_the_truth_and_near_it(loss: Loss, true: float, near: float) -> None:
    """N(0, 1) and N(1, 1) for mu and rho, of which an event shows 0.64; the same law twice for epsilon."""
    draws = np.random.default_rng(4)
    first, neighbour = draws.normal(size=60_000), draws.normal(size=60_000) + (1.0 if true else 0.0)
    event = choose_event(loss, first[:10_000], neighbour[:10_000], 50_000, 1e-6)
    bound = loss(*event.chances(first[10_000:], neighbour[10_000:], 1e-6))
    assert near * true <= bound <= true


def test_claims_are_those_of_epsilon_and_delta() -> None:
    assert claim_of(Currency.PURE, 0.1, ADD_REMOVE).delta == 0
    assert claim_of(Currency.GDP, 4.0, ADD_REMOVE).delta == DELTA
    assert FAMILY_ERROR[Size.FAST] <= 1e-5
    assert FAMILY_ERROR[Size.FULL] <= 1e-3
