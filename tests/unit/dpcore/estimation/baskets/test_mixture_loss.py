"""The loss of a mixture against its definition, and its gradient against differences."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.baskets.mixture import Nodes, Parameters, RareItems, solved
from dpcore.estimation.baskets.mixture_loss import Evidence, PairFacts, Penalty, compare, pair_facts, rare_counts

ITEMS, TASTES = 6, 2
DRAW = np.random.default_rng(3)
NODES = Nodes(np.array([1.0, 2.0, 4.5]), np.array([0.3, 0.4, 0.2]), np.array([1.0, 0.9, 0.6]), 0.8)
RARE = RareItems(np.array([-3.0, -4.5]), np.array([30.0, 100.0]))
PARAMETERS = Parameters(
    DRAW.normal(-1.5, 0.5, ITEMS),
    DRAW.normal(0, 0.3, ITEMS),
    DRAW.normal(0, 0.8, (TASTES, ITEMS)),
    DRAW.normal(0, 0.3, TASTES),
    DRAW.normal(0, 0.3, TASTES),
)
TABLE = DRAW.random((ITEMS, ITEMS)) * 0.02
EVIDENCE = Evidence(
    NODES, DRAW.random(ITEMS) * 0.3, 0.02, TABLE + TABLE.T, 0.01, np.minimum(1.0, 2 / np.sqrt(np.arange(16) + 1e-9))
)
PENALTY = Penalty(1.3)


def loss_at(parameters: Parameters, facts: PairFacts, used: NDArray[np.float64] | None) -> float:
    classes = solved(parameters, RARE, NODES)
    return compare(parameters, classes, EVIDENCE, facts, PENALTY, used).loss


def test_probabilities_of_each_class_sum_to_its_size() -> None:
    classes = solved(PARAMETERS, RARE, NODES)
    sums = classes.p.sum(axis=2) + classes.rare_p @ RARE.numbers
    assert np.allclose(sums, NODES.sizes[:, None])


def test_predictions_are_sums_over_classes() -> None:
    classes = solved(PARAMETERS, RARE, NODES)
    facts = pair_facts(classes, RARE, EVIDENCE)
    compared = compare(PARAMETERS, classes, EVIDENCE, facts, PENALTY)
    shares, pairs, counts = PARAMETERS.taste_shares(NODES.logs), np.zeros((ITEMS, ITEMS)), np.zeros(ITEMS)
    for node in range(3):
        for taste in range(TASTES):
            p, mass = classes.p[node, taste], NODES.masses[node] * shares[node, taste]
            c = p * (1 - p) * facts.factors[node * TASTES + taste]
            pairs += mass * facts.kept[node, taste] * (np.outer(p, p) - np.outer(c, c))
            counts += mass * NODES.count_weights[node] * p
    assert np.allclose(compared.pairs, pairs)
    assert np.allclose(compared.counts, counts)
    upper = np.triu_indices(ITEMS, 1)
    loss = ((pairs - EVIDENCE.pairs)[upper] ** 2).sum() / 2 / 0.01**2
    loss += ((counts - EVIDENCE.counts) ** 2).sum() / 2 / 0.02**2 + (PARAMETERS.tastes**2).sum() / 2 / 1.3**2
    loss += (PARAMETERS.tilts**2).sum() / 2 / PENALTY.tilts**2 + (PARAMETERS.share_tilts**2).sum() / 2
    assert compared.loss == pytest.approx(loss)
    assert np.allclose(rare_counts(classes, PARAMETERS, NODES, RARE).shape, 2)


@pytest.mark.parametrize("name", [field.name for field in fields(Parameters)])
@pytest.mark.parametrize("masked", [False, True])
def test_the_gradient_is_that_of_the_loss(name: str, masked: bool) -> None:
    used = None
    if masked:
        upper = np.triu(DRAW.random((ITEMS, ITEMS)) < 0.5, 1)
        used = (upper | upper.T).astype(float)
    classes = solved(PARAMETERS, RARE, NODES)
    facts = pair_facts(classes, RARE, EVIDENCE)
    gradient = getattr(compare(PARAMETERS, classes, EVIDENCE, facts, PENALTY, used).gradient, name)
    values, step = getattr(PARAMETERS, name), 1e-5
    for index in np.ndindex(values.shape):
        moved = values.copy()
        moved[index] += step
        higher = loss_at(replace(PARAMETERS, **{name: moved}), facts, used)
        moved[index] -= 2 * step
        lower = loss_at(replace(PARAMETERS, **{name: moved}), facts, used)
        assert gradient[index] == pytest.approx((higher - lower) / (2 * step), rel=1e-3, abs=1e-3)
