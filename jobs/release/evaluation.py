"""A published release against the truth, beside trivial answers. SENSITIVE: for the operator, never released."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.evaluation import Errors, baselines, errors, exact_answers, normalised_error, workload_error
from dpcore.queries import Conjunctions, Marginals, Parities, Products, Queries, UnitCount
from jobs.ledger import SqlLedger
from jobs.planning.engines import open_engine
from jobs.planning.job import Job
from jobs.release import publish
from jobs.release.publish import PublicationState
from jobs.release.run import build_workload, open_statistics, replayed_popularity
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema
from pipelines.source import SALT_BYTES, open_source

_NAMES = {"release": "mean", "synthetic": "rows"}  # Of workload errors.


@dataclass(frozen=True)
class Comparison:
    """Errors as fractions of the number of rows (table) or units (baskets). SENSITIVE.

    rows: By what answers: release, synthetic where rows were written, then the trivial baselines.
    error: Weighted error of the workload (thesis of McKenna 2022, Definition 26): ``mean`` of the released answers,
        ``rows`` of the synthetic rows, where there are some, then of the trivial baselines.
    normalised: For a workload of prefixes or ranges the error of section 4.6.1 there, by the same names; else None.
    """

    release_id: str
    queries: int
    rows: dict[str, Errors]
    error: dict[str, float]
    normalised: dict[str, float] | None


def evaluate(job: Job, engine: Engine | None = None) -> Comparison:
    """Compares a published release with exact answers. Raises ConfigError when it is not published."""
    output = published_folder(job)
    statistics = open_statistics(job, engine or open_engine(job.config.engine))
    workload = build_workload(job, replayed_popularity(job, statistics))
    queries = workload.queries
    exact = exact_answers(statistics, queries)  # SENSITIVE
    total = _total(statistics, job.layout)  # SENSITIVE
    answers = {"release": _released(output)}
    synthetic = _synthetic(output, job.layout, queries, total)
    if synthetic is not None:
        answers["synthetic"] = synthetic
    answers |= baselines(queries, statistics, total)
    known = {_NAMES.get(name, name): values for name, values in answers.items()}
    normalised = None
    if isinstance(queries, Products):
        normalised = {name: normalised_error(queries, values, exact) for name, values in known.items()}
    return Comparison(
        job.release_id,
        queries.size,
        {name: errors(queries, values, exact, total) for name, values in answers.items()},
        {name: workload_error(workload, values, exact, total) for name, values in known.items()},
        normalised,
    )


def published_folder(job: Job) -> Path:
    """Where a release was published, whole and unchanged."""
    record = SqlLedger(job.config.privacy.ledger).release(job.release_id)
    if record is None or record.output is None:
        raise ConfigError(f"release {job.release_id[:12]} is not published; want marquee run with this config first")
    output = Path(record.output)
    if publish.standing(output, job.release_id) is not PublicationState.DONE:
        raise ConfigError(f"output {output} no longer holds release {job.release_id[:12]}; want marquee run again")
    publish.verify(output)
    return output


def comparison_lines(comparison: Comparison) -> list[str]:
    """A table for a terminal."""
    lines = [
        f"{'answers of':<12}{'max':>10}{'mean':>12}{'rms':>12}{'total variation':>18}{'workload':>12}"
        + ("" if comparison.normalised is None else f"{'normalised':>12}")
    ]
    for name, row in comparison.rows.items():
        variation = "-" if row.total_variation is None else f"{row.total_variation:.5f}"
        weighted = f"{comparison.error[_NAMES.get(name, name)]:>12.5f}"
        if comparison.normalised is not None:
            weighted += f"{comparison.normalised[_NAMES.get(name, name)]:>12.5f}"
        lines.append(f"{name:<12}{row.max:>10.5f}{row.mean:>12.7f}{row.rms:>12.7f}{variation:>18}{weighted}")
    return lines


def comparison_json(comparison: Comparison) -> str:
    """The same for machines."""
    return json.dumps(dataclasses.asdict(comparison), indent=2)


def _total(statistics: EngineStatistics, layout: Layout) -> float:
    """Rows of a table as counted, units of baskets. SENSITIVE."""
    everything = Marginals(layout.schema.domain, ((),)) if isinstance(layout, TableLayout) else UnitCount()
    return max(1.0, float(exact_answers(statistics, everything)[0]))


def _released(output: Path) -> NDArray[np.float64]:
    column = pq.read_table(output / "answers.parquet", columns=["answer"]).column("answer")
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _synthetic(output: Path, layout: Layout, queries: Queries, total: float) -> NDArray[np.float64] | None:
    """Answers of the synthetic rows, read back by the pipeline that reads real ones, scaled to the total."""
    folder = output / "synthetic"
    if not folder.is_dir():
        return None
    rows = json.loads((output / "certificate.json").read_text(encoding="utf-8"))["synthetic_rows"]
    layout, queries = _as_written(folder, layout, queries)
    source = open_source(str(folder), layout, bytes(SALT_BYTES))
    counts = exact_answers(EngineStatistics(LocalEngine(), source), queries)
    return np.asarray(counts * (total / rows), dtype=np.float64)


def _as_written(folder: Path, layout: Layout, queries: Queries) -> tuple[Layout, Queries]:
    """The layout of synthetic rows: a model over some attributes writes only their columns, and nothing is bounded."""
    if isinstance(layout, BasketLayout):
        return BasketLayout(layout.unit, layout.item, layout.items), queries
    if isinstance(queries, Conjunctions | Parities):
        return TableLayout(layout.unit, layout.schema), queries
    written = set(pq.read_schema(next(iter(sorted(folder.glob("*.parquet"))))).names)
    schema = Schema(tuple(one for one in layout.schema.attributes if one.column in written))
    if isinstance(queries, Products):
        return TableLayout(layout.unit, schema), Products(schema.domain, queries.terms, queries.denominator)
    return TableLayout(layout.unit, schema), Marginals(schema.domain, queries.cliques)
