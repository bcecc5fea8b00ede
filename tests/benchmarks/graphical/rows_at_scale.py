"""100 million rows of a model that AIM fitted to Adult, written to Parquet by the workers of an engine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.evaluation import exact_answers
from dpcore.queries import Marginals
from pipelines.attributes import Attribute, Kind
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.generate.parallel_rows import RowWorkers
from pipelines.generate.rows import write_rows
from pipelines.layout import TableLayout
from pipelines.schema import Schema
from pipelines.source import open_source
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.graphical.releases import DELTA, mechanism, private_of
from tests.benchmarks.graphical.workloads import all_three_way

ROWS: Final = 100_000_000
EPSILON: Final = 1.0
LARGEST_VARIATION: Final = 1e-3
LARGEST_SECONDS: Final = 180.0


@dataclass(frozen=True, eq=False)
class State:
    """A model, the marginals that were measured for it, the workers, and a new folder; nothing of it is measured."""

    model: GraphicalModel
    measured: Marginals
    layout: TableLayout
    workers: RowWorkers
    folder: Path
    seed: int


def rows_case(engine: str, workers: Callable[[], RowWorkers], largest_mb: float) -> Case[State, list[Path]]:
    """One run in a fresh process. The model is fitted, and an engine's session started, before the clock starts.

    largest_mb: Limit of the memory of all processes together.
    """
    return Case(
        params={
            "dataset": "tabular/adult", "mechanism": "aim, all 3-way marginals", "epsilon": EPSILON, "delta": DELTA,
            "rows": ROWS, "engine": engine, "error": "total variation of a measured marginal, of rows and model",
        },
        seeds=(1,),
        inputs=partial(datasets.tabular_inputs, "adult"),
        prepare=partial(prepare, workers),
        work=work,
        judge=judge,
        targets=(
            Target("seconds", "<", LARGEST_SECONDS, slowest),
            Target("MB of all processes", "<", largest_mb, lambda runs: max(run.peak_rss_mb for run in runs)),
            Target("largest total variation", "<=", LARGEST_VARIATION, worst_variation),
            Target("rows", "==", ROWS, lambda runs: min(run.facts["rows"] for run in runs)),
        ),
        cold=False,
    )  # fmt: skip


def prepare(workers: Callable[[], RowWorkers], paths: Inputs, seed: int) -> State:
    table = datasets.tabular(paths)
    asked = mechanism("aim")
    private = private_of(table.statistics, asked, EPSILON)
    release = asked.run(private, all_three_way("adult", table), generator=np.random.default_rng(seed))
    assert isinstance(release.model, GraphicalModel)
    found = [measurement.queries for measurement in release.measurements]
    cliques = {clique for queries in found if isinstance(queries, Marginals) for clique in queries.cliques}
    domain = release.model.domain
    return State(
        release.model,
        Marginals(domain, tuple(sorted(cliques))),
        _layout(domain),
        workers(),
        Path(tempfile.mkdtemp(prefix="rows-")) / "rows",
        seed,
    )


def _layout(domain: Domain) -> TableLayout:
    """Text values, as most attributes of a census have them."""
    sizes = zip(domain.names, domain.sizes, strict=True)
    values = {name: tuple(f"{name} {value}" for value in range(size)) for name, size in sizes}
    attributes = (Attribute(name, Kind.CATEGORICAL, texts, null=False) for name, texts in values.items())
    return TableLayout("row", Schema(tuple(attributes)))


def work(state: State) -> list[Path]:
    return write_rows(state.model, ROWS, state.layout, state.folder, seed=state.seed, workers=state.workers)


def judge(state: State, files: list[Path]) -> Judgement:
    """Total variation of each measured marginal between rows and model, read back by the local engine.

    Beside it as much as independent rows would give, in expectation: sum over cells of sqrt(p (1 - p) / (2 pi rows)).
    """
    queries = state.measured
    with _removed(state.folder.parent), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        counts = sum(pool.map(partial(_counted, state.layout, queries), files), np.zeros(queries.size, dtype=np.int64))
        size = sum(path.stat().st_size for path in files)
    chances = state.model.answer(queries) / state.model.total
    starts = np.cumsum([0, *queries.sizes[:-1]])
    variations = np.add.reduceat(np.abs(counts / ROWS - chances), starts) / 2
    sampled = np.add.reduceat(np.sqrt(chances * (1 - chances) / (2 * np.pi * ROWS)), starts)
    return Judgement(
        error={"max": variations.max(), "mean": variations.mean()},
        baselines={"independent rows, expected": {"max": sampled.max(), "mean": sampled.mean()}},
        facts={
            "rows": float(counts[: queries.sizes[0]].sum()),
            "files": float(len(files)),
            "mb": size / 1e6,
            "measured_marginals": float(len(queries.cliques)),
            "model_mb": state.model.tree.cells * 8 / 2**20,
        },
    )


def _counted(layout: TableLayout, queries: Marginals, file: Path) -> NDArray[np.int64]:
    source = open_source(str(file), layout, bytes(16))
    return exact_answers(EngineStatistics(LocalEngine(threads=1), source), queries)


@contextmanager
def _removed(folder: Path) -> Iterator[None]:
    """Removes 500 MB of rows afterwards, whatever happens."""
    try:
        yield
    finally:
        shutil.rmtree(folder)


def slowest(runs: Sequence[Run]) -> float:
    return max(run.wall_seconds for run in runs)


def worst_variation(runs: Sequence[Run]) -> float:
    return max(run.error["max"] for run in runs)
