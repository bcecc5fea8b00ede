"""Chooses the strategy for queries about a series of counts, and states how far from the optimum it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.strategies.continual import candidates
from dpcore.strategies.continual.strategy import ContinualStrategy

Real = NDArray[np.float64]
Choice = Literal["best", "square_root", "tree", "daily"]

_MIN_GAIN = 1e-4  # The simpler of two strategies is preferred if the relative gain in squared error is below this.
_FIXED: Final[dict[str, Callable[[int], ContinualStrategy]]] = {
    "daily": candidates.daily,
    "tree": candidates.tree,
    "square_root": candidates.square_root,
}


@dataclass(frozen=True, eq=False)
class ContinualPlan:
    """A strategy for the queries W about a series of T steps.

    name: The strategy: optimum, square_root, tree or daily; recorded for one that was planned before.
    strategy: The integer strategy A.
    reconstruction: R with W x = R (A x), float64 [m, p]; row by row from the steps up to the end of the query.
    error: |A|^2 times the sum of the squared entries of R, each row times the square of its weight: the squared error
        of all queries together at unit noise. |A| is the largest column norm, L1 under Laplace and L2 under Gaussian
        noise.
    bound: A lower bound on the error of every strategy, whether or not it answers step by step: the dual value of the
        optimum under Gaussian noise, or the SVD bound under Laplace noise.
    """

    name: str
    strategy: ContinualStrategy
    reconstruction: Real
    error: float
    bound: float

    @property
    def gap(self) -> float:
        """The excess of the root-mean-square error over the bound, relative to the bound."""
        return float((self.error / self.bound) ** 0.5 - 1)


def continual_plan(queries: Real, weights: Real, noise: Noise, choice: Choice = "best") -> ContinualPlan:
    """The strategy with the least expected squared error, or the one that is asked for.

    queries: W, float64 [m, T], one query about the series per row. A query is answered at the last step it reads.
    weights: The weight of each query's error, float64 [m], positive.
    noise: The law of the noise.
    choice: A strategy, or "best" for the one of least error.

    The same arguments give the same strategy. The last plans are cached, so that a run need not repeat the search of
    its plan.

    Raises ValueError for queries that read nothing, and for more than 1,024 steps.
    """
    queries, weights = np.ascontiguousarray(queries, np.float64), np.ascontiguousarray(weights, np.float64)
    return _planned(queries.tobytes(), weights.tobytes(), queries.shape, noise, choice)


def plan_of_strategy(queries: Real, weights: Real, noise: Noise, strategy: ContinualStrategy) -> ContinualPlan:
    """The plan of a strategy that was planned before; the other arguments are those of ``continual_plan``.

    A plan that another machine makes for the same queries may differ in its last bits, and its strategy then differs.

    Raises ValueError for a strategy of another number of steps.
    """
    if strategy.steps != queries.shape[1]:
        raise ValueError(f"a strategy of {strategy.steps:,} steps; want the series' {queries.shape[1]:,}")
    queries, weights = np.ascontiguousarray(queries, np.float64), np.ascontiguousarray(weights, np.float64)
    return _of_text(queries.tobytes(), weights.tobytes(), queries.shape, noise, strategy.to_text())


@lru_cache(maxsize=8)
def _of_text(content: bytes, weighting: bytes, shape: tuple[int, int], noise: Noise, text: str) -> ContinualPlan:
    queries, weights = np.frombuffer(content).reshape(shape), np.frombuffer(weighting)
    bound = _planned(content, weighting, shape, noise, "best").bound
    return _plan_of("recorded", ContinualStrategy.from_text(text), queries, weights, noise, bound)


@lru_cache(maxsize=8)
def _planned(content: bytes, weighting: bytes, shape: tuple[int, int], noise: Noise, choice: Choice) -> ContinualPlan:
    queries, weights = np.frombuffer(content).reshape(shape), np.frombuffer(weighting)
    weighted = queries * weights[:, None]
    gram = weighted.T @ weighted
    if not gram.diagonal().any():
        raise ValueError("queries that read no step; want a query of a step")
    if noise is Noise.LAPLACE:
        bound = float(np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)).sum() ** 2 / shape[1])
        options = {name: make(shape[1]) for name, make in _FIXED.items() if choice in (name, "best")}
    else:
        optimum, bound = candidates.best(gram)
        names = ("daily",) if choice == "best" else (choice,)  # No other strategy has less error than the optimum.
        options = {name: _FIXED[name](shape[1]) for name in names}
        if choice == "best":
            options["optimum"] = optimum
    plans = [_plan_of(name, strategy, queries, weights, noise, bound) for name, strategy in options.items()]
    chosen = plans[0]
    for plan in plans[1:]:
        chosen = plan if plan.error < chosen.error * (1 - _MIN_GAIN) else chosen
    return chosen


def _plan_of(
    name: str, strategy: ContinualStrategy, queries: Real, weights: Real, noise: Noise, bound: float
) -> ContinualPlan:
    reconstruction = strategy.reconstruction(queries)
    reconstruction.flags.writeable = False  # The cached value is shared by later calls.
    squares = (reconstruction**2).sum(axis=1) @ weights**2
    return ContinualPlan(name, strategy, reconstruction, strategy.squared_sensitivity(noise) * float(squares), bound)
