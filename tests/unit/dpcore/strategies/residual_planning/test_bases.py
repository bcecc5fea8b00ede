"""Integer queries of residuals: their Gram matrices, their cost in the kernel, and what weights of a stack lose."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.product_sensitivity import largest_squared_exchange, largest_squared_l2
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.queries.residual_matrices import residual_matrix, residual_scale
from dpcore.strategies.allocation import exact_shares
from dpcore.strategies.residual_planning.bases import joint_queries
from dpcore.strategies.residual_planning.planning import ResidualPlan, least_largest_variance, least_squared_error
from dpcore.testing.doubles import ADD_REMOVE
from tests.support.residual_queries import residual_queries

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 5, "d": 2})
WEIGHTS = {("a", "b", "c"): 1.0, ("c", "d"): 5.0, ("a", "d"): 0.3, ("b",): 20.0}
PLANS = [least_squared_error(DOMAIN, WEIGHTS), least_largest_variance(DOMAIN, WEIGHTS)]


def parts(domain: Domain) -> list[Clique]:
    return [part for order in range(len(domain.names) + 1) for part in combinations(domain.names, order)]


def over_all(domain: Domain, clique: Clique, matrices: tuple[NDArray[np.int64], ...]) -> NDArray[np.float64]:
    """The product as a matrix over all cells of the domain."""
    by_name = dict(zip(clique, matrices, strict=True))
    factors = [by_name.get(name, np.ones((1, size))) for name, size in zip(domain.names, domain.sizes, strict=True)]
    return np.asarray(reduce(np.kron, factors, np.ones((1, 1))), dtype=np.float64)


@pytest.mark.parametrize("size", [*range(2, 20), 32, 100, 101, 128])
def test_a_matrix_is_a_projection_up_to_rotation_and_scale(size: int) -> None:
    matrix = residual_matrix(size)
    squared = round(residual_scale(size) ** 2)
    assert matrix.dtype == np.int64
    assert not matrix.sum(axis=1).any()
    assert np.array_equal(size * matrix.T @ matrix, squared * (size * np.eye(size, dtype=np.int64) - 1))
    assert len(matrix) == (size - 1 if size & (size - 1) == 0 else size)
    assert not matrix.flags.writeable


@pytest.mark.parametrize("clique", parts(DOMAIN), ids="".join)
def test_the_cost_is_that_of_the_residual_exactly(clique: Clique) -> None:
    """In the kernel: p_a of all squared scales together, for adding a row."""
    queries = residual_queries(DOMAIN, clique[::-1])
    sizes = DOMAIN.shape(clique)
    expected = math.prod(Fraction(round(residual_scale(size) ** 2) * (size - 1), size) for size in sizes)
    assert largest_squared_l2(queries) == expected
    assert queries.denominator == math.prod(size for size in sizes if size in (3, 5))
    assert queries.terms[0].clique == clique


@pytest.mark.parametrize("replaced", [False, True])
def test_plans_charge_what_the_kernel_charges(replaced: bool) -> None:
    domain = Domain.of({"a": 3, "b": 4, "c": 5})
    plan = least_squared_error(domain, {domain.names: 1.0}, replaced)
    assert len(plan.residuals) == 8
    for clique, cost in zip(plan.residuals, plan.costs.tolist(), strict=True):
        queries = residual_queries(domain, clique)
        squared = largest_squared_exchange(queries) if replaced else largest_squared_l2(queries)
        assert squared / math.prod(residual_scale(size) ** 2 for size in domain.shape(clique)) == pytest.approx(cost)


def test_shares_buy_the_noise_of_the_plan() -> None:
    """The kernel's noise, at mu = 1, in the scale of the residual: s_a."""
    terms = PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1), None), Budget.gdp(1))
    plan = PLANS[0]
    for clique, share, noise in zip(plan.residuals, exact_shares(plan.shares), plan.noise.tolist(), strict=True):
        scale = terms.measure_scale(residual_queries(DOMAIN, clique), share)
        one = math.prod(residual_scale(size) for size in DOMAIN.shape(clique))
        assert (scale / one) ** 2 == pytest.approx(noise, rel=1e-6)


@pytest.mark.parametrize("plan", PLANS, ids=["squares", "largest"])
def test_one_stack_measures_the_plan(plan: ResidualPlan) -> None:
    """Its least squares variances, from the dense matrix that the kernel would apply, are those of the plan."""
    queries = joint_queries(plan)
    assert [term.clique for term in queries.terms] == list(plan.residuals)
    assert queries.denominator == 1
    rows = [term.weight * over_all(DOMAIN, term.clique, term.matrices) for term in queries.terms]
    matrix = np.concatenate(rows)
    norms = (matrix**2).sum(axis=0)
    assert largest_squared_l2(queries) == norms.max() == norms.min()
    inverse = np.linalg.pinv(matrix)
    squares = 0.0
    for clique, variance in zip(plan.marginals, plan.variances.tolist(), strict=True):
        asked = over_all(DOMAIN, clique, tuple(np.eye(size, dtype=np.int64) for size in DOMAIN.shape(clique)))
        assert np.allclose(asked @ inverse @ matrix, asked)
        result = norms.max() * ((asked @ inverse) ** 2).sum(axis=1)
        assert result == pytest.approx(np.full(len(asked), variance), rel=2**-6)
        squares += WEIGHTS[clique] * result.sum()
    if plan is PLANS[0]:
        assert plan.error * (1 - 1e-12) <= squares <= plan.error * (1 + 1e-4)


def test_a_stack_of_one_residual_is_not_scaled_up() -> None:
    plan = least_squared_error(DOMAIN, {(): 3.0})
    assert [term.weight for term in joint_queries(plan).terms] == [1]


def test_integers_leave_room_for_many_rows() -> None:
    """Adult's 470 marginals: 2^34 rows stay within 2^62."""
    sizes = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
    domain = Domain.of({f"a{place}": size for place, size in enumerate(sizes)})
    cliques = [clique for clique in parts(domain) if len(clique) <= 3]
    queries = joint_queries(least_squared_error(domain, dict.fromkeys(cliques, 1.0)))
    largest = [term.weight * math.prod(int(np.abs(one).max()) for one in term.matrices) for term in queries.terms]
    assert max(largest) <= 2**27
    assert min(term.weight for term in queries.terms) == 128


def test_what_has_no_residual() -> None:
    with pytest.raises(ValueError, match="an attribute of 1 values has no residual; want 2 or more"):
        residual_matrix(1)
    with pytest.raises(ValueError, match="residuals of an attribute of 2,049 values; want at most 2,048"):
        residual_matrix(2049)
    with pytest.raises(ValueError, match="unknown attribute 'z'"):
        residual_queries(DOMAIN, ("a", "z"))
    apart = least_squared_error(DOMAIN, {("a",): 1e60, ("b",): 1e-60})
    with pytest.raises(ValueError, match="precisions .* differ by too much; want weights that differ less"):
        joint_queries(apart)


def test_answers_about_billions_of_rows_stay_within_64_bits() -> None:
    """Or the plan is refused: weights within what products accept may still be too large for their entries."""
    domain = Domain.of({"a": 7, "b": 9, "c": 5})
    for weight in (1.0, 1e12):
        queries = joint_queries(least_squared_error(domain, {("a", "b"): 1.0, ("c",): weight}))
        entries = [math.prod(int(np.abs(one).max()) for one in term.matrices) * term.weight for term in queries.terms]
        assert max(entries) * 2**32 <= 2**62
    with pytest.raises(ValueError, match="differ by too much"):
        joint_queries(least_squared_error(domain, {("a", "b"): 1.0, ("c",): 1e24}))
