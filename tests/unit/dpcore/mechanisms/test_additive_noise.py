from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.measurement import GRID_BITS, Noise, mean_absolute_noise, noise_stddev
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS, Gaussian, Laplace
from dpcore.queries import Conjunctions, Marginals, Products
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.testing.doubles import REPLACE, NoStatistics, WatchedStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, explicit

DOMAIN = Domain.of({"a": 2, "b": 8})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, [2, 8], (50, 2)))
WEIGHTED = explicit(DOMAIN, {("a",): 1.0, ("b",): 3.0, ("a", "b"): 1.0})
COLUMNS = conjunctive(Conjunctions.single_columns(BinaryView.one_hot(DOMAIN)))
RANGED = range_marginals(DOMAIN, [("b",), ("a",), ("a", "b")], {"a": all_ranges(2), "b": prefix(8)})
LINEAR = Workload(RANGED, np.array([1.0, 0.5, 3.0]))
GENERATOR = np.random.default_rng(0)
LAPLACE, GAUSSIAN, ROUNDED = (Laplace(), Budget.pure(1)), (Gaussian(), Budget.zcdp(1)), (Gaussian(), Budget.gdp(1))
EACH = pytest.mark.parametrize(
    ("mechanism", "budget"), [LAPLACE, GAUSSIAN, ROUNDED], ids=["laplace", "gaussian", "rounded gaussian"]
)


def test_the_scales_are_those_of_the_best_split() -> None:
    """Weights 1, 3, 1 over 2, 8, 16 cells; Gaussian shares as w n^(1/2), Laplace shares as (w^2 n)^(1/3)."""
    for (mechanism, budget), shares, scale in (
        (LAPLACE, np.array([2, 72, 16]) ** (1 / 3), lambda share: 2 / share),
        (GAUSSIAN, np.sqrt([2, 72, 16]), lambda share: math.sqrt(2 / (2 * share))),
        (ROUNDED, np.sqrt([2, 72, 16]), lambda share: math.sqrt(2 / share)),
    ):
        private = private_statistics(TABLE, budget, neighbours=REPLACE, units=50)
        release = mechanism.run(private, WEIGHTED, generator=GENERATOR)
        found = [measured.scale for measured in release.measurements]
        assert np.allclose(found, [scale(share) for share in shares / shares.sum()], rtol=1e-9)


@pytest.mark.parametrize("replaced", [False, True])
def test_terms_of_products_share_by_their_own_sensitivity(replaced: bool) -> None:
    """Prefixes of 8 codes: a column of up to 8 ones; ranges of 2: one of two ones; with their Kronecker product."""
    weights, sizes = np.array([1.0, 0.5, 3.0]), np.array([8, 3, 24])
    l1 = np.array([8, 2, 16]) * (1 + replaced)
    squared = np.array([8, 2, 16])
    if replaced:  # Twice that, less twice the least inner product of two columns: 1 everywhere.
        squared = 2 * squared - 2
    for (mechanism, budget), energy, scale in (
        (LAPLACE, ((weights * l1) ** 2 * sizes) ** (1 / 3), lambda share: l1 / share),
        (GAUSSIAN, weights * np.sqrt(squared * sizes), lambda share: np.sqrt(squared / (2 * share))),
        (ROUNDED, weights * np.sqrt(squared * sizes), lambda share: np.sqrt(squared / share)),
    ):
        options: dict[str, Any] = {"neighbours": REPLACE, "units": 50} if replaced else {}
        release = mechanism.run(private_statistics(TABLE, budget, **options), LINEAR, generator=GENERATOR)
        found = np.array([measured.scale for measured in release.measurements])
        assert np.allclose(found, scale(energy / energy.sum()), rtol=1e-6)
        terms = [measured.queries.terms for measured in release.measurements if isinstance(measured.queries, Products)]
        assert isinstance(LINEAR.queries, Products)
        assert terms == [(term,) for term in LINEAR.queries.terms]


@EACH
def test_no_other_split_between_terms_has_a_smaller_error(mechanism: Laplace | Gaussian, budget: Budget) -> None:
    """Weighted squared error of the released answers; a split that leaves sensitivities out is worse."""
    private = private_statistics(TABLE, budget)
    assert isinstance(LINEAR.queries, Products)
    parts = [Products(DOMAIN, (term,)) for term in LINEAR.queries.terms]

    def error(shares: list[float]) -> float:
        scales = [private.terms.measure_scale(part, Fraction(one)) for part, one in zip(parts, shares, strict=True)]
        sizes = np.array([part.size for part in parts])
        return float((LINEAR.weights**2 * sizes * np.square(scales)).sum())

    chosen = [step.share for step in mechanism.plan(private.terms, LINEAR).steps]
    best, steps = error(chosen), (0.98, 1.02)
    for one, factor in product(range(3), steps):
        moved = [share * (factor if place == one else 1.0) for place, share in enumerate(chosen)]
        assert error([share / sum(moved) for share in moved]) > best
    power = 2 / 3 if private.terms.noise is Noise.LAPLACE else 1.0
    blind = (LINEAR.weights * np.sqrt([8, 3, 24])) ** power
    assert error((blind / blind.sum()).tolist()) > 1.02 * best


@EACH
def test_answers_are_the_measured_values_with_their_bars(mechanism: Laplace | Gaussian, budget: Budget) -> None:
    private = private_statistics(TABLE, budget)
    release = mechanism.run(private, WEIGHTED, generator=GENERATOR)
    values = np.concatenate([measured.values for measured in release.measurements])
    assert np.array_equal(release.answers.values, values)
    assert release.answers.measured
    assert release.model is None
    assert (release.answers.lower < release.answers.values).all()
    assert (release.answers.stddev > 0).all()
    assert [measured.queries for measured in release.measurements] == [
        Marginals(DOMAIN, (clique,)) for clique in (("a",), ("b",), ("a", "b"))
    ]
    assert 0 <= private.remaining_share < Fraction(1, 2**30)


def test_each_currency_has_its_noise_and_its_grid() -> None:
    for (mechanism, budget), noise, steps in (
        (LAPLACE, Noise.LAPLACE, 1),
        (GAUSSIAN, Noise.GAUSSIAN, 1),
        (ROUNDED, Noise.ROUNDED_GAUSSIAN, 2**GRID_BITS),
    ):
        (measured,) = mechanism.run(private_statistics(TABLE, budget), COLUMNS, generator=GENERATOR).measurements
        assert measured.noise is noise
        assert measured.values.dtype == np.float64
        fractions = np.unique(measured.values * steps % 1)
        assert fractions.tolist() == [0.0]
    assert (measured.values % 1 != 0).any()


@EACH
def test_conjunctions_are_one_vector(mechanism: Laplace | Gaussian, budget: Budget) -> None:
    private = private_statistics(TABLE, budget)
    release = mechanism.run(private, COLUMNS, generator=GENERATOR)
    (measured,) = release.measurements
    assert measured.queries is COLUMNS.queries
    assert private.remaining_share == 0


def test_without_noise_the_answers_are_exact() -> None:
    for workload in (WEIGHTED, COLUMNS, LINEAR):
        release = Laplace().run(private_statistics(TABLE, Budget.pure(10**9)), workload, generator=GENERATOR)
        assert np.array_equal(release.answers.values, exact_answers(TABLE, workload.queries))


@pytest.mark.parametrize("workload", [WEIGHTED, LINEAR], ids=["marginals", "products"])
def test_one_pass_over_the_data_answers_all(workload: Workload) -> None:
    statistics = WatchedStatistics(TABLE)
    Laplace().run(private_statistics(statistics, Budget.pure(1)), workload, generator=GENERATOR)
    assert len(statistics.requests) == 1


@EACH
@pytest.mark.parametrize("workload", [WEIGHTED, COLUMNS, LINEAR], ids=["marginals", "conjunctions", "products"])
def test_the_plan_tells_noise_and_cost(mechanism: Any, budget: Budget, workload: Workload) -> None:
    private = private_statistics(TABLE, budget)
    plan = mechanism.plan(private.terms, workload)
    release = mechanism.run(private, workload, generator=GENERATOR)
    assert [step.stddev for step in plan.steps] == [measured.stddev for measured in release.measurements]
    assert sum(step.share for step in plan.steps) == pytest.approx(1.0)
    (noise,) = {measured.noise for measured in release.measurements}
    absolute = [
        mean_absolute_noise(noise, measured.scale) for measured in release.measurements for _ in measured.values
    ]
    assert plan.predicted_error == pytest.approx(np.mean(absolute))
    assert plan.rounds == 0
    assert noise_stddev(noise, release.measurements[0].scale) == release.answers.stddev[0]


@pytest.mark.parametrize(
    ("mechanism", "budget", "message"),
    [
        (Laplace(), Budget.zcdp(1), "mechanism laplace gives pure epsilon-DP, and the budget is in rho; want"),
        (Laplace(), Budget.gdp(1), "mechanism laplace gives pure epsilon-DP, and the budget is in mu^2; want"),
        (Gaussian(), Budget.pure(1), "mechanism gaussian has"),
    ],
)
def test_the_other_currency_is_refused(mechanism: Laplace | Gaussian, budget: Budget, message: str) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), budget)
    with pytest.raises(ConfigError, match=re.escape(message)):
        mechanism.run(private, WEIGHTED, generator=GENERATOR)
    assert private.charges == ()


@EACH
def test_more_answers_than_can_be_drawn_are_refused(mechanism: Laplace | Gaussian, budget: Budget) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), budget)
    wide = all_k_way(Domain.of({"a": LARGEST_ANSWERS, "b": 2}), 2)
    with pytest.raises(DomainTooLargeError, match="the workload has 40,000,000 cells; want at most 20,000,000"):
        mechanism.run(private, wide, generator=GENERATOR)
    assert private.charges == ()


@EACH
def test_progress_counts_the_answers_of_all_parts(mechanism: Laplace | Gaussian, budget: Budget) -> None:
    seen: list[tuple[int, int]] = []
    private = private_statistics(TABLE, budget)
    mechanism.run(private, WEIGHTED, generator=GENERATOR, progress=lambda done, total: seen.append((done, total)))
    assert {total for _, total in seen} == {2 + 8 + 16}
    assert list(dict.fromkeys(done for done, _ in seen)) == [2, 10, 26]
