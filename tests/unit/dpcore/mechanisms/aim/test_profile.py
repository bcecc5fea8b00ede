"""The constants of AIM's profiles, and what follows from them for shares and sizes."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest

from dpcore.kernel.budget import Budget
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.aim.profile import PROFILES, AimProfile
from dpcore.testing.doubles import private_statistics
from tests.support.aim_runs import DOMAIN, TABLE, WORKLOAD, aim_with, every_budget, run
from tests.support.recorded_randomness import recorded


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_constants_of_a_profile_leave_something_for_every_part(profile: AimProfile) -> None:
    assert 0 <= profile.batch_share < 1
    assert 0 < profile.errors_share < 1
    assert 0 < profile.select_share < 1
    assert 0 < profile.start_share <= profile.max_start_share < 1
    assert profile.start_share <= profile.workload_share < 1
    assert profile.growth > 1
    assert profile.patience > 0
    assert profile.min_relative_change > 0
    assert profile.start_error > 0
    assert profile.workload_error >= 0
    assert 0 <= profile.no_batch_error <= profile.rich_error
    assert 0 <= profile.rich_model_share <= profile.batch_share


@every_budget
def test_the_published_profile_spends_all_in_rounds_as_printed(budget: Budget) -> None:
    """One-way marginals once, for alpha / 16 of the budget; then rounds, each a tenth for its selection."""
    mechanism = Aim(profile="published")
    plan = mechanism.plan(private_statistics(TABLE, budget).terms, WORKLOAD)
    assert [step.label for step in plan.steps] == ["measure one-way marginals", "select", "measure"]
    assert plan.rounds == 16 * 5
    kernel, _ = run(mechanism, budget)
    assert float(sum(share for _, share in kernel.start)) == pytest.approx(0.9 / 16)
    assert not kernel.whole
    assert not kernel.again
    first = kernel.rounds[0]
    assert float(first.select / (first.select + first.measure)) == pytest.approx(0.1)
    shares = [asked.select + asked.measure for asked in kernel.rounds[:-1]]
    assert all(later == earlier or later >= 4 * earlier * Fraction(99, 100) for earlier, later in pairwise(shares))


def test_the_second_measurement_grows_with_the_square_of_the_error() -> None:
    """Noise falls with the root of the share, so half the error takes four times the share."""
    totals = []
    for start_error in (0.15, 0.125):
        with recorded("the same first measurement"):
            twice, _ = run(
                aim_with(batch_share=0, start_error=start_error, max_start_share=0.9, workload_error=1e-9),
                Budget.zcdp(Fraction(1, 1000)),
            )
        assert len(twice.start) == 10
        totals.append(float(sum(share for _, share in twice.start)))
    assert totals[1] / totals[0] == pytest.approx((0.15 / 0.125) ** 2, rel=1e-6)


def test_rounds_may_use_the_part_of_the_model_that_has_been_paid_for() -> None:
    """The first round may use a quarter of 40 cells, the last one all of them."""
    mechanism = aim_with(
        batch_share=0, start_error=1e9, workload_error=0.0, max_model_mb=8 * 40 / 2**20, rounds_per_attribute=1
    )
    kernel, _ = run(mechanism, Budget.zcdp(50))
    largest = [max(map(DOMAIN.size, asked.candidates.cliques)) for asked in kernel.rounds]
    assert largest[0] == 4, "single attributes alone, which are in the model already"
    assert largest[-1] > 8
    assert largest == sorted(largest)
