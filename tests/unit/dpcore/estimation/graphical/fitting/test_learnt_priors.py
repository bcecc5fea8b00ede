"""Fits that learn their prior, on tables whose attributes hang together as planted."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.prior import LARGEST_PRIOR_SCALE
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from dpcore.queries.ranges import prefix, range_marginals

DOMAIN = Domain.of({"a": 6, "b": 5, "c": 4, "d": 5})
NAMES = DOMAIN.names
ONES, PAIRS, TRIPLES = (list(combinations(NAMES, order)) for order in (1, 2, 3))
TOTAL = 20_000.0
LEARN = FitSettings(prior_scale=None, tolerance=1e-4)
Table = NDArray[np.float64]


def independent(seed: int) -> Table:
    generator = np.random.default_rng(seed)
    joint = np.ones(())
    for size in DOMAIN.sizes:
        joint = np.multiply.outer(joint, generator.dirichlet(np.full(size, 5.0)))
    return TOTAL * joint


def tilted(joint: Table, cliques: list[Clique], size: float, seed: int) -> Table:
    """Random log-linear interactions on the cliques."""
    generator = np.random.default_rng(seed)
    for clique in cliques:
        shape = [n if name in clique else 1 for name, n in zip(NAMES, DOMAIN.sizes, strict=True)]
        joint = joint * np.exp(generator.normal(0, size, shape))
    return TOTAL * joint / joint.sum()


def summed(joint: Table, clique: Clique) -> Table:
    return np.asarray(joint.sum(axis=tuple(axis for axis, name in enumerate(NAMES) if name not in clique)))


def measured(joint: Table, cliques: list[Clique], stddev: float, seed: int) -> list[Measurement]:
    generator = np.random.default_rng(seed)
    found = []
    for clique in cliques:
        values = summed(joint, clique).ravel() + generator.normal(0, stddev, DOMAIN.size(clique))
        found.append(Measurement(Marginals(DOMAIN, (clique,)), values, Noise.GAUSSIAN, stddev))
    return found


def error(fit: GraphicalFit, joint: Table, cliques: list[Clique]) -> float:
    exact = np.concatenate([summed(joint, clique).ravel() for clique in cliques])
    return float(np.abs(fit.model.answer(Marginals(DOMAIN, tuple(cliques))) - exact).sum())


def test_independent_attributes_are_learnt_to_be_so() -> None:
    joint = independent(1)
    seen = measured(joint, [*ONES, *TRIPLES], 30.0, 2)
    learnt, fixed = fit_model(DOMAIN, seen, TOTAL, LEARN), fit_model(DOMAIN, seen, TOTAL)
    assert learnt.prior_scales[1] == LARGEST_PRIOR_SCALE
    assert learnt.prior_scales[2] < 0.2
    assert learnt.prior_scales[3] < 0.3
    assert fixed.prior_scales == dict.fromkeys((1, 2, 3), LARGEST_PRIOR_SCALE)
    assert error(learnt, joint, PAIRS) < 0.5 * error(fixed, joint, PAIRS)


def test_pairs_that_hang_together_leave_triples_at_what_the_pairs_tell() -> None:
    """Triples are far from independent attributes, but not from a model of the pairs: each order has its factor."""
    joint = tilted(independent(3), PAIRS, 0.5, 4)
    seen = measured(joint, [*ONES, *TRIPLES], 20.0, 5)
    learnt, fixed = fit_model(DOMAIN, seen, TOTAL, LEARN), fit_model(DOMAIN, seen, TOTAL)
    assert learnt.prior_scales[2] > 1
    assert learnt.prior_scales[3] < 0.1
    assert error(learnt, joint, TRIPLES) < 0.8 * error(fixed, joint, TRIPLES)


def test_triples_that_hang_together_are_learnt_to_do_so() -> None:
    weak, strong = (tilted(independent(3), TRIPLES, size, 4) for size in (0.05, 0.6))
    seen = [measured(joint, [*ONES, *TRIPLES], 10.0, 5) for joint in (weak, strong)]
    small, large = (fit_model(DOMAIN, each, TOTAL, LEARN).prior_scales[3] for each in seen)
    assert small < 0.2
    assert large > 1


def test_products_alone_tell_nothing_about_their_order() -> None:
    joint = independent(1)
    queries = range_marginals(DOMAIN, [("a", "b")], {"b": prefix(5)})
    values = np.cumsum(summed(joint, ("a", "b")), axis=1).ravel()
    prefixes = Measurement(queries, values, Noise.GAUSSIAN, 5.0)
    fit = fit_model(DOMAIN, [*measured(joint, ONES, 20.0, 1), prefixes], TOTAL, LEARN)
    assert fit.prior_scales == {1: LARGEST_PRIOR_SCALE, 2: LARGEST_PRIOR_SCALE}
    beside = fit_model(DOMAIN, [*measured(joint, [*ONES, *PAIRS], 20.0, 1), prefixes], TOTAL, LEARN)
    assert beside.prior_scales[2] < 0.2


def test_a_fixed_spread_is_the_one_of_every_order() -> None:
    seen = measured(independent(1), [*ONES, *PAIRS], 20.0, 2)
    fit = fit_model(DOMAIN, seen, TOTAL, FitSettings(prior_scale=0.7))
    assert fit.prior_scales == {1: 0.7, 2: 0.7}
    assert not fit.learns_prior
    assert fit_model(DOMAIN, seen, TOTAL, LEARN).learns_prior


def test_a_small_spread_is_nearer_to_independent_attributes_than_a_large_one() -> None:
    joint = tilted(independent(3), PAIRS, 0.5, 4)
    seen = measured(joint, [*ONES, *PAIRS], 20.0, 5)

    def interaction(spread: float) -> float:
        fit = fit_model(DOMAIN, seen, TOTAL, FitSettings(spread, tolerance=1e-4))
        cells = fit.model.answer(Marginals(DOMAIN, (("a", "b"),))).reshape(6, 5)
        return float(np.abs(cells - np.outer(cells.sum(axis=1), cells.sum(axis=0)) / TOTAL).sum())

    amounts = [interaction(spread) for spread in (1e-3, 0.1, 5.0)]
    assert amounts == sorted(amounts)
    assert amounts[0] < 0.5 * amounts[2]


def test_what_was_learnt_is_kept_until_there_is_much_more_to_learn_from() -> None:
    joint = tilted(independent(3), PAIRS, 0.5, 4)
    pairs = measured(joint, [*ONES, *PAIRS], 50.0, 5)
    before = fit_model(DOMAIN, pairs, TOTAL, LEARN)
    again = fit_model(DOMAIN, [*pairs, *measured(independent(3), PAIRS[:1], 5.0, 8)], TOTAL, LEARN, before)
    assert again.prior_scales == before.prior_scales
    assert again.learnt_from == before.learnt_from == len(ONES) + len(PAIRS)
    grown = [*pairs, *measured(joint, TRIPLES, 50.0, 6)]
    later = fit_model(DOMAIN, grown, TOTAL, LEARN, before)
    assert set(later.prior_scales) == {1, 2, 3}
    assert later.learnt_from == len(ONES) + len(PAIRS) + len(TRIPLES)


def test_a_fit_that_did_not_learn_leaves_nothing_learnt() -> None:
    seen = measured(independent(1), [*ONES, *PAIRS], 20.0, 2)
    fixed = fit_model(DOMAIN, seen, TOTAL)
    assert fit_model(DOMAIN, seen, TOTAL, LEARN, fixed).prior_scales[2] < 0.2


def test_a_warm_start_learns_what_a_cold_one_does() -> None:
    joint = tilted(independent(3), PAIRS, 0.5, 4)
    pairs = measured(joint, [*ONES, *PAIRS], 20.0, 5)
    seen = [*pairs, *measured(joint, TRIPLES, 30.0, 6)]
    before = fit_model(DOMAIN, pairs, TOTAL, LEARN)
    cold, warm = fit_model(DOMAIN, seen, TOTAL, LEARN), fit_model(DOMAIN, seen, TOTAL, LEARN, before)
    for order in (2, 3):
        assert warm.prior_scales[order] == pytest.approx(cold.prior_scales[order], rel=0.05)
    asked = Marginals(DOMAIN, tuple(TRIPLES))
    np.testing.assert_allclose(warm.model.answer(asked), cold.model.answer(asked), atol=2.0)


def test_a_fifth_more_components_of_the_same_orders_are_learnt_from() -> None:
    joint = tilted(independent(3), PAIRS, 0.5, 4)
    seen = measured(joint, [*ONES, *PAIRS], 50.0, 5)
    before = fit_model(DOMAIN, seen[:7], TOTAL, LEARN)
    after = fit_model(DOMAIN, seen, TOTAL, LEARN, before)
    assert (before.learnt_from, after.learnt_from) == (7, 10)


def test_a_new_order_is_learnt_at_once() -> None:
    joint = tilted(independent(3), PAIRS, 0.5, 4)
    seen = measured(joint, [*ONES, *PAIRS, TRIPLES[0]], 50.0, 5)
    before = fit_model(DOMAIN, seen[:10], TOTAL, LEARN)
    after = fit_model(DOMAIN, seen, TOTAL, LEARN, before)
    assert set(before.prior_scales) == {1, 2}
    assert set(after.prior_scales) == {1, 2, 3}
    assert after.learnt_from == 11
