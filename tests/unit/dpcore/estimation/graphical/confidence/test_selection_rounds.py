"""What a selection says about its candidates: simulated rounds of every currency, and a wrong bound they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.selection_rounds import SelectionRound
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from tests.support.drawn_noise import measured, one_table

DOMAIN = Domain.of({"a": 6, "b": 5, "c": 4})
CLIQUES: tuple[Clique, ...] = (("a", "b"), ("b", "c"), ("a", "c"), ("c",))
CANDIDATES = Marginals(DOMAIN, CLIQUES)
TAIL = 0.1
DRAWS = 1200
ALLOWED = TAIL + 4 * math.sqrt(TAIL / DRAWS)


def tables(seed: int) -> tuple[NDArray[np.float64], GraphicalModel]:
    """Exact counts of all cells, and a model that is off by a lot."""
    generator = np.random.default_rng(seed)
    exact = generator.integers(0, 30, DOMAIN.sizes).astype(np.float64)
    return exact, one_table(DOMAIN, exact + generator.integers(0, 60, DOMAIN.sizes))


def marginals_of(joint: NDArray[np.float64], queries: Marginals) -> NDArray[np.float64]:
    parts = [
        joint.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)).ravel()
        for clique in queries.cliques
    ]
    return np.concatenate(parts)


def errors(joint: NDArray[np.float64], model: GraphicalModel) -> NDArray[np.float64]:
    distances = np.abs(marginals_of(joint, CANDIDATES) - model.answer(CANDIDATES))
    return np.add.reduceat(distances, np.cumsum([0, *CANDIDATES.sizes[:-1]]))


def played(
    joint: NDArray[np.float64],
    before: GraphicalModel,
    weights: NDArray[np.float64],
    noise: Noise,
    scales: tuple[float, float],
    generator: np.random.Generator,
    penalties: NDArray[np.float64] | None = None,
) -> SelectionRound:
    """A round with scales of the selection and of the measurement; exponential noise under pure DP."""
    select_scale, scale = scales
    if penalties is None:
        penalties = 0.8 * scale * np.array(CANDIDATES.sizes)
    scores = weights * (errors(joint, before) - penalties)
    flips = generator.exponential(size=4) if noise is Noise.LAPLACE else generator.gumbel(size=4)
    chosen = int(np.argmax(scores + select_scale * flips))
    only = CANDIDATES.only([CLIQUES[chosen]])
    measurement = measured(only, marginals_of(joint, only), noise, scale, generator)
    return SelectionRound(CANDIDATES, chosen, weights, penalties, before, select_scale, measurement)


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("scales", [(2000.0, 3.0), (10.0, 40.0), (10.0, 1.0)])
def test_all_candidates_are_within_their_bounds_as_often_as_asked(noise: Noise, scales: tuple[float, float]) -> None:
    joint, before = tables(1)
    truth, generator, missed = errors(joint, before), np.random.default_rng(2), 0
    weights = np.array([3.0, 1.0, 2.0, 5.0])
    for _ in range(DRAWS // 2):
        found = played(joint, before, weights, noise, scales, generator).errors_before(TAIL)
        missed += bool((found < truth).any())
    assert missed <= DRAWS // 2 * (TAIL + 4 * math.sqrt(2 * TAIL / DRAWS))


def test_the_bound_is_not_much_above_the_error_where_there_is_little_noise() -> None:
    joint, before = tables(1)
    found = played(joint, before, np.ones(4), Noise.ROUNDED_GAUSSIAN, (0.01, 0.01), np.random.default_rng(3))
    assert found.errors_before(TAIL)[found.chosen] == pytest.approx(errors(joint, before)[found.chosen], rel=1e-2)
    assert (found.errors_before(TAIL) <= errors(joint, before).max() + 5).all()


def test_the_bound_of_the_thesis_fails_when_the_chosen_candidate_has_a_weight_above_one() -> None:
    """Theorem 16 as printed: the noise of the measurement is not multiplied by the weight of what was measured."""
    joint, before = tables(4)
    truth = errors(joint, before)
    weights = np.array([40.0, 1.0, 1.0, 1.0])
    # The first two candidates have equal scores, so that a bound on the second from the first has no room.
    penalties = np.array([truth[0] - truth[1] / 40, 0.0, 1e5, 1e5])
    generator, wrong, right, rounds = np.random.default_rng(5), 0, 0, 0
    while rounds < 300:
        one = played(joint, before, weights, Noise.ROUNDED_GAUSSIAN, (0.01, 5.0), generator, penalties)
        if one.chosen != 0:
            continue
        rounds += 1
        seen = np.abs(before.answer(CANDIDATES.only([one.clique])) - one.measurement.values).sum()
        likely = math.sqrt(-2 * 30 * math.log(TAIL / 2)) * 5.0
        printed = 40 * (seen - penalties[0]) + penalties[1] + likely + 0.01 * (math.log(4) - math.log(TAIL / 2))
        wrong += printed < truth[1]
        right += one.errors_before(TAIL)[1] < truth[1]
    allowed = 300 * (TAIL + 4 * math.sqrt(TAIL / 300))
    assert right <= allowed < wrong


def test_the_selection_noise_is_needed() -> None:
    """A bad candidate is chosen as often as Gumbel noise of this scale says: a bound with a tenth of it would fail."""
    joint, before = tables(1)
    truth, generator, without = errors(joint, before), np.random.default_rng(6), 0
    for _ in range(300):
        one = played(joint, before, np.ones(4), Noise.GAUSSIAN, (3000.0, 1.0), generator)
        less = SelectionRound(
            CANDIDATES, one.chosen, one.weights, one.penalties, before, 1.0, one.measurement
        ).errors_before(TAIL)
        without += bool((less < truth).any())
    assert without > 300 * (TAIL + 4 * math.sqrt(TAIL / 300))


def test_bounds_grow_with_confidence_and_a_single_candidate_needs_no_selection_noise() -> None:
    joint, before = tables(1)
    one = played(joint, before, np.ones(4), Noise.GAUSSIAN, (10.0, 5.0), np.random.default_rng(7))
    assert (one.errors_before(0.01) > one.errors_before(0.1)).all()
    alone = SelectionRound(CANDIDATES.only([one.clique]), 0, np.ones(1), np.zeros(1), before, 1e9, one.measurement)
    assert alone.errors_before(0.1)[0] == one.chosen_error(0.05)


@pytest.mark.parametrize("change", ["chosen", "weights", "penalties", "scale", "measurement"])
def test_rounds_that_do_not_fit_are_refused(change: str) -> None:
    joint, before = tables(1)
    one = played(joint, before, np.ones(4), Noise.GAUSSIAN, (10.0, 5.0), np.random.default_rng(7))
    other = Measurement(CANDIDATES, marginals_of(joint, CANDIDATES), Noise.GAUSSIAN, 5.0)
    chosen = 4 if change == "chosen" else one.chosen
    weights = np.zeros(4) if change == "weights" else one.weights
    penalties = np.zeros(3) if change == "penalties" else one.penalties
    scale = -1.0 if change == "scale" else 10.0
    measurement = other if change == "measurement" else one.measurement
    with pytest.raises(ValueError, match="want"):
        SelectionRound(CANDIDATES, chosen, weights, penalties, before, scale, measurement)
