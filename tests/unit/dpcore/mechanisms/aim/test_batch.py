"""The batch of AIM: what it asks between one-way marginals and rounds, what it spends, and what is recorded of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpcore.errors import ScaleError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.error_round import ErrorRound
from dpcore.estimation.graphical.fitting.linear_measurements import measured_cliques
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.aim.aim import Aim
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import private_statistics
from dpcore.workload import Workload, all_k_way, explicit, linear
from tests.support.aim_runs import DOMAIN, GENERATOR, TABLE, UNITS, WORKLOAD, Recorder, aim_with, every_budget, run

POOR, MIDDLE, RICH = Budget.zcdp(Fraction(1, 5000)), Budget.zcdp(Fraction(1, 80)), Budget.zcdp(5)


def batch_with(mechanism: Aim | None = None, **constants: Any) -> Aim:
    """AIM that measures one-way marginals, then always a batch of the size that a budget gets which is not rich."""
    constants = {"start_error": 1e9, "workload_error": 0.0, "rich_error": 0.0, "no_batch_error": 0.0} | constants
    return aim_with(mechanism, **constants)


BATCH = batch_with()


def shares(kernel: Recorder, release_batch: tuple[int, int] | None) -> tuple[float, float, float]:
    """What was charged before the batch, for its errors, and for its measurements."""
    assert release_batch is not None
    before, batch = kernel.start[: release_batch[0]], kernel.start[slice(*release_batch)]
    errors = sum(one.share for one in kernel.errors)
    return float(sum(share for _, share in before)), float(errors), float(sum(share for _, share in batch))


@every_budget
def test_errors_of_pairs_and_of_triples_are_asked_once_before_the_batch(budget: Budget) -> None:
    kernel, release = run(BATCH, Budget(budget.currency, 100 * budget.amount))
    pairs, triples = kernel.errors
    for one, order in ((pairs, 2), (triples, 3)):
        assert sorted(one.candidates.cliques) == list(combinations("abcde", order))
    assert pairs.after == triples.after == 5
    labels = [charge.label for charge in kernel.charges]
    assert [place for place, label in enumerate(labels) if label.startswith("measure errors")] == [5, 6]
    asked = 0.1
    assert [float(one.share) for one in kernel.errors] == pytest.approx([asked / 2, asked / 2])
    assert shares(kernel, release.batch) == pytest.approx((0.06, asked, 0.94 * 0.6 - asked))


def test_errors_are_those_of_the_product_of_one_way_marginals() -> None:
    kernel, release = run(BATCH, Budget.zcdp(1000))
    assert len(kernel.errors) == 2
    alone = {clique: found.values for (clique, _), found in zip(kernel.start, release.measurements[:5], strict=False)}
    for one in kernel.errors:
        for clique, table in zip(one.candidates.cliques, one.candidates.split(one.estimate), strict=True):
            wanted = np.ones(1) * UNITS
            for name in clique:
                wanted = np.multiply.outer(wanted, np.maximum(alone[(name,)], 0) / UNITS)
            assert np.abs(table.ravel() - wanted.ravel()).sum() < 0.03 * UNITS


@pytest.mark.parametrize(("budget", "orders"), [(POOR, 0), (MIDDLE, 1), (RICH, 2)], ids=["poor", "middle", "rich"])
@pytest.mark.parametrize(("batch_share", "errors_share"), [(0.6, 0.06), (0.9, 0.9)])
def test_a_batch_spends_its_share_whether_errors_are_asked_or_not(
    budget: Budget, orders: int, batch_share: float, errors_share: float
) -> None:
    """An order whose errors would be noise is not asked; what it leaves goes into the batch's measurements.

    Half of the budget tells how many rows there are, which the limits are parts of.
    """
    mechanism = batch_with(
        start_share=0.5, max_start_share=0.5, batch_share=batch_share,
        errors_share=errors_share,
    )  # fmt: skip
    kernel, release = run(mechanism, budget)
    whole, part = 0.5 * batch_share, min(errors_share, 0.25 * batch_share) / 2
    limits = (0.3 * UNITS, 0.05 * UNITS)
    assert len(kernel.errors) == orders
    for one, limit in zip(kernel.errors, limits, strict=False):
        assert kernel.terms.errors_scale(one.candidates, one.share) <= 1.2 * limit
        assert float(one.share) == pytest.approx(part)
    assert shares(kernel, release.batch) == pytest.approx((0.5, orders * part, whole - orders * part))


def test_errors_with_more_noise_than_can_be_drawn_are_not_asked() -> None:
    """They are drawn in steps of 1/256 counts, so that a poor budget that still buys one-way marginals does not buy
    them; without this the release would end after its first charges.
    """
    kernel, release = run(BATCH, Budget.pure(Fraction(1, 10**9)))
    with pytest.raises(ScaleError, match="want 2"):
        kernel.terms.errors_scale(WORKLOAD.queries, Fraction(1, 20))
    assert kernel.errors == []
    assert release.batch == (5, len(kernel.start))
    assert np.isfinite(release.answers.values).all()


@every_budget
def test_without_a_batch_no_errors_are_asked(budget: Budget) -> None:
    kernel, release = run(batch_with(batch_share=0), budget)
    assert kernel.errors == []
    assert not any("errors" in charge.label for charge in kernel.charges)
    assert len(kernel.start) == 5
    assert not any(isinstance(one, ErrorRound) for one in release.rounds)
    assert len(release.rounds) == len(kernel.rounds)


@every_budget
@pytest.mark.parametrize("start_error", [1e9, 0.01], ids=["once", "twice"])
def test_the_places_of_the_batch_are_those_of_its_measurements(budget: Budget, start_error: float) -> None:
    """Also where one-way marginals were measured twice: those may look at noise in between."""
    kernel, release = run(batch_with(start_error=start_error, workload_error=0.0), budget)
    before = 5 if start_error > 1 else 10
    assert {one.after for one in kernel.errors} == {before}
    assert release.batch == (before, len(kernel.start))
    cliques = [found.queries.cliques for found in release.measurements[slice(*release.batch)]]  # type: ignore[union-attr]
    assert [(clique,) for clique, _ in kernel.start[before:]] == cliques
    assert all(len(clique) == 1 for clique, _ in kernel.start[:before])
    assert len(set(cliques)) == len(cliques) > 1


def test_the_places_of_the_batch_do_not_depend_on_errors_being_asked() -> None:
    kernel, release = run(Aim(), POOR)
    assert kernel.errors == []
    assert release.batch == (10, len(kernel.start))
    assert {len(clique) for clique, _ in kernel.start} == {1}


def test_errors_are_recorded_with_the_model_that_they_are_of() -> None:
    kernel, release = run(BATCH, RICH)
    told = release.rounds[:2]
    for one, asked in zip(told, kernel.errors, strict=True):
        assert isinstance(one, ErrorRound)
        assert one.errors is asked.found
        np.testing.assert_allclose(one.before.answer(asked.candidates), asked.estimate, atol=1e-6)
    assert len(release.rounds) == 2 + len(kernel.rounds)
    assert release.horizon == 16 * 5 + 3  # Rounds, the last crumb, and two orders of errors.


@every_budget
def test_a_round_after_the_batch_gets_what_a_marginal_of_it_got(budget: Budget) -> None:
    kernel, _ = run(batch_with(min_relative_change=1e-300), budget)
    assert kernel.errors
    batch = [share for _, share in kernel.start[5:]]
    left = 0.94 * 0.4
    if 2 * sum(batch) / len(batch) < left:
        wanted = float(sum(batch)) / len(batch)
        found = [float(one.select + one.measure) for one in kernel.rounds[:-1]]
        assert found == pytest.approx([wanted] * len(found))
        assert float(kernel.rounds[0].select) == pytest.approx(0.2 * wanted)
    assert float(sum(one.select + one.measure for one in kernel.rounds)) == pytest.approx(left)


def test_few_rounds_are_as_large_as_the_budget_wants_them() -> None:
    """Three of them and many marginals in the batch: a share of one of those each would leave some of the budget."""
    mechanism = batch_with(batch_share=0.3, rounds_per_attribute=1, min_relative_change=1e-300)
    kernel, _ = run(mechanism, RICH)
    wanted = 0.94 * 0.7 / 5
    assert float(sum(share for _, share in kernel.start[5:])) / len(kernel.start[5:]) < wanted
    assert float(kernel.rounds[0].select + kernel.rounds[0].measure) == pytest.approx(wanted)
    assert kernel.remaining_share < Fraction(1, 2**60)


@pytest.mark.parametrize("cells", [1, 20, 60, 150])
def test_the_batch_keeps_to_its_part_of_the_largest_model(cells: int) -> None:
    mechanism = batch_with(batch_share=0.5, max_model_mb=8 * cells / 2**20)
    kernel, _ = run(mechanism, RICH)
    domain, domain_cells = DOMAIN.project("abcde"), 14
    chosen = [clique for clique, _ in kernel.start[5:]]
    assert JunctionTree.of(domain, chosen).cells <= max(domain_cells, cells / 2)
    assert (max(map(len, chosen)) > 1) == (cells / 2 > domain_cells)


@pytest.mark.parametrize("cells", [40, 60, 80, 100, 150])
def test_rounds_after_a_batch_leave_a_quarter_of_the_largest_model(cells: int) -> None:
    mechanism = batch_with(batch_share=0.3, min_relative_change=1e-9, max_model_mb=8 * cells / 2**20)
    kernel, release = run(mechanism, Budget.zcdp(50))
    assert kernel.rounds
    assert isinstance(release.model, GraphicalModel)
    assert release.model.tree.cells <= 0.75 * cells


def test_a_rich_batch_measures_what_depends() -> None:
    kernel, _ = run(BATCH, RICH)
    chosen = [set(clique) for clique, _ in kernel.start[5:]]
    for pair in ("ab", "bc", "cd", "de"):
        assert any(set(pair) <= clique for clique in chosen)


def test_single_attributes_have_a_batch_without_errors() -> None:
    kernel, release = run(BATCH, RICH, workload=explicit(DOMAIN, {("b",): 1.0, ("d",): 1.0}))
    assert kernel.errors == []
    assert release.batch == (2, 4)
    assert shares(kernel, release.batch) == pytest.approx((0.06, 0.0, 0.94 * 0.6))


def test_a_cheap_workload_is_measured_in_place_of_a_batch() -> None:
    workload = explicit(DOMAIN, {("a", "b"): 1.0, ("b", "c"): 1.0})
    kernel, release = run(aim_with(workload_error=0.1), Budget.zcdp(1000), workload=workload)
    assert kernel.errors == []
    assert len(kernel.start) == 3
    assert len(kernel.whole) == 1
    assert release.batch == (3, 4)


def ranges_of_pairs() -> Workload:
    return linear(range_marginals(DOMAIN, [("a", "b"), ("b", "c")], {"b": prefix(4)}))


def test_workloads_of_products_have_no_batch() -> None:
    ranges = ranges_of_pairs()
    private = private_statistics(TABLE, RICH)
    aim_with(products_error=0.0).run(private, ranges, generator=GENERATOR)
    assert not any("errors" in charge.label for charge in private.charges)
    kinds = [charge.label.split()[0] for charge in private.charges]
    assert kinds[:3] == ["measure"] * 3
    assert kinds[3:5] == ["select", "measure"]
    assert kinds[3:] == ["select", "measure"] * (len(kinds[3:]) // 2)
    for found in (BATCH, batch_with(batch_share=0)):
        steps = found.plan(private.terms, ranges).steps
        assert [step.label.split()[0] for step in steps] == ["measure", "measure", "select", "measure"]
        assert not any("chosen" in step.label for step in steps)
        assert sum(step.share for step in steps) == pytest.approx(1)


def test_a_cheap_workload_of_products_is_measured_with_all_that_is_left() -> None:
    private = private_statistics(TABLE, RICH)
    release = BATCH.run(private, ranges_of_pairs(), generator=GENERATOR)
    assert [charge.label.split()[0] for charge in private.charges] == ["measure"] * 5
    assert private.remaining_share == pytest.approx(0, abs=1e-9)
    assert [measured_cliques(one) for one in release.measurements[3:]] == [(("a", "b"),), (("b", "c"),)]


def test_products_that_the_model_cannot_hold_are_selected_in_rounds() -> None:
    private = private_statistics(TABLE, RICH)
    replace(BATCH, max_model_mb=10 * 8 / 2**20).run(private, ranges_of_pairs(), generator=GENERATOR)
    assert private.charges[3].label.split()[0] == "select"


@every_budget
@pytest.mark.parametrize("batch_share", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_steps_of_a_plan_sum_to_the_budget(budget: Budget, batch_share: float, order: int) -> None:
    mechanism = aim_with(
        batch_share=batch_share, select_share=0.25, errors_share=0.15, rich_error=0.0, no_batch_error=0.0
    )
    plan = mechanism.plan(private_statistics(TABLE, budget).terms, all_k_way(DOMAIN, order, "abcde"))
    assert sum(step.share for step in plan.steps) == pytest.approx(1)
    assert all(step.share > 0 for step in plan.steps)
    batch = {step.label: step for step in plan.steps[1:-2]}
    if not batch_share:
        assert batch == {}
        return
    assert [step.stddev is None for step in plan.steps] == [False, True, True, True, True]
    errors, measured = batch.values()
    assert (errors.label, errors.calls) == ("measure errors of pairs and triples", order - 1)
    assert errors.share + measured.share == pytest.approx(0.94 * batch_share)
    assert errors.share == pytest.approx(min(0.15, 0.94 * batch_share / 2))


def test_a_plan_is_what_a_run_with_all_errors_spends() -> None:
    plan = BATCH.plan(private_statistics(TABLE, RICH).terms, WORKLOAD)
    kernel, release = run(BATCH, RICH)
    assert shares(kernel, release.batch) == pytest.approx([step.share for step in plan.steps[:3]])
    rounds = float(sum(one.select + one.measure for one in kernel.rounds))
    again = float(sum(share for _, share in kernel.again))
    assert rounds > 0
    assert sum(step.share for step in plan.steps[3:]) == pytest.approx(rounds + again)
    assert plan.rounds >= len(kernel.rounds)


@pytest.mark.smoke(1)
@every_budget
@pytest.mark.parametrize("min_relative_change", [0.5, 2.0])
def test_rounds_end_with_the_first_that_teaches_little(budget: Budget, min_relative_change: float) -> None:
    """How far a measured marginal moved follows from what the model answers in the next round.

    A run may use up its budget first, two of five at worst: one of six has to end so, out of as many as make that sure.
    """
    mechanism = batch_with(min_relative_change=min_relative_change)
    ended = followed = 0
    for _ in range(18):
        kernel, _ = run(mechanism, Budget(budget.currency, 20 * budget.amount))
        for one, then in zip(kernel.rounds, kernel.rounds[1:], strict=False):
            moved = np.abs(one.answers(one.clique) - then.answers(one.clique)).sum()
            assert moved > min_relative_change * one.score.penalties[one.chosen]
            followed += 1
        ended += bool(kernel.again)
        assert kernel.remaining_share < Fraction(1, 2**60)
    assert ended >= 3
    assert followed > 0 or min_relative_change > 1


@every_budget
def test_what_rounds_leave_measures_the_batch_again_in_its_proportions(budget: Budget) -> None:
    kernel, release = run(batch_with(min_relative_change=1e300), budget)
    assert len(kernel.rounds) == (1 if kernel.errors else 0)
    batch, again = kernel.start[5:], kernel.again
    assert [clique for clique, _ in again] == [clique for clique, _ in batch]
    whole = sum(share for _, share in batch)
    left = 1 - sum(share for _, share in kernel.start) - sum(one.share for one in kernel.errors)
    left -= sum((one.select + one.measure for one in kernel.rounds), Fraction(0))
    wanted = [float(share / whole * left) for _, share in batch]
    assert [float(share) for _, share in again] == pytest.approx(wanted, rel=1e-9)
    assert len(release.measurements) == len(kernel.start) + len(kernel.rounds) + len(again)


def test_where_errors_would_be_noise_there_are_no_rounds() -> None:
    kernel, _ = run(BATCH, POOR)
    assert kernel.errors == kernel.rounds == []
    assert [clique for clique, _ in kernel.again] == [clique for clique, _ in kernel.start[5:]]
    assert kernel.remaining_share < Fraction(1, 2**60)


def test_the_batch_is_chosen_for_all_that_it_may_get() -> None:
    """The same cliques, whatever part of it is kept for rounds; the model of noisy errors is hardly noisy here."""
    chosen = []
    for batch_share in (0.5, 0.95):
        mechanism = batch_with(batch_share=batch_share, max_model_mb=1e3)
        kernel, _ = run(mechanism, Budget.zcdp(10**6))
        chosen.append(sorted(clique for clique, _ in kernel.start[5:]))
    assert chosen[0] == chosen[1]


def test_a_budget_rich_for_the_rows_makes_a_batch_that_leaves_the_model_to_rounds() -> None:
    cells, sizes = 40, {}
    for rich_error in (0.0, 1e9):
        mechanism = batch_with(rich_error=rich_error, rich_model_share=0.4, max_model_mb=8 * cells / 2**20)
        kernel, _ = run(mechanism, Budget.zcdp(50))
        batch = [clique for clique, _ in kernel.start[5:]]
        sizes[rich_error] = JunctionTree.of(DOMAIN.project("abcde"), batch).cells
    assert sizes[1e9] <= 0.4 * cells < sizes[0.0] <= 0.6 * cells


@every_budget
def test_without_noise_to_speak_of_there_is_no_batch_and_two_rounds_per_attribute(budget: Budget) -> None:
    kernel, release = run(batch_with(no_batch_error=1e9, patience=1e-300), budget)
    assert kernel.errors == []
    assert [clique for clique, _ in kernel.start] == [(name,) for name in "abcde"]
    assert release.batch == (0, 5)
    shares = [float(one.select + one.measure) for one in kernel.rounds]
    assert len(shares) == 2 * 5
    assert shares == pytest.approx([0.94 / 10] * 10)
    assert kernel.remaining_share < Fraction(1, 2**60)


def test_without_a_batch_every_round_may_use_the_whole_model_if_the_noise_is_small() -> None:
    cells = 60
    kernel, release = run(batch_with(no_batch_error=1e9, max_model_mb=8 * cells / 2**20), RICH)
    domain, one_way = DOMAIN.project("abcde"), [(name,) for name in "abcde"]
    allowed = kernel.rounds[0].candidates.cliques
    assert 0.5 * cells < max(JunctionTree.of(domain, [*one_way, clique]).cells for clique in allowed)
    assert isinstance(release.model, GraphicalModel)
    assert release.model.tree.cells <= cells


def test_whether_a_budget_is_rich_depends_on_the_noise_of_a_round() -> None:
    """The expected error of a marginal that one of 2 d rounds measures: above it for a small budget, below for a large
    one.
    """
    mechanism = batch_with(no_batch_error=0.02)
    for budget, has_batch in ((MIDDLE, True), (Budget.zcdp(1000), False)):
        kernel, _ = run(mechanism, budget)
        assert (len(kernel.start) > 5) == has_batch
