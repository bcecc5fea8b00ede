"""Shrunken answers: exact without noise, consistent, and nearer to the truth than unbiased ones where they can be."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.shrunken import shrunken_answers
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from dpcore.testing.tiny_statistics import TinyTable
from tests.unit.dpcore.estimation.reconstruction.test_nonnegative import disagreement

ROWS = 4_000
BITS = Domain(tuple("abcdefgh"), (2,) * 8)
MIXED = Domain(("a", "b", "c", "d"), (3, 1, 4, 5))


def independent(domain: Domain, seed: int = 0) -> NDArray[np.int64]:
    generator = np.random.default_rng(seed)
    columns = [generator.choice(size, ROWS, p=generator.dirichlet(np.ones(size))) for size in domain.sizes]
    return np.stack(columns, axis=1)


def chained(domain: Domain, seed: int = 0) -> NDArray[np.int64]:
    """Each attribute repeats the one before it in nine rows of ten."""
    generator = np.random.default_rng(seed)
    codes = independent(domain, seed)
    for axis in range(1, codes.shape[1]):
        repeats = generator.random(ROWS) < 0.9
        codes[repeats, axis] = codes[repeats, axis - 1] % domain.sizes[axis]
    return codes


def queries_of(domain: Domain, order: int) -> Marginals:
    return Marginals(domain, tuple(combinations(domain.names, order)))


def exact(codes: NDArray[np.int64], queries: Marginals) -> NDArray[np.float64]:
    table = TinyTable(queries.domain, codes)
    return np.concatenate([table._table(clique) for clique in queries.cliques]).astype(np.float64)


def measured(codes: NDArray[np.int64], queries: Marginals, stddev: float, seed: int = 1) -> Residuals:
    """The residuals of whole marginals, each measured with Gaussian noise."""
    noise = np.random.default_rng(seed).normal(0, stddev, queries.size)
    return Residuals.of_marginals([Measurement(queries, exact(codes, queries) + noise, Noise.GAUSSIAN, stddev)])


def error(values: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    return float(np.abs(values - truth).mean())


@pytest.mark.parametrize(("domain", "order"), [(BITS, 1), (BITS, 2), (BITS, 3), (MIXED, 2), (MIXED, 3)])
def test_nothing_changes_without_noise(domain: Domain, order: int) -> None:
    queries, codes = queries_of(domain, order), chained(domain)
    answers = shrunken_answers(measured(codes, queries, 1e-6), queries)
    # A cell without rows keeps a trace of its expectation.
    assert np.allclose(answers, exact(codes, queries), atol=0.5)


def test_answers_are_consistent_and_not_negative() -> None:
    queries = Marginals(MIXED, ((), ("a",), ("c", "a"), ("d", "a", "b"), ("d", "c")))
    codes = chained(MIXED)
    answers = shrunken_answers(measured(codes, queries_of(MIXED, 4), 80.0), queries)
    assert answers.min() >= 0
    assert disagreement(queries, answers) < 1e-6 * ROWS


def test_a_public_total_is_kept() -> None:
    queries, codes = queries_of(BITS, 2), independent(BITS)
    answers = shrunken_answers(measured(codes, queries, 100.0), queries, ROWS)
    assert np.allclose(answers.reshape(-1, 4).sum(axis=1), ROWS)


@pytest.mark.parametrize(("make", "part"), [(independent, 0.5), (chained, 0.8)])
def test_noise_is_shrunk_where_triples_hold_no_surprise(
    make: Callable[[Domain], NDArray[np.int64]], part: float
) -> None:
    queries, codes = queries_of(BITS, 3), make(BITS)
    residuals, truth = measured(codes, queries, 150.0), exact(codes, queries)
    unbiased = residuals.answers(queries).values
    assert error(shrunken_answers(residuals, queries), truth) < part * error(unbiased, truth)


def test_an_interaction_of_three_attributes_stays_as_measured() -> None:
    """c is the exclusive or of a and b: all pairs are independent, and the triple is not."""
    codes = independent(BITS)
    codes[:, :2] = np.random.default_rng(5).integers(0, 2, (ROWS, 2))
    codes[:, 2] = codes[:, 0] ^ codes[:, 1]
    queries = queries_of(BITS, 3)
    residuals, triple = measured(codes, queries, 30.0), queries.only([("a", "b", "c")])
    answers = shrunken_answers(residuals, queries)[: triple.size]
    assert error(answers, exact(codes, triple)) < 60


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("sizes", "order", "rows", "stddev"),
    [((2,) * 6, 6, 56_258, 3.0), ((3,) * 5, 5, 24_394, 8.0), ((2,) * 8, 3, 20_000, 10.0), ((3,) * 5, 3, 20_000, 10.0)],
)
def test_a_few_patterns_are_answered_about_as_well_as_without_shrinking(
    sizes: tuple[int, ...], order: int, rows: int, stddev: float, seed: int
) -> None:
    """Attributes are nearly functions of each other, and most cells of most faces are empty."""
    generator = np.random.default_rng(seed)
    domain = Domain(tuple("abcdefgh"[: len(sizes)]), sizes)
    patterns = generator.integers(0, sizes, (int(generator.integers(3, 11)), len(sizes)))
    codes = patterns[generator.choice(len(patterns), rows, p=generator.dirichlet(np.ones(len(patterns))))]
    queries = queries_of(domain, order)
    residuals, truth = measured(codes, queries, stddev, seed), exact(codes, queries)
    unbiased = residuals.answers(queries).values
    assert error(shrunken_answers(residuals, queries), truth) < 1.3 * error(unbiased, truth)


def test_a_residual_that_was_not_measured_is_named() -> None:
    with pytest.raises(ValueError, match="residual of"):
        shrunken_answers(measured(independent(BITS), queries_of(BITS, 1), 1.0), queries_of(BITS, 2))
