"""Estimates of clipped answers against trivial answers and the estimator of earlier versions, on four datasets.

Every dataset has four workloads: triples of uniform items, triples and pairs of items drawn by noisy popularity, and
all single items. The earlier estimator gets the same measurements. Errors are in counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.evaluation import baselines, exact_answers
from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.clipping.clipped_gaussian import ClippedGaussian
from dpcore.mechanisms.clipping.popularity import noisy_popularity
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.uncertainty import Answers
from dpcore.workload import conjunctive
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout
from pipelines.source import open_source
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.earlier_estimates import earlier_values
from tests.support.datasets import folder

UNITS = {"groceries": 9_835, "msweb": 32_710, "retail": 88_162, "mushroom": 8_124}
ITEMS = {"groceries": 169, "msweb": 285, "retail": 16_470, "mushroom": 119}
WORKLOADS = {"uniform": (3, 100_000), "popular": (3, 100_000), "pairs": (2, 20_000), "singles": (1, 0)}
EPSILON, DELTA, POPULARITY_SHARE, MAX_ITEMS = 1.0, 1e-6, Fraction(1, 20), 128
FIGURES = ("mean", "earlier_mean", "best_mean", "max", "earlier_max", "coverage", "width", "earlier_width")


@dataclass(frozen=True)
class State:
    """statistics: By dataset. seed: Of the workloads and of the post-processing."""

    statistics: Mapping[str, Statistics]
    seed: int


@dataclass(frozen=True)
class Made:
    """What was released for one dataset and workload, and what the earlier estimator makes of it."""

    queries: Conjunctions
    answers: Answers
    earlier: NDArray[np.float64]


def inputs(data: object) -> Inputs:
    return {name: folder() / f"baskets/{name}" for name in UNITS}


def prepare(paths: Inputs, seed: int) -> State:
    statistics = {
        name: EngineStatistics(LocalEngine(), open_source(str(paths[name]), _layout(name), salt=bytes(16)))
        for name in UNITS
    }
    return State(statistics, seed)


def work(state: State) -> dict[str, Made]:
    """Releases of all cells, by dataset and workload; units are private under add/remove."""
    return {f"{name}/{kind}": _made(state, name, kind) for name in UNITS for kind in WORKLOADS}


def judge(state: State, made: Mapping[str, Made]) -> Judgement:
    """Errors, widths and discoveries of every cell. "best" is the best of zeros, the exact product and the raw values.

    The exact product of single items is the exact answer, so that it is left out there.
    """
    error: dict[str, float] = {}
    trivial: dict[str, dict[str, float]] = {}
    facts: dict[str, float] = {}
    for cell, part in made.items():
        name, kind = cell.split("/")
        exact = exact_answers(state.statistics[name], part.queries)
        estimation = part.answers.estimation
        assert estimation is not None
        guesses = baselines(part.queries, state.statistics[name], UNITS[name]) | {"raw": estimation.measured}
        wanted = ("zeros", "raw") if kind == "singles" else ("zeros", "product", "raw")
        means = {guess: float(np.nanmean(np.abs(guesses[guess] - exact))) for guess in wanted}
        for guess, mean in means.items():
            trivial.setdefault(guess, {})[cell] = mean
        distance, before = np.abs(part.answers.values - exact), np.abs(part.earlier - exact)
        inside = (part.answers.lower <= exact) & (exact <= part.answers.upper)
        discovered = estimation.q_values <= 0.1
        values = (
            *(distance.mean(), before.mean(), min(means.values()), distance.max(), before.max(), inside.mean()),
            *(np.median(part.answers.upper - part.answers.lower),),
            *(np.median(estimation.guaranteed_upper - estimation.guaranteed_lower),),
        )
        error |= {f"{cell}/{figure}": float(value) for figure, value in zip(FIGURES, values, strict=True)}
        facts |= {
            f"{cell}/queries": float(part.queries.size),
            f"{cell}/zeros": float(np.mean(exact == 0)),
            f"{cell}/discoveries": float(discovered.sum()),
            f"{cell}/false_discoveries": float((discovered & (exact == 0)).sum()),
        }
    return Judgement(error, trivial, facts)


def _made(state: State, name: str, kind: str) -> Made:
    statistics, view = state.statistics[name], _layout(name).view
    order, count = WORKLOADS[kind]
    whole = budget_of(EPSILON, DELTA, Currency.GDP)
    weights, rest = None, whole
    if kind in ("popular", "pairs"):
        weights = noisy_popularity(_private(statistics, _part(whole, POPULARITY_SHARE)), view, Fraction(1))
        rest = _part(whole, 1 - POPULARITY_SHARE)
    if order == 1:
        queries = Conjunctions.single_columns(view)
    else:
        drawn = view.columns if weights is None else int(np.count_nonzero(weights))
        queries = _conjunctions(view, min(count, math.comb(drawn, order) // 2), order, state.seed, weights)
    release = ClippedGaussian().run(
        _private(statistics, rest), conjunctive(queries), generator=np.random.default_rng(state.seed)
    )
    return Made(queries, release.answers, earlier_values(queries, release, np.random.default_rng(state.seed)))


def _conjunctions(view: object, count: int, order: int, seed: int, weights: NDArray[np.float64] | None) -> Conjunctions:
    """As many of ``count`` conjunctions as can be drawn, halving the number where popular ones are too few."""
    while True:
        try:
            return random_conjunctions(view, count, order, np.random.default_rng(seed), weights=weights)  # type: ignore[arg-type]
        except ValueError:
            count //= 2


def _layout(name: str) -> BasketLayout:
    return BasketLayout("unit_id", "item_id", ITEMS[name], max_items_per_unit=MAX_ITEMS)


def _part(budget: Budget, share: Fraction) -> Budget:
    # The amount of Gaussian DP is mu squared, which adds up.
    return Budget(budget.currency, share * budget.amount)


def _private(statistics: Statistics, budget: Budget) -> PrivateStatistics:
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, statistics.contribution, None)
    return PrivateStatistics(statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal())


def _cells() -> list[str]:
    return [f"{name}/{kind}" for name in UNITS for kind in WORKLOADS]


def _of_runs(runs: Sequence[Run], cell: str, figure: str) -> float:
    """The mean of a figure over the runs."""
    return sum(run.error[f"{cell}/{figure}"] for run in runs) / len(runs)


def _ratios(runs: Sequence[Run], over: str, under: str) -> list[float]:
    return [_of_runs(runs, cell, over) / _of_runs(runs, cell, under) for cell in _cells()]


def _geometric_mean(numbers: Sequence[float]) -> float:
    return math.exp(sum(math.log(number) for number in numbers) / len(numbers))


def _false_rate(runs: Sequence[Run]) -> float:
    """The largest, over the datasets, of the false part of the discoveries of all workloads and runs."""

    def rate(name: str) -> float:
        sums = [
            sum(run.facts[f"{name}/{kind}/{fact}"] for run in runs for kind in WORKLOADS)
            for fact in ("false_discoveries", "discoveries")
        ]
        return sums[0] / max(sums[1], 1.0)

    return max(map(rate, UNITS))


CASE = Case(
    params={
        "datasets": UNITS,
        "workloads": {kind: list(sizes) for kind, sizes in WORKLOADS.items()},
        "epsilon": EPSILON,
        "delta": DELTA,
        "popularity_share": float(POPULARITY_SHARE),
        "max_items_per_unit": MAX_ITEMS,
        "neighbours": "add_remove",
        "engine": "local",
        "errors": "counts",
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    cold=False,
    targets=(
        Target(
            "mean error over that of the best of zeros, exact product and raw, worst cell",
            "<=",
            1.1,
            lambda runs: max(_ratios(runs, "mean", "best_mean")),
        ),
        Target(
            "the same, geometric mean of the cells",
            "<=",
            1.0,
            lambda runs: _geometric_mean(_ratios(runs, "mean", "best_mean")),
        ),
        Target(
            "largest error over the earlier estimator's, worst cell",
            "<=",
            1.05,
            lambda runs: max(_ratios(runs, "max", "earlier_max")),
        ),
        Target(
            "coverage of the intervals, worst cell",
            ">=",
            0.945,
            lambda runs: min(_of_runs(runs, cell, "coverage") for cell in _cells()),
        ),
        Target(
            "median width over that of the guaranteed intervals, geometric mean of the cells",
            "<=",
            0.5,
            lambda runs: _geometric_mean(_ratios(runs, "width", "earlier_width")),
        ),
        Target("false part of the discoveries at q 0.1, worst dataset", "<=", 0.12, _false_rate),
    ),
)
