"""The latent-class model: its answers are the definition's, and its fit finds tables of a few classes."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.reconstruction import latent_classes as module
from dpcore.estimation.reconstruction.alternating_fit import initial_state, sweep
from dpcore.estimation.reconstruction.latent_classes import LatentClassModel, bytes_of_fit, reads_of_fit
from dpcore.estimation.reconstruction.residuals import Residuals, residuals_of_answers
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


CLASSES = 32


def fitted(residuals: Residuals, queries: Marginals, meter: WorkMeter | None = None, seed: int = 3) -> Real:
    generator, meter = np.random.default_rng(seed), meter or WorkMeter()
    return LatentClassModel.fitted(residuals, queries, ROWS, CLASSES, generator, meter).answers(queries, ROWS)


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


def objective(residuals: Residuals, order: int, table: Real) -> float:
    """What the fit minimises, by its definition: all sets of up to so many attributes, and one row in each class."""
    domain = residuals.domain
    cells, minimised = joint(domain, table), 0.0
    names = [name for name, size in zip(domain.names, domain.sizes, strict=True) if size > 1]
    for part in [part for number in range(1, order + 1) for part in combinations(names, number)]:
        target, variance = residuals.residual(part)
        model = residuals_of_answers(Marginals(domain, (part,)), marginal_of(domain, cells, part).ravel())[part]
        minimised += float(((model - target / ROWS) ** 2).sum()) * ROWS**2 / (2 * variance)
    for name, theta in zip(domain.names, np.split(table[:-1], np.cumsum(domain.sizes)[:-1]), strict=True):
        one_way = np.maximum(1 / len(theta) + residuals.residual((name,))[0] / ROWS, module._SMALLEST)
        minimised -= float(one_way / one_way.sum() @ np.log(theta).sum(axis=1))
    return minimised - float(np.log(table[-1]).sum())


@pytest.mark.parametrize("domain", [BITS, MIXED])
def test_each_sweep_lowers_the_objective_until_nothing_near_is_lower(domain: Domain) -> None:
    queries = queries_of(domain, 3)
    residuals = measured(chained(domain), queries, 20.0)
    problem, table = module._problem(residuals, queries, ROWS, domain.names), probabilities(domain, 4)
    state = initial_state(problem, table)
    values = [objective(residuals, 3, table)]
    for _ in range(1000):
        sweep(problem, state)
        values.append(objective(residuals, 3, table))
    tolerance = 1e-9 * values[0]
    assert np.diff(values).max() <= tolerance
    assert values[-1] < 0.9 * values[0]
    assert values[-2] - values[-1] < 1e-6 * (values[0] - values[-1])
    generator, groups = np.random.default_rng(1), np.split(np.arange(len(table) - 1), np.cumsum(domain.sizes)[:-1])
    for _ in range(50):
        near = table * np.exp(1e-3 * generator.normal(size=table.shape))
        for group in groups:
            near[group] /= near[group].sum(axis=0)
        near[-1] /= near[-1].sum()
        assert objective(residuals, 3, near) >= values[-1] - tolerance


def test_answers_are_the_marginals_of_the_model() -> None:
    queries = Marginals(MIXED, (("a", "b", "d"), ("c",), (), ("c", "d")))
    table, first = probabilities(MIXED, 3), np.concatenate([[0], np.cumsum(MIXED.sizes)])
    values = LatentClassModel(MIXED.names, first, table).answers(queries, ROWS)
    cells = joint(MIXED, table)
    expected = [marginal_of(MIXED, cells, clique).ravel() for clique in queries.cliques]
    np.testing.assert_allclose(values, ROWS * np.concatenate(expected), rtol=1e-9)


@pytest.mark.parametrize("domain", [Domain(tuple("abcdefghijkl"), (2,) * 12), Domain(("a", "b", "c"), (3, 400, 5))])
def test_the_memory_of_a_fit_is_that_of_its_arrays(domain: Domain) -> None:
    queries = queries_of(domain, 2)
    residuals = measured(np.zeros((ROWS, len(domain.names)), dtype=np.int64), queries, 20.0)
    problem = module._problem(residuals, queries, ROWS, domain.names)
    state = initial_state(problem, np.ones((sum(domain.sizes) + 1, 16)))
    needed = sum(array.nbytes for array in state)
    assert 1.0 <= bytes_of_fit(queries, 16) / needed <= 2.0


def test_a_fit_goes_on_from_another_model() -> None:
    queries = queries_of(BITS, 3)
    residuals, generator = measured(of_classes(BITS, 3), queries, 40.0), np.random.default_rng(3)
    fit = partial(LatentClassModel.fitted, residuals, queries, ROWS, 8, generator)
    start = fit(WorkMeter(20 * module._reads_of_sweep(queries, 8)))
    same, further = fit(WorkMeter(0.0), start), fit(WorkMeter(), start)
    np.testing.assert_allclose(same.table, start.table, rtol=1e-12)
    assert objective(residuals, 3, further.table) < objective(residuals, 3, start.table)


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
    limit = reads_of_fit(queries, CLASSES)
    whole, little, none = WorkMeter(), WorkMeter(limit / 20), WorkMeter(0.0)
    values = [fitted(residuals, queries, meter) for meter in (whole, little, none)]
    assert whole.spent == pytest.approx(limit)
    assert 0 < little.spent < whole.spent
    assert little.fraction == pytest.approx(1.0)
    assert none.spent == 0
    one_way = [np.maximum(residuals.marginal((name,)) / residuals.marginal(()), module._SMALLEST) for name in "abc"]
    independent = ROWS * np.multiply.outer(np.multiply.outer(one_way[0], one_way[1]), one_way[2])
    np.testing.assert_allclose(values[2][:8], independent.ravel(), rtol=0.01)


def test_a_fit_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = queries_of(BITS, 3)
    monkeypatch.setattr(module, "_WORK", reads_of_fit(queries, CLASSES) / 20)
    meter = WorkMeter()
    fitted(measured(of_classes(BITS, 3), queries, 40.0), queries, meter)
    assert meter.spent == pytest.approx(module._WORK)
    assert reads_of_fit(queries, CLASSES) == module._WORK


def test_attributes_of_one_value_and_no_attributes() -> None:
    domain = Domain(("a", "b"), (1, 1))
    queries = Marginals(domain, (("a", "b"), ()))
    residuals = measured(np.zeros((ROWS, 2), dtype=np.int64), queries, 5.0)
    np.testing.assert_allclose(fitted(residuals, queries), [ROWS, ROWS])
