"""Models from measurements, against the optimality conditions on the table of the whole domain."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.independent import to_simplex
from dpcore.estimation.pgm.fit import Fitting, GraphicalFit, fit_model
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from dpcore.queries.ranges import prefix, range_marginals

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2, "alone": 5})
TOTAL = 500.0
EXACT = np.random.default_rng(0).integers(0, 40, (3, 4, 2)).astype(np.float64)
EXACT *= TOTAL / EXACT.sum()
TIGHT = Fitting(tolerance=1e-9, iterations=5000)


def exact(clique: Clique) -> NDArray[np.float64]:
    others = tuple(axis for axis, name in enumerate("abc") if name not in clique)
    return np.asarray(EXACT.sum(axis=others)).ravel()


def measured(clique: Clique, stddev: float, seed: int = 0) -> Measurement:
    values = exact(clique) + np.random.default_rng(seed).normal(0, stddev, DOMAIN.size(clique))
    return Measurement(Marginals(DOMAIN, (clique,)), values, Noise.GAUSSIAN, stddev)


ONE_WAY = [measured((name,), 4.0, seed) for seed, name in enumerate("abc")]


def table(fit: GraphicalFit, clique: Clique = ("a", "b", "c")) -> NDArray[np.float64]:
    return fit.model.answer(Marginals(DOMAIN, (clique,))).reshape(DOMAIN.shape(clique))


def test_it_is_the_optimum_of_the_penalised_likelihood() -> None:
    """p = base exp(lambda_ab + lambda_bc) with N p - y + kappa lambda sigma^2 = 0 on every measured cell."""
    fitting = Fitting(strength=0.3, least=0.05, tolerance=1e-10, iterations=5000)
    pairs = [measured(("a", "b"), 5.0, 7), measured(("b", "c"), 9.0, 8)]
    fit = fit_model(DOMAIN, [*ONE_WAY, *pairs], TOTAL, fitting)
    base = independent([*ONE_WAY, *pairs])
    joint = table(fit)
    log_ratio = np.log(joint / TOTAL) - np.log(base)
    multipliers = {" ".join(clique): value for clique, value in by_clique(fit).items()}
    wanted = sum(spread(multipliers[key], tuple(key.split())) for key in multipliers)
    assert np.ptp(log_ratio - wanted) < 1e-6
    for measurement in [*ONE_WAY, *pairs]:
        (clique,) = cliques_of(measurement)
        expected = np.maximum(TOTAL * summed(base, clique), 0.01)
        kappa = np.maximum(0.05, 0.3 / np.sqrt(expected)) * measurement.stddev**2
        residual = summed(joint, clique) - measurement.values
        assert np.allclose(residual, -kappa * multipliers[" ".join(clique)].ravel(), atol=1e-3)
    assert fit.gap < 1e-6


def by_clique(fit: GraphicalFit) -> dict[Clique, NDArray[np.float64]]:
    return {tuple(key.split()): value for key, value in fit.multipliers.items()}


def spread(values: NDArray[np.float64], clique: Clique) -> NDArray[np.float64]:
    return values.reshape([size if name in clique else 1 for name, size in zip("abc", (3, 4, 2), strict=True)])


def summed(joint: NDArray[np.float64], clique: Clique) -> NDArray[np.float64]:
    others = tuple(axis for axis, name in enumerate("abc") if name not in clique)
    return np.asarray(joint.sum(axis=others)).ravel()


def cliques_of(measurement: Measurement) -> tuple[Clique, ...]:
    assert isinstance(measurement.queries, Marginals)
    return measurement.queries.cliques


def independent(measurements: list[Measurement]) -> NDArray[np.float64]:
    """The product of one-way marginals, each the average of all that was measured, by precision; no cell is 0."""
    joint = np.ones((3, 4, 2))
    for name in "abc":
        told = [one for one in measurements if name in cliques_of(one)[0]]
        size = DOMAIN.size((name,))
        weights = [one.stddev**-2 * size / one.values.size for one in told]
        values = [
            summed_table(one.values.reshape(DOMAIN.shape(cliques_of(one)[0])), cliques_of(one)[0], name) for one in told
        ]
        mean = sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)
        least = 0.1 / np.sqrt(sum(weights)) / TOTAL
        chances = np.maximum(to_simplex(mean / TOTAL), least)
        joint = joint * spread(chances / chances.sum(), (name,))
    return joint


def summed_table(values: NDArray[np.float64], clique: Clique, name: str) -> NDArray[np.float64]:
    return np.asarray(values.sum(axis=tuple(axis for axis, other in enumerate(clique) if other != name)))


def test_without_noise_the_measured_marginals_come_out() -> None:
    cliques: tuple[Clique, ...] = (("a", "b"), ("b", "c"), ("a", "c"))
    fit = fit_model(DOMAIN, [measured(clique, 1e-4) for clique in cliques], TOTAL, TIGHT)
    for clique in cliques:
        assert np.allclose(table(fit, clique).ravel(), exact(clique), atol=0.01)


def test_with_much_noise_the_attributes_stay_independent() -> None:
    fit = fit_model(DOMAIN, [*ONE_WAY, measured(("a", "b"), 1e5)], TOTAL, TIGHT)
    joint = table(fit, ("a", "b"))
    assert np.allclose(joint, np.outer(joint.sum(axis=1), joint.sum(axis=0)) / TOTAL, atol=0.5)


def test_what_nobody_measured_is_uniform() -> None:
    fit = fit_model(DOMAIN, ONE_WAY, TOTAL)
    assert np.allclose(table(fit, ("alone",)), TOTAL / 5)


def test_measuring_twice_is_measuring_once_with_half_the_variance() -> None:
    """Where both are as precise; the average of their values is what one measurement would have said."""
    twice = [measured(("a", "b"), 6.0, seed) for seed in (1, 2)]
    queries, mean = twice[0].queries, (twice[0].values + twice[1].values) / 2
    once = Measurement(queries, mean, Noise.GAUSSIAN, 6.0 / np.sqrt(2))
    found = table(fit_model(DOMAIN, twice, TOTAL, TIGHT))
    assert np.allclose(found, table(fit_model(DOMAIN, [once], TOTAL, TIGHT)), atol=0.01)


def test_a_warm_start_ends_at_the_same_model_sooner() -> None:
    """Also where the new measurement makes other nodes."""
    first = [*ONE_WAY, measured(("a", "b"), 3.0, 3)]
    then = [*first, measured(("b", "c"), 30.0, 4)]
    before = fit_model(DOMAIN, first, TOTAL, TIGHT)
    cold, warm = fit_model(DOMAIN, then, TOTAL, TIGHT), fit_model(DOMAIN, then, TOTAL, TIGHT, before)
    assert np.allclose(table(cold), table(warm), atol=0.01)
    assert warm.evaluations < cold.evaluations


def test_prefixes_are_fitted_as_they_were_measured() -> None:
    queries = range_marginals(DOMAIN, [("a", "b")], {"b": prefix(4)})
    values = np.cumsum(exact(("a", "b")).reshape(3, 4), axis=1).ravel()
    fit = fit_model(DOMAIN, [Measurement(queries, values, Noise.GAUSSIAN, 1e-3)], TOTAL, TIGHT)
    assert np.allclose(table(fit, ("a", "b")).ravel(), exact(("a", "b")), atol=0.05)


def test_a_count_below_zero_excludes_no_value() -> None:
    """The noisy count of one value is far below 0; a later measurement finds rows of it."""
    low = Measurement(Marginals(DOMAIN, (("c",),)), np.array([500.0, -30.0]), Noise.GAUSSIAN, 40.0)
    rows = Measurement(Marginals(DOMAIN, (("c",),)), np.array([460.0, 40.0]), Noise.GAUSSIAN, 1.0)
    assert table(fit_model(DOMAIN, [low], TOTAL), ("c",))[1] > 0
    assert table(fit_model(DOMAIN, [low, rows], TOTAL, TIGHT), ("c",))[1] == pytest.approx(40, abs=1.5)


def test_further_cliques_are_held_by_the_structure() -> None:
    plain, wider = fit_model(DOMAIN, ONE_WAY, TOTAL), fit_model(DOMAIN, ONE_WAY, TOTAL, cliques=[("a", "c")])
    assert not plain.tree.holds(("a", "c"))
    assert wider.tree.holds(("a", "c"))
    assert np.allclose(table(plain), table(wider), atol=1e-3)


def test_a_fit_that_may_go_on_comes_nearer() -> None:
    measurements = [*ONE_WAY, *(measured(clique, 0.1) for clique in (("a", "b"), ("b", "c"), ("a", "c")))]
    rough = fit_model(DOMAIN, measurements, TOTAL, Fitting(tolerance=1e-9, iterations=3))
    fine = fit_model(DOMAIN, measurements, TOTAL, Fitting(tolerance=1e-2))
    assert fine.gap < rough.gap
    assert fine.gap <= 1e-2 * 35  # That many values were measured.


def test_an_attribute_of_one_value() -> None:
    domain = Domain.of({"x": 1, "y": 2})
    seen = [
        Measurement(Marginals(domain, (("x",),)), np.array([90.0]), Noise.GAUSSIAN, 5.0),
        Measurement(Marginals(domain, (("x", "y"),)), np.array([60.0, 40.0]), Noise.GAUSSIAN, 1.0),
    ]
    fit = fit_model(domain, seen, 100.0, TIGHT)
    assert np.allclose(fit.model.answer(Marginals(domain, (("x",), ("y",)))), [100, 60, 40], atol=0.5)


def test_no_measurement_is_refused() -> None:
    with pytest.raises(ValueError, match="no measurements; want"):
        fit_model(DOMAIN, [], TOTAL)
