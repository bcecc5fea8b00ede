"""Models of public tables, and when they are accepted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.estimation.public_table import PublicTable
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.shared.marginal_selection import Design
from dpcore.mechanisms.shared.public_model import Comparison, is_accepted, public_model
from dpcore.queries import Marginals
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way

DOMAIN = Domain.of({"a": 4, "b": 4, "c": 2, "d": 3, "e": 2})


def design_of(workload: Workload) -> Design:
    assert isinstance(workload.queries, Marginals)
    return Design(workload.queries, workload, 3)


TENTH = Fraction(1, 10)
DESIGN, ONES = design_of(all_k_way(DOMAIN, 3)), design_of(all_k_way(DOMAIN, 1))


def codes(rows: int, seed: int, follows: float) -> np.ndarray:
    """Rows of which b is a with some probability, and e is c + d."""
    random = np.random.default_rng(seed)
    drawn = random.integers(0, DOMAIN.sizes, (rows, 5))
    drawn[:, 1] = np.where(random.random(rows) < follows, drawn[:, 0], drawn[:, 1])
    drawn[:, 4] = np.where(random.random(rows) < follows, (drawn[:, 2] + drawn[:, 3]) % 2, drawn[:, 4])
    return drawn


def test_a_model_of_many_rows_has_what_depends() -> None:
    table = PublicTable(DOMAIN, codes(20_000, 0, 0.7))
    fit = public_model(DESIGN, table, 1.0)
    assert fit.total == 20_000
    for clique in (("a", "b"), ("c", "d", "e")):
        given = fit.total * fit.calibrated.vector([clique])
        assert np.abs(given - table.counts(clique)).sum() < 0.03 * table.rows


@pytest.mark.parametrize(("rows", "follows"), [(20_000, 0.0), (30, 0.3)])
def test_chance_is_no_dependence(rows: int, follows: float) -> None:
    fit = public_model(DESIGN, PublicTable(DOMAIN, codes(rows, 1, follows)), 1.0)
    assert all(len(node) == 1 for node in fit.tree.nodes)


def test_it_stays_within_its_size() -> None:
    fit = public_model(DESIGN, PublicTable(DOMAIN, codes(20_000, 0, 0.7)), 24 / 2**17)
    assert fit.tree.cells <= 24


def test_a_table_of_another_domain_is_refused() -> None:
    other = Domain.of({"a": 2})
    with pytest.raises(ValueError, match="public table"):
        public_model(DESIGN, PublicTable(other, np.zeros((3, 1), dtype=int)), 1.0)


def accepted(design: Design, public: np.ndarray, private: np.ndarray, budget: Budget) -> tuple[bool, int]:
    """Whether the public rows are accepted, and the number of kernel calls of the comparison."""
    kernel = private_statistics(TinyTable(DOMAIN, private), budget)
    measured = [kernel.measure(design.marginal(clique), share) for clique, share in design.one_way_shares(TENTH)]
    independent = public_model(design_of(all_k_way(DOMAIN, 1)), PublicTable(DOMAIN, private), 1.0)
    model = public_model(design, PublicTable(DOMAIN, public), 1.0)
    calls = len(kernel.charges)
    answer = is_accepted(kernel, design, measured, (model, independent), model, 1.0, Comparison())
    return answer, len(kernel.charges) - calls


def rows(seed: int, follows: float) -> np.ndarray:
    """Rows whose attributes follow the first one, with some probability."""
    random = np.random.default_rng(seed)
    same, other = random.integers(0, 12, (5_000, 1)), random.integers(0, 12, (5_000, 5))
    return np.where(random.random((5_000, 5)) < follows, same, other) % np.array(DOMAIN.sizes)


@pytest.mark.parametrize("mu_squared", [Fraction(1, 200), Fraction(1, 4000)], ids=["expected errors", "mean errors"])
@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_the_closer_model_is_accepted(right: bool, mu_squared: Fraction) -> None:
    private = rows(2, 0.9 if right else 0.0)
    assert accepted(DESIGN, rows(1, 0.9), private, Budget.gdp(mu_squared)) == (right, 2)


def test_without_pairs_nothing_is_compared() -> None:
    public, private = codes(100, 2, 0.7), codes(100, 3, 0.7)
    assert accepted(ONES, public, private, Budget.gdp(1)) == (True, 0)


def test_a_comparison_that_would_be_noise_accepts_nothing() -> None:
    public, private = codes(100, 2, 0.7), codes(100, 3, 0.7)
    assert accepted(DESIGN, public, private, Budget.gdp(Fraction(1, 10**14))) == (False, 0)
