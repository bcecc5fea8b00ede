"""Bounds on a model's marginals over simulated adaptive runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.estimation.graphical.confidence.bounds import Bound, Evidence, bounds
from dpcore.estimation.graphical.confidence.farthest_table import largest_distance
from dpcore.estimation.graphical.confidence.noise_tails import signed_gaussians
from dpcore.measurement import Noise
from tests.support.adaptive_runs import ASKED, DOMAIN, JOINT, PAIRS, adaptive_run, table
from tests.support.drawn_noise import measured, one_table

TAIL = 0.2


@pytest.mark.parametrize(
    ("noise", "scale"),
    [(Noise.LAPLACE, 20.0), (Noise.GAUSSIAN, 2.0), (Noise.ROUNDED_GAUSSIAN, 2.0), (Noise.ROUNDED_GAUSSIAN, 60.0)],
)
def test_bounds_hold_as_often_as_asked(noise: Noise, scale: float) -> None:
    generator, draws, missed = np.random.default_rng(2), 60, np.zeros(len(ASKED))
    supported = set()
    for _ in range(draws):
        model, found, rounds = adaptive_run(noise, scale, generator)
        for place, bound in enumerate(bounds(model, found, rounds, ASKED, 1 - TAIL, horizon=2)):
            error = np.abs(table(JOINT, bound.clique) - model.answer(PAIRS.only([bound.clique]))).sum()
            missed[place] += error > bound.l1 * (1 + 1e-9)
            supported.add(bound.supported)
    assert supported == {True, False}
    assert (missed <= draws * (TAIL + 4 * math.sqrt(TAIL / draws))).all()


def test_bounds_are_of_use() -> None:
    model, found, rounds = adaptive_run(Noise.ROUNDED_GAUSSIAN, 2.0, np.random.default_rng(3))
    by_clique = {bound.clique: bound for bound in bounds(model, found, rounds, ASKED)}
    rows = JOINT.sum()
    measured_pairs = [one.clique for one in rounds]
    for clique in measured_pairs:
        assert by_clique[clique].supported
        assert by_clique[clique].l1 < 0.05 * rows
    for clique in set(PAIRS.cliques) - set(measured_pairs):
        assert not by_clique[clique].supported
        assert by_clique[clique].round is not None
        assert by_clique[clique].l1 < rows
    assert by_clique[("a", "b", "c")] == Bound(("a", "b", "c"), by_clique[("a", "b", "c")].l1, False, None)
    assert by_clique[("a", "b", "c")].l1 == pytest.approx(2 * rows, rel=0.05)
    assert by_clique[()].l1 < 60


def test_a_signed_sum_of_noise_says_nothing_of_a_model_that_was_fitted_to_it() -> None:
    """The bound for the model before a measurement, used for one that follows it, misses nearly always."""
    generator, scale, wrong, right = np.random.default_rng(8), 10.0, 0, 0
    whole = PAIRS.only([DOMAIN.names])
    for _ in range(50):
        found = measured(whole, JOINT.ravel(), Noise.ROUNDED_GAUSSIAN, scale, generator)
        model = one_table(DOMAIN, found.values)
        error = np.abs(JOINT.ravel() - model.answer(whole)).sum()
        seen = np.abs(model.answer(whole) - np.maximum(found.values, 0)).sum()
        wrong += error > seen + scale * signed_gaussians(36, TAIL)
        right += error > bounds(model, [found], [], [DOMAIN.names], 1 - TAIL)[0].l1
    assert right <= 50 * (TAIL + 4 * math.sqrt(TAIL / 50)) < wrong


def test_a_part_of_a_candidate_errs_no_more_than_the_candidate() -> None:
    model, _, rounds = adaptive_run(Noise.GAUSSIAN, 2.0, np.random.default_rng(3), length=1)
    whole, part = (bounds(rounds[0].before, [], rounds, [clique])[0] for clique in (("b", "c"), ("c",)))
    assert part.l1 <= whole.l1 < math.inf
    assert part.round == 0
    moved = bounds(model, [], rounds, [("c",)])[0].l1 - part.l1
    distance = np.abs(model.answer(PAIRS.only([("c",)])) - rounds[0].before.answer(PAIRS.only([("c",)]))).sum()
    assert moved == pytest.approx(distance)


def test_bounds_grow_with_confidence() -> None:
    model, found, rounds = adaptive_run(Noise.GAUSSIAN, 30.0, np.random.default_rng(4))
    by_confidence = [[bound.l1 for bound in bounds(model, found, rounds, ASKED, c)] for c in (0.5, 0.9, 0.99, 0.9999)]
    assert (np.diff(by_confidence, axis=0) >= -1e-3 * np.array(by_confidence[:-1])).all()
    assert (np.array(by_confidence[-1]) > np.array(by_confidence[0])).all()


def test_a_known_number_of_rows_and_a_horizon_sharpen_bounds() -> None:
    model, found, rounds = adaptive_run(Noise.GAUSSIAN, 30.0, np.random.default_rng(4))
    plain, known, ahead = (
        [bound.l1 for bound in bounds(model, found, rounds, ASKED, rows=rows, horizon=horizon)]
        for rows, horizon in ((None, None), (int(JOINT.sum()), None), (None, 2))
    )
    assert known[4] == pytest.approx(abs(model.total - JOINT.sum()))
    assert known[5] < plain[5]
    assert ahead[0] <= plain[0] * (1 + 1e-3)


def test_nothing_is_known_without_measurements() -> None:
    model, _, _ = adaptive_run(Noise.GAUSSIAN, 30.0, np.random.default_rng(4))
    assert bounds(model, [], [], [("a",)]) == [Bound(("a",), math.inf, False, None)]


def test_settings_that_promise_nothing_are_refused() -> None:
    model, found, rounds = adaptive_run(Noise.GAUSSIAN, 30.0, np.random.default_rng(4))
    with pytest.raises(ValueError, match="horizon"):
        bounds(model, found, rounds, ASKED, horizon=1)
    with pytest.raises(ValueError, match="confidence"):
        bounds(model, found, rounds, ASKED, 1.0)


class RecordedRound:
    """A round that writes down the part of the tail that it is given."""

    def __init__(self) -> None:
        _, _, (played,) = adaptive_run(Noise.GAUSSIAN, 2.0, np.random.default_rng(3), length=1)
        self.before, self.candidates, self.tails = played.before, played.candidates, list[float]()

    def errors_before(self, tail: float) -> np.ndarray:
        self.tails.append(tail)
        return np.full(len(self.candidates.cliques), 1.0)


@pytest.mark.parametrize(("horizon", "wanted"), [(10, [TAIL / 20, TAIL / 20]), (None, [TAIL / 4, TAIL / 12])])
def test_rounds_share_half_of_the_tail(horizon: int | None, wanted: list[float]) -> None:
    rounds = [RecordedRound(), RecordedRound()]
    bounds(rounds[0].before, [], rounds, [("b",)], 1 - TAIL, horizon=horizon)
    assert [tail for played in rounds for tail in played.tails] == pytest.approx(wanted)


def test_a_run_that_could_make_rounds_pays_for_them_even_if_it_made_none() -> None:
    model, found, _ = adaptive_run(Noise.GAUSSIAN, 2.0, np.random.default_rng(3), length=1)
    could = bounds(model, found, [], ASKED, 1 - TAIL, horizon=7)
    could_not = bounds(model, found, [], ASKED, 1 - TAIL / 2)
    assert could == could_not
    assert could != bounds(model, found, [], ASKED, 1 - TAIL)


def test_noise_gets_three_quarters_of_the_rest_and_the_total_one() -> None:
    model, found, _ = adaptive_run(Noise.GAUSSIAN, 2.0, np.random.default_rng(3), length=1)
    evidence = Evidence(model, found, [], TAIL)
    total = evidence.estimates.sharpest((), 0.25 * TAIL)
    assert total is not None
    assert evidence.high - evidence.low == pytest.approx(2 * total.half_width(0.25 * TAIL))
    clique = found[-1].queries.cliques[0]
    table_of_model = model.answer(PAIRS.only([clique]))
    radii = [one.l1_of_noise(0.75 * TAIL) for one in evidence.estimates.of(clique)]
    distances = [
        largest_distance(table_of_model, one.values, radius, evidence.low, evidence.high)
        for one, radius in zip(evidence.estimates.of(clique), radii, strict=True)
    ]
    assert evidence.bounds([clique])[0].l1 == pytest.approx(min(distances))
