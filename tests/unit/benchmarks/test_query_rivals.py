"""GSD, RAP++ and GEM: gradients and edits against slow references, and releases that follow their measurements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.api import Mechanism
from dpcore.queries import Conjunctions, Marginals
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import all_k_way, conjunctive
from tests.benchmarks.rivals import relaxed
from tests.benchmarks.rivals.gem import Gem, Network
from tests.benchmarks.rivals.gsd import Gsd, MeasuredCells, evolve
from tests.benchmarks.rivals.rap import Rap

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
GENERATOR = np.random.default_rng(0)
CLIQUES = (("a",), ("b", "c"), ("a", "b", "c"))
Array = NDArray[np.float64]


def measured() -> list[Measurement]:
    generator = np.random.default_rng(1)
    return [
        Measurement(Marginals(DOMAIN, (clique,)), generator.random(DOMAIN.size(clique)), Noise.GAUSSIAN, 1.0)
        for clique in CLIQUES
    ]


def numerical(loss: Callable[[Array], float], at: Array) -> Array:
    """Central differences, one coordinate at a time."""
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-6
        gradient[index] = (loss(at + step) - loss(at - step)) / 2e-6
    return gradient


def slow_answers(rows: Array) -> Array:
    """The mean over rows of the product of the attributes' chances, cell by cell."""
    a, b, c = relaxed.split(rows, DOMAIN)
    joint = np.einsum("na,nb,nc->abc", a, b, c) / len(rows)
    return np.concatenate([joint.sum(axis=(1, 2)), joint.sum(axis=0).ravel(), joint.ravel()])


def test_answers_of_relaxed_rows() -> None:
    rows = relaxed.softmax(GENERATOR.normal(size=(5, 9)), DOMAIN)
    assert np.allclose(relaxed.answers(rows, Marginals(DOMAIN, CLIQUES)), slow_answers(rows))


@pytest.mark.parametrize(
    ("project", "gradient_of"),
    [(relaxed.softmax, relaxed.softmax_gradient), (relaxed.sparsemax, relaxed.sparsemax_gradient)],
)
def test_gradients_are_those_of_small_differences(
    project: Callable[[Array, Domain], Array], gradient_of: Callable[[Array, Array, Domain], Array]
) -> None:
    targets = relaxed.Targets.of(DOMAIN, measured(), 1.0)
    logits = np.random.default_rng(3).normal(size=(4, 9))
    rows = project(logits, DOMAIN)
    gradient = gradient_of(rows, targets.gradient(rows)[1], DOMAIN)
    assert np.allclose(gradient, numerical(lambda at: targets.gradient(project(at, DOMAIN))[0], logits), atol=1e-6)


def test_sparsemax_is_the_nearest_distribution() -> None:
    block = relaxed.sparsemax(np.array([[0.2, 0.9, 5.0, 4.5, 0.0, 1.0, 1.0, 1.0, 1.0]]), DOMAIN)
    assert np.allclose(block, [[0.15, 0.85, 0.75, 0.25, 0.0, 0.25, 0.25, 0.25, 0.25]])


def test_the_network_s_gradients() -> None:
    network, noise = Network((3, 5, 4), np.random.default_rng(0)), np.random.default_rng(1).normal(size=(6, 3))
    network.forward(noise)
    gradients = network.backward(np.ones((6, 4)))
    for parameter, gradient in zip(network.parameters, gradients, strict=True):
        original = parameter.copy()

        def loss(at: Array, parameter: Array = parameter) -> float:
            parameter[...] = at
            return float(network.forward(noise).sum())

        assert np.allclose(gradient, numerical(loss, original), atol=1e-6)
        parameter[...] = original


def test_evolution_keeps_counts_and_fitness_and_never_gets_worse() -> None:
    """Its running counts are those of the rows, recounted from scratch."""
    generator = np.random.default_rng(0)
    cells = MeasuredCells.of(DOMAIN, measured(), 10.0)
    elite = np.repeat(generator.integers(0, 2, (1, 30, 3)), 3, axis=0)
    counts = np.stack([cells.counted(codes) for codes in elite])
    fitness = np.square(counts - cells.targets).sum(axis=1)
    first = fitness.min()
    shape = (200, 12)
    axes = generator.integers(0, 3, shape)
    values = (generator.random(shape) * np.array(DOMAIN.sizes)[axes]).astype(np.int64)
    rows = generator.integers(0, 30, (*shape, 2))
    evolve(
        elite, counts, fitness, cells.targets, cells.strides, cells.starts, cells.first_of_axis, cells.with_axis,
        rows, axes, values,
    )  # fmt: skip
    assert np.array_equal(counts, [cells.counted(codes) for codes in elite])
    assert np.allclose(fitness, np.square(counts - cells.targets).sum(axis=1))
    assert fitness[0] == fitness.min() < first


RIVALS: list[Mechanism] = [
    Gsd(rounds=3, rows=400, generations=3_000),
    Rap(rounds=3, rows=100, steps=150),
    Gem(rounds=3, rows=60, hidden=32, steps=200),
]


@pytest.mark.parametrize("mechanism", RIVALS, ids=lambda mechanism: mechanism.traits.name)
def test_releases_of_a_rich_budget_are_near_the_data(mechanism: Mechanism) -> None:
    generator = np.random.default_rng(5)
    first = generator.integers(0, 2, 5_000)
    second = (first + (generator.random(5_000) < 0.1)) % 3
    table = TinyTable(DOMAIN, np.column_stack([first, second, (second + first) % 4]))
    workload = all_k_way(DOMAIN, 2)
    private = private_statistics(table, Budget.zcdp(10**4))
    release = mechanism.run(private, workload, generator=np.random.default_rng(0))
    exact = exact_answers(table, workload.queries)
    assert np.abs(release.answers.values - exact).sum() / 15_000 < 0.12
    assert private.remaining_share < 1e-12
    assert len(private.charges) == len(mechanism.plan(private.terms, workload).steps) + 6


@pytest.mark.parametrize("mechanism", RIVALS, ids=lambda mechanism: mechanism.traits.name)
def test_other_queries_are_refused(mechanism: Mechanism) -> None:
    queries = Conjunctions.single_columns(BinaryView.one_hot(DOMAIN))
    private = private_statistics(TinyTable(DOMAIN, np.zeros((1, 3), dtype=np.int64)), Budget.zcdp(1))
    with pytest.raises(ConfigError, match="want workload.marginals"):
        mechanism.plan(private.terms, conjunctive(queries))
