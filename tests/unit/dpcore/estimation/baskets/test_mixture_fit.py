"""Fits to the counts of baskets that have tastes, and to those of independent items."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.baskets.mixture import Nodes, Parameters, RareItems, solved
from dpcore.estimation.baskets.mixture_fit import FitSettings, Fitted, fit_mixture
from dpcore.estimation.baskets.mixture_loss import Evidence, Penalty, compare, pair_facts

ITEMS = 24
NODES = Nodes(np.array([1.0, 2.0, 3.0, 6.0]), np.array([0.2, 0.3, 0.3, 0.2]), np.ones(4), 1.0)
RARE = RareItems(np.array([-4.0]), np.array([50.0]))
SETTINGS = FitSettings(candidates=((1, 1.0), (4, 1.0)), trial_steps=100, steps=150, residual_tastes=3)
NO_CLIP = np.ones(ITEMS * ITEMS)


def evidence_of(
    parameters: Parameters, noise: float, extra: NDArray[np.float64] | None = None
) -> tuple[Evidence, float]:
    """Noisy counts of a known mixture, and the true clipped count of a rare item."""
    classes = solved(parameters, RARE, NODES)
    empty = Evidence(NODES, np.zeros(ITEMS), 1.0, np.zeros((ITEMS, ITEMS)), 1.0, NO_CLIP)
    compared = compare(parameters, classes, empty, pair_facts(classes, RARE, empty), Penalty(1.0))
    draw = np.random.default_rng(5)
    table = np.triu(draw.normal(0, noise, (ITEMS, ITEMS)), 1) + (0 if extra is None else extra)
    counts = compared.counts + draw.normal(0, noise, ITEMS)
    rare = NODES.masses[:, None] * parameters.taste_shares(NODES.logs)
    target = float(np.einsum("jt,jtr->r", rare, classes.rare_p)[0])
    return Evidence(NODES, counts, noise, compared.pairs + table + table.T, noise, NO_CLIP), target


def with_tastes(strength: float) -> Parameters:
    draw = np.random.default_rng(6)
    tastes = strength * np.where(np.arange(ITEMS) % 2, 1.0, -1.0) * np.array([[1.0], [-1.0]])
    return Parameters(draw.normal(-1.5, 0.4, ITEMS), np.zeros(ITEMS), tastes, np.zeros(2), np.zeros(2))


def fit(evidence: Evidence, target: float, seed: int = 0) -> Fitted:
    return fit_mixture(evidence, RARE, np.array([target]), SETTINGS, np.random.default_rng(seed))


def errors(fitted: Fitted, evidence: Evidence) -> NDArray[np.float64]:
    facts = pair_facts(fitted.classes, fitted.rare, evidence)
    compared = compare(fitted.parameters, fitted.classes, evidence, facts, Penalty(1.0))
    return np.asarray((compared.pairs - evidence.pairs)[np.triu_indices(ITEMS, 1)])


def test_tastes_are_found() -> None:
    evidence, target = evidence_of(with_tastes(1.5), 1e-4)
    fitted = fit(evidence, target)
    assert len(fitted.parameters.shares) > 1
    assert np.abs(errors(fitted, evidence)).max() < 0.002
    independent, _ = evidence_of(with_tastes(0.0), 1e-9)
    spread = (evidence.pairs - independent.pairs)[np.triu_indices(ITEMS, 1)]
    assert np.abs(spread).max() > 0.01


def test_noise_makes_no_tastes() -> None:
    evidence, target = evidence_of(with_tastes(0.0), 0.003)
    fitted = fit(evidence, target)
    assert len(fitted.parameters.shares) == 1


def test_a_pair_that_only_two_items_share_gets_a_taste() -> None:
    extra = np.zeros((ITEMS, ITEMS))
    extra[3, 8] = 0.03
    evidence, target = evidence_of(with_tastes(0.0), 5e-4, extra)
    fitted = fit(evidence, target)
    assert len(fitted.parameters.shares) > 1
    assert np.abs(errors(fitted, evidence)).max() < 0.012


def test_item_counts_are_fitted_to_within_their_noise() -> None:
    evidence, target = evidence_of(with_tastes(1.0), 1e-3)
    fitted = fit(evidence, target)
    masses = NODES.masses[:, None] * fitted.parameters.taste_shares(NODES.logs)
    counts = np.einsum("jt,jti->i", masses, fitted.classes.p)
    assert np.abs(counts - evidence.counts).max() < 1.0 * evidence.count_stddev
    rare = np.einsum("jt,jtr->r", masses, fitted.classes.rare_p)
    assert rare[0] == pytest.approx(target, rel=0.1)


def test_a_fit_is_a_function_of_the_evidence_and_the_generator() -> None:
    evidence, target = evidence_of(with_tastes(1.0), 1e-3)
    first, again = fit(evidence, target, 2), fit(evidence, target, 2)
    assert np.array_equal(first.classes.p, again.classes.p)


def test_a_pair_that_avoids_each_other_gets_a_taste() -> None:
    """Two frequent items that are never together."""
    parameters = with_tastes(0.0)
    parameters.base[[3, 8]] = 1.0
    plain, target = evidence_of(parameters, 5e-4)
    extra = np.zeros((ITEMS, ITEMS))
    extra[3, 8] = -plain.pairs[3, 8]
    evidence, _ = evidence_of(parameters, 5e-4, extra)
    fitted = fit(evidence, target)
    assert len(fitted.parameters.shares) > 1
    facts = pair_facts(fitted.classes, fitted.rare, evidence)
    found = compare(fitted.parameters, fitted.classes, evidence, facts, Penalty(1.0)).pairs[3, 8]
    assert found < 0.35 * plain.pairs[3, 8]


def of_attributes(classes: int, noise: float) -> Evidence:
    """Noisy counts of baskets that hold one value of each of six attributes with four values, the items."""
    draw = np.random.default_rng(7)
    values = 4 * np.arange(6) + draw.integers(0, 4, (classes, 6))
    held = np.zeros((classes, ITEMS))
    np.put_along_axis(held, values, 1.0, axis=1)
    table = np.triu(draw.normal(0, noise, (ITEMS, ITEMS)), 1)
    nodes = Nodes(np.array([6.0]), np.ones(1), np.ones(1), 1.0)
    pairs = held.T @ held / classes + table + table.T
    return Evidence(nodes, held.mean(0) + draw.normal(0, noise, ITEMS), noise, pairs, noise, NO_CLIP)


def fit_of_attributes(settings: FitSettings) -> tuple[Fitted, NDArray[np.float64]]:
    """The fit, and the predicted frequencies of pairs of values of one attribute, which no basket holds."""
    evidence, nothing = of_attributes(8, 0.004), RareItems(np.zeros(0), np.zeros(0))
    fitted = fit_mixture(evidence, nothing, np.zeros(0), settings, np.random.default_rng(0))
    facts = pair_facts(fitted.classes, fitted.rare, evidence)
    pairs = compare(fitted.parameters, fitted.classes, evidence, facts, Penalty(1.0)).pairs
    first, second = np.triu_indices(ITEMS, 1)
    return fitted, pairs[first, second][first // 4 == second // 4]


def test_values_of_one_attribute_stay_apart() -> None:
    fitted, impossible = fit_of_attributes(FitSettings())
    assert len(fitted.parameters.shares) >= 24
    assert impossible.max() < 0.02
    _, of_a_narrow_prior = fit_of_attributes(FitSettings(candidates=((24, 0.5),)))
    assert of_a_narrow_prior.max() > 2 * impossible.max()
