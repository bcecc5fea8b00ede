"""The parts of the MWEM figures that are computed without a release, against slow references."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals
from tests.benchmarks.mwem.cuboid_choice import Cube, b_max_c, mean_absolute_sum, p_most_c
from tests.benchmarks.mwem.histograms import Histogram
from tests.benchmarks.mwem.lines import expected, line
from tests.benchmarks.mwem.ranges import RandomRanges, fixed
from tests.benchmarks.mwem.report import markdown
from tests.support.implicit_matrices import Identity
from tests.support.range_strategies import hierarchy
from tests.support.relative_entropy import relative_entropy

DATA = Histogram(Domain.of({"a": 4, "b": 6}), np.random.default_rng(0).integers(0, 9, 24))


@pytest.mark.parametrize("k", [1, 2, 7])
def test_the_mean_of_a_sum_of_laplaces(k: int) -> None:
    drawn = np.random.default_rng(k).laplace(size=(400_000, k)).sum(axis=1)
    assert mean_absolute_sum(k) == pytest.approx(np.abs(drawn).mean(), rel=0.01)


def test_cuboids_are_summed_from_the_measured_one_of_fewest_cells() -> None:
    cube = Cube.of((2, 3, 5))
    place = {clique: i for i, clique in enumerate(cube.cliques)}
    choice = cube.choice([place[frozenset({0, 1, 2})], place[frozenset({1, 2})]])
    assert choice.summed[place[frozenset({2})]] == 3
    assert choice.summed[place[frozenset({0})]] == 15
    assert choice.mean_errors(0.5)[place[frozenset({0, 1, 2})]] == pytest.approx(4)


def test_every_cuboid_can_be_read_off_what_is_chosen() -> None:
    cube = Cube.of((2, 3, 5, 2))
    bounded, published = b_max_c(cube), p_most_c(cube)
    assert np.isfinite(bounded.summed).all()
    assert np.isfinite(published.summed).all()
    assert bounded.mean_errors(1).max() <= published.mean_errors(1).max()
    assert published.mean_errors(1).mean() <= bounded.mean_errors(1).mean()


def test_expected_errors_of_products_are_those_of_the_dense_matrix() -> None:
    asked = RandomRanges.of(DATA, seed=3)
    dense = np.array([np.kron(one, other) for one, other in zip(*asked.rows, strict=True)])
    assert np.allclose(asked.exact, dense @ DATA.counts)
    strategies = [hierarchy(4), Identity(6)]
    whole = np.kron(strategies[0].dense(), strategies[1].dense())
    norm = np.abs(whole).sum(axis=0).max()
    wanted = norm**2 * (np.square(dense @ np.linalg.pinv(whole)).sum(axis=1)).mean()
    assert asked.variance([fixed(one) for one in strategies]) == pytest.approx(wanted)
    values = np.linalg.svd(dense, compute_uv=False)
    assert asked.svd_bound() == pytest.approx(values.sum() ** 2 / 24 / len(dense), rel=1e-4)


def test_a_histogram_answers_marginals() -> None:
    queries = Marginals(DATA.domain, (("b",), (), ("a", "b")))
    table = DATA.counts.reshape(4, 6)
    wanted = [*table.sum(axis=0), table.sum(), *DATA.counts]
    assert DATA.aggregate(QueryAnswers(queries)).tolist() == wanted


def test_the_page_has_a_row_a_series_with_spread_where_there_are_runs() -> None:
    lines = [line("P", 0.1, "ours", "squared error", [1.0, 3.0]), expected("P", 0.1, "zeros", "squared error", 4.5)]
    page = markdown(lines, {"ours over zeros": 0.444, "zeros over ours": 2.25})
    assert "| ours over zeros | 0.444 | yes |" in page
    assert "| zeros over ours | 2.25 | no |" in page
    assert "| ours | 2 ± 1.4 | 2 |" in page
    assert "| zeros | 4.5 | exact |" in page


def test_relative_entropy_by_hand() -> None:
    assert relative_entropy(np.array([2, 2, 0]), np.array([1.0, 1.0, 2.0])) == pytest.approx(math.log(2))
    assert relative_entropy(np.array([3, 1]), np.array([30.0, 10.0])) == pytest.approx(0.0)
    assert relative_entropy(np.array([1, 1]), np.array([1.0, 0.0])) == math.inf
