"""Corrections of latent-class models against the joint distribution of all cells, and on samples of a model."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.work import UNIT, WorkMeter
from dpcore.estimation.reconstruction.latent_classes import LatentClassModel
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.sample_posterior import (
    DISPERSIONS,
    SamplePosterior,
    bytes_of_posterior,
    corrected_answers,
    is_possible,
    reads_of_posterior,
)
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from dpcore.workload import all_k_way

Real = NDArray[np.float64]
DOMAIN = Domain.of({"a": 2, "b": 3, "one": 1, "c": 4})
QUERIES = Marginals(DOMAIN, (("c", "a"), ("a", "b", "one"), ("b", "c")))
ROWS = 400.0
CELLS = np.array(list(product(*map(range, DOMAIN.sizes))))


def model_of(domain: Domain, classes: int, seed: int = 0) -> LatentClassModel:
    generator = np.random.default_rng(seed)
    tables = [generator.dirichlet(np.ones(size), size=classes).T for size in domain.sizes]
    first = np.cumsum([0, *domain.sizes]).astype(np.int64)
    return LatentClassModel(domain.names, first, np.concatenate([*tables, [generator.dirichlet(np.ones(classes))]]))


MODEL = model_of(DOMAIN, 3)


def joint(model: LatentClassModel) -> Real:
    """The probability of each of CELLS."""
    values = model.first[:-1] + CELLS
    return np.array([(model.table[row].prod(axis=0) * model.table[-1]).sum() for row in values])


def matrix(queries: Marginals) -> Real:
    """The marginals as sums over CELLS, float64 [queries.size, cells]."""
    rows = []
    for clique in queries.cliques:
        axes = DOMAIN.axes(clique)
        of_clique = product(*map(range, DOMAIN.shape(clique)))
        rows += [(CELLS[:, axes] == np.array(values)).all(axis=1) for values in of_clique]
    return np.array(rows, dtype=np.float64)


def measured(queries: Marginals, counts: Real, stddev: float, seed: int) -> tuple[Residuals, Real]:
    """Residuals of noisy marginals, and the marginals."""
    noise = np.random.default_rng(seed).normal(0.0, stddev, queries.size)
    values = counts + noise
    return Residuals.of_marginals([Measurement(queries, values, Noise.GAUSSIAN, stddev)]), values


@pytest.mark.parametrize("dispersion", [1.0, 4.0])
def test_estimates_are_the_posterior_means_of_the_whole_table(dispersion: float) -> None:
    """The cells of the whole table have the covariance of a multinomial sample; marginals of them are measured."""
    cells, sums, stddev = joint(MODEL), matrix(QUERIES), 7.0
    residuals, values = measured(QUERIES, sums @ (ROWS * cells), stddev, 1)
    prior = dispersion * ROWS * (np.diag(cells) - np.outer(cells, cells))
    gain = prior @ sums.T @ np.linalg.inv(sums @ prior @ sums.T + stddev**2 * np.eye(QUERIES.size))
    posterior = sums @ (ROWS * cells + gain @ (values - sums @ (ROWS * cells)))
    expected = MODEL.answers(QUERIES, ROWS)
    (found,) = SamplePosterior.of(MODEL, QUERIES).estimates(expected, residuals, ROWS, [dispersion])
    np.testing.assert_allclose(found, posterior, atol=1e-8)


def test_a_covariance_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SamplePosterior.of(MODEL, QUERIES).covariance
    monkeypatch.setattr("dpcore.estimation.reconstruction.sample_posterior._ENTRIES", 1)
    np.testing.assert_allclose(SamplePosterior.of(MODEL, QUERIES).covariance, whole, atol=1e-15)


def test_a_large_dispersion_leaves_the_measured_answers_and_a_small_one_those_of_the_model() -> None:
    residuals, _ = measured(QUERIES, matrix(QUERIES) @ (ROWS * joint(MODEL)), 7.0, 1)
    expected = MODEL.answers(QUERIES, ROWS)
    free, fixed = SamplePosterior.of(MODEL, QUERIES).estimates(expected, residuals, ROWS, [1e9, 1e-9])
    np.testing.assert_allclose(fixed, expected, atol=1e-5)
    sums, start = [], 0
    for size in QUERIES.sizes:  # Both have as many rows, but the measured answers another number than the estimates.
        sums.append(float(free[start : start + size].sum()))
        start += size
    np.testing.assert_allclose(sums, ROWS)
    unbiased = residuals.answers(QUERIES).values
    spread_evenly = np.repeat((ROWS - float(residuals.marginal(()))) / np.array(QUERIES.sizes), QUERIES.sizes)
    np.testing.assert_allclose(free, unbiased + spread_evenly, atol=1e-3)


def test_a_sample_is_nearer_to_its_correction_than_to_the_model_or_the_measured_answers() -> None:
    """23 of 30 cells or so expect fewer rows than the noise has."""
    domain = Domain.of({f"x{axis}": 2 for axis in range(8)})
    queries, errors = all_k_way(domain, 3).queries, []
    assert isinstance(queries, Marginals)
    model, generator = model_of(domain, 4, 5), np.random.default_rng(6)
    posterior, rows = SamplePosterior.of(model, queries), 2_000
    for seed in range(5):
        of_class = generator.choice(4, rows, p=model.table[-1])
        codes = (generator.random((rows, 8)) < model.table[1:-1:2].T[of_class]).astype(np.int64)
        tables = [np.bincount(codes[:, domain.axes(clique)] @ [4, 2, 1], minlength=8) for clique in queries.cliques]
        exact = np.concatenate(tables).astype(np.float64)
        residuals, _ = measured(queries, exact, 60.0, seed)
        expected = model.answers(queries, rows)
        (found,) = posterior.estimates(expected, residuals, rows, [1.0])
        errors.append([np.abs(one - exact).sum() for one in (found, expected, residuals.answers(queries).values)])
    corrected, of_model, unbiased = np.mean(errors, axis=0)
    assert corrected < 0.9 * min(of_model, unbiased)


def test_without_dispersions_or_work_the_answers_are_those_of_the_model() -> None:
    residuals, _ = measured(QUERIES, matrix(QUERIES) @ (ROWS * joint(MODEL)), 7.0, 1)
    expected = MODEL.answers(QUERIES, ROWS)
    for dispersions, limit in (((), np.inf), (DISPERSIONS, 0.99 * reads_of_posterior(QUERIES, 3, len(DISPERSIONS)))):
        meter = WorkMeter(limit)
        (answers,) = corrected_answers(MODEL, residuals, QUERIES, ROWS, dispersions, meter)
        np.testing.assert_array_equal(answers, expected)
        assert not meter.spent
    meter = WorkMeter()
    corrected = corrected_answers(MODEL, residuals, QUERIES, ROWS, DISPERSIONS, meter)
    wanted = SamplePosterior.of(MODEL, QUERIES).estimates(expected, residuals, ROWS, DISPERSIONS)
    np.testing.assert_array_equal(corrected, wanted)
    assert meter.spent == reads_of_posterior(QUERIES, 3, len(DISPERSIONS))


def test_what_is_possible_and_what_it_costs() -> None:
    bits = all_k_way(Domain.of({f"x{axis}": 2 for axis in range(23)}), 3).queries
    assert isinstance(bits, Marginals)
    assert is_possible(bits, 64)
    assert 0.3 * UNIT < reads_of_posterior(bits, 64, 1) < 3 * UNIT
    assert reads_of_posterior(bits, 64, 6) > reads_of_posterior(bits, 64, 1) > reads_of_posterior(bits, 16, 1)
    assert 8 * 4 * 2047**2 < bytes_of_posterior(bits, 64) < 2**28
    assert not is_possible(all_k_way(Domain.of({f"x{axis}": 2 for axis in range(40)}), 3).queries, 2)  # Many sets.
    assert not is_possible(all_k_way(Domain.of({"a": 60, "b": 60}), 2).queries, 64)  # Large tables of many classes.
