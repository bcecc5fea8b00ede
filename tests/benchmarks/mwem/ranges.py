"""Fig. 2 of the MWEM paper: random range queries about one or two attributes, by squared error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.multiplicative_weights.dense import DenseModel
from dpcore.evaluation import exact_answers
from dpcore.measurement import Noise
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.mwem.mwem_queries import MwemQueries
from dpcore.queries import Product, Products
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.strategies.one_attribute.best_strategy import attribute_strategy
from dpcore.workload import linear
from tests.benchmarks.mwem.histograms import Histogram
from tests.benchmarks.mwem.lines import Line, expected, line, release, repeated
from tests.support.constants import with_constants
from tests.support.implicit_matrices import Identity
from tests.support.implicit_ranges import AllRanges
from tests.support.linear_operators import ImplicitMatrix
from tests.support.range_strategies import Privelet, greedy_h, hb, hierarchy

EPSILONS: Final = (0.0125, 0.025, 0.05, 0.1)
QUERIES, ROUNDS, RUNS = 250, 10, 5
MEASURE: Final = "squared error"
SVD, SVD_PURE = "SVD bound, delta 1/n", "SVD bound, Laplace"
FIGURE_1, VARIED = "MWEM, Fig. 1", "MWEM, sec. 2.3.2"
MWEM: Final = {
    FIGURE_1: MwemQueries(rounds=ROUNDS, profile="published"),
    VARIED: MwemQueries(rounds=ROUNDS),
}
FIXED: Final[Mapping[str, Callable[[int], ImplicitMatrix]]] = {
    "identity": Identity,
    "h2": hierarchy,
    "privelet": Privelet,
    "hb": hb,
    "greedy_h": lambda size: greedy_h(AllRanges(size).gram()),
}
HDMM, HDMM_MODEL = "hdmm", "hdmm, graphical"
_BITS: Final = 12


@dataclass(frozen=True, eq=False)
class RandomRanges:
    """rows: For each attribute int64 [queries, size], 0 or 1; a query is the product of its rows."""

    data: Histogram
    rows: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, data: Histogram, seed: int) -> RandomRanges:
        """Two random ends an attribute, both included."""
        generator = np.random.default_rng(seed)
        rows = []
        for size in data.domain.sizes:
            low, high = np.sort(generator.integers(0, size, (2, QUERIES)), axis=0)
            rows.append(((low[:, None] <= np.arange(size)) & (np.arange(size) <= high[:, None])).astype(np.int64))
        return cls(data, tuple(rows))

    @cached_property
    def queries(self) -> Products:
        names = self.data.domain.names
        if len(names) == 1:
            return Products(self.data.domain, (Product(names, self.rows),))
        terms = (Product(names, tuple(matrix[i : i + 1] for matrix in self.rows)) for i in range(QUERIES))
        return Products(self.data.domain, tuple(terms))

    @cached_property
    def exact(self) -> NDArray[np.float64]:
        return exact_answers(self.data.statistics, self.queries).astype(np.float64)

    def error(self, answers: NDArray[np.float64]) -> float:
        """Mean squared error of an answer."""
        return float(np.mean((answers - self.exact) ** 2))

    def variance(self, norms_and_inverses: list[tuple[float, NDArray[np.float64]]]) -> float:
        """Mean over the queries of |A|^2 q (A'A)^-1 q' for the product A of strategies, one an attribute."""
        factors = [
            norm**2 * np.einsum("qi,ij,qj->q", rows, inverse, rows, optimize=True)
            for rows, (norm, inverse) in zip(self.rows, norms_and_inverses, strict=True)
        ]
        return float(np.prod(factors, axis=0).mean())

    def svd_bound(self) -> float:
        """(sum of singular values)^2 / cells, an answer."""
        gram = np.prod([rows @ rows.T for rows in self.rows], axis=0).astype(np.float64)
        values = np.sqrt(np.clip(np.linalg.eigvalsh(gram), 0, None))
        return float(values.sum() ** 2 / self.data.domain.size() / QUERIES)


def panel(name: str, data: Histogram, seed: int) -> Iterator[Line]:
    """All lines of one plot."""
    asked = RandomRanges.of(data, seed)
    uniform = DenseModel(data.domain, np.full(data.domain.size(), data.units / data.domain.size()))
    unit_noise = {
        series: asked.variance([fixed(make(size)) for size in data.domain.sizes]) for series, make in FIXED.items()
    }
    unit_noise[HDMM] = asked.variance([optimised(asked, axis) for axis in range(len(asked.rows))])
    bound = asked.svd_bound()
    for epsilon in EPSILONS:
        for series, mechanism in MWEM.items():
            yield line(name, epsilon, series, MEASURE, released(asked, mechanism, epsilon))
        yield line(name, epsilon, HDMM_MODEL, MEASURE, from_model(asked, epsilon))
        for series, variance in unit_noise.items():
            yield expected(name, epsilon, series, MEASURE, 2 / epsilon**2 * variance)
        yield expected(name, epsilon, SVD, MEASURE, 2 * math.log(2 * data.units) / epsilon**2 * bound)
        yield expected(name, epsilon, SVD_PURE, MEASURE, 2 / epsilon**2 * bound)
        yield expected(name, epsilon, "zeros", MEASURE, asked.error(np.zeros(QUERIES)))
        yield expected(name, epsilon, "uniform", MEASURE, asked.error(uniform.answer(asked.queries)))


def released(asked: RandomRanges, mechanism: MwemQueries, epsilon: float) -> list[float]:
    (errors,) = repeated(
        RUNS,
        lambda seed: [asked.error(release(asked.data, mechanism, linear(asked.queries), epsilon, seed).answers.values)],
    )
    return list(errors)


def from_model(asked: RandomRanges, epsilon: float) -> list[float]:
    """HDMM+PGM on the queries, or of two attributes on prefixes of both, whose model answers any range."""
    queries = asked.queries
    if len(asked.rows) > 1:
        domain = asked.data.domain
        matrices = {name: prefix(size) for name, size in zip(domain.names, domain.sizes, strict=True)}
        queries = range_marginals(domain, [domain.names], matrices)

    def one(seed: int) -> list[float]:
        mechanism = with_constants(Hdmm(reconstruction="graphical"), iterations=300)
        model = release(asked.data, mechanism, linear(queries), epsilon, seed).model
        assert model is not None
        return [asked.error(model.answer(asked.queries))]

    (errors,) = repeated(RUNS, one)
    return list(errors)


def fixed(strategy: ImplicitMatrix) -> tuple[float, NDArray[np.float64]]:
    """L1 norm and (A'A)^-1."""
    return strategy.sensitivity(1), np.linalg.inv(strategy.gram())


def optimised(asked: RandomRanges, axis: int) -> tuple[float, NDArray[np.float64]]:
    """OPT_0 for the queries themselves, or of two attributes for all ranges of each."""
    rows = asked.rows[axis] if len(asked.rows) == 1 else all_ranges(asked.rows[axis].shape[1])
    found = attribute_strategy(rows, Noise.LAPLACE, _BITS)
    matrix = found.matrix / found.denominator
    return float(np.abs(matrix).sum(axis=0).max()), np.linalg.pinv(matrix.T @ matrix)
