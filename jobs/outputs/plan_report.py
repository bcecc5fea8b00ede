"""The output of ``marquee plan``: the cost, the steps and the expected error of a release that was not made yet."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from dpcore.kernel.budget import Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.recommendation import Recommendation, recommended
from jobs.objects.folder import StoredFolder
from jobs.outputs.certificate import numerical_bound, promise
from jobs.outputs.counted_rows import filter_text, partition_text, table_text
from jobs.planning.engines import FEW_ROWS
from jobs.planning.identity import identifying_config
from jobs.planning.job import Job
from jobs.planning.rows import LARGEST_UNCERTAIN, smallest_certain_number

_ACCOUNTING = {
    Currency.PURE: "pure: pure DP; epsilons add up; the noise is discrete Laplace",
    Currency.ZCDP: "zcdp: zero-concentrated DP; rhos add up; the noise is discrete Gaussian",
    Currency.GDP: "gdp: Gaussian DP; squares of mu add up; the noise is Gaussian, finely rounded",
}


@dataclass(frozen=True)
class LedgerFacts:
    """What the ledger says about a release that was not made yet.

    url: URL of the ledger without secrets.
    ledger_id: Id of the ledger; None if there is no ledger yet, or it cannot be reached.
    charge: The charge for the units and neighbours of the dataset, or why the ledger would refuse the release now.
    """

    url: str
    ledger_id: str | None
    charge: str


def plan_facts(job: Job, ledger: LedgerFacts, signed_by: str | None = None) -> dict[str, object]:
    """The plan as a JSON object.

    job: The release.
    ledger: What its ledger says about it.
    signed_by: Fingerprint of the key that will sign the release; None if it will not be signed.
    """
    return {
        "release_id": job.release_id,
        "ledger": ledger.url,
        "ledger_id": ledger.ledger_id,
        "charge": ledger.charge,
        "promise": promise(job),
        "table": table_text(_dataset(job)),
        "where": filter_text(_dataset(job)),
        "statistics_store": _store(job),
        "partition": partition_text(_dataset(job)),
        "currency": job.budget.currency.value,
        "amount": float(job.budget.amount),
        "popularity_amount": float(job.popularity.amount) if job.popularity else 0.0,
        "answers": job.answered.queries.size,
        "series": None if job.series is None else job.series.named,
        "mechanism": job.config.mechanism.name,
        "recommended": dataclasses.asdict(_recommended(job)),
        "signed_by": signed_by,
        "numerical_bound": numerical_bound(job),
        **{name: value for name, value in dataclasses.asdict(job.plan).items() if name != "events"},
        "seconds_at_least": job.work.seconds,
        "rows_bytes": job.work.rows_bytes,
        **({"output": str(job.output)} if isinstance(job.output, StoredFolder) else {}),
        "notes": _notes(job),
    }


def plan_lines(job: Job, ledger: LedgerFacts, signed_by: str | None = None) -> list[str]:
    """The plan as lines of text. The arguments are those of ``plan_facts``."""
    plan, currency, advice = job.plan, job.budget.currency.value, _recommended(job)
    lines = [
        f"release    {job.release_id}",
        f"ledger     {ledger.url}, {f'id {ledger.ledger_id}' if ledger.ledger_id else 'whose id is not known yet'}",
        f"charge     {ledger.charge}",
        f"promise    {promise(job)}",
        f"cost       {currency} = {float(job.budget.amount):.6g} of dataset {job.config.dataset.name!r}",
        f"accounting {_ACCOUNTING[job.budget.currency]}",
        f"answers    {job.answered.queries.size:,}",
        f"mechanism  {job.config.mechanism.name}, for {job.mechanism.traits.recommended_for}",
        f"recommended {advice.name}: {advice.why}",
        f"rounds     {plan.rounds}",
        f"time       at least {_time(job.work.seconds)} of CPU time on {_place(job)}, for rounds and synthetic rows",
        f"memory     about {plan.memory_bytes / 2**20:,.0f} MiB on the driver",
        f"error      {_error(job)}",
    ]
    if job.series is not None:
        lines.append(f"series     {job.series.described}; the charge of step 1 pays for all steps")
    if table := table_text(_dataset(job)):
        lines.append(f"table      {table}")
    if rows := filter_text(_dataset(job)):
        lines.append(f"rows       {rows}")
    if store := _store(job):
        lines.append(f"store      {store}")
    if partitions := partition_text(_dataset(job)):
        lines.append(f"partitions {partitions}")
    if isinstance(job.output, StoredFolder):
        lines.append(f"output     {job.output}, complete when it has _SUCCESS; the journal lies beside it")
    if job.work.rows_bytes:
        lines.append(f"disk       about {job.work.rows_bytes / 1e6:,.1f} MB of synthetic rows")
    if signed_by is not None:
        lines.append(f"signed by  {signed_by}")
    if job.popularity is not None:
        lines.append(f"first      noisy popularity is measured for {currency} = {float(job.popularity.amount):.6g};")
        lines.append("           the steps below share the remaining budget")
    for step in plan.steps:
        noise = "" if step.stddev is None else f", standard deviation {step.stddev:.4g} counts"
        calls = "1 call" if step.calls == 1 else f"{step.calls} calls"
        lines.append(f"step       {step.label}: {step.share:.2%} of the budget in {calls}{noise}")
    for delta, epsilon in numerical_bound(job).items():
        lines.append(f"numerical  epsilon {epsilon:.4g} at delta {delta}: a tighter bound, because all steps are fixed")
    lines += [f"note       {note}" for note in _notes(job)]
    return [*lines, "No budget was spent, and no data were read."]


def _dataset(job: Job) -> dict[str, Any]:
    dataset: dict[str, Any] = identifying_config(job.config)["dataset"]
    return dataset


def _store(job: Job) -> str | None:
    """What is kept for later runs, and where; None without a store."""
    store = job.config.engine.incremental
    if store is None:
        return None
    return (
        f"exact statistics of each {store.group_by} (SENSITIVE, encrypted, at most 8 bytes an answer) are kept in "
        f"{store.path} for {store.keep_days} days after their last use; a run reads only new and changed ones"
    )


def _notes(job: Job) -> tuple[str, ...]:
    """Remarks of the mechanism, and on the number of synthetic rows."""
    certain, gives_rows = smallest_certain_number(job), job.mechanism.traits.gives_rows(job.mechanism)
    if not gives_rows or job.config.output.synthetic_rows != "auto" or certain <= LARGEST_UNCERTAIN:
        return tuple(job.plan.notes)
    note = (
        f"below {certain:,.0f} rows, the noise of the number of rows may be as large as the number itself; auto then "
        f"writes at most {LARGEST_UNCERTAIN:,} synthetic rows"
    )
    return (*job.plan.notes, note)


def _recommended(job: Job) -> Recommendation:
    """The recommended mechanism for the same workload and budget, whichever mechanism the config names."""
    rows = job.config.output.synthetic_rows
    return recommended(PrivacyTerms(job.unit, job.rest), job.stand_in, rows=isinstance(rows, int) and rows > 0)


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.1f} seconds"
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.1f} hours"


def _place(job: Job) -> str:
    """Where rounds and synthetic rows are computed."""
    rows = job.config.output.synthetic_rows
    on_workers = job.config.engine.name != "local" and isinstance(rows, int) and rows > FEW_ROWS
    return "the driver and the engine's workers" if on_workers else "the driver"


def _error(job: Job) -> str:
    expected = job.plan.predicted_error
    if expected is None:
        return "there is no useful formula for this mechanism"
    return f"{expected:.4g} counts expected per answer, caused by the noise alone"
