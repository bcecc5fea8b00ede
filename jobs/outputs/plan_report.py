"""The output of ``marquee plan``: the cost, the steps and the expected error of a release that was not made yet."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from dpcore.kernel.budget import Currency
from dpcore.mechanisms.api import Step
from dpcore.queries import Itemsets
from jobs.objects.folder import StoredFolder
from jobs.outputs.certificate import numerical_bound, promise
from jobs.outputs.counted_rows import filter_text, partition_text, table_text
from jobs.outputs.discovery_plan import discovery_facts, discovery_texts
from jobs.outputs.public_domain import domain_facts, domain_texts, queries_text
from jobs.planning.comparison import recommended_for
from jobs.planning.engines import FEW_ROWS
from jobs.planning.identity import identifying_config
from jobs.planning.job import Job
from jobs.planning.remarks import remarks
from jobs.planning.rows import LARGEST_UNCERTAIN, smallest_certain_number
from pipelines.source.file_format import FileFormat, format_of

_ACCOUNTING = {
    Currency.PURE: "pure: pure DP; epsilons add up; the noise is discrete Laplace",
    Currency.ZCDP: "zcdp: zero-concentrated DP; rhos add up; the noise is discrete Gaussian",
    Currency.GDP: "gdp: Gaussian DP; squares of mu add up; the noise is Gaussian, finely rounded",
}
_MAX_STEPS = 16  # Lines of a plan for steps; a workload of many measured marginals has hundreds.
_NOT_SHOWN = ("events", "cpu_seconds")  # The seconds of the whole run are shown in place of the mechanism's.


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
        "format": _format(job),
        "statistics_store": _store(job),
        "partition": partition_text(_dataset(job)),
        "currency": job.budget.currency.value,
        "amount": float(job.budget.amount),
        "popularity_amount": float(job.popularity.amount) if job.popularity else 0.0,
        "discovery": discovery_facts(job),
        "answers": job.answered.requested.size,
        "queries": queries_text(job.config.workload, job.answered),
        "domain": domain_facts(job.layout),
        "series": None if job.series is None else job.series.named,
        "mechanism": job.config.mechanism.name,
        "recommended": dataclasses.asdict(recommended_for(job)),
        "signed_by": signed_by,
        "numerical_bound": numerical_bound(job),
        **{name: value for name, value in dataclasses.asdict(job.plan).items() if name not in _NOT_SHOWN},
        "seconds_at_least": job.work.seconds,
        "seconds_predicted": job.work.predicted,
        "rows_bytes": job.work.rows_bytes,
        **({"output": str(job.output)} if isinstance(job.output, StoredFolder) else {}),
        "notes": _notes(job),
    }


def plan_lines(job: Job, ledger: LedgerFacts, signed_by: str | None = None) -> list[str]:
    """The plan as lines of text. The arguments are those of ``plan_facts``."""
    return [*(f"{name:<10} {fact}" for name, fact in plan_pairs(job, ledger, signed_by)), nothing_spent(job)]


def nothing_spent(job: Job) -> str:
    """The last line of a plan. A public table is read for it."""
    read = "data" if job.config.mechanism.public is None else "private data"
    return f"No budget was spent, and no {read} were read."


def plan_pairs(job: Job, ledger: LedgerFacts, signed_by: str | None = None) -> list[tuple[str, str]]:
    """The plan as pairs of a name and a text. The arguments are those of ``plan_facts``."""
    return [*_guarantee_pairs(job, ledger), *_work_pairs(job), *_data_pairs(job, signed_by), *_step_pairs(job)]


def _guarantee_pairs(job: Job, ledger: LedgerFacts) -> list[tuple[str, str]]:
    """What is promised, and what it costs."""
    return [
        ("release", job.release_id),
        ("ledger", f"{ledger.url}, {f'id {ledger.ledger_id}' if ledger.ledger_id else 'whose id is not known yet'}"),
        ("charge", ledger.charge),
        ("promise", promise(job)),
        (
            "cost",
            f"{job.budget.currency.value} = {float(job.budget.amount):.6g} of dataset {job.config.dataset.name!r}",
        ),
        ("accounting", _ACCOUNTING[job.budget.currency]),
    ]


def _work_pairs(job: Job) -> list[tuple[str, str]]:
    """What is answered, how, and with what error."""
    plan, advice = job.plan, recommended_for(job)
    pairs = [("domain", text) for text in domain_texts(job.layout)]
    pairs += [
        ("queries", queries_text(job.config.workload, job.answered)),
        ("answers", _answers_text(job)),
        ("mechanism", f"{job.config.mechanism.name}, for {job.mechanism.traits.recommended_for}"),
        ("recommended", f"{advice.choice}: {advice.why}"),
        ("rounds", f"{plan.rounds}"),
        ("time", _time(job)),
        ("memory", f"{memory_text(plan.memory_bytes)} on the driver"),
        ("error", _error(job)),
    ]
    return pairs


def _answers_text(job: Job) -> str:
    """The number of answers; of itemsets the largest number, because the mechanism finds out which they are."""
    asked = job.answered.requested
    return f"at most {asked.size:,}" if isinstance(asked, Itemsets) else f"{asked.size:,}"


def _data_pairs(job: Job, signed_by: str | None) -> list[tuple[str, str]]:
    """What is read and written, as far as the config says anything special about it."""
    dataset = _dataset(job)
    stored = isinstance(job.output, StoredFolder)
    facts = {
        "series": None if job.series is None else f"{job.series.described}; the charge of step 1 pays for all steps",
        "table": table_text(dataset),
        "files": _files_text(job),
        "rows": filter_text(dataset),
        "store": _store(job),
        "partitions": partition_text(dataset),
        "output": f"{job.output}, complete when it has _SUCCESS; the journal lies beside it" if stored else None,
        "disk": f"{_disk_text(job.work.rows_bytes)} of synthetic rows" if job.work.rows_bytes else None,
        "signed by": signed_by,
    }
    return [(name, fact) for name, fact in facts.items() if fact]


def _format(job: Job) -> FileFormat | None:
    """The format of the data's files, as far as the config tells: a folder's files may tell more. None for others."""
    dataset = job.config.dataset
    if dataset.csv is not None:
        return FileFormat.CSV
    return format_of(dataset.path or "") if dataset.format is None else FileFormat(dataset.format)


def _files_text(job: Job) -> str | None:
    """How files other than Parquet are read; None for Parquet, and where only the files tell."""
    kind = _format(job)
    if kind is None or kind is FileFormat.PARQUET:
        return None
    if kind.is_text:
        return f"{kind}: types follow from the schema, and text that is no value of its type counts as null"
    return f"{kind}, read with the types that it has"


def _step_pairs(job: Job) -> list[tuple[str, str]]:
    """The calls of the kernel, the numerical bound, and remarks."""
    pairs: list[tuple[str, str]] = []
    if job.popularity is not None:
        amount = f"{job.budget.currency.value} = {float(job.popularity.amount):.6g}"
        pairs.append(("first", f"noisy popularity is measured for {amount};"))
        pairs.append(("", "the steps below share the remaining budget"))
    pairs += [("first" if not number else "", text) for number, text in enumerate(discovery_texts(job))]
    steps = job.plan.steps
    shown = steps if len(steps) <= _MAX_STEPS else steps[: _MAX_STEPS - 1]
    pairs += [("step", _step_text(step)) for step in shown]
    if len(steps) > len(shown):
        others = steps[len(shown) :]
        share = sum(step.share for step in others)
        pairs.append(("step", f"and {len(others):,} more steps with {share:.2%} of the budget, which --json lists"))
    for delta, epsilon in numerical_bound(job).items():
        text = f"epsilon {epsilon:.4g} at delta {delta}: a tighter bound, because all steps are fixed"
        pairs.append(("numerical", text))
    return pairs + [("note", note) for note in _notes(job)]


def _step_text(step: Step) -> str:
    calls = "1 call" if step.calls == 1 else f"{step.calls:,} calls"
    text = f"{step.label}: {step.share:.2%} of the budget in {calls}"
    if step.stddev is None:
        return text
    if step.weighted_sums:
        return f"{text}, standard deviation {step.stddev:.4g} of a weighted sum of counts, which is no answer"
    return f"{text}, standard deviation {step.stddev:.4g} counts"


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
    """Remarks of the mechanism, on what is assumed, and on the number of synthetic rows."""
    certain, gives_rows = smallest_certain_number(job), job.mechanism.traits.gives_rows(job.mechanism)
    if not gives_rows or job.config.output.synthetic_rows != "auto" or certain <= LARGEST_UNCERTAIN:
        return (*job.plan.notes, *remarks(job))
    note = (
        f"below {certain:,.0f} rows, the noise of the number of rows may be as large as the number itself; auto then "
        f"writes at most {LARGEST_UNCERTAIN:,} synthetic rows"
    )
    return (*job.plan.notes, *remarks(job), note)


def _time(job: Job) -> str:
    if job.work.predicted is not None:
        return (
            f"{duration_text(job.work.seconds, job.work.predicted)} of CPU time on {_place(job)}, predicted within a "
            "factor of 2 in most cases, without reading the data"
        )
    gives_rows = job.mechanism.traits.gives_rows(job.mechanism)
    fit = ", not counting the fit of a model" if gives_rows else ""
    return f"{least_time_text(job.work.seconds)} of CPU time on {_place(job)}, for rounds and synthetic rows{fit}"


def duration_text(seconds: float, predicted: float | None) -> str:
    """A predicted run time in words, or else a lower bound of it."""
    if predicted is None:
        return least_time_text(seconds)
    return "less than a second" if predicted < 1 else f"about {time_text(predicted)}"


def least_time_text(seconds: float) -> str:
    """A lower bound of a run time, in words."""
    return "less than a second" if seconds < 0.05 else f"at least {time_text(seconds)}"


def memory_text(size: int) -> str:
    """A number of bytes on the driver, in words."""
    return "less than 1 MiB" if size < 2**20 else f"about {size / 2**20:,.0f} MiB"


def _disk_text(size: int) -> str:
    return "less than 0.1 MB" if size < 5e4 else f"about {size / 1e6:,.1f} MB"


def time_text(seconds: float) -> str:
    """A duration in words."""
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
        return "it cannot be predicted from public facts, because it depends on the data with this mechanism"
    return f"{expected:.4g} counts expected per answer, caused by the noise alone"
