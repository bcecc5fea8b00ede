"""The bound in closed form, against dense optima and the bound by cores."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum
from dpcore.strategies.residual_planning.attribute_residuals import AttributeResidual
from dpcore.strategies.residual_planning.clique_parts import CliqueParts
from dpcore.strategies.residual_planning.closed_form_bound import closed_form_bound
from dpcore.strategies.residual_planning.lower_bound import core_bound
from dpcore.strategies.residual_planning.product_residuals import product_residuals

Real = NDArray[np.float64]


def closed_form(values: int, attributes: int, size: int, gamma: float = 4.0) -> float:
    """Of all prefix marginals of some of several attributes."""
    cliques = list(combinations(range(attributes), size))
    parts = CliqueParts(cliques, [1.0] * len(cliques), np.ones(attributes, dtype=bool))
    attribute = AttributeResidual(prefix(values))
    return closed_form_bound(parts, [attribute] * attributes, [attribute.split(gamma)] * attributes)


@pytest.mark.parametrize(("values", "attributes", "size"), [(8, 2, 1), (8, 3, 2), (5, 4, 3)])
def test_it_is_below_the_optimum(values: int, attributes: int, size: int) -> None:
    gram: Real = (prefix(values).T @ prefix(values)).astype(np.float64)
    dense: Real = np.zeros((values**attributes,) * 2)
    for clique in combinations(range(attributes), size):
        product: Real = np.ones((1, 1))
        for axis in range(attributes):
            product = np.kron(product, gram if axis in clique else np.ones((values, values)))
        dense += product
    best = gaussian_optimum(dense, 1e-4)
    bounds = [closed_form(values, attributes, size, gamma) for gamma in (1.0, 4.0, 16.0)]
    assert 0.85 * best.bound < max(bounds) < best.error


def test_cores_of_one_direction_give_no_more_than_it() -> None:
    split = (attribute := AttributeResidual(prefix(10))).split(4.0)
    d = np.sqrt(split.multipliers)
    values, vectors = np.linalg.eigh(d[:, None] * attribute.gram * d)
    roots = np.sqrt(np.maximum(values, 0.0))
    along = float(roots @ (vectors.T @ d) ** 2)
    assert np.sqrt(attribute.lower_bound_terms(split.multipliers, 1.0)) == pytest.approx([along, roots.sum() - along])
    parts = CliqueParts(list(combinations(range(20), 3)), [1.0] * 1140, np.ones(20, dtype=bool))
    plain = parts.loss(np.full(20, along**2), np.full(20, (roots.sum() - along) ** 2)).value ** 2
    assert plain < 0.9 * closed_form(10, 20, 3)


def test_three_way_prefixes_of_20_attributes_have_it_at_once() -> None:
    domain = Domain(tuple(f"x{place:02}" for place in range(20)), (10,) * 20)
    queries = range_marginals(domain, list(combinations(domain.names, 3)), dict.fromkeys(domain.names, prefix(10)))
    began = time.process_time()
    plan = product_residuals(queries, np.ones(1140))
    assert time.process_time() - began < 1.0  # 0.1 on a machine of 2026.
    assert plan.bound >= closed_form(10, 20, 3)
    assert plan.gap < 0.31


@pytest.mark.parametrize(("values", "attributes", "size"), [(10, 6, 2), (10, 12, 3)])
def test_cores_give_more_where_there_is_room_for_them(values: int, attributes: int, size: int) -> None:
    attribute = AttributeResidual(prefix(values))
    cliques = list(combinations(range(attributes), size))
    by_cores = core_bound(
        cliques, [1.0] * len(cliques), {}, dict.fromkeys(range(attributes), attribute.gram), {},
        dict.fromkeys(range(attributes), attribute.split(4.0).multipliers),
    )  # fmt: skip
    assert by_cores > 1.05 * closed_form(values, attributes, size)
