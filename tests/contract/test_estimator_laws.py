"""The laws of every estimator of graphical models, against non-negative least squares on the table of the whole domain.

A new estimator is one row of ESTIMATORS, a new structure one of SHAPES, a new sort of measurements one of SORTS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import nnls

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.maximum_entropy import MaximumEntropy
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.likelihood.losses import SquaredLoss
from dpcore.estimation.graphical.likelihood.mirror_descent import AcceleratedMirrorDescent
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals, Product, Products
from tests.support.graphs import SHAPES, GraphShape
from tests.support.marginal_oracles import BruteForce
from tests.support.mirror_descent import MirrorDescent

Table = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Found:
    potentials: Table
    loss: float


@dataclass(frozen=True, eq=False)
class Problem:
    """Noisy measurements of some records.

    excluded: Places among the log-potentials where no record may be.
    """

    domain: Domain
    measurements: list[Measurement]
    total: float
    excluded: tuple[int, ...] = ()

    @cached_property
    def loss(self) -> SquaredLoss:
        return SquaredLoss(self.domain, self.measurements)

    @cached_property
    def tree(self) -> JunctionTree:
        return JunctionTree.of(self.domain, self.loss.queries.cliques)

    @property
    def oracle(self) -> Inference:
        return Inference(self.tree, self.loss.queries.cliques)

    @cached_property
    def start(self) -> Table:
        potentials = np.zeros(self.loss.queries.size)
        potentials[list(self.excluded)] = -np.inf
        return potentials

    @cached_property
    def smallest_loss(self) -> float:
        """Over all tables of ``total`` records: the total is one more row, of a thousand times the precision."""
        possible = BruteForce(self.tree, self.loss.queries.cliques).joint(self.start).ravel() > 0
        rows = np.concatenate([matrix / deviation for matrix, _, deviation in dense_rows(self)])[:, possible]
        values = np.concatenate([values / deviation for _, values, deviation in dense_rows(self)])
        heavy = 1e3 * float(np.linalg.norm(rows, axis=0).max())
        rows, values = np.vstack([rows, np.full(rows.shape[1], heavy)]), np.append(values, heavy * self.total)
        scale = np.linalg.norm(values)
        cells, _ = nnls(rows, values / scale, maxiter=50 * rows.shape[1])
        residual = rows[:-1] @ (cells * self.total / cells.sum()) - values[:-1]
        return 0.5 * float(residual @ residual)


def dense_rows(problem: Problem) -> list[tuple[Table, Table, float]]:
    """(matrix over all cells of the domain, values, standard deviation) of every measurement."""
    result = []
    for measured in problem.measurements:
        match measured.queries:
            case Marginals() as queries:
                matrix = np.concatenate([summing(problem.domain, clique) for clique in queries.cliques])
            case Products() as queries:
                blocks = [
                    term.weight * reduce(np.kron, term.matrices, np.ones((1, 1))) @ summing(problem.domain, term.clique)
                    for term in queries.terms
                ]
                matrix = np.concatenate(blocks) / queries.denominator
            case _:
                raise TypeError
        result.append((matrix, measured.values, measured.stddev))
    return result


def summing(domain: Domain, clique: Clique) -> Table:
    """[cells of the clique, cells of the domain]."""
    sizes = zip(domain.names, domain.sizes, strict=True)
    return reduce(np.kron, [np.eye(size) if name in clique else np.ones((1, size)) for name, size in sizes])


def first_order(estimator: MirrorDescent | AcceleratedMirrorDescent) -> Callable[[Problem], Found]:
    def estimate(problem: Problem) -> Found:
        fit = estimator.estimate(problem.oracle, problem.loss, problem.total, problem.start)
        marginals = problem.total * problem.oracle.marginals(fit.potentials)
        np.testing.assert_allclose(fit.marginals, marginals, rtol=1e-9, atol=1e-9)
        return Found(fit.potentials, fit.loss)

    return estimate


def by_the_dual(problem: Problem) -> Found:
    """With a weak preference for the start."""
    estimator = MaximumEntropy(strength=1e-3, tolerance=1e-4, iterations=2000)
    matrix = problem.loss.matrix
    fit = estimator.estimate(problem.oracle, matrix, problem.total, problem.start, np.zeros(matrix.values.size))
    return Found(fit.potentials, fit.loss + matrix.constant)


ESTIMATORS: dict[str, Callable[[Problem], Found]] = {
    "mirror descent": first_order(MirrorDescent(1200, 1e-5)),
    "accelerated mirror descent": first_order(AcceleratedMirrorDescent(800, 1e-5)),
    "maximum entropy": by_the_dual,
}


def table_of(domain: Domain, records: int, generator: Generator) -> Table:
    """Counts of very different sizes, a few of them 0."""
    chances = generator.dirichlet(np.full(domain.size(), 0.3))
    return generator.multinomial(records, chances).astype(np.float64)


def noisy(domain: Domain, table: Table, cliques: list[Clique], deviation: float, generator: Generator) -> Measurement:
    queries = Marginals(domain, tuple(cliques))
    exact = np.concatenate([summing(domain, clique) @ table for clique in queries.cliques])
    return Measurement(queries, exact + generator.normal(0, deviation, exact.size), Noise.GAUSSIAN, deviation)


def measured(shape: GraphShape, generator: Generator, records: int = 1000, deviation: float = 10.0) -> Problem:
    """Each clique alone."""
    table = table_of(shape.domain, records, generator)
    cliques = list(shape.cliques) or [()]
    return Problem(
        shape.domain,
        [noisy(shape.domain, table, [clique], deviation, generator) for clique in cliques],
        float(records),
    )


def repeated(shape: GraphShape, generator: Generator) -> Problem:
    """Each clique three times with different noise, with its parts, and the number of records."""
    table = table_of(shape.domain, 1000, generator)
    cliques = list(shape.cliques) or [()]
    parts = [clique[:-1] for clique in cliques]
    lists = [cliques, parts, cliques[:1], [(), *cliques]]
    deviations = [20.0, 5.0, 2.0, 30.0]
    pairs = zip(lists, deviations, strict=True)
    return Problem(shape.domain, [noisy(shape.domain, table, each, sigma, generator) for each, sigma in pairs], 1000.0)


def prefixes(shape: GraphShape, generator: Generator) -> Problem:
    """Prefix counts of the last attribute of each clique, beside the whole first clique."""
    problem = measured(shape, generator)
    table = table_of(shape.domain, 1000, generator)
    terms = []
    for clique in map(shape.domain.canonical, shape.cliques):
        sizes = shape.domain.shape(clique)
        eyes = [np.eye(size, dtype=np.int64) for size in sizes[:-1]]
        last = [np.tril(np.ones((size, size), dtype=np.int64)) for size in sizes[-1:]]
        terms.append(Product(clique, (*eyes, *last), 2))
    if not terms:
        return problem
    queries = Products(shape.domain, tuple(terms), 3)
    blank = Problem(shape.domain, [Measurement(queries, np.zeros(queries.size), Noise.GAUSSIAN, 5.0)], 1000.0)
    exact = dense_rows(blank)[0][0] @ table
    values = exact + generator.normal(0, 5, exact.size)
    first = noisy(shape.domain, table, [shape.cliques[0]], 10.0, generator)
    return Problem(shape.domain, [Measurement(queries, values, Noise.GAUSSIAN, 5.0), first], 1000.0)


def far_too_noisy(shape: GraphShape, generator: Generator) -> Problem:
    """Nearly every measured value has the wrong size, many are negative."""
    return measured(shape, generator, 100, 300.0)


def structural_zeros(shape: GraphShape, generator: Generator) -> Problem:
    """Cells of the first clique that no record may have, though noise says otherwise."""
    problem = measured(shape, generator)
    size = problem.loss.queries.sizes[0]
    return Problem(problem.domain, problem.measurements, problem.total, tuple(range(size // 2)))


def a_hundred_million(shape: GraphShape, generator: Generator) -> Problem:
    """Each value is measured to seven digits."""
    return measured(shape, generator, 10**8, 10.0)


SORTS = {sort.__name__: sort for sort in (repeated, prefixes, far_too_noisy, structural_zeros, a_hundred_million)}
FEW = ("cycle", "nested cliques", "the empty clique among others", "attribute of one value")
CASES = [("measured", case) for case in SHAPES] + [(sort, case) for sort in SORTS for case in FEW]


@lru_cache(maxsize=1)
def problem_of(sort: str, case: str) -> Problem:
    """Kept for all estimators: the reference takes longer than they do."""
    return {"measured": measured, **SORTS}[sort](SHAPES[case], np.random.default_rng(1))


def allowed(problem: Problem) -> float:
    """A thousandth above the smallest loss, a fiftieth of what noise is worth, 1/2 a row, and 1e-7 of the start's.

    The last is far less than the others but for a hundred million records.
    """
    start = problem.loss(problem.total * problem.oracle.marginals(problem.start))[0]
    return problem.smallest_loss * (1 + 1e-3) + 0.01 * problem.loss.matrix.values.size + 1e-7 * start


@pytest.mark.parametrize(("sort", "case"), CASES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_loss_is_that_of_the_best_table(name: str, sort: str, case: str) -> None:
    problem = problem_of(sort, case)
    result = ESTIMATORS[name](problem)
    marginals = problem.total * BruteForce(problem.tree, problem.loss.queries.cliques).marginals(result.potentials)
    assert result.loss == pytest.approx(problem.loss(marginals)[0], rel=1e-6, abs=1e-6)
    assert problem.smallest_loss * (1 - 1e-6) - 1e-6 <= result.loss <= allowed(problem)


@pytest.mark.parametrize(("sort", "case"), CASES)
def test_the_start_would_not_pass(sort: str, case: str) -> None:
    problem = problem_of(sort, case)
    start = problem.loss(problem.total * problem.oracle.marginals(problem.start))[0]
    if set(problem.loss.queries.sizes) != {1}:
        assert start > allowed(problem)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_the_start_excludes_stays_excluded(name: str) -> None:
    problem = problem_of("structural_zeros", "tree")
    result = ESTIMATORS[name](problem)
    assert np.isneginf(result.potentials[list(problem.excluded)]).all()
    assert np.isfinite(np.delete(result.potentials, problem.excluded)).all()
