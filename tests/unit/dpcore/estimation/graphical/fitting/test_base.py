"""Fits that start from a public model, against iterative proportional fitting of the table of the whole domain."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.base import with_public_counts
from dpcore.estimation.graphical.fitting.components import component_measurements
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement, linear_measurements
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2, "d": 3})
RANDOM = np.random.default_rng(3)
TIGHT = FitSettings(prior_scale=None, tolerance=1e-8, iterations=5000)
ROWS = 4000.0


def measured(joint: NDArray[np.float64], clique: Clique, stddev: float) -> Measurement:
    values = joint.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)).ravel()
    return Measurement(Marginals(DOMAIN, (clique,)), values, Noise.ROUNDED_GAUSSIAN, stddev)


def table(fit: GraphicalFit) -> NDArray[np.float64]:
    return fit.model.answer(Marginals(DOMAIN, (DOMAIN.names,))).reshape(DOMAIN.shape())


def drawn() -> NDArray[np.float64]:
    """A joint table whose pairs (a, b) and (b, c) are dependent; d is independent."""
    pair, other = RANDOM.gamma(0.7, size=(3, 4)), RANDOM.gamma(0.7, size=(4, 2))
    joint = np.einsum("ab,bc,d->abcd", pair, other, RANDOM.gamma(2.0, size=3))
    return np.asarray(ROWS * joint / joint.sum())


def public_fit(joint: NDArray[np.float64]) -> GraphicalFit:
    parts = [measured(joint, clique, 0.01) for clique in (("a",), ("b",), ("c",), ("d",), ("a", "b"), ("b", "c"))]
    return fit_model(DOMAIN, parts, ROWS, FitSettings(prior_scale=1e3, tolerance=1e-8, iterations=5000))


def raked(joint: NDArray[np.float64], margins: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The slow reference: the table nearest to the public one, in relative entropy, with other one-way marginals."""
    for _ in range(2000):
        for axis, margin in enumerate(margins):
            others = tuple(other for other in range(joint.ndim) if other != axis)
            factors = margin / joint.sum(axis=others)
            joint = joint * np.expand_dims(factors, others)
    return joint


def test_with_its_own_marginals_it_is_the_public_model() -> None:
    joint = drawn()
    public = public_fit(joint)
    ones = [measured(joint, (name,), 1.0) for name in DOMAIN.names]
    np.testing.assert_allclose(table(fit_model(DOMAIN, ones, ROWS, TIGHT, public=public)), table(public), atol=1.5)


def test_other_marginals_rake_the_public_model() -> None:
    public, private = public_fit(drawn()), 3 * drawn()
    ones = [measured(private, (name,), 0.5) for name in DOMAIN.names]
    margins = [np.asarray(part.values) for part in ones]
    wanted = raked(table(public) * 3, margins)
    given = table(fit_model(DOMAIN, ones, 3 * ROWS, TIGHT, public=public))
    assert np.abs(given - wanted).sum() < 0.005 * 3 * ROWS


def test_a_measured_pair_far_from_the_public_one_is_kept() -> None:
    public, private = public_fit(drawn()), drawn()
    parts = [measured(private, clique, 1.0) for clique in (("a",), ("b",), ("c",), ("d",), ("a", "b"), ("c", "d"))]
    fit = fit_model(DOMAIN, parts, ROWS, TIGHT, public=public)
    for clique in (("a", "b"), ("c", "d")):
        given = fit.model.answer(Marginals(DOMAIN, (clique,)))
        assert np.abs(given - measured(private, clique, 1.0).values).sum() < 0.02 * ROWS


def test_the_nodes_of_the_public_model_lie_in_the_tree() -> None:
    public = public_fit(drawn())
    fit = fit_model(DOMAIN, [measured(drawn(), ("a", "d"), 1.0)], ROWS, public=public)
    assert all(any(set(node) <= set(larger) for larger in fit.tree.nodes) for node in public.tree.nodes)


def test_public_counts_are_kept_where_priors_are_learnt() -> None:
    """A second prior would shrink the same one-way counts twice."""
    public, random = public_fit(drawn()), np.random.default_rng(5)
    ones = [measured(drawn(), (name,), 30.0) for name in DOMAIN.names]
    noisy = [replace(part, values=part.values + random.normal(0, 30.0, part.values.size)) for part in ones]
    plain, learnt = (
        table(fit_model(DOMAIN, noisy, ROWS, replace(TIGHT, empirical_bayes=given), public=public))
        for given in (False, True)
    )
    np.testing.assert_array_equal(plain, learnt)


PAIRED = Domain.of({f"y{number}": 4 for number in range(8)})


def test_one_wrong_pair_of_a_public_table_does_not_free_the_right_ones() -> None:
    """Seven measured pairs are as the public rows say, one is not; each learns its own scale."""
    independent, random = np.full(16, 1 / 16), np.random.default_rng(6)
    wrong = np.where(np.eye(4) > 0, 0.19, 0.02).ravel()
    pairs = list(pairwise(PAIRED.names))
    exact = [ROWS * (wrong if number == 3 else independent) for number in range(len(pairs))]

    def fitted_to(counts: NDArray[np.float64], clique: Clique, stddev: float) -> Measurement:
        return Measurement(Marginals(PAIRED, (clique,)), counts, Noise.ROUNDED_GAUSSIAN, stddev)

    public = fit_model(PAIRED, [fitted_to(ROWS * independent, clique, 0.1) for clique in pairs], ROWS)
    parts = [
        fitted_to(counts + random.normal(0, NOISY, counts.size), clique, NOISY)
        for counts, clique in zip(exact, pairs, strict=True)
    ]
    queries = Marginals(PAIRED, tuple(pairs))
    shared, own = (
        np.abs(
            fit_model(PAIRED, parts, ROWS, replace(TIGHT, empirical_bayes=given), public=public).model.answer(queries)
            - np.concatenate(exact)
        ).sum()
        for given in (False, True)
    )
    assert own < 0.9 * shared


NOISY = 40.0
WIDE = Domain.of({f"x{number}": 12 for number in range(8)})


def noisy_components(counts: NDArray[np.float64]) -> list[LinearMeasurement]:
    """Each row of counts, measured with noise, as a centred component."""
    parts: list[LinearMeasurement] = []
    for name, row in zip(WIDE.names, counts, strict=True):
        values = row + np.random.default_rng(len(parts)).normal(0, NOISY, row.size)
        measurement = Measurement(Marginals(WIDE, ((name,),)), values, Noise.ROUNDED_GAUSSIAN, NOISY)
        components = component_measurements(WIDE, linear_measurements(measurement))
        parts += [part for part in components if part.clique]
    return parts


def errors_of(parts: list[LinearMeasurement], counts: NDArray[np.float64]) -> list[float]:
    return [
        float(np.abs(part.values + row.sum() / row.size - row).sum()) for part, row in zip(parts, counts, strict=True)
    ]


@pytest.mark.parametrize(("bias", "lower", "upper"), [(0.0, 0.0, 0.2), (3.0, 0.0, 1.1)], ids=["right", "wrong"])
def test_public_counts_are_trusted_as_far_as_measured_ones_say(bias: float, lower: float, upper: float) -> None:
    random = np.random.default_rng(8)
    shares = random.dirichlet(np.ones(12), 8)
    public = shares * np.exp(bias * random.normal(size=shares.shape))
    public /= public.sum(axis=1, keepdims=True)
    counts = ROWS * shares
    parts = noisy_components(counts)
    fused = with_public_counts(parts, dict(zip(WIDE.names, public, strict=True)), 5000.0, ROWS)
    ratio = np.mean(errors_of(fused, counts)) / np.mean(errors_of(parts, counts))
    assert lower <= ratio < upper


def test_a_value_that_public_data_lack_is_nearly_what_was_measured() -> None:
    shares = np.full((8, 12), 1 / 12)
    public = shares.copy()
    public[0, 0] = 0.0
    public[0] /= public[0].sum()
    parts = noisy_components(ROWS * shares)
    fused = with_public_counts(parts, dict(zip(WIDE.names, public, strict=True)), 5000.0, ROWS)
    assert abs(fused[0].values[0] - parts[0].values[0]) < 2 * NOISY


def test_other_components_are_kept() -> None:
    pair = LinearMeasurement(("x0", "x1"), np.zeros(144), 1.0, centred=True)
    parts = [*noisy_components(np.full((8, 12), ROWS / 12)), pair]
    shares = dict.fromkeys(WIDE.names, np.full(12, 1 / 12))
    assert with_public_counts(parts, shares, 5000.0, ROWS)[-1] is pair
