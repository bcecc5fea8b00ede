from __future__ import annotations

import math
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.errors import DomainTooLargeError
from dpcore.estimation.multiplicative_weights.dense import (
    LARGEST_CELLS,
    DenseModel,
    MultiplicativeWeights,
    check_size,
    tables_of,
)
from dpcore.queries import Marginals

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 2})
ALL_CLIQUES = list(chain.from_iterable(combinations("abcd", order) for order in range(5)))


def table(seed: int = 0, domain: Domain = DOMAIN) -> NDArray[np.float64]:
    return np.random.default_rng(seed).exponential(size=domain.size())


def marginal(cells: NDArray[np.float64], clique: tuple[str, ...], domain: Domain = DOMAIN) -> NDArray[np.float64]:
    """Sums out every other attribute, cell by cell."""
    sums: dict[tuple[int, ...], float] = {}
    for index, value in enumerate(cells):
        cell = np.unravel_index(index, domain.sizes)
        key = tuple(int(cell[axis]) for axis in domain.axes(clique))
        sums[key] = sums.get(key, 0.0) + float(value)
    return np.array([sums[key] for key in sorted(sums)])


@settings(max_examples=40)
@given(st.lists(st.sampled_from(ALL_CLIQUES), min_size=1, max_size=8), st.integers(0, 99))
def test_marginals_of_a_table_are_sums_of_its_cells(cliques: list[tuple[str, ...]], seed: int) -> None:
    cells = table(seed)
    result = tables_of(cells, DOMAIN, Marginals(DOMAIN, tuple(cliques)))
    assert np.allclose(result, np.concatenate([marginal(cells, clique) for clique in cliques]), rtol=1e-12)


def follow_by_hand(
    cells: NDArray[np.float64],
    total: float,
    measured: list[tuple[tuple[str, ...], NDArray[np.int64]]],
    passes: int,
    step: float = 0.5,
) -> NDArray[np.float64]:
    """A(x) <- A(x) exp(step sum over cells q of q(x) (m_q - q(A)) / n), then scaled to n; each marginal in turn."""
    cells = cells * total / cells.sum()
    for _ in range(passes):
        for clique, values in measured:
            now = marginal(cells, clique)
            for index in range(cells.size):
                cell = np.unravel_index(index, DOMAIN.sizes)
                at = int(np.ravel_multi_index([cell[axis] for axis in DOMAIN.axes(clique)], DOMAIN.shape(clique)))
                cells[index] *= math.exp(step * (values[at] - now[at]) / total)
            cells = cells * total / cells.sum()
    return cells


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("step", [0.5, 2.0])
@pytest.mark.parametrize("order", [[("a", "c")], [("b",), ("a", "c"), ("b", "d")], [("d",), ("d",)]])
def test_the_weights_follow_measurements_as_the_paper_says(
    order: list[tuple[str, ...]], passes: int, step: float
) -> None:
    generator = np.random.default_rng(5)
    measured = [(clique, generator.integers(-5, 60, DOMAIN.size(clique))) for clique in order]
    weights = MultiplicativeWeights(DOMAIN, table(1), 200.0, step)
    weights.follow(measured, passes)
    assert np.allclose(weights.table, follow_by_hand(table(1), 200.0, measured, passes, step), rtol=1e-10)
    assert weights.table.sum() == pytest.approx(200.0)


def test_following_twice_goes_on_from_where_it_was() -> None:
    first, second = ("a", "b"), ("c",)
    measured = [(first, np.arange(6) * 10), (second, np.arange(4) * 20)]
    weights = MultiplicativeWeights(DOMAIN, table(2), 150.0)
    weights.follow(measured[:1], 2)
    weights.follow(measured, 1)
    by_hand = follow_by_hand(follow_by_hand(table(2), 150.0, measured[:1], 2), 150.0, measured, 1)
    assert np.allclose(weights.table, by_hand, rtol=1e-10)


def test_following_nothing_changes_nothing() -> None:
    weights = MultiplicativeWeights(DOMAIN, table(3), 10.0)
    before = weights.table.copy()
    weights.follow([], 5)
    assert np.array_equal(weights.table, before)


def test_following_the_truth_for_long_finds_its_marginals() -> None:
    truth = np.random.default_rng(4).multinomial(3000, table(4) / table(4).sum()).astype(np.float64)
    measured = [(clique, marginal(truth, clique).astype(np.int64)) for clique in [("a", "b"), ("b", "c"), ("c", "d")]]
    weights = MultiplicativeWeights(DOMAIN, np.ones(48), 3000.0)
    weights.follow(measured, 400)
    for clique, values in measured:
        assert np.abs(marginal(weights.table, clique) - values).max() < 3.0


@pytest.mark.parametrize("values", [[10**9, -(10**9)], [-(10**9), -(10**9)], [10**15, 10**15]])
def test_noise_far_above_the_total_leaves_a_finite_distribution(values: list[int]) -> None:
    weights = MultiplicativeWeights(DOMAIN, np.ones(48), 1.0)
    for _ in range(30):
        weights.follow([(("a",), np.array(values)), (("b",), np.array([0, 10**12, -(10**12)]))], 10)
        assert np.isfinite(weights.table).all()
        assert weights.table.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("sizes", [(5000, 2), (2, 5000), (3, 70, 70), (70, 70, 3)])
def test_large_attributes_are_followed_cell_for_cell(sizes: tuple[int, ...]) -> None:
    """Across the line at which cells are split into an outer and an inner part."""
    domain = Domain(tuple("abc"[: len(sizes)]), sizes)
    generator = np.random.default_rng(6)
    start = generator.exponential(size=domain.size())
    for clique in (("a",), ("b",), ("a", "b")):
        values = generator.integers(0, 9, domain.size(clique))
        weights = MultiplicativeWeights(domain, start, 100.0)
        weights.follow([(clique, values)], 1)
        cells = (start * 100 / start.sum()).reshape(sizes)
        others = tuple(axis for axis, name in enumerate(domain.names) if name not in clique)
        now = cells.sum(axis=others, keepdims=True)
        moved = cells * np.exp((values.reshape(now.shape) - now) / 200)
        assert np.allclose(weights.table, (moved * 100 / moved.sum()).ravel(), rtol=1e-10)


def test_rows_follow_the_table_and_never_an_empty_cell() -> None:
    """20,000 rows over 48 cells, 24 empty: the chi-square statistic has 23 degrees; above 80 comes once in 3e7."""
    cells = np.where(np.arange(48) % 2, table(7), 0.0)
    rows = DenseModel(DOMAIN, cells).sample(20_000, np.random.default_rng(8))
    assert rows.domain == DOMAIN
    assert rows.codes.dtype == np.int32
    result = np.bincount(np.ravel_multi_index(tuple(rows.codes.T), DOMAIN.sizes), minlength=48)
    assert not result[cells == 0].any()
    expected = 20_000 * cells[cells > 0] / cells.sum()
    assert ((result[cells > 0] - expected) ** 2 / expected).sum() < 80


def test_a_domain_too_large_names_its_size_and_what_would_do() -> None:
    wide = Domain.of({f"x{i}": 100 for i in range(10)})
    with pytest.raises(DomainTooLargeError, match=r"the table has 100,000,000,000,000,000,000 cells; .*independent"):
        check_size(wide, "the table")
    check_size(Domain.of({"a": LARGEST_CELLS}), "the table")
