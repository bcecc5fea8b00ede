"""What noisy errors prove about a model: drawn and measured by every law, exact cases, and wrong bounds refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.bounds import bounds
from dpcore.estimation.graphical.confidence.error_round import ErrorRound
from dpcore.estimation.graphical.confidence.noise_tails import signed_gaussians, signed_laplaces
from dpcore.kernel.budget import Budget
from dpcore.measurement import ERROR_STEPS, Noise, NoisyErrors
from dpcore.queries import Marginals
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.drawn_noise import drawn, measured, one_table

DOMAIN = Domain.of({"a": 6, "b": 5, "c": 4})
CLIQUES: tuple[Clique, ...] = (("a", "b"), ("b", "c"), ("a", "c"), ("c",))
CANDIDATES = Marginals(DOMAIN, CLIQUES)
HALF_STEP = 0.5 / ERROR_STEPS
TAIL = 0.1
DRAWS = 4000
every_law = pytest.mark.parametrize("noise", list(Noise))


def marginals_of(joint: NDArray[np.float64], queries: Marginals = CANDIDATES) -> NDArray[np.float64]:
    parts = [
        joint.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)).ravel()
        for clique in queries.cliques
    ]
    return np.concatenate(parts)


def distances(exact: NDArray[np.float64], estimate: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.add.reduceat(np.abs(exact - estimate), np.cumsum([0, *CANDIDATES.sizes[:-1]]))


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.rint(values * ERROR_STEPS) / ERROR_STEPS


def tables(seed: int) -> tuple[NDArray[np.float64], GraphicalModel]:
    """Exact counts of all cells, and a model that is off, with cells that are no multiples of a step."""
    generator = np.random.default_rng(seed)
    exact = generator.integers(0, 30, DOMAIN.sizes).astype(np.float64)
    return exact, one_table(DOMAIN, exact + 20 * generator.random(DOMAIN.sizes))


def asked(
    joint: NDArray[np.float64],
    before: GraphicalModel,
    noise: Noise,
    scale: float,
    generator: np.random.Generator,
    draws: int = 1,
) -> list[ErrorRound]:
    """Errors as the kernel makes them: cells of the model rounded to steps, noise in steps."""
    steps = drawn(noise, scale * ERROR_STEPS, (draws, len(CLIQUES)), generator)
    exact = distances(marginals_of(joint), rounded(before.answer(CANDIDATES)))
    return [ErrorRound(before, NoisyErrors(CANDIDATES, exact + one / ERROR_STEPS, noise, scale)) for one in steps]


@every_law
@pytest.mark.parametrize("scale", [0.004, 0.5, 30.0])
@pytest.mark.parametrize("tail", [0.1, 0.5])
def test_all_errors_are_within_their_bounds_as_often_as_asked(noise: Noise, scale: float, tail: float) -> None:
    joint, before = tables(1)
    truth, draws = distances(marginals_of(joint), before.answer(CANDIDATES)), DRAWS // 4
    rounds = asked(joint, before, noise, scale, np.random.default_rng(2), draws)
    missed = sum(bool((one.errors_before(tail) < truth).any()) for one in rounds)
    assert missed <= draws * (tail + 4 * math.sqrt(tail / draws))


@every_law
def test_a_third_of_the_noise_stated_would_miss_too_often(noise: Noise) -> None:
    """What the simulation above refuses."""
    joint, before = tables(1)
    truth = distances(marginals_of(joint), before.answer(CANDIDATES))
    rounds = asked(joint, before, noise, 30.0, np.random.default_rng(3), DRAWS)
    quiet = [ErrorRound(before, replace(one.errors, scale=10.0)) for one in rounds]
    right, wrong = (np.mean([(one.errors_before(TAIL) < truth).any() for one in tried]) for tried in (rounds, quiet))
    assert right <= TAIL + 4 * math.sqrt(TAIL / DRAWS) < wrong


@every_law
def test_bounds_are_the_noisy_errors_with_the_tail_of_one_noise_and_half_a_step_a_cell(noise: Noise) -> None:
    _, before = tables(1)
    values, scale = np.array([40.0, 0.25, -3.0, -1e6]), 2.5
    found = ErrorRound(before, NoisyErrors(CANDIDATES, values, noise, scale)).errors_before(TAIL)
    if noise is Noise.LAPLACE:
        reach = signed_laplaces(1, scale * ERROR_STEPS, TAIL / 4) / ERROR_STEPS
        exact = scale * math.log(4 / (2 * TAIL))
    else:
        reach = scale * signed_gaussians(1, TAIL / 4)
        assert reach == pytest.approx(scale * math.sqrt(2 * math.log(4 / TAIL)))
        exact = scale * 1.959964  # Of two and a half percent.
    wanted = values + reach + (np.array(CANDIDATES.sizes) + 1) * HALF_STEP
    np.testing.assert_allclose(found[:3], wanted[:3], rtol=1e-12)
    assert found[3] == 0.0
    assert exact < reach < 2 * exact


@every_law
def test_a_single_candidate_has_the_whole_tail(noise: Noise) -> None:
    _, before = tables(1)
    alone = CANDIDATES.only([("c",)])
    one = ErrorRound(before, NoisyErrors(alone, np.array([9.0]), noise, 2.5))
    four = ErrorRound(before, NoisyErrors(CANDIDATES, np.full(4, 9.0), noise, 2.5))
    assert one.errors_before(TAIL)[0] == pytest.approx(four.errors_before(4 * TAIL)[3])
    assert (four.errors_before(0.01) > four.errors_before(0.1)).all()
    assert one.candidates is alone


def test_rounding_the_model_needs_half_a_step_a_cell() -> None:
    """Cells just below half a step above a whole number of steps: the kernel sees all of them lower."""
    joint = np.zeros(DOMAIN.sizes)
    before = one_table(DOMAIN, np.full(DOMAIN.sizes, 0.49 / ERROR_STEPS))
    whole = Marginals(DOMAIN, (DOMAIN.names,))
    seen = np.abs(rounded(before.answer(whole))).sum()
    truth = np.abs(before.answer(whole) - marginals_of(joint, whole)).sum()
    assert seen == 0.0
    quiet = ErrorRound(before, NoisyErrors(whole, np.array([seen]), Noise.ROUNDED_GAUSSIAN, 1e-9))
    assert truth <= quiet.errors_before(TAIL)[0] <= 1.05 * truth


@pytest.mark.parametrize("budget", [Budget.pure(4), Budget.zcdp(1), Budget.gdp(1)], ids=lambda one: one.currency.name)
@pytest.mark.parametrize("share", [Fraction(1, 500), Fraction(1)])
def test_what_the_kernel_answers_keeps_its_bounds(budget: Budget, share: Fraction) -> None:
    codes = np.random.default_rng(1).integers(0, (3, 3, 4), (60, 3))
    before = one_table(DOMAIN, np.random.default_rng(2).random(DOMAIN.sizes))  # About as many rows.
    exact = np.zeros(DOMAIN.sizes)
    np.add.at(exact, tuple(codes.T), 1.0)
    truth = distances(marginals_of(exact), before.answer(CANDIDATES))
    tail, missed, close, draws = 0.2, 0, 0, 150
    for _ in range(draws):
        private = private_statistics(TinyTable(DOMAIN, codes), budget)
        one = ErrorRound(before, private.measure_errors(CANDIDATES, before.answer(CANDIDATES), share))
        found = one.errors_before(tail)
        missed += bool((found < truth).any())
        close += bool((found <= truth + 12 * one.errors.stddev + 1).all())
    assert missed <= draws * (tail + 4 * math.sqrt(tail / draws))
    assert close > 0.9 * draws


def test_bounds_of_a_marginal_that_nothing_supports_rest_on_the_errors() -> None:
    joint, before = tables(1)
    generator, last = np.random.default_rng(4), Marginals(DOMAIN, (("c",),))
    (one,) = asked(joint, before, Noise.GAUSSIAN, 2.0, generator)
    rows = measured(last, marginals_of(joint, last), Noise.GAUSSIAN, 1.0, generator)
    after = one_table(DOMAIN, joint + 1.0)
    found = {bound.clique: bound for bound in bounds(after, [rows], [one], [*CLIQUES, ("a",), DOMAIN.names], horizon=1)}
    errors = one.errors_before(0.025)
    for place, clique in enumerate(CLIQUES[:3]):
        queries = CANDIDATES.only([clique])
        moved = np.abs(after.answer(queries) - before.answer(queries)).sum()
        assert (found[clique].supported, found[clique].round) == (False, 0)
        assert found[clique].l1 == pytest.approx(errors[place] + moved)
    part = Marginals(DOMAIN, (("a",),))  # Of two candidates: the better one counts.
    moved = np.abs(after.answer(part) - before.answer(part)).sum()
    assert found[("a",)].l1 == pytest.approx(min(errors[0], errors[2]) + moved)
    assert found[("c",)].supported
    assert found[DOMAIN.names].round is None


@every_law
def test_bounds_that_rest_on_errors_hold_as_often_as_asked(noise: Noise) -> None:
    """The model follows the noisy errors: which of two later ones is released depends on them."""
    joint, before = tables(1)
    models = [one_table(DOMAIN, joint + add) for add in (0.5, 3.0)]
    draws, missed, used = 150, np.zeros(3), 0
    for one in asked(joint, before, noise, 20.0, np.random.default_rng(6), draws):
        model = models[int(one.errors.values[0] > one.errors.values[1])]
        found = bounds(model, [], [one], CLIQUES[:3], 1 - 2 * TAIL, horizon=1, rows=int(joint.sum()))
        truth = distances(marginals_of(joint), model.answer(CANDIDATES))[:3]
        missed += truth > np.array([bound.l1 for bound in found])
        used += sum(bound.round == 0 for bound in found)
    assert (missed <= draws * (TAIL + 4 * math.sqrt(TAIL / draws))).all()
    assert used == 3 * draws
