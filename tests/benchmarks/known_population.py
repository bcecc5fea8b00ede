"""The least error that Gaussian noise would leave on wide tables, were the population that the rows come from known.

An error then falls only by measuring how far these rows, a sample, are from their population. The case computes the
least Bayes error of measurements of residuals, beside the error of the population itself, and that of unbiased answers
of the same budget: about what a perfect model could gain on triples of ``wide_110``.

It is no proof for those tables. Attributes are taken as independent, with the probabilities of these tables, the counts
of a sample as normal, and all functions of a residual as measured with one precision, although others might leave less;
the budget limits what a row contributes on average, not at most, which makes rare values cheap to measure: errors are
lower than a release could have, those of unbiased answers too. No rows are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.domain import Clique, Domain
from dpcore.exact_statistics import Contribution, Shape
from dpcore.queries import Marginals
from dpcore.testing.doubles import NoStatistics
from tests.benchmarks import wide_110
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.graphical.releases import DELTA, mechanism, private_of

Real = NDArray[np.float64]
_MEAN_ABSOLUTE: Final = math.sqrt(2 / math.pi)
_STEPS: Final = 3_000
_LEAST_SHARE: Final = 1e-9  # Of a value: smaller probabilities are raised to this.
_NO_ROWS: Final = NoStatistics(Contribution(Shape.TABLE, 1))
GAP: Final = 0.01


@dataclass(frozen=True)
class Setting:
    """Marginals of so many rows, and the budget mu^2 of Gaussian DP.

    shares: The probabilities of each attribute's values, float64 [values], positive.
    """

    queries: Marginals
    shares: Mapping[str, Real]
    rows: int
    budget: float


@dataclass(frozen=True)
class LeastErrors:
    """Expected L1 distances of a marginal to that of the rows, as parts of the rows, means over the marginals.

    population: Of the population's marginal.
    unbiased: Of the best answers that use nothing but measurements.
    least: Of the best estimate from the population and measurements.
    gap: Relative gap between ``least`` and a lower bound of it, which the minimisation leaves.
    """

    population: float
    unbiased: float
    least: float
    gap: float


def least_errors(setting: Setting) -> LeastErrors:
    """Minimises the Bayes error over the precisions of residuals, and the error without a prior beside it."""
    problem = _Problem.of(setting)
    least, gap = problem.minimised(setting.budget)
    unbiased, _ = replace(problem, prior=0.0).minimised(setting.budget)
    return LeastErrors(problem.error(np.zeros(len(problem.freedom)))[0], unbiased, least, gap)


class _Cells(NamedTuple):
    """A marginal's cells.

    shares: Their probabilities p, float64 [cells].
    sets: The sets of attributes below the marginal, intp [sets].
    squares: float64 [sets, cells], for each set the product of 1 / p_i - 1 over its attributes: the squares of the
        functions of the values that are orthonormal under p, summed over those of the set.
    """

    shares: Real
    sets: NDArray[np.intp]
    squares: Real


@dataclass(frozen=True, eq=False)
class _Problem:
    """The mean error as a function of the precisions x of the residuals of all sets below the marginals.

    The sum over the rows of a function that is orthonormal under p has the variance n around what the population
    expects. Measured with the precision x it costs the budget x, because the mean of its square is 1, and leaves the
    posterior variance v = 1 / (1 / n + x). A set has d such functions. A cell's count is p times their weighted sum, so
    that a cell is off by p (sum over sets of v times ``squares``)^(1/2) (2 / pi)^(1/2). This is convex in x.

    marginals: The cells of each.
    freedom: d of each set, float64 [sets].
    prior: 1 / n; 0 for unbiased answers.
    rows: n.
    """

    marginals: Sequence[_Cells]
    freedom: Real
    prior: float
    rows: int

    @classmethod
    def of(cls, setting: Setting) -> _Problem:
        index_of: dict[Clique, int] = {}
        marginals = []
        for clique in setting.queries.cliques:
            probabilities = [setting.shares[name] for name in clique]
            grids = np.meshgrid(*(1 / shares - 1 for shares in probabilities), indexing="ij")
            chosen = [axes for order in range(1, len(clique) + 1) for axes in combinations(range(len(clique)), order)]
            squares = np.stack([reduce(np.multiply, [grids[axis] for axis in axes]).ravel() for axes in chosen])
            parts = [tuple(clique[axis] for axis in axes) for axes in chosen]
            sets = np.array([index_of.setdefault(part, len(index_of)) for part in parts], dtype=np.intp)
            marginals.append(_Cells(reduce(np.multiply.outer, probabilities).ravel(), sets, squares))
        domain = setting.queries.domain
        freedom = [math.prod(size - 1 for size in domain.shape(part)) for part in index_of]
        return cls(marginals, np.array(freedom, dtype=np.float64), 1 / setting.rows, setting.rows)

    def error(self, precisions: Real) -> tuple[float, Real]:
        """The mean error, and its gradient."""
        variances = 1 / (self.prior + precisions)
        value, slopes = 0.0, np.zeros(len(precisions))
        for shares, sets, squares in self.marginals:
            deviations = np.sqrt(variances[sets] @ squares)
            value += float(shares @ deviations)
            slopes[sets] += squares @ (shares / (2 * deviations))
        scale = _MEAN_ABSOLUTE / (self.rows * len(self.marginals))
        return scale * value, -scale * slopes * variances**2

    def minimised(self, budget: float) -> tuple[float, float]:
        """The least error, and the relative gap to a lower bound of it."""

        def precisions(logarithms: Real) -> Real:
            shares = np.exp(logarithms - logarithms.max())
            return np.asarray(budget * shares / (self.freedom @ shares))

        def objective(logarithms: Real) -> tuple[float, Real]:
            x = precisions(logarithms)
            value, gradient = self.error(x)
            return value, gradient * x - x * self.freedom * float(gradient @ x) / budget

        start = -0.5 * np.log(self.freedom)
        options = {"maxiter": _STEPS, "maxfun": 2 * _STEPS, "ftol": 1e-13, "gtol": 1e-12}
        x = precisions(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)
        value, gradient = self.error(x)
        # The objective is convex: its tangent, minimised over all precisions of this budget, is a lower bound.
        below = float(gradient @ x) - budget * float((gradient / self.freedom).min())
        return value, below / value


def inputs(data: Path) -> Inputs:
    return {}


def prepare(paths: Inputs, seed: int) -> dict[str, Setting]:
    """The distributions are those of the case, whose rows are drawn to get them, and dropped."""
    settings: dict[str, Setting] = {}
    for kind in ("tree", "clusters"):
        distribution, _ = wide_110.generated(kind, wide_110.MANY)
        names = [f"a{axis:03d}" for axis in range(wide_110.ATTRIBUTES)]
        pairs = zip(names, distribution.attributes, strict=True)
        shares = {name: distribution.marginal((node,)) for name, node in pairs}
        domain = Domain(tuple(names), tuple(map(len, shares.values())))
        table = Table(_NO_ROWS, domain, wide_110.MANY)
        asked = wide_110.WORKLOADS["triples"]("wide", table).queries
        settings[f"wide_110 {kind}"] = _setting(asked, shares, wide_110.MANY, wide_110.EPSILON)
    return settings


def _setting(queries: object, shares: Mapping[str, Real], rows: int, epsilon: float) -> Setting:
    assert isinstance(queries, Marginals)
    raised = {name: np.maximum(each, _LEAST_SHARE) for name, each in shares.items()}
    positive = {name: each / each.sum() for name, each in raised.items()}
    budget = private_of(_NO_ROWS, mechanism("adaptive_residuals"), epsilon).terms.budget
    return Setting(queries, positive, rows, float(budget.amount))


def work(settings: dict[str, Setting]) -> dict[str, LeastErrors]:
    return {name: least_errors(setting) for name, setting in settings.items()}


def judge(settings: dict[str, Setting], found: dict[str, LeastErrors]) -> Judgement:
    facts: dict[str, float] = {}
    for name, errors in found.items():
        facts[f"{name}: least over population"] = errors.least / errors.population
        facts[f"{name}: least over unbiased"] = errors.least / errors.unbiased
        facts[f"{name}: gap"] = errors.gap
    beside = {
        "population": {name: errors.population for name, errors in found.items()},
        "unbiased": {name: errors.unbiased for name, errors in found.items()},
    }
    return Judgement({name: errors.least for name, errors in found.items()}, beside, facts)


def _largest_gap(runs: Sequence[Run]) -> float:
    return max(value for run in runs for name, value in run.facts.items() if name.endswith(": gap"))


CASE = Case(
    params={
        "tables": "wide_110 with 2,000,000 rows: tree, clusters",
        "delta": DELTA,
        "error": "expected L1 error of a marginal over the rows, least Bayes error with the population known",
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=[Target("relative gap that the minimisation leaves, worst", "<=", GAP, _largest_gap)],
    cold=False,
)
