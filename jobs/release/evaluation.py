"""Errors of a published release and of trivial baselines. SENSITIVE: for the operator only, never to be released."""

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

_ERROR_NAMES = {"release": "mean", "synthetic": "rows"}
"""Keys of ``Comparison.rows`` whose entry in ``Comparison.error`` has another key, and that key."""


@dataclass(frozen=True)
class Comparison:
    """Errors as fractions of the number of rows (table) or units (baskets). SENSITIVE.

    release_id: SHA-256 of the release's public facts.
    queries: Number of queries.
    rows: Errors of single answers by source: ``release``, ``synthetic`` (if the release has synthetic rows), and the
        baselines.
    error: Weighted workload error (McKenna's thesis, 2022, Definition 26) by source: ``mean`` for the released answers,
        ``rows`` for the synthetic rows (if there are any), and the baselines under their own names.
    normalised: Normalised workload error of linear queries (the same thesis, section 4.6.1), with the keys of
        ``error``; None for other workloads.
    """

    release_id: str
    queries: int
    rows: dict[str, Errors]
    error: dict[str, float]
    normalised: dict[str, float] | None


def evaluate(job: Job, engine: Engine | None = None) -> Comparison:
    """Compares a published release with the exact answers. SENSITIVE.

    job: The release.
    engine: Engine to use instead of the config's.

    Raises: ConfigError when the release is not published.
    """
    output = published_folder(job)
    statistics = open_statistics(job, engine or open_engine(job.config.engine))
    workload = build_workload(job, replayed_popularity(job, statistics))
    queries = workload.queries
    exact = exact_answers(statistics, queries)  # SENSITIVE
    total = _total(statistics, job.layout)  # SENSITIVE
    answers = {"release": _released_answers(output)}
    synthetic = _synthetic_answers(output, job.layout, queries, total)
    if synthetic is not None:
        answers["synthetic"] = synthetic
    answers |= baselines(queries, statistics, total)
    renamed = {_ERROR_NAMES.get(name, name): values for name, values in answers.items()}
    normalised = None
    if isinstance(queries, Products):
        normalised = {name: normalised_error(queries, values, exact) for name, values in renamed.items()}
    return Comparison(
        job.release_id,
        queries.size,
        {name: errors(queries, values, exact, total) for name, values in answers.items()},
        {name: workload_error(workload, values, exact, total) for name, values in renamed.items()},
        normalised,
    )


def published_folder(job: Job) -> Path:
    """The folder of a published release, after a check that it is complete and unchanged.

    job: The release.

    Raises: ConfigError when the release is not published; IntegrityError when a file was changed.
    """
    record = SqlLedger(job.config.privacy.ledger).release(job.release_id)
    if record is None or record.output is None:
        raise ConfigError(f"release {job.release_id[:12]} is not published; run marquee run with this config first")
    output = Path(record.output)
    if publish.publication_state(output, job.release_id) is not PublicationState.DONE:
        raise ConfigError(f"output {output} no longer holds release {job.release_id[:12]}; run marquee run again")
    publish.verify(output)
    return output


def comparison_lines(comparison: Comparison) -> list[str]:
    """The comparison as a table for the terminal, line by line."""
    lines = [
        f"{'answers of':<12}{'max':>10}{'mean':>12}{'rms':>12}{'total variation':>18}{'workload':>12}"
        + ("" if comparison.normalised is None else f"{'normalised':>12}")
    ]
    for name, row in comparison.rows.items():
        variation = "-" if row.total_variation is None else f"{row.total_variation:.5f}"
        weighted = f"{comparison.error[_ERROR_NAMES.get(name, name)]:>12.5f}"
        if comparison.normalised is not None:
            weighted += f"{comparison.normalised[_ERROR_NAMES.get(name, name)]:>12.5f}"
        lines.append(f"{name:<12}{row.max:>10.5f}{row.mean:>12.7f}{row.rms:>12.7f}{variation:>18}{weighted}")
    return lines


def comparison_json(comparison: Comparison) -> str:
    """The comparison as a JSON object."""
    return json.dumps(dataclasses.asdict(comparison), indent=2)


def _total(statistics: EngineStatistics, layout: Layout) -> float:
    """Number of rows of a table within their contribution bound, or of units of baskets; at least 1. SENSITIVE."""
    everything = Marginals(layout.schema.domain, ((),)) if isinstance(layout, TableLayout) else UnitCount()
    return max(1.0, float(exact_answers(statistics, everything)[0]))


def _released_answers(output: Path) -> NDArray[np.float64]:
    column = pq.read_table(output / "answers.parquet", columns=["answer"]).column("answer")
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _synthetic_answers(output: Path, layout: Layout, queries: Queries, total: float) -> NDArray[np.float64] | None:
    """Answers of the synthetic rows scaled to ``total``, computed by the same pipeline as exact answers."""
    folder = output / "synthetic"
    if not folder.is_dir():
        return None
    rows = json.loads((output / "certificate.json").read_text(encoding="utf-8"))["synthetic_rows"]
    layout, queries = _restricted(folder, layout, queries)
    source = open_source(str(folder), layout, bytes(SALT_BYTES))
    counts = exact_answers(EngineStatistics(LocalEngine(), source), queries)
    return np.asarray(counts * (total / rows), dtype=np.float64)


def _restricted(folder: Path, layout: Layout, queries: Queries) -> tuple[Layout, Queries]:
    """Restricts layout and queries to the columns of the synthetic rows, which have no contribution bound."""
    if isinstance(layout, BasketLayout):
        return BasketLayout(layout.unit, layout.item, layout.items), queries
    if isinstance(queries, Conjunctions | Parities):
        return TableLayout(layout.unit, layout.schema), queries
    written = set(pq.read_schema(next(iter(sorted(folder.glob("*.parquet"))))).names)
    schema = Schema(tuple(attribute for attribute in layout.schema.attributes if attribute.column in written))
    if isinstance(queries, Products):
        return TableLayout(layout.unit, schema), Products(schema.domain, queries.terms, queries.denominator)
    return TableLayout(layout.unit, schema), Marginals(schema.domain, queries.cliques)
