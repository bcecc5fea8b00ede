"""Models from measurements, against the optimality conditions on the table of the whole domain."""

from __future__ import annotations

import ast
import math
from itertools import chain, combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.independent import to_simplex
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from dpcore.queries.ranges import prefix, range_marginals

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2, "alone": 5})
TOTAL = 500.0
EXACT = np.random.default_rng(0).integers(0, 40, (3, 4, 2)).astype(np.float64)
EXACT *= TOTAL / EXACT.sum()
TIGHT = FitSettings(tolerance=1e-9, iterations=5000)
LOOSE = FitSettings(prior_scale=1e3, tolerance=1e-9, iterations=5000)
LEARNING = FitSettings(prior_scale=None, tolerance=1e-9, iterations=5000)
CYCLE: tuple[Clique, ...] = (("a", "b"), ("b", "c"), ("a", "c"))


def exact(clique: Clique) -> NDArray[np.float64]:
    others = tuple(axis for axis, name in enumerate("abc") if name not in clique)
    return np.asarray(EXACT.sum(axis=others)).ravel()


def measured(clique: Clique, stddev: float, seed: int = 0) -> Measurement:
    values = exact(clique) + np.random.default_rng(seed).normal(0, stddev, DOMAIN.size(clique))
    return Measurement(Marginals(DOMAIN, (clique,)), values, Noise.GAUSSIAN, stddev)


ONE_WAY = [measured((name,), 4.0, seed) for seed, name in enumerate("abc")]


def table(fit: GraphicalFit, clique: Clique = ("a", "b", "c")) -> NDArray[np.float64]:
    return fit.model.answer(Marginals(DOMAIN, (clique,))).reshape(DOMAIN.shape(clique))


def centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def spread_out(values: NDArray[np.float64], clique: Clique) -> NDArray[np.float64]:
    return values.reshape([size if name in clique else 1 for name, size in zip("abc", (3, 4, 2), strict=True)])


def summed(joint: NDArray[np.float64], clique: Clique) -> NDArray[np.float64]:
    others = tuple(axis for axis, name in enumerate("abc") if name not in clique)
    return np.asarray(joint.sum(axis=others))


def clique_of(measurement: Measurement) -> Clique:
    assert isinstance(measurement.queries, Marginals)
    (clique,) = measurement.queries.cliques
    return clique


def independent(measurements: list[Measurement]) -> NDArray[np.float64]:
    """The product of one-way marginals, each the average of all that was measured, by precision; no cell is 0."""
    joint = np.ones((3, 4, 2))
    for name in "abc":
        told = [one for one in measurements if name in clique_of(one)]
        weights = [one.stddev**-2 * DOMAIN.size((name,)) / one.values.size for one in told]
        values = [along(one, name) for one in told]
        mean = sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)
        least = 0.1 / np.sqrt(sum(weights)) / TOTAL
        chances = np.maximum(to_simplex(mean / TOTAL), least)
        joint = joint * spread_out(chances / chances.sum(), (name,))
    return joint


def along(measurement: Measurement, name: str) -> NDArray[np.float64]:
    clique = clique_of(measurement)
    others = tuple(axis for axis, other in enumerate(clique) if other != name)
    return np.asarray(measurement.values.reshape(DOMAIN.shape(clique)).sum(axis=others))


def components(measurements: list[Measurement]) -> dict[Clique, tuple[float, NDArray[np.float64]]]:
    """Precision and value of every component but the total, by definition."""
    found: dict[Clique, tuple[float, NDArray[np.float64]]] = {}
    for one in measurements:
        clique = clique_of(one)
        cells = one.values.reshape(DOMAIN.shape(clique))
        for part in chain.from_iterable(combinations(clique, order) for order in range(1, len(clique) + 1)):
            others = tuple(axis for axis, name in enumerate(clique) if name not in part)
            precision = one.stddev**-2 * DOMAIN.size(part) / one.values.size
            before, mean = found.get(part, (0.0, np.zeros(DOMAIN.shape(part))))
            value = (before * mean + precision * centred(cells.sum(axis=others))) / (before + precision)
            found[part] = (before + precision, value)
    return found


def by_clique(fit: GraphicalFit) -> dict[Clique, NDArray[np.float64]]:
    """The multipliers of the components."""
    return {ast.literal_eval(key)[0]: value.reshape(-1) for key, value in fit.multipliers.items()}


@pytest.mark.parametrize("spread", [0.1, 5.0])
def test_it_is_the_optimum_of_the_penalised_likelihood(spread: float) -> None:
    """p = base exp(sum of lambda_s) with w_s(N p) - v_s + e_s lambda_s / (precision prior variance) = 0."""
    fitting = FitSettings(prior_scale=spread, tolerance=1e-11, iterations=5000)
    measurements = [*ONE_WAY, measured(("a", "b"), 5.0, 7), measured(("b", "c"), 9.0, 8)]
    fit = fit_model(DOMAIN, measurements, TOTAL, fitting)
    base, joint, multipliers = independent(measurements), table(fit), by_clique(fit)
    told = components(measurements)
    assert set(multipliers) == set(told) == {("a",), ("b",), ("c",), ("a", "b"), ("b", "c")}
    tilt = sum(spread_out(centred(multipliers[clique].reshape(DOMAIN.shape(clique))), clique) for clique in told)
    assert np.ptp(np.log(joint / TOTAL) - np.log(base) - tilt) < 1e-6
    for clique, (precision, value) in told.items():
        expected = TOTAL * summed(base, clique)
        kappa = expected / (spread * expected**1.5 * precision)
        gradient = centred(summed(joint, clique)) - value + kappa * multipliers[clique].reshape(expected.shape)
        np.testing.assert_allclose(gradient, 0, atol=1e-3)
    assert fit.gap < 1e-8


def test_the_loss_is_that_of_the_components() -> None:
    measurements = [*ONE_WAY, measured(("a", "b"), 5.0, 7)]
    fit = fit_model(DOMAIN, measurements, TOTAL, TIGHT)
    squares = [
        precision * ((centred(summed(table(fit), clique)) - value) ** 2).sum()
        for clique, (precision, value) in components(measurements).items()
    ]
    assert fit.loss == pytest.approx(sum(squares) / 2, rel=1e-6)


def test_without_noise_the_measured_marginals_come_out() -> None:
    fit = fit_model(DOMAIN, [measured(clique, 1e-4) for clique in CYCLE], TOTAL, TIGHT)
    for clique in CYCLE:
        assert np.allclose(table(fit, clique).ravel(), exact(clique), atol=0.01)


def test_with_much_noise_the_attributes_stay_independent() -> None:
    fit = fit_model(DOMAIN, [*ONE_WAY, measured(("a", "b"), 1e5)], TOTAL, TIGHT)
    joint = table(fit, ("a", "b"))
    assert np.allclose(joint, np.outer(joint.sum(axis=1), joint.sum(axis=0)) / TOTAL, atol=0.5)


@pytest.mark.parametrize("fitting", [TIGHT, LEARNING])
def test_what_nobody_measured_is_uniform(fitting: FitSettings) -> None:
    fit = fit_model(DOMAIN, [*ONE_WAY, measured(("a", "b"), 4.0)], TOTAL, fitting)
    assert np.allclose(table(fit, ("alone",)), TOTAL / 5)
    assert np.allclose(table(fit, ("a", "alone")), table(fit, ("a",))[:, None] / 5)


@pytest.mark.parametrize("fitting", [TIGHT, LEARNING])
def test_the_total_alone_leaves_everything_uniform(fitting: FitSettings) -> None:
    counted = Measurement(Marginals(DOMAIN, ((),)), np.array([512.0]), Noise.GAUSSIAN, 10.0)
    fit = fit_model(DOMAIN, [counted, counted], TOTAL, fitting)
    assert np.allclose(table(fit), TOTAL / 24)
    assert fit.loss == pytest.approx((12 / 10) ** 2)


def test_the_total_is_the_given_one_whatever_was_measured() -> None:
    counted = Measurement(Marginals(DOMAIN, ((),)), np.array([9e3]), Noise.GAUSSIAN, 1.0)
    seen = [*ONE_WAY, measured(("b", "c"), 5.0)]
    fit = fit_model(DOMAIN, [counted, *seen], 321.0, TIGHT)
    assert fit.total == fit.model.total == 321.0
    assert table(fit).sum() == pytest.approx(321.0)
    assert np.array_equal(table(fit), table(fit_model(DOMAIN, seen, 321.0, TIGHT)))


def test_measuring_twice_is_measuring_once_with_half_the_variance() -> None:
    """Where both are as precise; the average of their values is what one measurement would have said."""
    twice = [measured(("a", "b"), 6.0, seed) for seed in (1, 2)]
    queries, mean = twice[0].queries, (twice[0].values + twice[1].values) / 2
    once = Measurement(queries, mean, Noise.GAUSSIAN, 6.0 / np.sqrt(2))
    found = table(fit_model(DOMAIN, twice, TOTAL, TIGHT))
    assert np.allclose(found, table(fit_model(DOMAIN, [once], TOTAL, TIGHT)), atol=0.01)


@pytest.mark.parametrize("fitting", [TIGHT, LOOSE])
def test_a_warm_start_ends_at_the_same_model_sooner(fitting: FitSettings) -> None:
    """Also where the new measurement makes other nodes."""
    first = [*ONE_WAY, measured(("a", "b"), 3.0, 3)]
    then = [*first, measured(("b", "c"), 30.0, 4)]
    before = fit_model(DOMAIN, first, TOTAL, fitting)
    cold, warm = fit_model(DOMAIN, then, TOTAL, fitting), fit_model(DOMAIN, then, TOTAL, fitting, before)
    assert np.allclose(table(cold), table(warm), atol=0.01)
    assert warm.evaluations < cold.evaluations


def test_a_released_fit_starts_the_next_one_as_it_would_have_itself() -> None:
    first = [*ONE_WAY, measured(("a", "b"), 3.0, 3)]
    then = [*first, measured(("b", "c"), 30.0, 4)]
    before = fit_model(DOMAIN, first, TOTAL, LEARNING)
    released = before.without_tables()
    found, wanted = (fit_model(DOMAIN, then, TOTAL, LEARNING, warm) for warm in (released, before))
    assert found.evaluations == wanted.evaluations
    np.testing.assert_array_equal(table(found), table(wanted))
    assert released.tree is before.tree
    for asked in ("model", "calibrated", "conditionals"):
        with pytest.raises(RuntimeError, match="fit without tables"):
            getattr(released, asked)


def test_a_fit_holds_one_copy_of_its_tables() -> None:
    fit = fit_model(DOMAIN, [*ONE_WAY, measured(("a", "b"), 3.0, 3)], TOTAL)
    assert fit.joints is not None
    assert fit.model.conditionals.joints is fit.joints  # type: ignore[attr-defined]
    np.testing.assert_allclose(fit.calibrated.vector(CYCLE), fit.model.answer(Marginals(DOMAIN, CYCLE)) / TOTAL)


def test_a_structure_grows_from_attributes_to_a_triple() -> None:
    """Fits of one another's multipliers, from independent attributes over pairs to one node that holds all."""
    steps: list[list[Measurement]] = [ONE_WAY]
    for clique in (*CYCLE, ("a", "b", "c")):
        steps.append([*steps[-1], measured(clique, 2.0, len(steps))])
    fit: GraphicalFit | None = None
    for measurements in steps:
        fit = fit_model(DOMAIN, measurements, TOTAL, TIGHT, fit)
        cold = fit_model(DOMAIN, measurements, TOTAL, TIGHT)
        assert np.allclose(table(cold), table(fit), atol=0.01)
        assert all(fit.tree.holds(clique_of(one)) for one in measurements)
    assert fit is not None
    assert set(fit.prior_scales) == {1, 2, 3}


def test_the_same_product_measured_twice_starts_warm() -> None:
    queries = range_marginals(DOMAIN, [("a", "b")], {"b": prefix(4)})
    values = np.cumsum(exact(("a", "b")).reshape(3, 4), axis=1).ravel()
    seen = [Measurement(queries, values + shift, Noise.GAUSSIAN, 5.0) for shift in (-1.0, 1.0)]
    cold = fit_model(DOMAIN, seen, TOTAL, TIGHT)
    warm = fit_model(DOMAIN, seen, TOTAL, TIGHT, cold)
    assert np.allclose(table(cold), table(warm), atol=0.01)
    other = range_marginals(DOMAIN, [("a", "b")], {"a": prefix(3)})
    more = Measurement(other, np.cumsum(exact(("a", "b")).reshape(3, 4), axis=0).ravel(), Noise.GAUSSIAN, 5.0)
    both = [*seen, more]
    found = fit_model(DOMAIN, both, TOTAL, TIGHT, cold)
    assert np.allclose(table(found), table(fit_model(DOMAIN, both, TOTAL, TIGHT)), atol=0.01)


def test_a_fit_of_products_comes_ten_times_as_close_to_its_optimum() -> None:
    domain = Domain.of({"a": 12, "b": 12})
    random = np.random.default_rng(0)
    queries = range_marginals(domain, [("a", "b")], {"a": prefix(12), "b": prefix(12)})
    noisy = random.integers(0, 400, queries.size) + np.arange(queries.size) * 7.0
    fit = fit_model(domain, [Measurement(queries, noisy, Noise.GAUSSIAN, 5.0)], 1e3, FitSettings(tolerance=1.0))
    assert fit.gap <= 0.1 * queries.size
    rough = FitSettings(tolerance=10.0)
    loose = fit_model(domain, [Measurement(queries, noisy, Noise.GAUSSIAN, 5.0)], 1e3, rough)
    assert fit.gap < 0.1 * queries.size < loose.gap


def test_names_with_spaces_are_not_mistaken_for_cliques() -> None:
    domain = Domain.of({"x": 2, "y": 3, "x y": 4, "centred": 2})

    def seen(clique: Clique) -> Measurement:
        values = np.linspace(10, 90, domain.size(clique))
        return Measurement(Marginals(domain, (clique,)), values, Noise.GAUSSIAN, 3.0)

    before = fit_model(domain, [seen(("x", "y"))], TOTAL)
    both = [seen(("x y",)), seen(("x", "centred"))]
    warm, cold = fit_model(domain, both, TOTAL, TIGHT, before), fit_model(domain, both, TOTAL, TIGHT)
    asked = Marginals(domain, (("x y",), ("x", "centred")))
    assert np.allclose(warm.model.answer(asked), cold.model.answer(asked), atol=0.01)


def test_prefixes_are_fitted_as_they_were_measured() -> None:
    queries = range_marginals(DOMAIN, [("a", "b")], {"b": prefix(4)})
    values = np.cumsum(exact(("a", "b")).reshape(3, 4), axis=1).ravel()
    fit = fit_model(DOMAIN, [Measurement(queries, values, Noise.GAUSSIAN, 1e-3)], TOTAL, LOOSE)
    assert np.allclose(table(fit, ("a", "b")).ravel(), exact(("a", "b")), atol=0.05)


def test_prefixes_and_whole_marginals_agree_where_both_tell_the_same() -> None:
    queries = range_marginals(DOMAIN, [("b", "c")], {"b": prefix(4)})
    values = np.cumsum(exact(("b", "c")).reshape(4, 2), axis=0).ravel()
    sums = Measurement(queries, values, Noise.GAUSSIAN, 1e-3)
    fit = fit_model(DOMAIN, [*ONE_WAY, measured(("a", "b"), 1e-3), sums], TOTAL, LOOSE)
    for clique in (("a", "b"), ("b", "c")):
        assert np.allclose(table(fit, clique).ravel(), exact(clique), atol=0.1)


def test_measurements_over_a_larger_domain_tell_about_the_attributes_of_the_model() -> None:
    """Also where it lists them in another order."""
    larger = Domain.of({"c": 2, "other": 7, "b": 4, "a": 3, "alone": 5})
    seen = [*ONE_WAY, measured(("a", "b"), 4.0, 1), measured(("b", "c"), 4.0, 2)]
    moved = []
    for one in seen:
        clique = clique_of(one)
        order = larger.canonical(clique)
        cells = one.values.reshape(DOMAIN.shape(clique)).transpose([clique.index(name) for name in order])
        moved.append(Measurement(Marginals(larger, (order,)), cells.ravel(), Noise.GAUSSIAN, one.stddev))
    found, wanted = fit_model(DOMAIN, moved, TOTAL, TIGHT), fit_model(DOMAIN, seen, TOTAL, TIGHT)
    assert found.tree.domain == DOMAIN
    assert np.allclose(table(found), table(wanted), atol=1e-3)


def test_a_count_below_zero_excludes_no_value() -> None:
    """The noisy count of one value is far below 0; a later measurement finds rows of it."""
    low = Measurement(Marginals(DOMAIN, (("c",),)), np.array([500.0, -30.0]), Noise.GAUSSIAN, 40.0)
    rows = Measurement(Marginals(DOMAIN, (("c",),)), np.array([460.0, 40.0]), Noise.GAUSSIAN, 1.0)
    assert table(fit_model(DOMAIN, [low], TOTAL), ("c",))[1] > 0
    assert table(fit_model(DOMAIN, [low, rows], TOTAL, TIGHT), ("c",))[1] == pytest.approx(40, abs=1.5)


def test_everything_is_finite_even_where_nearly_everything_is_empty() -> None:
    values = np.array([500.0, *[-60.0] * 11])
    seen = [Measurement(Marginals(DOMAIN, (("a", "b"),)), values, Noise.GAUSSIAN, 5.0)]
    for fitting in (TIGHT, LOOSE):
        fit = fit_model(DOMAIN, seen, TOTAL, fitting)
        assert fit.joints is not None
        assert all(np.isfinite(values).all() for _, values in fit.joints)
        assert all(np.isfinite(values).all() for values in fit.multipliers.values())
        assert math.isfinite(fit.loss)
    assert (table(fit_model(DOMAIN, seen, TOTAL, TIGHT)) > 0).all()


def test_further_cliques_are_held_by_the_structure() -> None:
    plain, wider = fit_model(DOMAIN, ONE_WAY, TOTAL), fit_model(DOMAIN, ONE_WAY, TOTAL, cliques=[("a", "c")])
    assert not plain.tree.holds(("a", "c"))
    assert wider.tree.holds(("a", "c"))
    assert np.allclose(table(plain), table(wider), atol=1e-3)


def test_a_fit_that_may_go_on_comes_nearer() -> None:
    measurements = [*ONE_WAY, *(measured(clique, 0.1) for clique in CYCLE)]
    rough = fit_model(DOMAIN, measurements, TOTAL, FitSettings(tolerance=1e-9, iterations=3))
    fine = fit_model(DOMAIN, measurements, TOTAL, FitSettings(tolerance=1e-2))
    assert fine.gap < rough.gap
    assert fine.gap <= 1e-2 * 35  # The components have that many values.


def test_attributes_of_one_value() -> None:
    domain = Domain.of({"x": 1, "y": 2, "z": 1})
    seen = [
        Measurement(Marginals(domain, (("x",),)), np.array([90.0]), Noise.GAUSSIAN, 5.0),
        Measurement(Marginals(domain, (("x", "z"),)), np.array([93.0]), Noise.GAUSSIAN, 5.0),
        Measurement(Marginals(domain, (("x", "y"),)), np.array([60.0, 40.0]), Noise.GAUSSIAN, 1.0),
    ]
    for fitting in (TIGHT, LEARNING):
        fit = fit_model(domain, seen, 100.0, fitting)
        asked = Marginals(domain, (("x",), ("y",), ("x", "y", "z")))
        assert np.allclose(fit.model.answer(asked), [100, 60, 40, 60, 40], atol=0.5)


def test_no_measurement_is_refused() -> None:
    with pytest.raises(ValueError, match="no measurements; want"):
        fit_model(DOMAIN, [], TOTAL)


@pytest.mark.parametrize("total", [0.0, -1.0, math.nan, math.inf])
def test_a_total_that_no_model_has_is_refused(total: float) -> None:
    with pytest.raises(ValueError, match="total"):
        fit_model(DOMAIN, ONE_WAY, total)


@pytest.mark.parametrize(("work", "wanted"), [(math.inf, 60), (30.0, 30), (1.0, 10), (0.0, 10)])
def test_work_allows_for_iterations_by_the_cells_of_the_model_and_a_sixth_always(work: float, wanted: int) -> None:
    measurements = [*ONE_WAY, *(measured(clique, 1.0) for clique in CYCLE)]
    cells = fit_model(DOMAIN, measurements, TOTAL).tree.cells
    fit = fit_model(DOMAIN, measurements, TOTAL, FitSettings(tolerance=1e-300, iterations=60, work=work * cells))
    assert wanted <= fit.evaluations <= wanted + 1  # One more where the last step was of no use.


@pytest.mark.parametrize(("total", "expected"), [(8.0, 2.0), (0.008, 0.01)])
def test_counts_below_a_hundredth_lean_towards_independence_as_a_hundredth_does(total: float, expected: float) -> None:
    """The optimality condition of one free parameter gives back kappa = e / (scale e^1.5), with e at least 0.01."""
    domain = Domain.of({"a": 2, "b": 2})
    queries, stddev = Marginals(domain, (("a", "b"),)), total / 8
    values = total / 4 + total / 8 * np.array([1.0, -1.0, -1.0, 1.0])
    settings = FitSettings(prior_scale=5.0, tolerance=1e-12, iterations=5000)
    fit = fit_model(domain, [Measurement(queries, values, Noise.GAUSSIAN, stddev)], total, settings)
    agree, differ = fit.model.answer(queries)[:2]
    multiplier = math.log(agree / differ) / 2
    kappa = (values[0] - agree) / stddev**2 / multiplier
    np.testing.assert_allclose(kappa, expected / (5 * expected**1.5), rtol=1e-2)
