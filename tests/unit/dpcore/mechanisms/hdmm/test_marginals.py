"""HDMM on marginals under Laplace noise: a few marginals tell all, with the error that the plan says."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.hdmm.marginals import MeasuredMarginals
from dpcore.queries import Marginals
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, explicit

DOMAIN = Domain.of({"a": 6, "b": 5, "c": 2, "d": 4})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (50, 4)))
FEW = explicit(DOMAIN, {("a", "b"): 1.0, ("b", "c", "d"): 3.0, ("a",): 0.5, ("a", "d"): 2.0})
PAIRS = all_k_way(DOMAIN, 2)
BUDGET = Budget.pure(1)
GENERATOR = np.random.default_rng(0)


def released(workload: Workload, budget: Budget = BUDGET, mechanism: Hdmm | None = None, **options: Any) -> Any:
    private = private_statistics(TABLE, budget, **options)
    return (mechanism or Hdmm()).run(private, workload, generator=GENERATOR)


@pytest.mark.smoke(1)
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("workload", [FEW, PAIRS], ids=["few", "pairs"])
def test_the_error_is_the_predicted_one_and_intervals_hold(workload: Workload, replaced: bool) -> None:
    options = {"neighbours": REPLACE, "units": 50} if replaced else {}
    exact = exact_answers(TABLE, workload.queries)
    runs = [released(workload, **options).answers for _ in range(150)]
    squared = np.array([((run.values - exact) ** 2).sum() for run in runs])
    predicted, deviation = float((runs[0].stddev ** 2).sum()), squared.std() / math.sqrt(len(runs))
    assert abs(squared.mean() - predicted) < 4.5 * deviation < 0.25 * predicted
    absolute = np.array([np.abs(run.values - exact).mean() for run in runs])
    plan = Hdmm().plan(private_statistics(TABLE, BUDGET, **options).terms, workload)
    assert plan.predicted_error is not None
    deviation = absolute.std() / math.sqrt(len(runs))
    assert 0.88 * plan.predicted_error - 4.5 * deviation < absolute.mean() < plan.predicted_error + 4.5 * deviation
    assert 0.95 < np.mean([(run.lower <= exact) & (exact <= run.upper) for run in runs]) < 0.99


def test_they_win_by_themselves_where_they_are_better() -> None:
    terms = private_statistics(TABLE, BUDGET).terms
    for workload, least in ((FEW, 0.85), (PAIRS, 0.6)):
        weights = np.repeat(workload.weights, workload.queries.sizes)  # type: ignore[union-attr]
        together, apart = released(workload).answers, released(workload, mechanism=Hdmm(strategy="parts")).answers
        error = float(((weights * together.stddev) ** 2).sum())
        found = MeasuredMarginals.of(terms, workload)
        assert found is not None
        assert found.weighted_error(terms) == pytest.approx(error)
        assert error < least * float(((weights * apart.stddev) ** 2).sum())
    alone = explicit(DOMAIN, {("a", "b"): 1.0})
    assert Hdmm().plan(terms, alone).steps == Hdmm(strategy="parts").plan(terms, alone).steps


def test_answers_are_least_squares_of_all_measured_values() -> None:
    """Against the dense pseudo-inverse, with the precision of each marginal."""
    release = released(FEW)
    cliques = [one.queries.cliques[0] for one in release.measurements]
    everything = Marginals(DOMAIN, (DOMAIN.names,))
    assert everything.size == math.prod(DOMAIN.sizes)

    def rows(clique: tuple[str, ...]) -> Any:
        found = np.ones((1, 1))
        for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True):
            found = np.kron(found, np.eye(size) if name in clique else np.ones((1, size)))
        return found

    precisions = [1 / one.stddev for one in release.measurements]
    strategy = np.vstack([weight * rows(clique) for clique, weight in zip(cliques, precisions, strict=True)])
    values = np.concatenate([w * one.values for w, one in zip(precisions, release.measurements, strict=True)])
    inverse = np.linalg.pinv(strategy)
    workload = np.vstack([rows(clique) for clique in FEW.queries.cliques])  # type: ignore[union-attr]
    np.testing.assert_allclose(release.answers.values, workload @ (inverse @ values), atol=1e-8)
    np.testing.assert_allclose(release.answers.stddev**2, ((workload @ inverse) ** 2).sum(axis=1), rtol=1e-8)


def test_without_noise_the_answers_are_exact() -> None:
    for workload in (FEW, PAIRS):
        answers = released(workload, Budget.pure(10**9)).answers
        np.testing.assert_allclose(answers.values, exact_answers(TABLE, workload.queries), atol=1e-5)


def test_too_many_attributes_are_measured_part_by_part() -> None:
    domain = Domain.of({f"x{place}": 2 for place in range(17)})
    wide = explicit(domain, dict.fromkeys(combinations(domain.names, 2), 1.0))
    terms = private_statistics(TinyTable(domain, np.zeros((3, 17), dtype=np.int64)), BUDGET).terms
    assert len(Hdmm().plan(terms, wide).steps) == 136
    with pytest.raises(ConfigError, match="strategy marginals is for marginals over at most 16 attributes"):
        Hdmm(strategy="marginals").plan(terms, wide)
    with pytest.raises(ConfigError, match="strategy marginals is for .* under Laplace noise"):
        Hdmm(strategy="marginals").plan(private_statistics(TABLE, Budget.zcdp(1)).terms, FEW)
