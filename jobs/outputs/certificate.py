"""certificate.json: what a release promises, from public facts alone."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpcore.kernel.budget import Budget, Charge, Currency
from dpcore.kernel.conversion import epsilon_of
from dpcore.kernel.renyi import epsilon_of_events
from dpcore.kernel.scales import noise_of
from dpcore.uncertainty import CONFIDENCE
from dpcore.workload import Workload
from jobs.figures import format_exact
from jobs.mechanisms import settings_of
from jobs.planning.identity import WORKLOAD_PLACES
from jobs.planning.job import Job
from jobs.version import versions
from pipelines.attributes import Attribute
from pipelines.layout import Layout, TableLayout

_NEIGHBOURS = {
    "add_remove_unit": "two datasets are neighbours when one has one unit more than the other",
    "replace_one_unit": "two datasets are neighbours when one unit is exchanged for another; their number is public",
}
_OTHER_DELTAS = (1e-6, 1e-9, 1e-12)
_NOISE_SCALES = (
    "noise_scale of a measurement is in counts: b of a discrete Laplace, with mass exp(-|z| / b), or sigma of a "
    "Gaussian; that of a selection is in steps of its integer scores; null for draws, which have no scale"
)
_BOUND = (
    "epsilon of all kernel calls together at each delta: less than the guarantee says, as every call was fixed in "
    "advance; the ledger is charged what the guarantee says"
)
_NO_BOUND = "no bound is below what the guarantee says, or not every call was fixed in advance"
_LIMITS = (
    "The guarantee covers what this folder holds; run times, memory, file sizes and failures of a run are not covered.",
    "It rests on the unit column: someone who appears under several units has several times the loss.",
    "Releases of the same dataset add up; the ledger bounds their sum, and only for one name and path of the data.",
)


@dataclass(frozen=True)
class Drawn:
    """What the kernel gave for a release.

    charges: Of every call, in order.
    answers, head: How many answers are in the journal, and the hash of all of them; public values.
    """

    charges: tuple[Charge, ...]
    answers: int
    head: str | None


def write_certificate(path: Path, job: Job, workload: Workload, drawn: Drawn, synthetic_rows: int | None) -> None:
    """Writes the certificate; equal releases made with equal versions give equal bytes."""
    content = certificate(job, workload, drawn, synthetic_rows)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def certificate(job: Job, workload: Workload, drawn: Drawn, synthetic_rows: int | None) -> dict[str, object]:
    """The certificate as plain values."""
    config = job.config
    return {
        "release_id": job.release_id,
        "dataset": {"name": config.dataset.name, "snapshot": config.dataset.snapshot},
        "guarantee": _guarantee(job),
        "numerical_bound": _explained_bound(numerical_bound(job, drawn.charges)),
        "charges": [_charge(charge) for charge in drawn.charges],
        "noise_scales": _NOISE_SCALES,
        "used_by_kernel_calls": _exact(sum((charge.amount for charge in drawn.charges), Fraction(0))),
        "public_facts": _public_facts(job),
        "mechanism": {"name": config.mechanism.name, "settings": settings_of(job.mechanism)},
        "workload": _workload(job, workload),
        "answers": {
            "confidence_of_intervals": CONFIDENCE,
            "predicted_mean_absolute_error": job.plan.predicted_error,
            "note": "the predicted error is that of the noise alone; null where the mechanism has no useful formula",
        },
        "synthetic_rows": synthetic_rows,
        "versions": versions(),
        "hashes": _hashes(job, workload, drawn),
        "notes": list(job.plan.notes),
        "limits": list(_LIMITS),
    }


def promise(job: Job) -> str:
    """The guarantee in one sentence."""
    privacy = job.config.privacy
    pure = job.budget.currency is Currency.PURE
    law = f"{format_exact(privacy.epsilon)}-differential privacy"
    if not pure:
        law = f"({format_exact(privacy.epsilon)}, {format_exact(privacy.delta)})-differential privacy"
    unit = job.config.dataset.unit
    return f"{law} for {privacy.neighbours} on column {unit!r}: {_NEIGHBOURS[privacy.neighbours]}."


def _guarantee(job: Job) -> dict[str, object]:
    privacy = job.config.privacy
    return {
        "promise": promise(job),
        "neighbours": privacy.neighbours,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "currency": _currency(job.budget),
        "additive_noise": noise_of(job.budget.currency).value,
        "reserved_in_the_ledger": _exact(job.budget.amount),
        "epsilon_at_other_deltas": _at_other_deltas(job.budget),
    }


def _charge(charge: Charge) -> dict[str, object]:
    return {"label": charge.label, **_exact(charge.amount), "noise_scale": charge.scale}


def _explained_bound(bound: dict[str, float]) -> dict[str, object]:
    return {"note": _BOUND if bound else _NO_BOUND, "epsilon_at_delta": bound}


def numerical_bound(job: Job, charges: Sequence[Charge] | None = None) -> dict[str, float]:
    """Epsilon at some deltas where that is less than the budget says; empty where it is not, or nothing is fixed.

    charges: Of a run; where one of them is not that of an event there is no bound.
    """
    events = job.plan.events if job.popularity is None else ()
    planned: Counter[Fraction] = Counter()
    for event in events:
        planned[event.charged / event.calls] += event.calls
    if Counter(charge.amount for charge in charges or () if charge.amount) - planned:
        return {}
    bounds = {delta: epsilon_of_events(events, delta) for delta in _deltas(job)} if events else {}
    return {f"{delta:g}": found for delta, found in bounds.items() if found < 0.999 * epsilon_of(job.budget, delta)}


def _deltas(job: Job) -> list[float]:
    asked = job.config.privacy.delta
    return sorted({*([asked] if asked else []), *_OTHER_DELTAS}, reverse=True)


def _currency(budget: Budget) -> str:
    return {Currency.PURE: "pure epsilon", Currency.ZCDP: "zCDP rho", Currency.GDP: "Gaussian DP mu^2"}[budget.currency]


def _at_other_deltas(budget: Budget) -> dict[str, float]:
    if budget.currency is Currency.PURE:
        return {}
    return {f"{delta:g}": epsilon_of(budget, delta) for delta in _OTHER_DELTAS}


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
        "columns": list(layout.columns),
        "clustered_by_unit": job.config.dataset.clustered_by_unit,
        "accounting": job.config.privacy.accounting,
        "consumer": job.config.privacy.consumer,
        **_domain(layout),
    }


def _domain(layout: Layout) -> dict[str, object]:
    if isinstance(layout, TableLayout):
        return {"attributes": [_attribute(attribute) for attribute in layout.schema.attributes]}
    return {"items": layout.items}


def _attribute(attribute: Attribute) -> dict[str, object]:
    """What the schema says of an attribute, in numbers; ``hashes.schema`` covers its values and edges."""
    listed = "values" if attribute.values else "bins"
    kind = attribute.kind.value
    return {"name": attribute.name, "type": kind, listed: attribute.known, "codes": attribute.size}


def _workload(job: Job, workload: Workload) -> dict[str, object]:
    return {
        "asked": job.config.workload.model_dump(mode="json", exclude_none=True, exclude=WORKLOAD_PLACES),
        "answers": workload.queries.size,
    }


def _hashes(job: Job, workload: Workload, drawn: Drawn) -> dict[str, object]:
    """SHA-256 of what the release was made from, all of it public: with them it can be told from any other."""
    return {
        "config_schema_and_version": job.release_id,
        "schema": _schema_digest(job),
        "workload": workload.queries.digest(),
        "public_files": job.files.digests,
        "kernel_answers": {"answers": drawn.answers, "chain": drawn.head},
    }


def _schema_digest(job: Job) -> str | None:
    """SHA-256 of the meaning of the schema, as canonical JSON; None for baskets, which have none."""
    if not isinstance(job.layout, TableLayout):
        return None
    content = json.dumps(asdict(job.layout.schema), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(content.encode()).hexdigest()
