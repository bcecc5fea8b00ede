"""Errors of a published release and of trivial baselines. SENSITIVE: for the operator only, never to be released."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.evaluation import Errors, baselines, errors, exact_answers, normalised_error, workload_error
from dpcore.queries import Conjunctions, Itemsets, Marginals, Parities, Products, Queries, UnitCount
from dpcore.workload import Workload, conjunctive
from jobs.ledger import SqlLedger
from jobs.objects.output import Output, local_copy, recorded_output
from jobs.outputs.itemset_tables import ITEMSETS, listed_itemsets
from jobs.planning.job import Job
from jobs.release import folders, publish
from jobs.release.discovery import with_published_items
from jobs.release.input import check_frame, engine_of, open_rows
from jobs.release.publish import PublicationState
from jobs.release.run import build_workload, open_statistics, replayed_popularity
from jobs.sensitive import mark
from jobs.verification.manifest import MANIFEST, read_manifest
from jobs.wording import number_of
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema
from pipelines.source import SALT_BYTES, open_source

_NO_BOUND = 2**31 - 1  # Rows per unit, more than any dataset holds for one unit.
_ERROR_NAMES = {"release": "mean", "synthetic": "rows"}
"""Keys of ``Distances.rows`` whose entry in ``Distances.error`` has another key, and that key."""


@dataclass(frozen=True)
class Distances:
    """Errors against one version of the exact answers, as fractions of its number of rows (table) or units (baskets).

    SENSITIVE.

    rows: Errors of single answers by source: ``release``, ``measured`` (if the answers are estimates), ``synthetic``
        (if the release has synthetic rows), and the baselines.
    error: Weighted workload error (McKenna's thesis, 2022, Definition 26) by source: ``mean`` for the released answers,
        ``rows`` for the synthetic rows (if there are any), and the baselines under their own names.
    normalised: Normalised workload error of linear queries (the same thesis, section 4.6.1), with the keys of
        ``error``; None for other workloads.
    """

    rows: dict[str, Errors]
    error: dict[str, float]
    normalised: dict[str, float] | None


@dataclass(frozen=True)
class Truncation:
    """What the contribution bound has dropped. SENSITIVE.

    setting: The key of the config that sets the bound: ``max_rows_per_unit`` or ``max_items_per_unit``.
    bound: The bound.
    kept: Number of rows of a table, or of distinct (unit, item) pairs, within the bound.
    all: The same number without a bound.
    """

    setting: str
    bound: int
    kept: int
    all: int


@dataclass(frozen=True)
class Comparison:
    """A published release, and trivial baselines, against the exact answers. SENSITIVE.

    The exact answers of the truncated data are what a release measures. Those of the whole data, before truncation, are
    what its readers may take the answers for: they differ by what the bound has dropped as well.

    sensitive: The mark that the figures are exact.
    release_id: SHA-256 of the release's public facts.
    queries: Number of queries.
    truth: Which exact answers there are, in one sentence.
    truncated: Errors against the data within the contribution bound, which the release measures.
    truncation: What the bound has dropped; None if it has dropped nothing.
    whole: Errors against the whole data; None if the bound has dropped nothing, because they are then the same.
    """

    sensitive: str
    release_id: str
    queries: int
    truth: str
    truncated: Distances
    truncation: Truncation | None
    whole: Distances | None


def evaluate(job: Job, engine: Engine | None = None, frame: Any = None) -> Comparison:
    """Compares a published release with the exact answers, of the truncated and of the whole data. SENSITIVE.

    job: The release.
    engine: Engine to use instead of the config's.
    frame: As for ``release``.

    Raises: ConfigError when the release is not published.
    """
    check_frame(job, frame)
    output = published_output(job)
    job = with_published_items(job, output)
    open_once = engine_of(job, engine, frame)
    engine = open_once()
    statistics = open_statistics(job, engine, frame)
    workload = workload_now(job, statistics, output)
    with local_copy(output, [MANIFEST, *(entry.path for entry in read_manifest(output).entries)]) as folder:
        released = _Released(
            workload, *_released_answers(folder), _synthetic_fractions(folder, job.layout, workload.queries)
        )
    # No unit is truncated here, so any salt will do.
    source = open_rows(job, _without_bound(job.layout), bytes(SALT_BYTES), open_once, frame)
    everything = EngineStatistics(engine, source)
    truncation = _truncation(job.layout, statistics, everything)
    return Comparison(
        mark(content_of(job)),
        job.release_id,
        workload.queries.size,
        _truth(truncation),
        released.distances(statistics, total_of(statistics, job.layout)),
        truncation,
        None if truncation is None else released.distances(everything, total_of(everything, job.layout)),
    )


def workload_now(job: Job, statistics: EngineStatistics, output: Output) -> Workload:
    """The queries that a published release answers; those that noisy popularity has chosen are replayed.

    job: The release.
    statistics: The exact statistics of its data. SENSITIVE.
    output: The folder of the release, which lists the itemsets that its mechanism has found.
    """
    if isinstance(job.stand_in.requested, Itemsets) and isinstance(job.layout, BasketLayout):
        with local_copy(output, [ITEMSETS]) as folder:
            return conjunctive(listed_itemsets(folder, job.layout))
    popularity = replayed_popularity(job, statistics)
    return job.answered if popularity is None else build_workload(job, popularity)


def content_of(job: Job) -> str:
    """What a comparison contains, for the mark of exact figures."""
    return f"exact errors of a release of dataset {job.config.dataset.name!r}"


@dataclass(frozen=True, eq=False)
class _Released:
    """What is compared with exact answers. Public.

    workload: The queries with their weights.
    answers: The released answers, float64 [queries].
    measured: If the answers are estimates, the measured values, and the estimates of queries that were not measured.
    fractions: Answers of the synthetic rows, as fractions of their number, float64 [queries]; None without rows.
    """

    workload: Workload
    answers: NDArray[np.float64]
    measured: NDArray[np.float64] | None
    fractions: NDArray[np.float64] | None

    def distances(self, statistics: EngineStatistics, total: float) -> Distances:
        """Errors of everything, and of the baselines, against one version of the exact answers. SENSITIVE."""
        queries = self.workload.queries
        exact = exact_answers(statistics, queries)  # SENSITIVE
        answers = {"release": self.answers}
        if self.measured is not None:
            answers["measured"] = self.measured
        if self.fractions is not None:
            answers["synthetic"] = self.fractions * total
        answers |= baselines(queries, statistics, total)
        renamed = {_ERROR_NAMES.get(name, name): values for name, values in answers.items()}
        normalised = None
        if isinstance(queries, Products):
            normalised = {name: normalised_error(queries, values, exact) for name, values in renamed.items()}
        return Distances(
            {name: errors(queries, values, exact, total) for name, values in answers.items()},
            {name: workload_error(self.workload, values, exact, total) for name, values in renamed.items()},
            normalised,
        )


def published_output(job: Job, needed: Collection[str] | None = None) -> Output:
    """The folder of a published release, after a check that it is complete and unchanged.

    job: The release.
    needed: The files that will be read, which alone are checked and may not be missing; by default all files.

    Raises: ConfigError when the release is not published; IntegrityError when a file was changed.
    """
    record = SqlLedger(job.config.privacy.ledger).release(job.release_id)
    if record is None or record.output is None:
        raise ConfigError(f"release {job.release_id[:12]} is not published; run marquee run with this config first")
    output = recorded_output(record.output, job.output)
    if folders.publication_state(output, job.release_id) is not PublicationState.DONE:
        raise ConfigError(f"output {output} no longer holds release {job.release_id[:12]}; run marquee run again")
    publish.verify(output, needed)
    return output


def comparison_lines(comparison: Comparison) -> list[str]:
    """The comparison as text for the terminal, line by line, with its mark. SENSITIVE."""
    lines = [f"{comparison.sensitive} ({number_of(comparison.queries, 'query', 'queries')})", comparison.truth]
    if comparison.whole is None:
        return [*lines, *table_lines(comparison.truncated)]
    return [
        *lines, "against the truncated data, which the release measures:", *table_lines(comparison.truncated),
        "against the whole data:", *table_lines(comparison.whole),
    ]  # fmt: skip


SCALES = (
    "total variation is half the L1 distance of a marginal, and workload is all of it, times the weight: without "
    "weights, workload is twice total variation"
)
"""How the two errors of whole marginals relate."""


def table_lines(distances: Distances) -> list[str]:
    """Errors as a table for the terminal, line by line. SENSITIVE."""
    lines = [
        f"{'answers of':<12}{'max':>10}{'mean':>12}{'rms':>12}{'total variation':>18}{'workload':>12}"
        + ("" if distances.normalised is None else f"{'normalised':>12}")
    ]
    if any(row.total_variation is not None for row in distances.rows.values()):
        lines[0] += "   (workload: the whole L1 distance; total variation: half of it)"
    for name, row in distances.rows.items():
        variation = "-" if row.total_variation is None else f"{row.total_variation:.5f}"
        weighted = f"{distances.error[_ERROR_NAMES.get(name, name)]:>12.5f}"
        if distances.normalised is not None:
            weighted += f"{distances.normalised[_ERROR_NAMES.get(name, name)]:>12.5f}"
        lines.append(f"{name:<12}{row.max:>10.5f}{row.mean:>12.7f}{row.rms:>12.7f}{variation:>18}{weighted}")
    return lines


def comparison_json(comparison: Comparison) -> str:
    """The comparison as a JSON object that begins with its mark. SENSITIVE.

    ``rows``, ``error`` and ``normalised`` are those of the truncated data; ``whole`` holds those of the whole data.
    """
    content = dataclasses.asdict(comparison)
    errors_of_truncated = content.pop("truncated")
    names = ("sensitive", "release_id", "queries", "truth")
    first = {name: content.pop(name) for name in names}
    return json.dumps({**first, "scales": SCALES, **errors_of_truncated, **content}, indent=2)


def _without_bound(layout: Layout) -> Layout:
    if isinstance(layout, BasketLayout):
        return dataclasses.replace(layout, max_items_per_unit=None, any_items=False)
    return dataclasses.replace(layout, max_rows_per_unit=_NO_BOUND)


def _truncation(layout: Layout, bounded: EngineStatistics, everything: EngineStatistics) -> Truncation | None:
    """What the bound has dropped; None if it has dropped nothing. SENSITIVE."""
    bound = layout.contribution.bound
    if bound == everything.contribution.bound:
        return None
    if isinstance(layout, TableLayout):
        counted: Queries = Marginals(layout.schema.domain, ((),))
        setting = "max_rows_per_unit"
    else:  # The units that have an item, summed over all items, are the pairs.
        counted, setting = Conjunctions.single_columns(layout.view), "max_items_per_unit"
    kept, whole = (int(exact_answers(statistics, counted).sum()) for statistics in (bounded, everything))  # SENSITIVE
    return None if kept == whole else Truncation(setting, bound, kept, whole)


def _truth(truncation: Truncation | None) -> str:
    """Which exact answers there are, in one sentence. SENSITIVE."""
    if truncation is None:
        return "the contribution bound drops nothing, so the release measures the whole data"
    what = "rows" if truncation.setting == "max_rows_per_unit" else "(unit, item) pairs"
    return (
        f"the release measures truncated data: {truncation.setting} {truncation.bound:,} keeps {truncation.kept:,} of "
        f"{truncation.all:,} {what}"
    )


def total_of(statistics: EngineStatistics, layout: Layout) -> float:
    """Number of rows of a table, or of units of baskets; at least 1. SENSITIVE."""
    everything = Marginals(layout.schema.domain, ((),)) if isinstance(layout, TableLayout) else UnitCount()
    return max(1.0, float(exact_answers(statistics, everything)[0]))


def _released_answers(output: Path) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The answers, and the measured values if the answers are estimates."""
    table = pq.read_table(output / "answers.parquet", columns=["answer", "measured"])
    answers = np.asarray(table["answer"].to_numpy(), dtype=np.float64)
    if not pa.types.is_floating(table.schema.field("measured").type):
        return answers, None
    measured = np.asarray(table["measured"].to_numpy(), dtype=np.float64)
    return answers, np.where(np.isnan(measured), answers, measured)


def _synthetic_fractions(output: Path, layout: Layout, queries: Queries) -> NDArray[np.float64] | None:
    """Answers of the synthetic rows as fractions of their number, computed by the same pipeline as exact answers."""
    folder = output / "synthetic"
    if not folder.is_dir():
        return None
    rows = json.loads((output / "certificate.json").read_text(encoding="utf-8"))["synthetic_rows"]
    layout, queries = _restricted(folder, layout, queries)
    source = open_source(str(folder), layout, bytes(SALT_BYTES))
    counts = exact_answers(EngineStatistics(LocalEngine(), source), queries)
    return np.asarray(counts / rows, dtype=np.float64)


def _restricted(folder: Path, layout: Layout, queries: Queries) -> tuple[Layout, Queries]:
    """Restricts layout and queries to the columns of the synthetic rows, which have no contribution bound."""
    if isinstance(layout, BasketLayout):
        return BasketLayout(layout.unit, layout.item, layout.items, names=layout.names), queries
    if isinstance(queries, Conjunctions | Parities):
        return TableLayout(layout.unit, layout.schema.as_written), queries
    written = set(pq.read_schema(next(iter(sorted(folder.glob("*.parquet"))))).names)
    attributes = layout.schema.as_written.attributes
    schema = Schema(tuple(attribute for attribute in attributes if attribute.column in written))
    if isinstance(queries, Products):
        return TableLayout(layout.unit, schema), Products(schema.domain, queries.terms, queries.denominator)
    return TableLayout(layout.unit, schema), Marginals(schema.domain, queries.cliques)
