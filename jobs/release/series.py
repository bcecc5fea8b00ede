"""What a step of a series needs beyond a release that stands alone: the answers of earlier steps, and their rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import final

from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.continual.continual import Continual
from dpcore.strategies.continual.strategy import ContinualStrategy
from jobs.ledger import SqlLedger
from jobs.ledger.rows import reading
from jobs.objects.output import recorded_output
from jobs.planning.job import Job
from jobs.release.journals import open_journal
from pipelines.engines.history import NoRows, StepsSoFar
from pipelines.engines.statistics import EngineStatistics

PrivateSource = EngineStatistics | StepsSoFar


def with_recorded_strategy(job: Job, ledger: SqlLedger) -> Job:
    """The release with the strategy with which its series began, if it has begun; any other release as it is.

    The strategy of a later step is never planned again, because another machine or library may plan one that differs
    in its last bits.

    Raises: IntegrityError when the recorded strategy is damaged.
    """
    series, mechanism = job.series, job.mechanism
    if series is None or not isinstance(mechanism, Continual):
        return job
    text = ledger.series.recorded_matrix(series.series_id)
    if text is None or text == series.matrix:
        return job
    terms = PrivacyTerms(job.unit, job.rest)
    with reading("strategy of a series"):
        mechanism = mechanism.at_step(series.step - 1, recorded=ContinualStrategy.from_text(text))
        digest = mechanism.series_digest(terms, job.stand_in)
    plan = mechanism.plan(terms, job.stand_in)
    return replace(job, mechanism=mechanism, plan=plan, series=replace(series, strategy=digest, matrix=text))


def steps_so_far(job: Job, ledger: SqlLedger, statistics: EngineStatistics, key: bytes) -> PrivateSource:
    """The statistics that a release may ask: at a step of a series, those of the steps so far. SENSITIVE.

    job: The release.
    ledger: The ledger, which knows what earlier steps have read.
    statistics: The statistics of all rows. SENSITIVE.
    key: Key of the digests in the ledger. SENSITIVE.
    """
    series = job.series
    if series is None:
        return statistics
    return StepsSoFar(
        statistics, series.attribute, series.step - 1, key, partial(ledger.series.compare_history, series)
    )


def with_earlier_steps(job: Job, ledger: SqlLedger) -> Mechanism:
    """The mechanism of a release; at a step of a series, with the answers of all earlier steps.

    They come from the journals of these steps, which the ledger's hashes verify, by way of the kernel: it refuses
    answers to another request than the strategy and noise of this series. The data are not read.

    Raises: IntegrityError when a journal is missing, or holds other answers.
    """
    mechanism = job.mechanism
    if job.series is None or not isinstance(mechanism, Continual):
        return mechanism
    earlier: list[Measurement] = []
    for step, record in enumerate(ledger.series.earlier_releases(job.series)):
        message = f"{record.state_folder} lacks the answer of step {step + 1} of the series; restore that folder"
        state = recorded_output(record.state_folder, job.output)
        journal = open_journal(record.release_id, ledger, record, state)
        no_rows = NoRows(job.unit.contribution, message)
        private = PrivateStatistics(no_rows, unit=job.unit, budget=job.rest, ledger=_NoCharge(), journal=journal)
        earlier.append(mechanism.at_step(step, recorded=mechanism.recorded).measure_step(private, job.stand_in))
    return mechanism.at_step(job.series.step - 1, tuple(earlier), mechanism.recorded)


@final
class _NoCharge:
    """A ledger for calls that are replayed: the charge of the first step has paid for them."""

    def reserve(self, budget: Budget) -> None:
        """Charges nothing."""
