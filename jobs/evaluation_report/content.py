"""What the SENSITIVE report says: errors of the answers in several views, and scores of the synthetic rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.evaluation import baselines, exact_answers
from dpcore.queries import Marginals
from jobs.evaluation_report.rows import RowScores, codes_of, scores
from jobs.objects.output import local_copy
from jobs.planning.job import Job
from jobs.reading.release_folder import ReleaseFolder
from jobs.release.discovery import with_published_items
from jobs.release.evaluation import content_of, published_output, total_of, workload_now
from jobs.release.input import check_frame, engine_of, open_rows
from jobs.release.run import open_statistics
from jobs.report.quality import orders_of
from jobs.sensitive import mark
from jobs.verification.manifest import MANIFEST, read_manifest
from pipelines.layout import TableLayout
from pipelines.source import SALT_BYTES, Source, open_source

WORST: Final = 50
"""Number of the worst answers, and of the worst marginals, that are listed."""


@dataclass(frozen=True)
class Errors:
    """Errors of a group of answers, in counts. SENSITIVE.

    about: Which answers.
    answers: Number of answers.
    mean: Mean absolute error, by source: the release and the baselines.
    largest: Largest absolute error, by source.
    covered: Share of the intervals that hold the exact answer; None without intervals.
    """

    about: str
    answers: int
    mean: dict[str, float]
    largest: dict[str, float]
    covered: float | None


@dataclass(frozen=True)
class Worst:
    """One of the answers with the largest errors. SENSITIVE."""

    query: str
    exact: int
    answer: float
    error: float


@dataclass(frozen=True)
class Content:
    """Everything that the report says. SENSITIVE.

    mark: The sentence that says so.
    name: Name of the dataset.
    snapshot: Label of the state of the data.
    release_id: SHA-256 of the release's public facts.
    total: Number of counted rows, or of units of baskets.
    sources: The release and the baselines, in order.
    groups: Errors of all answers, and by number of attributes or items.
    marginals: Errors of the worst marginals; none for other queries.
    worst: The worst answers.
    rows: Scores of the synthetic rows; None without rows of a table.
    """

    mark: str
    name: str
    snapshot: str
    release_id: str
    total: float
    sources: list[str]
    groups: list[Errors]
    marginals: list[Errors]
    worst: list[Worst]
    rows: RowScores | None


def gathered(job: Job, frame: Any = None) -> Content:
    """Compares a published release with the exact answers of the truncated data. SENSITIVE.

    job: The release.
    frame: The data, if the config names a frame.

    Raises: ConfigError when the release is not published, or scikit-learn is not installed.
    """
    check_frame(job, frame)
    output = published_output(job)
    job = with_published_items(job, output)
    open_once = engine_of(job, None, frame)
    statistics = open_statistics(job, open_once(), frame)
    workload = workload_now(job, statistics, output)
    exact = exact_answers(statistics, workload.queries)  # SENSITIVE
    total = total_of(statistics, job.layout)  # SENSITIVE
    with local_copy(output, [MANIFEST, *(entry.path for entry in read_manifest(output).entries)]) as local:
        folder = ReleaseFolder.open(local)
        table = folder.answers
        columns = {name: table[name].to_numpy().astype(np.float64) for name in ("answer", "lower", "upper")}
        guesses = {"release": columns["answer"], **baselines(workload.queries, statistics, total)}
        view = _View(exact, guesses, columns["lower"], columns["upper"])
        rows = None
        if isinstance(job.layout, TableLayout) and (local / "synthetic").is_dir() and frame is None:
            source = open_rows(job, job.layout, bytes(SALT_BYTES), open_once)
            rows = _row_scores(job, source, str(local / "synthetic")) if isinstance(source, Source) else None
    queries = table["query"]
    worst = np.argsort(-np.abs(columns["answer"] - exact), kind="stable")[:WORST]
    return Content(
        mark(content_of(job)),
        job.config.dataset.name,
        job.config.dataset.snapshot,
        job.release_id,
        total,
        list(guesses),
        [view.errors("all answers", np.arange(len(exact))), *_by_order(view, orders_of(table))],
        _by_marginal(view, workload.queries) if isinstance(workload.queries, Marginals) else [],
        [_worst(queries[int(row)].as_py(), int(exact[row]), float(columns["answer"][row])) for row in worst],
        rows,
    )


@dataclass(frozen=True, eq=False)
class _View:
    """Exact answers, guesses of them by source, and intervals. SENSITIVE."""

    exact: NDArray[np.int64]
    guesses: dict[str, NDArray[np.float64]]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def errors(self, about: str, rows: NDArray[np.intp]) -> Errors:
        """The errors of some answers."""
        exact = self.exact[rows]
        distances = {name: np.abs(guess[rows] - exact) for name, guess in self.guesses.items()}
        known = ~np.isnan(self.lower[rows])
        inside = (self.lower[rows] <= exact) & (exact <= self.upper[rows])
        return Errors(
            about,
            len(rows),
            {name: float(values.mean()) for name, values in distances.items()},
            {name: float(values.max()) for name, values in distances.items()},
            float(inside[known].mean()) if known.any() else None,
        )


def _by_order(view: _View, orders: NDArray[np.int64] | None) -> list[Errors]:
    if orders is None:
        return []
    return [view.errors(f"of {order}", np.flatnonzero(orders == order)) for order in np.unique(orders).tolist()]


def _by_marginal(view: _View, queries: Marginals) -> list[Errors]:
    """The marginals with the largest mean error, worst first."""
    stops = np.cumsum([queries.domain.size(clique) for clique in queries.cliques]).tolist()
    groups = [
        view.errors(" x ".join(clique) or "number of rows", np.arange(start, stop))
        for clique, start, stop in zip(queries.cliques, [0, *stops[:-1]], stops, strict=True)
    ]
    return sorted(groups, key=lambda errors: -errors.mean["release"])[:WORST]


def _worst(query: str, exact: int, answer: float) -> Worst:
    return Worst(query, exact, answer, answer - exact)


def _row_scores(job: Job, source: Source, folder: str) -> RowScores | None:
    assert isinstance(job.layout, TableLayout)
    written = set(pq.ParquetDataset(folder).schema.names)
    attributes = job.layout.schema.attributes
    if not all(attribute.column in written for attribute in attributes):
        return None
    layout = TableLayout(job.layout.unit, job.layout.schema.as_written)
    synthetic = codes_of(open_source(folder, layout, bytes(SALT_BYTES)))
    return scores(codes_of(source), synthetic, tuple(attribute.name for attribute in attributes))
