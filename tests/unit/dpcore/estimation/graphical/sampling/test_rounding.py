"""Rounding a table: exact rows, counts next to their expectation, no bias, and margins closer than by chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.estimation.graphical.sampling.cell_offsets import Offsets, cell_offsets
from dpcore.estimation.graphical.sampling.rounding import Counts, MarginCells
from dpcore.estimation.graphical.sampling.rounding import round_rows as round_rows_in_place

DRAWS = 2_000
STDDEVS = 5.5  # Of a mean of DRAWS counts; two-sided 4e-8 a cell.


def places_of(rows: int, *sizes: int) -> MarginCells:
    """One margin for each axis of the columns, whose cells are the product of ``sizes``."""
    codes = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    starts = np.cumsum([0, *sizes])
    columns = (codes + starts[:-1]).astype(np.int32)
    return MarginCells(whole(np.zeros((rows, len(sizes)), dtype=np.int32)), whole(columns), starts)


def whole(offsets: NDArray[np.int32]) -> Offsets:
    """Offsets of one part."""
    return Offsets(np.zeros_like(offsets[:1]), offsets)


def nowhere(rows: int, columns: int) -> MarginCells:
    """No margin is looked after."""
    return MarginCells(
        whole(np.zeros((rows, 0), np.int32)), whole(np.zeros((columns, 0), np.int32)), np.zeros(1, np.int64)
    )


def round_rows(
    expected: NDArray[np.float64], totals: NDArray[np.int64], places: MarginCells, generator: np.random.Generator
) -> Counts:
    return round_rows_in_place(expected.copy(), totals, places, generator)


def random_table(seed: int, rows: int, columns: int, largest: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Expected counts with zeros, whose rows sum to random totals, 0 among them."""
    generator = np.random.default_rng(seed)
    totals = generator.integers(0, largest + 1, rows)
    weights = generator.exponential(size=(rows, columns)) ** 2 * (generator.random((rows, columns)) < 0.7)
    weights[:, 0] += 0.01
    return weights * (totals / weights.sum(axis=1))[:, None], totals


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 12), st.sampled_from([1, 5, 1000, 10**9, 10**10]))
def test_rows_sum_to_their_totals_and_counts_are_next_to_what_is_expected(
    seed: int, rows: int, columns: int, largest: int
) -> None:
    expected, totals = random_table(seed, rows, columns, largest)
    for places in (places_of(rows, columns), nowhere(rows, columns)):
        counts = round_rows(expected, totals, places, np.random.default_rng(seed))
        assert counts.dtype == (np.int32 if totals.sum() < 2**31 else np.int64)
        assert counts.sum(axis=1).tolist() == totals.tolist()
        assert (np.abs(counts - expected) < 1 + 1e-15 * largest * (largest > 10**6)).all()
        assert not counts[expected == 0].any()


def test_whole_numbers_stay() -> None:
    expected = np.array([[3.0, 0.0, 7.0, 2.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1e6]])
    totals = expected.sum(axis=1).astype(np.int64)
    for seed in range(20):
        counts = round_rows(expected, totals, places_of(3, 2, 2), np.random.default_rng(seed))
        assert np.array_equal(counts, expected)


def means(expected: NDArray[np.float64], totals: NDArray[np.int64], places: MarginCells) -> NDArray[np.float64]:
    generator = np.random.default_rng(5)
    return np.mean([round_rows(expected, totals, places, generator) for _ in range(DRAWS)], axis=0)


def test_the_mean_of_every_count_is_what_is_expected() -> None:
    """A count is one of two neighbours: its variance is f (1 - f) for the fraction f."""
    expected, totals = random_table(3, 4, 12, 9)
    expected[1] = [0.001, 0.002, 0.003, 0.994, 0.5, 0.5, 0.25, 0.75, 1 / 3, 2 / 3, 0.1, 0.9]
    totals[1] = 5
    fractions = expected - np.floor(expected)
    errors = np.abs(means(expected, totals, places_of(4, 3, 4)) - expected)
    assert (errors <= STDDEVS * np.sqrt(fractions * (1 - fractions) / DRAWS) + 1e-9).all()


def test_the_test_of_the_mean_would_notice_the_nearest_integer() -> None:
    expected = np.array([[0.4, 0.6, 0.3, 0.7]])
    errors = np.abs(np.rint(expected) - expected)
    assert (errors > STDDEVS * np.sqrt(expected * (1 - expected) / DRAWS)).all()


def test_margins_are_closer_than_those_of_independent_rows_and_of_plain_rounding() -> None:
    """3,072 cells whose margins have 16 x 12 x 16 values: a place sums 192 or more fractions."""
    generator = np.random.default_rng(7)
    chances = generator.dirichlet(np.full(16 * 12 * 16, 0.5))[None, :]
    places, total = places_of(1, 16, 12, 16), 20_000

    def error(counts: Counts) -> float:
        table = (counts - total * chances).reshape(16, 12, 16)
        return float(np.mean([np.abs(table.sum(axis=axes)).mean() for axes in ((1, 2), (0, 2), (0, 1))]))

    totals = np.array([total])
    balanced = np.mean([error(round_rows(total * chances, totals, places, generator)) for _ in range(5)])
    plain = np.mean([error(round_rows(total * chances, totals, nowhere(1, chances.size), generator)) for _ in range(5)])
    drawn = np.mean([error(generator.multinomial(total, chances[0])[None, :]) for _ in range(5)])
    assert balanced < 1.0
    assert plain > 2 * balanced
    assert drawn > 20 * balanced


def test_one_generator_state_gives_one_rounding() -> None:
    expected, totals = random_table(3, 4, 12, 9)
    first, again, other = (
        round_rows(expected, totals, places_of(4, 3, 4), np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("total", [0, 1, 2])
def test_few_units(total: int) -> None:
    expected = np.full((1, 50), total / 50)
    counts = round_rows(expected, np.array([total]), places_of(1, 5, 10), np.random.default_rng(1))
    assert (counts.sum(), counts.max()) == (total, min(total, 1))


def test_offsets_in_two_parts_are_those_in_one() -> None:
    """Rows of three axes and columns of four, each offset of two codes or three."""
    shapes, generator = ((3, 2, 4), (5, 2, 3, 4)), np.random.default_rng(8)
    strides = [np.array([[20, 0], [0, 3], [5, 0]]), np.array([[0, 12], [0, 6], [0, 0], [1, 0]])]
    starts = np.array([0, 60, 120])
    parts = [cell_offsets(shape, stride, np.int32) for shape, stride in zip(shapes, strides, strict=True)]
    assert [len(part.low) for part in parts] == [4, 12]
    parts[0].high[:, 1] += 60
    wholes = [whole((part.high[:, None] + part.low[None]).reshape(-1, 2)) for part in parts]
    expected = 40 * generator.dirichlet(np.full(120, 0.3), size=24)
    totals = np.full(24, 40)
    one, two = (
        round_rows(expected, totals, MarginCells(pair[0], pair[1], starts), np.random.default_rng(2))
        for pair in (wholes, parts)
    )
    assert one.tolist() == two.tolist()
    assert one.tolist() != round_rows(expected, totals, nowhere(24, 120), np.random.default_rng(2)).tolist()


def test_the_result_lies_in_the_memory_of_what_is_given_away() -> None:
    for largest in (9, 10**10):
        expected, totals = random_table(3, 4, 12, largest)
        assert np.shares_memory(
            round_rows_in_place(expected, totals, nowhere(4, 12), np.random.default_rng(1)), expected
        )
