"""The shares of a second call: as in one call if nothing is known, and little where nothing is left to learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from dpcore.domain import Clique, Domain
from dpcore.strategies.residual_planning.planning import least_absolute_error
from dpcore.strategies.residual_planning.remaining_error import PossibleSizes, next_shares
from dpcore.workload import all_k_way

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 2})
WEIGHTS = dict.fromkeys(all_k_way(DOMAIN, 2).queries.cliques, 1.0)
PARTS: list[Clique] = [part for order in range(3) for part in itertools.combinations(DOMAIN.names, order)]
LEVELS = np.array([0.0, 1.0, 100.0, 10_000.0])
UNKNOWN = PossibleSizes(LEVELS, {})
LITTLE = dict.fromkeys(PARTS, 1e-9)


def surely(level: int, parts: list[Clique]) -> PossibleSizes:
    """Sizes of some residuals that have one prior variance."""
    return PossibleSizes(LEVELS, {part: np.eye(len(LEVELS))[level] for part in parts})


def test_without_knowledge_it_is_the_plan_of_one_call() -> None:
    plan = least_absolute_error(DOMAIN, WEIGHTS)
    shares = next_shares(DOMAIN, WEIGHTS, UNKNOWN, LITTLE, 1.0, 1.0)
    expected = dict(zip(plan.residuals, plan.shares.tolist(), strict=True))
    assert shares.keys() == expected.keys()
    assert all(shares[part] == pytest.approx(expected[part], rel=0.05) for part in expected)


def test_residuals_of_size_0_get_nothing() -> None:
    zero = PARTS[-3:]
    shares = next_shares(DOMAIN, WEIGHTS, surely(0, zero), LITTLE, 0.5, 1.0)
    assert sum(shares.values()) == pytest.approx(0.5)
    assert shares.keys() == set(PARTS) - set(zero)


def test_what_one_call_gave_enough_gets_less_of_the_next() -> None:
    spent = LITTLE | {("a",): 0.3}
    even, uneven = (next_shares(DOMAIN, WEIGHTS, UNKNOWN, one, 0.5, 1.0) for one in (LITTLE, spent))
    assert uneven.get(("a",), 0.0) < 0.1 * even["a",]


@pytest.mark.parametrize("unit_variance", [0.01, 1.0, 300.0])
def test_no_other_shares_have_a_smaller_loss(unit_variance: float) -> None:
    """Beside a general solver that starts from our shares, on the loss written out pair by pair."""
    generator = np.random.default_rng(2)
    chances = {part: generator.dirichlet(np.ones(len(LEVELS))) for part in PARTS if len(part) == 2}
    spent = dict.fromkeys(PARTS, 0.01)
    shares = next_shares(DOMAIN, WEIGHTS, PossibleSizes(LEVELS, chances), spent, 0.5, unit_variance)

    def variance(part: Clique, share: float) -> float:
        energy = float(np.prod([1 - 1 / size for size in DOMAIN.shape(part)]))
        noise = unit_variance * energy / share
        if part not in chances:
            return energy * noise
        return energy * float(chances[part] @ (LEVELS * noise / (LEVELS + noise)))

    def loss(added: np.ndarray) -> float:
        of_part = {part: variance(part, spent[part] + max(one, 0.0)) for part, one in zip(PARTS, added, strict=True)}
        total = 0.0
        for clique in WEIGHTS:
            cells = DOMAIN.size(clique)
            parts = [part for part in PARTS if set(part) <= set(clique)]
            total += cells * np.sqrt(sum(of_part[part] * (DOMAIN.size(part) / cells) ** 2 for part in parts))
        return float(total)

    ours = np.array([shares.get(part, 0.0) for part in PARTS])
    found = minimize(
        loss, ours, method="SLSQP", bounds=[(0, 0.5)] * len(PARTS),
        constraints={"type": "eq", "fun": lambda added: added.sum() - 0.5},
    )  # fmt: skip
    assert loss(ours) <= 1.005 * found.fun
    assert loss(ours) < loss(np.full(len(PARTS), 0.5 / len(PARTS)))


def test_attributes_of_one_value_have_no_residual() -> None:
    domain = Domain.of({"a": 3, "b": 1})
    shares = next_shares(domain, {("a", "b"): 1.0}, UNKNOWN, {(): 1e-9, ("a",): 1e-9}, 1.0, 1.0)
    assert shares.keys() == {(), ("a",)}
