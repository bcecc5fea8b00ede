"""The projection onto what some data could have, against a solver of quadratic programs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize

from dpcore.domain import BinaryView
from dpcore.estimation.clipping.lattice_projection import projected
from dpcore.queries import Conjunctions
from dpcore.queries.lattice import Lattice
from dpcore.queries.mixed_orders import random_mixed_conjunctions
from dpcore.testing.tiny_statistics import count_conjunctions

VIEW = BinaryView(5)


def constraints(lattice: Lattice) -> NDArray[np.float64]:
    """One row per constraint: row @ values >= 0."""
    size = lattice.members.size + 2
    rows = []
    for start, stop in zip(lattice.starts[:-1], lattice.starts[1:], strict=True):
        count = stop - start
        for mask in range(count):
            row = np.zeros(size)
            for larger in range(count):
                if larger & mask == mask:
                    row[lattice.terms[start + larger]] += (-1) ** bin(larger ^ mask).count("1")
            rows.append(row)
    for member, parents in enumerate(lattice.parents):
        for parent in parents[parents != lattice.nothing]:
            row = np.zeros(size)
            row[parent], row[member] = 1.0, -1.0
            rows.append(row)
    return np.array(rows)


def case(seed: int) -> tuple[Lattice, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    draw = np.random.default_rng(seed)
    lattice = Lattice.of(random_mixed_conjunctions(VIEW, 9, [1, 2, 3], draw, negate=True))
    bits = draw.random((60, 5)) < draw.random(5)
    exact = np.concatenate([count_conjunctions(lattice.members, bits), [60, 0]]).astype(np.float64)
    variances = np.append(draw.uniform(1, 40, lattice.members.size + 1), 0.0)
    return lattice, exact, exact + draw.normal(size=exact.size) * np.sqrt(variances), variances


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_weighted_least_squares_solution(seed: int) -> None:
    lattice, _, noisy, variances = case(seed)
    free = variances > 0
    matrix = constraints(lattice)[:, free]
    best = minimize(
        lambda x: ((x - noisy[free]) ** 2 / variances[free]).sum(),
        noisy[free],
        jac=lambda x: 2 * (x - noisy[free]) / variances[free],
        constraints=LinearConstraint(matrix, 0.0, np.inf),  # type: ignore[arg-type]
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    found = projected(lattice, noisy, variances, sweeps=20_000, tolerance=1e-9)
    assert np.abs(found[free] - best.x).max() < 1e-3
    assert (matrix @ noisy[free]).min() < -1, "the noise must break a constraint, or nothing is tested"


@pytest.mark.parametrize("seed", range(6))
def test_exact_values_do_not_move_and_noisy_ones_come_nearer(seed: int) -> None:
    """Exact values satisfy all constraints, and a projection onto a convex set brings a point nearer to all of it."""
    lattice, exact, noisy, variances = case(seed)
    assert projected(lattice, exact, variances).tolist() == exact.tolist()
    found = projected(lattice, noisy, variances)
    free = variances > 0
    before, after = ((((values - exact) ** 2)[free] / variances[free]).sum() for values in (noisy, found))
    assert after < before


def test_a_value_without_noise_stays() -> None:
    lattice = Lattice.of(Conjunctions(VIEW, np.array([[0, 1]]), np.array([[True, True]])))
    assert lattice.members.columns[lattice.members.counted].tolist() == [0, 1, 0, 1]
    found = projected(lattice, np.array([80.0, 60.0, 20.0, 100.0, 0.0]), np.array([4.0, 4.0, 4.0, 0.0, 0.0]))
    assert found[-2:].tolist() == [100.0, 0.0]
    # 80 + 60 - 20 exceeds the 100 units by 20; three equal variances share it.
    assert np.allclose(found[:3], [80 - 20 / 3, 60 - 20 / 3, 20 + 20 / 3], atol=0.1)
