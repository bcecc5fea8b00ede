"""The least error that Gaussian noise leaves on wide tables, were the population that the rows come from known.

No error can then be lowered but by measuring how far these rows, a sample, are from their population. The case computes
the least Bayes error of measurements of residuals, beside the error of the population itself, and that of unbiased
answers of the same budget. It bounds what any model can gain on the tables of ``wide_110`` and ``wide_binary``. Tables
are taken as uniform, and the counts of a sample as normal. No data is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.domain import Clique, Domain
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.sensitivity import Neighbours
from dpcore.queries import Marginals
from dpcore.testing.doubles import NoStatistics
from dpcore.workload import all_k_way
from jobs.config import Privacy
from jobs.planning.job import currency_of
from tests.benchmarks import wide_110, wide_binary
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.graphical.releases import DELTA, mechanism

Real = NDArray[np.float64]
_MEAN_ABSOLUTE: Final = math.sqrt(2 / math.pi)
_STEPS: Final = 5_000
GAP: Final = 0.001


@dataclass(frozen=True)
class Setting:
    """Marginals of so many rows, and the budget mu^2 of Gaussian DP."""

    queries: Marginals
    rows: int
    budget: float


@dataclass(frozen=True)
class Bound:
    """Expected L1 distances of a marginal to that of the rows, as parts of the rows, means over the marginals.

    population: Of the population's marginal.
    unbiased: Of the best answers that use nothing but measurements.
    least: Of the best estimate from the population and measurements.
    gap: How far the true least error may lie below, as a part of it.
    """

    population: float
    unbiased: float
    least: float
    gap: float


def bound_of(setting: Setting) -> Bound:
    """Minimises the Bayes error over the precisions of residuals, and the error without a prior beside it."""
    problem = _Problem.of(setting.queries, setting.rows)
    least, gap = problem.minimised(setting.budget)
    unbiased, _ = problem.without_prior().minimised(setting.budget)
    return Bound(problem.error(np.zeros(len(problem.cells)))[0], unbiased, least, gap)


@dataclass(frozen=True, eq=False)
class _Problem:
    """The mean error as a function of the precisions x of the residuals of all sets below the marginals.

    In orthonormal coordinates, the counts of a table of m cells have the variance n / m around the population, and a
    residual of a set with d degrees of freedom costs the budget x d / m. Its posterior variance is
    1 / (m / n + x), and it adds d m / M times that to the squared error of a marginal of M cells. The error of a
    marginal is the norm of convex functions, and so is convex.

    cells, freedom: m and d of each set, float64 [sets].
    prior: m / n of each set, float64 [sets].
    parts, owners: intp [pairs], each set below each marginal, and that marginal.
    sizes: M of each marginal, float64 [marginals].
    rows: n.
    """

    cells: Real
    freedom: Real
    prior: Real
    parts: NDArray[np.intp]
    owners: NDArray[np.intp]
    sizes: Real
    rows: int

    @classmethod
    def of(cls, queries: Marginals, rows: int) -> _Problem:
        domain, below = queries.domain, [_subsets(clique) for clique in queries.cliques]
        index_of = {part: index for index, part in enumerate(dict.fromkeys(part for parts in below for part in parts))}
        cells = np.array([domain.size(part) for part in index_of], dtype=np.float64)
        freedom = np.array([math.prod(size - 1 for size in domain.shape(part)) for part in index_of], dtype=np.float64)
        parts = np.array([index_of[part] for parts in below for part in parts], dtype=np.intp)
        owners = np.repeat(np.arange(len(below)), list(map(len, below)))
        return cls(cells, freedom, cells / rows, parts, owners, np.array(queries.sizes, dtype=np.float64), rows)

    def without_prior(self) -> _Problem:
        return replace(self, prior=np.zeros(len(self.cells)))

    def error(self, precisions: Real) -> tuple[float, Real]:
        """The mean error, and its gradient."""
        variances = 1 / (self.prior + precisions)
        weights = (self.freedom * self.cells)[self.parts]  # The L1 error of M cells is M^(1/2) times their L2 error.
        norms = np.sqrt(np.bincount(self.owners, weights * variances[self.parts]))
        slopes = -weights * variances[self.parts] ** 2 / (2 * norms[self.owners])
        gradient = np.bincount(self.parts, slopes, minlength=len(self.cells))
        scale = _MEAN_ABSOLUTE / (self.rows * len(self.sizes))
        return scale * float(norms.sum()), scale * gradient

    def minimised(self, budget: float) -> tuple[float, float]:
        """The least error, and the relative gap to a lower bound of it."""
        prices = self.freedom / self.cells

        def precisions(logarithms: Real) -> Real:
            shares = np.exp(logarithms - logarithms.max())
            return np.asarray(budget * shares / (prices @ shares))

        def objective(logarithms: Real) -> tuple[float, Real]:
            x = precisions(logarithms)
            value, gradient = self.error(x)
            return value, gradient * x - x * prices * float(gradient @ x) / budget

        start = -0.5 * np.log(self.cells)
        options = {"maxiter": _STEPS, "maxfun": 2 * _STEPS, "ftol": 1e-13, "gtol": 1e-12}
        x = precisions(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)
        value, gradient = self.error(x)
        # The objective is convex: its tangent, minimised over all precisions of this budget, is a lower bound.
        below = float(gradient @ x) - budget * float((gradient / prices).min())
        return value, below / value


def _subsets(clique: Clique) -> list[Clique]:
    return [part for order in range(1, len(clique) + 1) for part in combinations(clique, order)]


def inputs(data: Path) -> Inputs:
    return {}


def prepare(paths: Inputs, seed: int) -> dict[str, Setting]:
    sizes = wide_110.sizes(np.random.default_rng(0)).tolist()
    wide = Domain(tuple(f"a{axis:03d}" for axis in range(len(sizes))), tuple(sizes))
    bits = Domain.of({f"b{axis:02d}": 2 for axis in range(wide_binary.BITS)})
    table = Table(NoStatistics(Contribution(Shape.TABLE, 1)), wide, wide_110.MANY)
    settings = {
        f"wide_110 {label}": _setting(build("wide", table).queries, wide_110.MANY, wide_110.EPSILON)
        for label, build in wide_110.WORKLOADS.items()
    }
    for epsilon in wide_binary.EPSILONS:
        queries = all_k_way(bits, 3).queries
        settings[f"wide_binary {epsilon:g}"] = _setting(queries, wide_binary.ROWS, epsilon)
    return settings


def _setting(queries: object, rows: int, epsilon: float) -> Setting:
    assert isinstance(queries, Marginals)
    privacy = Privacy(epsilon=epsilon, delta=DELTA, neighbours=Neighbours.ADD_REMOVE_UNIT.value)
    currency = currency_of(privacy, mechanism("adaptive_residuals"))
    return Setting(queries, rows, float(budget_of(epsilon, DELTA, currency).amount))


def work(settings: dict[str, Setting]) -> dict[str, Bound]:
    return {name: bound_of(setting) for name, setting in settings.items()}


def judge(settings: dict[str, Setting], found: dict[str, Bound]) -> Judgement:
    facts: dict[str, float] = {}
    for name, bound in found.items():
        facts[f"{name}: least over population"] = bound.least / bound.population
        facts[f"{name}: least over unbiased"] = bound.least / bound.unbiased
        facts[f"{name}: gap"] = bound.gap
    beside = {
        "population": {name: bound.population for name, bound in found.items()},
        "unbiased": {name: bound.unbiased for name, bound in found.items()},
    }
    return Judgement({name: bound.least for name, bound in found.items()}, beside, facts)


def _largest_gap(runs: Sequence[Run]) -> float:
    return max(value for run in runs for name, value in run.facts.items() if name.endswith(": gap"))


CASE = Case(
    params={
        "tables": ["wide_110 with 2,000,000 rows", "wide_binary with 23 bits"],
        "delta": DELTA,
        "error": "expected L1 error of a marginal over the rows, least Bayes error with the population known",
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=[Target("gap to a certified bound, relative, worst", "<=", GAP, _largest_gap)],
    cold=False,
)
