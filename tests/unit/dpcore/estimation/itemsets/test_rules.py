"""Association rules: measures, intervals that contain every value of the counts within theirs, and their order."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.estimation.itemsets.rules import Counts, Rules, association_rules


def counts(*columns: tuple[float, float, float]) -> Counts:
    """Estimate, lower end and upper end of each count."""
    return Counts(np.array(columns, dtype=np.float64).T)


def rules_of(both: Counts, x: Counts, y: Counts, n: Counts) -> Rules:
    size = both.values.size
    antecedents, consequents = np.arange(size, dtype=np.int32)[:, None], np.arange(size, dtype=np.int32) + 10
    return association_rules(antecedents, consequents, both, x, y, n)


def test_measures_are_those_of_the_definitions() -> None:
    exact = rules_of(counts((30, 30, 30)), counts((60, 60, 60)), counts((50, 50, 50)), counts((200, 200, 200)))
    assert (exact.support.values[0], exact.confidence.values[0], exact.lift.values[0]) == (0.15, 0.5, 2.0)
    for ratios in (exact.support, exact.confidence, exact.lift):
        assert ratios.lower == pytest.approx(ratios.values)
        assert ratios.upper == pytest.approx(ratios.values)


def test_intervals_contain_the_measures_of_all_counts_within_theirs() -> None:
    both, x, y, n = (20.0, 15.0, 27.0), (60.0, 55.0, 70.0), (50.0, 40.0, 52.0), (200.0, 190.0, 205.0)
    made = rules_of(counts(both), counts(x), counts(y), counts(n))
    draw = np.random.default_rng(0)
    for _ in range(200):
        c, cx, cy, units = (draw.choice([low, draw.uniform(low, high), high]) for _, low, high in (both, x, y, n))
        for ratios, value in ((made.support, c / units), (made.confidence, c / cx), (made.lift, units * c / (cx * cy))):
            assert ratios.lower[0] - 1e-12 <= value <= ratios.upper[0] + 1e-12
    # The ends are attained.
    assert made.lift.lower[0] == pytest.approx(190 * 15 / (70 * 52))
    assert made.confidence.upper[0] == pytest.approx(27 / 55)


def test_an_end_is_infinite_where_a_count_may_be_zero_and_a_confidence_is_at_most_one() -> None:
    made = rules_of(counts((5, 0, 30)), counts((6, 0, 20)), counts((9, 4, 20)), counts((100, 100, 100)))
    assert np.isinf(made.lift.upper[0])
    assert made.confidence.upper[0] == 1.0
    assert made.confidence.lower[0] == 0.0
    assert np.isfinite(made.lift.values[0])


def test_rules_are_in_the_order_of_the_lower_end_of_their_lift() -> None:
    both = counts((10, 2, 20), (10, 9, 11), (20, 18, 22))
    made = rules_of(both, counts(*[(40, 39, 41)] * 3), counts(*[(40, 39, 41)] * 3), counts((100, 100, 100)))
    assert made.antecedents[:, 0].tolist() == [2, 1, 0]
    assert made.consequents.tolist() == [12, 11, 10]
    assert made.size == 3
