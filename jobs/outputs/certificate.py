"""certificate.json: the guarantee of a release, its cost, and the facts that it rests on. All of it is public."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpcore.kernel.budget import Budget, Charge, Currency
from dpcore.kernel.conversion import epsilon_of
from dpcore.kernel.item_threshold import epsilon_with_threshold_delta
from dpcore.kernel.scales import noise_of
from dpcore.numerical_bound import epsilon_of_events
from dpcore.uncertainty import CONFIDENCE
from dpcore.workload import Workload
from jobs.config import Config
from jobs.figures import format_exact
from jobs.mechanisms import settings_of
from jobs.outputs.counted_rows import filter_text, partition_text, table_text
from jobs.outputs.discovery_section import discovery_section
from jobs.planning.identity import WORKLOAD_PATHS, canonical_sha256, identifying_config, identifying_schema
from jobs.planning.job import Job
from jobs.planning.remarks import remarks
from jobs.planning.series import SeriesFacts
from jobs.version import versions
from pipelines.attributes import Attribute
from pipelines.layout import Layout, TableLayout
from pipelines.schema import Schema
from pipelines.unit_names import in_words

_NEIGHBOURS = {
    "add_remove_unit": "two datasets are neighbours when one has one unit more than the other",
    "replace_one_unit": (
        "two datasets are neighbours when they differ in the data of one unit; the number of units is public"
    ),
}
_OTHER_DELTAS = (1e-6, 1e-9, 1e-12)
CURRENCIES = {Currency.PURE: "pure epsilon", Currency.ZCDP: "zCDP rho", Currency.GDP: "Gaussian DP mu^2"}
_FORMULAS = {
    Currency.PURE: (
        "Each amount is an epsilon. Noise: sensitivity / noise_scale. Selection: 2 sensitivity / noise_scale. Draws: "
        "draws times sensitivity. Acceptance bits: the sum over all bits of sensitivity times "
        "max(1, 1 / (exp(gap) - 1))."
    ),
    Currency.ZCDP: (
        "Each amount is a rho. Noise: sensitivity / (2 noise_scale^2). Selection: sensitivity^2 / (2 noise_scale^2). "
        "Draws: draws times sensitivity^2 / 8. Acceptance bits: the sum over all bits of w^2 / 8, where "
        "w = sensitivity / (1 - exp(-gap))."
    ),
    Currency.GDP: (
        "Each amount is a mu^2. Noise: sensitivity / noise_scale^2. Selection: g(2 sensitivity / noise_scale). Draws: "
        "draws times g(sensitivity). Acceptance bits: the sum over all bits of g(sensitivity / (1 - exp(-gap))). Here "
        "g(w) = (2 Phi^-1(1 / (1 + exp(-w / 2))))^2, and Phi is the standard normal distribution function."
    ),
}
_SCALES = (
    "sensitivity is exact. It bounds between neighbours what sensitivity_bounds says, in the named unit. noise_scale "
    "is in the same unit: b of a discrete Laplace distribution with mass proportional to exp(-|z| / b), sigma of a "
    "Gaussian distribution, or the scale of a selection; it is null for draws, which add no noise. Divided by "
    "units_per_answer it is the noise of one measured value; answers.parquet has the standard deviation of the answers "
    "that are computed from a strategy. Scales are rounded up, so that a formula may give slightly less than the "
    "amount. gaps lists, for acceptance bits (retain), how many bits accept with probability at most exp(-gap), "
    "whatever the data; a gap above 700 counts as 700."
)
_BOUND = (
    "epsilon_at_delta gives the epsilon of all kernel calls together at each delta. It is smaller than the epsilon of "
    "the guarantee, and can be computed because every call was fixed in advance. The ledger is charged for the "
    "guarantee."
)
_NO_SMALLER_BOUND = "No numerical bound is given, because none is smaller than the guarantee."
_NOT_FIXED = "No numerical bound is given, because not every kernel call was fixed in advance."
_PREDICTED_ERROR = (
    "The predicted error is the expected error, in counts, that the noise alone causes. It is null when the mechanism "
    "has no useful formula for it."
)
_ESTIMATES = (
    "An answer is an estimate from all noisy values of the release; the column measured has its own noisy value, and "
    "stddev the noise in that value. The interval lower to upper covers the stated part of exact answers on average "
    "over the queries of a release, as far as the prior that is learnt from all noisy values fits the data; this is "
    "measured on test data, not proven. The interval guaranteed_lower to guaranteed_upper holds with the stated "
    "confidence for each query alone, whatever the data contain. Of the queries with a q_value of at most q, the "
    "expected fraction whose exact answer is 0 is at most q, whatever the data contain, for every q that is fixed in "
    "advance."
)
KEPT_STATISTICS = (
    "Exact statistics of files that have not changed may come from an encrypted store of earlier runs. They are those "
    "of a run that reads all files, provided that the key of the store is secret, and that where the files lie every "
    "change of a file gives it another time or tag."
)
"""What a release rests on that may use a store of exact statistics. Which of them it has used is SENSITIVE."""

_SERIES = (
    "The guarantee and the reserved amount are of all steps of the series together, which the ledger has charged once, "
    "with step 1. It holds as long as the rows of a step do not change after its release, which every later step "
    "checks before it draws. A unit keeps the rows of its first steps, at most max_rows_per_unit of all steps together."
)
LIMITS = (
    "The guarantee covers the contents of this folder. It does not cover run times, memory use, file sizes and "
    "failures of a run.",
    "The guarantee protects one unit of the unit column. The privacy loss of a person who appears as several units is "
    "several times larger.",
    "The privacy losses of all releases of a dataset add up. The ledger bounds their sum only for one name and one "
    "path of the data.",
)


@dataclass(frozen=True)
class KernelRecord:
    """What the kernel, the journal and the ledger have recorded of one release. Public.

    charges: Charge of each call, in order.
    answers: Number of answers in the journal.
    head: Hash of the whole journal; None for an empty journal.
    ledger_id: Id of the ledger that was charged, 16 hexadecimal digits; None if it is not known.
    reserved_at: Time of the charge, as the ledger has recorded it; None if it is not known.
    paid_by: Release id of the first step of the series, whose charge pays for this later step; None for every other
        release.
    """

    charges: tuple[Charge, ...]
    answers: int
    head: str | None
    ledger_id: str | None = None
    reserved_at: str | None = None
    paid_by: str | None = None


def write_certificate(
    path: Path,
    job: Job,
    workload: Workload,
    record: KernelRecord,
    synthetic_rows: int | None,
    *,
    has_estimates: bool = False,
) -> None:
    """Writes the certificate. The same release made with the same versions gives the same bytes.

    path: The new file.

    The other arguments are those of ``certificate``.
    """
    content = certificate(job, workload, record, synthetic_rows, has_estimates=has_estimates)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def certificate(
    job: Job, workload: Workload, record: KernelRecord, synthetic_rows: int | None, *, has_estimates: bool = False
) -> dict[str, object]:
    """The certificate as a JSON object.

    job: The release.
    workload: The queries that the release answers.
    record: All kernel calls of the release.
    synthetic_rows: Number of synthetic rows; None when there are none.
    has_estimates: Whether answers.parquet has the columns of estimates.
    """
    config = job.config
    return {
        "guarantee": _guarantee(job),
        "limits": list(LIMITS),
        "release_id": job.release_id,
        "ledger_id": record.ledger_id,
        "reserved_at": record.reserved_at,
        "dataset": _dataset(config),
        **({} if job.series is None else {"series": series_section(job.series, record.paid_by)}),
        **_discovery(job),
        "numerical_bound": _explained_bound(job, record.charges),
        "public_facts": _public_facts(job),
        "mechanism": {"name": config.mechanism.name, "settings": settings_of(job.mechanism)},
        "workload": _workload(job, workload),
        "answers": {
            "confidence_of_intervals": CONFIDENCE,
            "predicted_mean_absolute_error": job.plan.predicted_error,
            "note": _PREDICTED_ERROR,
            **({"estimates": _ESTIMATES} if has_estimates else {}),
        },
        "synthetic_rows": synthetic_rows,
        "notes": [*job.plan.notes, *remarks(job)],
        "versions": versions(),
        "hashes": _hashes(job, workload, record),
        "config": identifying_config(config),
        "schema": identifying_schema(_schema(job.layout)),
        "used_by_kernel_calls": _exact(sum((charge.amount for charge in record.charges), Fraction(0))),
        "formulas": formulas(job.budget.currency),
        "charges": [_charge(charge) for charge in record.charges],
    }


def _dataset(config: Config) -> dict[str, object]:
    """The dataset, with its table, its filter, its partitions and the store of its statistics where it has them."""
    facts = identifying_config(config)["dataset"]
    kept = None if config.engine.incremental is None else KEPT_STATISTICS
    described = {
        "table": table_text(facts),
        "where": filter_text(facts),
        "partition": partition_text(facts),
        "statistics_store": kept,
    }
    named = {"name": config.dataset.name, "snapshot": config.dataset.snapshot}
    return {**named, **{key: text for key, text in described.items() if text is not None}}


def _discovery(job: Job) -> dict[str, object]:
    layout = job.layout
    if job.discovery is None or isinstance(layout, TableLayout) or layout.names is None:
        return {}
    return {"discovery": discovery_section(job.discovery, layout.items, layout.names.digest)}


def series_section(series: SeriesFacts, paid_by: str | None) -> dict[str, object]:
    """The section of a step of a series.

    series: The series.
    paid_by: Release id of its first step; None for the first step itself.
    """
    return {
        "id": series.series_id,
        "step": series.step,
        "steps": series.steps,
        "attribute": series.attribute,
        "strategy": series.strategy,
        "paid_by": paid_by,
        "note": _SERIES,
    }


def promise(job: Job) -> str:
    """The guarantee in one sentence."""
    privacy = job.config.privacy
    return promise_text(privacy.epsilon, privacy.delta, job.config.dataset.unit, privacy.neighbours)


def promise_text(epsilon: float, delta: float, unit: str, neighbours: str) -> str:
    """The guarantee in one sentence. A delta of 0 stands for pure differential privacy.

    unit: Column of the privacy unit, or the JSON list of its columns.
    neighbours: Name of the neighbouring relation.
    """
    law = f"({format_exact(epsilon)}, {format_exact(delta)})-" if delta else f"{format_exact(epsilon)}-"
    return f"{law}differential privacy for the units of {in_words(unit)} ({neighbours}): {_NEIGHBOURS[neighbours]}."


def formulas(currency: Currency) -> dict[str, str]:
    """How a reader recomputes every amount of a currency."""
    return {"amounts": _FORMULAS[currency], "scales": _SCALES}


def _guarantee(job: Job) -> dict[str, object]:
    privacy = job.config.privacy
    return {
        "promise": promise(job),
        "neighbours": privacy.neighbours,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "currency": CURRENCIES[job.budget.currency],
        "additive_noise": noise_of(job.budget.currency).value,
        "reserved_in_the_ledger": _exact(job.budget.amount),
        "epsilon_at_other_deltas": epsilon_at_other_deltas(job.budget, job.threshold_delta),
    }


def _charge(charge: Charge) -> dict[str, object]:
    """One charge with everything that its amount follows from. Raises ValueError for a charge without a basis."""
    basis = charge.basis
    if basis is None:
        raise ValueError(f"charge {charge.label!r} has no basis; want a charge of one of the kernel's verbs")
    return {
        "label": charge.label,
        "verb": basis.verb,
        **_exact(charge.amount),
        "law": basis.law,
        "sensitivity_bounds": basis.bound.value,
        "sensitivity": str(basis.sensitivity),
        "noise_scale": basis.scale or None,
        "unit": basis.unit,
        "units_per_answer": basis.denominator,
        "draws": basis.draws,
        "gaps": [{"gap": str(gap), "bits": bits} for gap, bits in basis.gaps] or None,
    }


def _explained_bound(job: Job, charges: Sequence[Charge]) -> dict[str, object]:
    bound = numerical_bound(job, charges)
    no_bound = _NO_SMALLER_BOUND if _fixed_in_advance(job, charges) else _NOT_FIXED
    return {"note": _BOUND if bound else no_bound, "epsilon_at_delta": bound}


def numerical_bound(job: Job, charges: Sequence[Charge] = ()) -> dict[str, float]:
    """An upper bound on epsilon from the Renyi divergences of the planned kernel calls.

    job: The release.
    charges: Charges of the run; empty before the run.

    Returns: Epsilon by delta, for every delta at which it is at least 0.1% smaller than the epsilon of the guarantee.
        Empty when there is no such delta, or when not every kernel call was fixed in advance.
    """
    if not _fixed_in_advance(job, charges):
        return {}
    bounds = {delta: epsilon_of_events(job.plan.events, delta) for delta in _deltas(job)}
    return {
        f"{delta:g}": epsilon for delta, epsilon in bounds.items() if epsilon < 0.999 * epsilon_of(job.budget, delta)
    }


def _fixed_in_advance(job: Job, charges: Sequence[Charge]) -> bool:
    """Whether the plan lists every kernel call of the release, and every charge belongs to a listed call."""
    if job.popularity is not None or job.discovery is not None or not job.plan.events:
        return False
    planned: Counter[Fraction] = Counter()
    for event in job.plan.events:
        planned[event.charged / event.calls] += event.calls
    return not Counter(charge.amount for charge in charges if charge.amount) - planned


def _deltas(job: Job) -> list[float]:
    delta = job.config.privacy.delta
    return sorted({*([delta] if delta else []), *_OTHER_DELTAS}, reverse=True)


def epsilon_at_other_deltas(budget: Budget, threshold_delta: Fraction = Fraction(0)) -> dict[str, float]:
    """The epsilon that a budget implies at each of the usual deltas; empty for pure DP, where it is the same.

    threshold_delta: What the threshold of a discovery takes from delta. Deltas that it leaves nothing of are left out.
    """
    if budget.currency is Currency.PURE:
        return {}
    return {
        f"{delta:g}": epsilon_with_threshold_delta(budget, delta, threshold_delta)
        for delta in _OTHER_DELTAS
        if Fraction(delta) > threshold_delta
    }


def _exact(amount: Fraction) -> dict[str, object]:
    return {"amount": str(amount), "amount_as_number": float(amount)}


def _public_facts(job: Job) -> dict[str, Any]:
    layout = job.layout
    table = isinstance(layout, TableLayout)
    return {
        "shape": job.config.dataset.shape,
        "unit": job.config.dataset.unit,
        "units": job.config.privacy.units,
        ("max_rows_per_unit" if table else "max_items_per_unit"): job.unit.contribution.bound,
        "columns": list(layout.stored_columns),
        "clustered_by_unit": job.config.dataset.clustered_by_unit,
        "accounting": job.config.privacy.accounting,
        "consumer": job.config.privacy.consumer,
        **domain_facts(layout),
    }


def domain_facts(layout: Layout) -> dict[str, object]:
    """The attributes of a table with their sizes, or the number of items of baskets."""
    if isinstance(layout, TableLayout):
        return {"attributes": [_attribute(attribute) for attribute in layout.schema.attributes]}
    return {"items": layout.items}


def _attribute(attribute: Attribute) -> dict[str, object]:
    """An attribute's name, type and sizes; the section ``schema`` has its values and edges."""
    listed = "values" if attribute.values else "bins"
    kind = attribute.kind.value
    return {"name": attribute.name, "type": kind, listed: attribute.known, "codes": attribute.size}


def _workload(job: Job, workload: Workload) -> dict[str, object]:
    return {
        "queries": job.config.workload.model_dump(mode="json", exclude_none=True, exclude=WORKLOAD_PATHS),
        "listed_in": "answers.parquet",
        "answers": workload.queries.size,
    }


def _hashes(job: Job, workload: Workload, record: KernelRecord) -> dict[str, object]:
    """Hashes of everything public that determines the release, which together identify it."""
    return {
        "config_schema_and_version": job.release_id,
        "schema": schema_digest(identifying_schema(_schema(job.layout))),
        "workload": workload.queries.digest(),
        "public_files": job.files.digests,
        "kernel_answers": {"answers": record.answers, "chain": record.head},
    }


def _schema(layout: Layout) -> Schema | None:
    return layout.schema if isinstance(layout, TableLayout) else None


def schema_digest(schema: dict[str, Any] | None) -> str | None:
    """SHA-256 of the schema as canonical JSON; None for baskets, which have no schema."""
    return None if schema is None else canonical_sha256(schema)
