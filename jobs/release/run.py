"""Makes one release, from a job to a published folder. This module connects the parts and contains no algorithm."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import InputError, IntegrityError
from dpcore.kernel.budget import Budget, Charge
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Progress, Release
from dpcore.mechanisms.clipping.popularity import noisy_popularity
from dpcore.workload import Workload
from jobs import log, sensitive
from jobs.config import LARGEST_QUIET_DELTA
from jobs.ledger import SqlLedger
from jobs.ledger.partitioning import Blocks
from jobs.ledger.records import DatasetBudget, PlannedRelease, Protection, ReleaseRecord, State
from jobs.memory import arrow_gives_back
from jobs.monitoring.stages import AGGREGATE, ANSWER, OPEN, PLAN, PUBLISH, WRITE, stage
from jobs.objects.output import Output, recorded_output
from jobs.outputs.answers_table import write_answers
from jobs.outputs.certificate import KernelRecord, write_certificate
from jobs.outputs.items_file import write_items
from jobs.outputs.itemset_tables import write_itemsets
from jobs.outputs.model_file import write_model
from jobs.outputs.schema_file import write_schema
from jobs.planning.engines import open_row_workers
from jobs.planning.identity import bound_path, local_path
from jobs.planning.job import Job
from jobs.planning.remarks import remarks
from jobs.planning.rows import auto_rows
from jobs.planning.statistics_store import open_store
from jobs.progress import bar
from jobs.release import folders
from jobs.release.discovery import discover_items
from jobs.release.finished import Outcome, finished
from jobs.release.folders import check_outside
from jobs.release.input import Input, check_frame, engine_of, open_input, open_rows
from jobs.release.journal import Journal, JournalFrom
from jobs.release.journals import open_journal
from jobs.release.other_version import made_by_another_version
from jobs.release.publish import PublicationState
from jobs.release.series import PrivateSource, steps_so_far, with_earlier_steps, with_recorded_strategy
from jobs.release.signing import signer
from jobs.workload.building import workload_of
from pipelines.aggregators.item_sums import AnyAggregator, ItemSums
from pipelines.engines.progress import listening
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.generate.rows import write_rows
from pipelines.layout import TableLayout
from pipelines.source import AnySource

Bar = Callable[[str], AbstractContextManager[Progress]]


def release(
    job: Job, *, frame: Any = None, engine: Engine | None = None, progress: Bar = bar, again: bool = False
) -> Outcome:
    """Makes and publishes a release, or continues where an earlier run of it stopped.

    Everything is checked before any budget is reserved. For a release that is already published only the ledger and the
    folder are needed: the input may be gone, but if it exists it must be unchanged.

    job: The release.
    frame: The data, if the config names them by ``dataset.frame``: a Spark DataFrame for the engine spark, or an object
        with Arrow's PyCapsule interface for the engine local. It must give the same rows each time it is read.
    engine: Engine to use instead of the config's. It affects the speed, never the result.
    progress: Creates a progress bar from a label.
    again: Whether to make a new release with a new charge although another version was charged for the same release.

    Raises: The exceptions that ``jobs.exit_codes`` maps to exit codes.
    """
    check_frame(job, frame)
    _warn_of_a_large_delta(job)
    signer(job.config.output.signing_key)  # A key that cannot be used is refused before anything is charged.
    check_outside(job, job.output, "answers.parquet", "synthetic/part-0.parquet")
    ledger = SqlLedger(job.config.privacy.ledger)
    dataset = _dataset(job, ledger)
    job = with_recorded_strategy(job, ledger)
    secrets = ledger.secrets(dataset.name)
    store = cache(lambda: open_store(job.config.engine))
    open_once = engine_of(job, engine, frame, store)
    opened = cache(lambda: open_input(job, secrets, open_once, frame))
    known_record = ledger.release(job.release_id)
    if not again and (known_record is None or known_record.state is State.PLANNED):
        outcome = made_by_another_version(job, ledger, dataset, opened)
        if outcome is not None:
            return outcome
    published = folders.publication_state(job.output, job.release_id)
    trace = folders.trace_of_another_ledger(job.output, job.release_id) if known_record is None else None
    # Read after what lies in the folders: another run of this release may have left it there in the meantime.
    known_record = ledger.release(job.release_id)
    _check_known(job, ledger, published, trace, known_record)
    is_done = known_record is not None and known_record.state is State.PUBLISHED
    # A store of statistics that cannot be used is refused before anything is recorded.
    if not is_done and engine is None:
        store()
    try:
        with stage(OPEN):
            data = opened()
        _record_sizes(data)
        planned = _planned(job, data, again)
    except InputError:
        if known_record is None or not _is_done(job, dataset, known_record):
            raise
        if (outcome := finished(job, ledger, known_record)) is None:
            raise
        return outcome
    with stage(PLAN):
        record = ledger.plan(planned)
    log.info("planned", release=job.release_id[:12], dataset=dataset.name, state=record.state.value)
    for remark in remarks(job):
        log.info("noted", note=remark)
    if (outcome := finished(job, ledger, record)) is not None:
        return outcome
    folders.check_usable(job.output, job.release_id)
    with folders.only_run_in(_state_of(job, record)):
        return _run(job, ledger, data, data.checked(open_once()), secrets.fingerprint_key, progress)


def _check_known(
    job: Job, ledger: SqlLedger, published: PublicationState, trace: Output | None, record: ReleaseRecord | None
) -> None:
    """Refuses a release of which another ledger has a record, because this ledger would not count that charge."""
    if record is not None:
        early = published is not PublicationState.ABSENT and record.state.step < State.ESTIMATED.step
        trace = job.output if early else None
    if trace is not None:
        known = "has no record of it" if record is None else f"has recorded it only as {record.state.value}"
        raise IntegrityError(
            f"{trace} holds release {job.release_id[:12]}, but ledger {ledger.shown_url} {known}; want the ledger that "
            "was charged for it, or another dataset.snapshot, which makes a new release with a new charge"
        )


def open_statistics(job: Job, engine: Engine | None = None, frame: Any = None) -> EngineStatistics:
    """Opens the exact statistics of a release in the same way as ``release``. SENSITIVE.

    job: The release.
    engine: Engine to use instead of the config's.
    frame: As for ``release``.
    """
    ledger = SqlLedger(job.config.privacy.ledger)
    salt = ledger.secrets(_dataset(job, ledger).name).salt
    open_once = engine_of(job, engine, frame)
    return EngineStatistics(open_once(), open_rows(job, job.layout, salt, open_once, frame))


def build_workload(job: Job, popularity: NDArray[np.float64] | None = None) -> Workload:
    """Builds the queries of a release.

    job: The release.
    popularity: Noisy popularity of each column, float64 [columns of the view]; None when the workload needs none.
    """
    return job.stand_in if popularity is None else workload_of(job.config, job.layout, job.files, popularity)


def replayed_popularity(job: Job, statistics: EngineStatistics) -> NDArray[np.float64] | None:
    """The noisy popularity that a release measured, replayed from its journal; None when it measured none.

    job: The release.
    statistics: The exact statistics of its data. SENSITIVE.
    """
    ledger = SqlLedger(job.config.privacy.ledger)
    record = ledger.release(job.release_id)
    if job.popularity is None or record is None or record.state.step < State.MEASURING.step:
        return None
    journal = open_journal(job.release_id, ledger, record, _state_of(job, record))
    return _measure_popularity(job, statistics, _WholeBudget(ledger, job), journal)[0]


def _run(job: Job, ledger: SqlLedger, data: Input, engine: Engine, key: bytes, progress: Bar) -> Outcome:
    record = ledger.release(job.release_id)
    if record is None:
        raise IntegrityError(
            f"release {job.release_id[:12]} is no longer in the ledger; want the ledger in which it was planned"
        )
    outcome = finished(job, ledger, record)
    if outcome is not None:  # Another process published the release before this one had the lock.
        return outcome
    journal = open_journal(job.release_id, ledger, record, _state_of(job, record))
    observed = _ObservedEngine(engine, cache(lambda: ledger.advance(job.release_id, State.AGGREGATED)))
    with stage(ANSWER):
        statistics = steps_so_far(job, ledger, EngineStatistics(observed, data.source), key)
        job, result = _run_mechanism(job, ledger, statistics, journal, progress)
    ledger.advance(job.release_id, State.ESTIMATED, journal_head=journal.head)
    log.info("estimated", release=job.release_id[:12], mechanism=job.config.mechanism.name)
    charged_at, paid_by = ledger.charged_at(job.release_id), ledger.series.paid_by(job.series, job.release_id)
    drawn = KernelRecord(result.charges, len(journal), journal.head, ledger.ledger_id(), charged_at, paid_by)
    with folders.staging_of(job.output, job.release_id) as staging:
        with stage(WRITE):
            _write(job, result.release, drawn, staging, progress)
        record_manifest = partial(ledger.record_manifest, job.release_id)
        with stage(PUBLISH):
            signing = signer(job.config.output.signing_key)
            folders.publish_files(staging, job.output, job.release_id, signer=signing, record=record_manifest)
    ledger.advance(job.release_id, State.PUBLISHED, output=str(job.output))
    log.info("published", release=job.release_id[:12], output=str(job.output))
    return Outcome(job.release_id, job.output, already=False)


@dataclass(frozen=True, eq=False)
class ChargedRelease:
    """The result of a mechanism with its cost. Public.

    release: The answers, and the model if the mechanism fits one.
    charges: Charge of each kernel call, in order.
    """

    release: Release
    charges: tuple[Charge, ...]


def _run_mechanism(
    job: Job, ledger: SqlLedger, statistics: PrivateSource, journal: Journal, progress: Bar
) -> tuple[Job, ChargedRelease]:
    """Runs the stages before the mechanism, and the mechanism. Returns the release with discovered items, if it has."""
    mechanism = with_earlier_steps(job, ledger)  # Before the charge, because it may be refused.
    port = _WholeBudget(ledger, job)
    job, statistics, discovered = discover_items(job, statistics, port, journal)
    # A discovery leaves no popularity to measure: the weights of the items take its place.
    popularity, measured = _measure_popularity(job, statistics, port, journal)
    charges, workload = discovered + measured, build_workload(job, popularity)
    private = PrivateStatistics(
        statistics, unit=job.unit, budget=job.rest, ledger=port, journal=JournalFrom(journal, len(charges))
    )
    log.info("reserved", release=job.release_id[:12], currency=job.budget.currency.value)
    with progress(job.config.mechanism.name) as report:
        mechanism_release = mechanism.run(private, workload, generator=_generator(job, 0), progress=report)
    return job, ChargedRelease(mechanism_release, charges + private.charges)


def _measure_popularity(
    job: Job, statistics: PrivateSource, port: _WholeBudget, journal: Journal
) -> tuple[NDArray[np.float64] | None, tuple[Charge, ...]]:
    """Measures the noisy popularity of the columns, and returns it with its charges; None if the workload needs none.

    The budgets of popularity and mechanism are fixed in advance and add up to the reserved budget.
    """
    if job.popularity is None:
        return None, ()
    private = PrivateStatistics(statistics, unit=job.unit, budget=job.popularity, ledger=port, journal=journal)
    weights = noisy_popularity(private, job.layout.view, private.remaining_share)
    return weights, tuple(replace(charge, label=f"popularity {charge.label}") for charge in private.charges)


def _state_of(job: Job, record: ReleaseRecord) -> Output:
    """The state folder of a release, which stays where the first run of the release put it."""
    return recorded_output(record.state_folder, job.output)


def _write(job: Job, made: Release, record: KernelRecord, staging: Path, progress: Bar) -> None:
    workload, model = made.workload, made.model
    write_schema(staging, job.layout)
    write_items(staging, job.layout, job.items)
    with arrow_gives_back():
        write_answers(staging / "answers.parquet", workload.queries, made.answers, job.layout)
    write_itemsets(staging, made.itemsets, job.layout)
    write_model(staging, model)
    rows = 0
    if model is not None:
        setting = job.config.output.synthetic_rows
        rows = auto_rows(job, model.total) if isinstance(setting, str) else setting
        if rows:
            with progress("synthetic rows") as report:
                seed = int(_generator(job, 1).integers(2**63))
                workers = open_row_workers(job.config.engine, rows)
                folder = staging / "synthetic"
                write_rows(model, rows, job.layout, folder, seed=seed, workers=workers, progress=report)
    else:
        log.info("no synthetic rows, because this mechanism fits no model", mechanism=job.config.mechanism.name)
    has_estimates = made.answers.estimation is not None
    write_certificate(staging / "certificate.json", job, workload, record, rows or None, has_estimates=has_estimates)


def _is_done(job: Job, dataset: DatasetBudget, record: ReleaseRecord) -> bool:
    """Whether the ledger records exactly this release as published, so that its input is no longer needed."""
    same = (record.dataset, record.budget) == (dataset.name, job.budget)
    return same and record.state is State.PUBLISHED and dataset.path == bound_path(job.config.dataset.root)


def _record_sizes(data: Input) -> None:
    """Records the sizes of the data in the operator's log. SENSITIVE. The sizes of files in stores are not known."""
    if not sensitive.is_logging():
        return
    files = [local_path(content.file) for content in data.contents]
    size = sum(map(os.path.getsize, files)) if files and all(map(os.path.isfile, files)) else None
    rows = sum(content.rows for content in data.contents) if data.rows is None else data.rows.rows
    sensitive.record("input", files=len(files), rows=rows, bytes=size)


def _planned(job: Job, data: Input, again: bool) -> PlannedRelease:
    return PlannedRelease(
        identity=job.identity,
        dataset=job.config.dataset.name,
        budget=job.budget,
        path=bound_path(job.config.dataset.root),
        linked_files=data.places,
        contents=data.contents,
        rows=data.rows,
        fingerprint=data.fingerprint,
        state_folder=str(folders.state_folder(job.output, job.release_id)),
        protection=protection_of(job),
        consumer=job.config.privacy.consumer,
        promise=(job.config.privacy.epsilon, job.config.privacy.delta),
        again=again,
        blocks=Blocks.of(job.layout.partition),
        series=job.series,
        threshold_delta=job.threshold_delta,
    )


def protection_of(job: Job) -> Protection:
    """Whom a release protects."""
    config = job.config.dataset
    table = isinstance(job.layout, TableLayout)
    bound = job.unit.contribution.bound if table or config.max_items_per_unit is not None else None
    contribution = None if bound is None else "rows" if table else "items"
    return Protection(config.unit, contribution, bound, job.unit.neighbours)


def _dataset(job: Job, ledger: SqlLedger) -> DatasetBudget:
    privacy = job.config.privacy
    return ledger.dataset(job.config.dataset.name, privacy.epsilon, privacy.delta)


def _generator(job: Job, purpose: int) -> np.random.Generator:
    """The random generator of post-processing step number ``purpose``. Its seed is public."""
    return np.random.default_rng([int(job.release_id[:16], 16), purpose])


def _warn_of_a_large_delta(job: Job) -> None:
    if job.config.privacy.delta > LARGEST_QUIET_DELTA:
        log.warning("privacy.delta is large; want at most 1e-5, and far less than 1 / number of units")


@final
@dataclass(frozen=True)
class _WholeBudget:
    """The ledger as the kernel sees it. The first reservation of any part reserves the whole budget of the release."""

    ledger: SqlLedger
    job: Job

    def reserve(self, budget: Budget) -> None:
        """Reserves the whole budget. Raises IntegrityError when the requested part exceeds it."""
        if budget.currency is not self.job.budget.currency or budget.amount > self.job.budget.amount:
            raise IntegrityError(
                "a part of the release reserves more than its whole budget; want parts that add up to the budget"
            )
        self.ledger.reserve(self.job.release_id, self.job.budget, self.job.series, self.job.threshold_delta)


@final
@dataclass(frozen=True)
class _ObservedEngine:
    """An engine that calls ``on_reduced`` after each aggregation."""

    engine: Engine
    on_reduced: Callable[[], None]

    @property
    def name(self) -> str:
        """Name of the engine."""
        return self.engine.name

    def reduce(self, source: AnySource, aggregator: AnyAggregator) -> NDArray[np.int64]:
        """The engine's merged accumulator. SENSITIVE."""
        if isinstance(aggregator, ItemSums):  # How many parts the items have follows from the number of rows.
            counts = self.engine.reduce(source, aggregator)  # SENSITIVE
        else:
            with stage(AGGREGATE) as report, listening(report):
                counts = self.engine.reduce(source, aggregator)  # SENSITIVE
        self.on_reduced()
        return counts
