"""The latent-class model: its objective is the definition's, and its fit finds tables of a few classes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.reconstruction import latent_classes as module
from dpcore.estimation.reconstruction.latent_classes import latent_class_answers, reads_of_fit
from dpcore.estimation.reconstruction.residuals import Residuals, residuals_of_table
from dpcore.estimation.reconstruction.shrunken import shrunken_answers
from dpcore.queries import Marginals
from tests.unit.dpcore.estimation.reconstruction.test_nonnegative import disagreement
from tests.unit.dpcore.estimation.reconstruction.test_shrunken import (
    BITS,
    MIXED,
    ROWS,
    chained,
    error,
    exact,
    measured,
    queries_of,
)

Real = NDArray[np.float64]


def of_classes(domain: Domain, classes: int, seed: int = 0) -> NDArray[np.int64]:
    """Rows of so many classes, in each of which the attributes are independent."""
    generator = np.random.default_rng(seed)
    of_rows = generator.integers(0, classes, ROWS)
    columns = []
    for size in domain.sizes:
        tables = generator.dirichlet(np.full(size, 0.4), classes)
        columns.append((generator.random((ROWS, 1)) > tables.cumsum(axis=1)[of_rows]).sum(axis=1))
    return np.minimum(np.stack(columns, axis=1), np.array(domain.sizes) - 1).astype(np.int64)


def fitted(residuals: Residuals, queries: Marginals, meter: WorkMeter | None = None, seed: int = 3) -> Real:
    return latent_class_answers(residuals, queries, ROWS, np.random.default_rng(seed), meter or WorkMeter())


def joint(domain: Domain, table: Real) -> Real:
    """p(x) by its definition, float64 [*domain.sizes]; the last row of the table is pi."""
    thetas = np.split(table[:-1], np.cumsum(domain.sizes)[:-1])
    total = np.zeros(domain.sizes)
    for k, share in enumerate(table[-1]):
        cells = np.array(share)
        for theta in thetas:
            cells = np.multiply.outer(cells, theta[:, k])
        total += cells
    return total


def marginal_of(domain: Domain, cells: Real, clique: Clique) -> Real:
    return cells.sum(axis=tuple(axis for axis, name in enumerate(domain.names) if name not in clique))


def probabilities(domain: Domain, classes: int) -> Real:
    generator = np.random.default_rng(5)
    thetas = [generator.dirichlet(np.ones(size), classes).T for size in domain.sizes]
    return np.vstack([*thetas, generator.dirichlet(np.ones(classes))])


def test_the_objective_is_that_of_the_definition() -> None:
    queries = queries_of(MIXED, 3)
    residuals = measured(chained(MIXED), queries, 20.0)
    fit = module._LatentClassFit.of(residuals, queries, ROWS)
    table = probabilities(MIXED, 4)
    cells = joint(MIXED, table)
    expected = 0.0
    names = [name for name, size in zip(MIXED.names, MIXED.sizes, strict=True) if size > 1]
    for part in [part for order in (1, 2, 3) for part in combinations(names, order)]:
        target, variance = residuals.residual(part)
        model = residuals_of_table(MIXED, part, marginal_of(MIXED, cells, part))[part]
        expected += float(((model - target / ROWS) ** 2).sum()) * ROWS**2 / (2 * variance)
    for name, theta in zip(MIXED.names, np.split(table[:-1], np.cumsum(MIXED.sizes)[:-1]), strict=True):
        one_way = 1 / len(theta) + residuals.residual((name,))[0] / ROWS
        expected -= float(one_way @ np.log(theta).sum(axis=1))
    expected -= float(np.log(table[-1]).sum())
    objective, _ = fit.objective(np.log(table).ravel(), np.empty((2, fit.scratch_rows, 4)))
    assert objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("domain", [BITS, MIXED])
def test_the_gradient_is_that_of_the_objective(domain: Domain) -> None:
    queries = queries_of(domain, 3)
    fit = module._LatentClassFit.of(measured(chained(domain), queries, 20.0), queries, ROWS)
    generator, step = np.random.default_rng(2), 1e-5
    logits = generator.normal(size=(fit.values + 1) * 3)
    scratch = np.empty((2, fit.scratch_rows, 3))
    _, gradient = fit.objective(logits, scratch)
    for index, moved in enumerate(step * np.eye(len(logits))):
        after, before = (fit.objective(logits + change, scratch)[0] for change in (moved, -moved))
        assert gradient[index] == pytest.approx((after - before) / (2 * step), rel=1e-4, abs=1e-2)


def test_answers_are_the_marginals_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CALLS", 3)
    tables = []
    logs_of = module._LatentClassFit.logs

    def kept(fit: module._LatentClassFit, logits: Real) -> Real:
        tables.append(np.exp(logs_of(fit, logits)))
        return np.log(tables[-1])

    monkeypatch.setattr(module._LatentClassFit, "logs", kept)
    queries = Marginals(MIXED, (("a", "b", "d"), ("c",), (), ("c", "d")))
    values = fitted(measured(chained(MIXED), queries, 20.0), queries)
    cells = joint(MIXED, tables[-1])
    expected = [marginal_of(MIXED, cells, clique).ravel() for clique in queries.cliques]
    np.testing.assert_allclose(values, ROWS * np.concatenate(expected), rtol=1e-9)


def test_answers_are_consistent_and_not_negative() -> None:
    queries = Marginals(MIXED, (("a", "c"), ("c", "d"), ("a", "d"), ("b", "c")))
    values = fitted(measured(chained(MIXED), queries, 60.0), queries)
    assert values.min() >= 0
    assert disagreement(queries, values) <= 1e-6
    assert values[: queries.sizes[0]].sum() == pytest.approx(ROWS)


@pytest.mark.parametrize(("size", "part"), [(8, 0.9), (12, 0.75)])
def test_tables_of_a_few_classes_are_found(size: int, part: float) -> None:
    """Nearer to the truth than shrinking set by set, the more so the more attributes there are."""
    domain = Domain(tuple("abcdefghijkl"[:size]), (2,) * size)
    codes, queries = of_classes(domain, 3), queries_of(domain, 3)
    truth, several = exact(codes, queries), [measured(codes, queries, 80.0, seed) for seed in range(3)]
    ours = np.mean([error(fitted(residuals, queries), truth) for residuals in several])
    shrunken = np.mean([error(shrunken_answers(residuals, queries), truth) for residuals in several])
    assert ours <= part * shrunken


def test_equal_seeds_give_equal_answers() -> None:
    queries = queries_of(BITS, 2)
    residuals = measured(of_classes(BITS, 3), queries, 40.0)
    np.testing.assert_array_equal(fitted(residuals, queries), fitted(residuals, queries))
    assert not np.array_equal(fitted(residuals, queries), fitted(residuals, queries, seed=4))


def test_it_ends_where_no_work_remains() -> None:
    queries = queries_of(BITS, 3)
    residuals = measured(of_classes(BITS, 3), queries, 40.0)
    whole, little, none = WorkMeter(), WorkMeter(reads_of_fit(queries) / 20), WorkMeter(0.0)
    values = [fitted(residuals, queries, meter) for meter in (whole, little, none)]
    assert 0 < little.spent < whole.spent <= 1.02 * reads_of_fit(queries)
    assert little.fraction <= 1.4  # A line search ends with the step.
    assert none.spent == 0
    one_way = [np.maximum(residuals.marginal((name,)) / residuals.marginal(()), module._SMALLEST) for name in "abc"]
    independent = ROWS * np.multiply.outer(np.multiply.outer(one_way[0], one_way[1]), one_way[2])
    np.testing.assert_allclose(values[2][:8], independent.ravel(), rtol=0.01)


def test_a_fit_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = queries_of(BITS, 3)
    monkeypatch.setattr(module, "_WORK", reads_of_fit(queries) / 20)
    meter = WorkMeter()
    fitted(measured(of_classes(BITS, 3), queries, 40.0), queries, meter)
    assert 0 < meter.spent <= 1.4 * module._WORK
    assert reads_of_fit(queries) == module._WORK


def test_attributes_of_one_value_and_no_attributes() -> None:
    domain = Domain(("a", "b"), (1, 1))
    queries = Marginals(domain, (("a", "b"), ()))
    residuals = measured(np.zeros((ROWS, 2), dtype=np.int64), queries, 5.0)
    np.testing.assert_allclose(fitted(residuals, queries), [ROWS, ROWS])
