"""Synthetic baskets on six datasets: sizes, item counts, pairs and triples of ``basket_mixture`` and ``independent``.

Pairs are all pairs of the 300 items that are most popular in the data, and triples are drawn by popularity. Errors are
largest and mean distances of counts from the exact ones, as parts of those of ``independent`` in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.evaluation import exact_answers
from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.mechanisms.baskets.basket_mixture import BasketMixture
from dpcore.mechanisms.independent import Independent
from dpcore.queries import Conjunctions, SatisfactionHistogram, UnitCount
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import conjunctive
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.generate.baskets import ITEM, UNIT, write_baskets
from pipelines.generate.rows import write_rows
from pipelines.layout import BasketLayout
from pipelines.source import open_source
from tests.benchmarks import netflix
from tests.benchmarks.case import Case, Figures, Inputs, Judgement, Run, Target
from tests.benchmarks.generated import kept
from tests.support.datasets import folder

EPSILON, DELTA = 1.0, 1e-6
POPULAR, TRIPLES = 300, 20_000
FILM_USERS, FILMS, FILM_PAIRS = 20_000, 2_000, 1_500_000  # As the demo generates them.
LAYOUTS = {
    "groceries": BasketLayout("unit_id", "item_id", 169, max_items_per_unit=32),
    "msweb": BasketLayout("unit_id", "item_id", 285, max_items_per_unit=35),
    "mushroom": BasketLayout("unit_id", "item_id", 119, max_items_per_unit=23),
    "retail": BasketLayout("unit_id", "item_id", 16_470, max_items_per_unit=76),
    "films": BasketLayout(UNIT, ITEM, FILMS),
    "netflix": netflix.LAYOUT,
}
# Largest and mean error of pairs, as parts of those of ``independent``.
PAIR_TARGETS = {
    "groceries": (0.4, 0.85),
    "msweb": (0.1, 0.8),
    "mushroom": (0.7, 0.4),
    "retail": (0.08, 0.8),
    "films": (0.3, 0.2),
    "netflix": (0.3, 0.2),
}
MECHANISMS: Mapping[str, Mechanism] = {"mixture": BasketMixture(), "independent": Independent()}


@dataclass(frozen=True)
class State:
    statistics: Mapping[str, Statistics]
    seed: int


@dataclass(frozen=True)
class Made:
    """releases: By mechanism. rows: Statistics of synthetic rows. seconds: CPU seconds of the release and the rows."""

    releases: Mapping[str, Release]
    rows: Mapping[str, Statistics]
    seconds: Figures
    folder: TemporaryDirectory[str]


def inputs(data: Path) -> Inputs:
    def make(target: Path) -> None:
        write_baskets(target, users=FILM_USERS, films=FILMS, pairs=FILM_PAIRS, files=2, seed=1)

    films = kept(data, f"films-{FILM_USERS}x{FILMS}-{FILM_PAIRS}-seed1", make)
    shared = {name: folder() / "baskets" / name for name in ("groceries", "msweb", "mushroom", "retail")}
    return {**shared, "films": films, "netflix": netflix.inputs(data)["baskets"]}


def prepare(paths: Inputs, seed: int) -> State:
    return State({name: _statistics(path, LAYOUTS[name]) for name, path in paths.items()}, seed)


def _statistics(path: Path, layout: BasketLayout) -> Statistics:
    return EngineStatistics(LocalEngine(), open_source(str(path), layout, salt=bytes(16)))


def work(state: State) -> dict[str, Made]:
    return {name: _made(name, statistics, state.seed) for name, statistics in state.statistics.items()}


def _made(name: str, statistics: Statistics, seed: int) -> Made:
    """Both releases, and as many synthetic rows of each as the model has units."""
    layout, place = LAYOUTS[name], TemporaryDirectory()
    seconds: dict[str, float] = {}
    releases: dict[str, Release] = {}
    rows: dict[str, Statistics] = {}
    singles = conjunctive(Conjunctions.single_columns(layout.view))
    for label, mechanism in MECHANISMS.items():
        started = time.process_time()
        release = mechanism.run(_private(statistics), singles, generator=np.random.default_rng(seed))
        assert release.model is not None
        written = time.process_time()
        path = Path(place.name) / label
        write_rows(release.model, round(release.model.total), layout, path, seed=seed)
        seconds |= {f"{label}/release": written - started, f"{label}/rows": time.process_time() - written}
        releases[label], rows[label] = release, _statistics(path, layout)
    return Made(releases, rows, seconds, place)


def _private(statistics: Statistics) -> PrivateStatistics:
    budget = budget_of(EPSILON, DELTA, Currency.GDP)
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, statistics.contribution)
    return PrivateStatistics(statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal())


def judge(state: State, made: Mapping[str, Made]) -> Judgement:
    """``error`` has parts of the errors of ``independent``, by dataset; ``facts`` the errors as fractions of the units.

    For example ``retail/pairs/max``; ``rows`` in a name stands for counts in synthetic rows instead of answers. The
    fact ``noise in deviations`` is the largest noise of an item count: what no unbiased estimate can be below.
    """
    error: dict[str, float] = {}
    facts: dict[str, float] = {}
    for name, result in made.items():
        measured, more = _judged(state.statistics[name], LAYOUTS[name], result)
        error |= {f"{name}/{key}": value for key, value in measured.items()}
        facts |= {f"{name}/{key}": value for key, value in (more | dict(result.seconds)).items()}
        result.folder.cleanup()
    return Judgement(error=error, facts=facts)


def _judged(statistics: Statistics, layout: BasketLayout, made: Made) -> tuple[dict[str, float], dict[str, float]]:
    view = layout.view
    singles = Conjunctions.single_columns(view)
    counts, units = exact_answers(statistics, singles), int(statistics.aggregate(UnitCount())[0])
    popular = np.sort(np.argsort(-counts, kind="stable")[:POPULAR])
    pairs = np.stack(np.triu_indices(popular.size, 1), axis=1)
    draw = np.random.default_rng(7)
    workloads = {
        "pairs": Conjunctions(view, popular[pairs].astype(np.int32), np.zeros(pairs.shape, dtype=np.bool_)),
        "triples": random_conjunctions(view, TRIPLES, 3, draw, weights=counts.astype(np.float64)),
        "signed triples": random_conjunctions(view, TRIPLES, 3, draw, weights=counts.astype(np.float64), negate=True),
    }
    error: dict[str, float] = {}
    facts: dict[str, float] = {"units": float(units)}
    for label, queries in workloads.items():
        exact = exact_answers(statistics, queries)
        for source in ("", "rows "):
            figures = {name: _errors(made, name, queries, exact, units, bool(source)) for name in MECHANISMS}
            for key in ("max", "mean"):
                error[f"{source}{label}/{key}"] = figures["mixture"][key] / figures["independent"][key]
                facts |= {f"{source}{label}/{name}/{key}": figures[name][key] for name in MECHANISMS}
    release = made.releases["mixture"]
    (noisy,) = [m for m in release.measurements if getattr(m.queries, "size", 0) == view.columns and m.denominator > 1]
    assert release.model is not None
    error["counts in deviations"] = float(np.abs(release.model.answer(singles) - counts).max() / noisy.stddev)
    rows = exact_answers(made.rows["mixture"], singles)
    facts["rows counts in deviations"] = float(np.abs(rows - counts).max() / noisy.stddev)
    clipped = np.asarray(statistics.aggregate(noisy.queries)).ravel()[-view.columns :] / noisy.denominator
    facts["noise in deviations"] = float(np.abs(noisy.values - clipped).max() / noisy.stddev)
    for name in MECHANISMS:
        facts[f"sizes/{name}"] = _sizes(statistics, made.rows[name], view, exact=False)
        facts[f"every size/{name}"] = _sizes(statistics, made.rows[name], view, exact=True)
    error["sizes"] = facts["sizes/mixture"]
    return error, facts


def _errors(made: Made, name: str, queries: Conjunctions, exact: NDArray[np.int64], units: int, rows: bool) -> Figures:
    model = made.releases[name].model
    assert model is not None
    answers = exact_answers(made.rows[name], queries) if rows else model.answer(queries)
    distances = np.abs(answers - exact) / units
    return {"max": float(distances.max()), "mean": float(distances.mean())}


def _sizes(true: Statistics, rows: Statistics, view: BinaryView, exact: bool) -> float:
    """Total variation between the sizes of baskets: each size by itself, or above 16 in cells of an eighth octave."""
    cells = np.unique([*range(17), *np.ceil(16 * 2 ** (np.arange(1, 140) / 8)).astype(int)])
    starts = np.arange(view.columns + 1) if exact else cells[cells <= view.columns]
    queries = SatisfactionHistogram(Conjunctions.single_columns(view), None, starts)
    first, second = (statistics.aggregate(queries)[1:].astype(float) for statistics in (true, rows))
    return float(np.abs(first / first.sum() - second / second.sum()).sum() / 2)


def _worst(key: str) -> Callable[[Sequence[Run]], float]:
    return lambda runs: max(run.error[key] for run in runs)


def _targets() -> Iterator[Target]:
    for name, limits in PAIR_TARGETS.items():
        for key, limit in zip(("max", "mean"), limits, strict=True):
            yield Target(f"{name}: {key} error of pairs over independent's", "<=", limit, _worst(f"{name}/pairs/{key}"))
            triples = f"{name}/triples/{key}"
            yield Target(f"{name}: {key} error of triples over independent's", "<=", 0.6, _worst(triples))
        yield Target(f"{name}: total variation of sizes", "<=", 0.05, _worst(f"{name}/sizes"))
        deviations = f"{name}/counts in deviations"
        yield Target(f"{name}: item counts, in standard deviations", "<=", 4.0, _worst(deviations))
    seconds = "netflix/mixture/rows"
    yield Target(
        "CPU seconds of 480,189 synthetic users", "<=", 300.0, lambda runs: max(r.facts[seconds] for r in runs)
    )


CASE = Case(
    params={
        "epsilon": EPSILON,
        "delta": DELTA,
        "neighbours": "add_remove",
        "units": "private",
        "popular": POPULAR,
        "triples": TRIPLES,
        "engine": "local",
        "fractions_of": "units",
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=tuple(_targets()),
)
