"""certificate.json: what a release promises, from public facts alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpcore.kernel.budget import Budget, Charge, Currency
from dpcore.kernel.conversion import epsilon_of_zcdp
from dpcore.uncertainty import CONFIDENCE
from dpcore.workload import Workload
from jobs.figures import exactly
from jobs.job import Job
from jobs.mechanisms import settings_of
from jobs.version import VERSION
from pipelines.layout import TableLayout

_NEIGHBOURS = {
    "add_remove_unit": "two datasets are neighbours when one has one unit more than the other",
    "replace_one_unit": "two datasets are neighbours when one unit is exchanged for another; their number is public",
}
_LIMITS = (
    "The guarantee covers what this folder holds; run times, memory, file sizes and failures of a run are not covered.",
    "It rests on the unit column: someone who appears under several units has several times the loss.",
    "Releases of the same dataset add up; the ledger bounds their sum, and only for one name and path of the data.",
)


def write_certificate(
    path: Path, job: Job, workload: Workload, charges: Sequence[Charge], synthetic_rows: int | None
) -> None:
    """Writes the certificate; equal releases give equal bytes."""
    content = certificate(job, workload, charges, synthetic_rows)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def certificate(
    job: Job, workload: Workload, charges: Sequence[Charge], synthetic_rows: int | None
) -> dict[str, object]:
    """The certificate as plain values."""
    config = job.config
    return {
        "release_id": job.release_id,
        "marquee": VERSION,
        "dataset": {"name": config.dataset.name, "snapshot": config.dataset.snapshot},
        "guarantee": _guarantee(job),
        "charges": [{"label": charge.label, **_exact(charge.amount)} for charge in charges],
        "public_facts": _public_facts(job),
        "mechanism": {"name": config.mechanism.name, "settings": settings_of(job.mechanism)},
        "workload": _workload(job, workload),
        "answers": {
            "confidence_of_intervals": CONFIDENCE,
            "predicted_mean_absolute_error": job.plan.predicted_error,
            "note": "the predicted error is that of the noise alone; null where the mechanism has no useful formula",
        },
        "synthetic_rows": synthetic_rows,
        "notes": list(job.plan.notes),
        "limits": list(_LIMITS),
    }


def promise(job: Job) -> str:
    """The guarantee in one sentence."""
    privacy = job.config.privacy
    pure = job.budget.currency is Currency.PURE
    law = f"{exactly(privacy.epsilon)}-differential privacy"
    if not pure:
        law = f"({exactly(privacy.epsilon)}, {exactly(privacy.delta)})-differential privacy"
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
        **_exact(job.budget.amount),
        "epsilon_at_other_deltas": _at_other_deltas(job.budget),
    }


def _currency(budget: Budget) -> str:
    return "pure epsilon" if budget.currency is Currency.PURE else "zCDP rho"


def _at_other_deltas(budget: Budget) -> dict[str, float]:
    if budget.currency is Currency.PURE:
        return {}
    return {f"{delta:g}": epsilon_of_zcdp(float(budget.amount), delta) for delta in (1e-6, 1e-9, 1e-12)}


def _exact(amount: Fraction) -> dict[str, object]:
    return {"amount": str(amount), "amount_as_number": float(amount)}


def _public_facts(job: Job) -> dict[str, Any]:
    table = isinstance(job.layout, TableLayout)
    return {
        "shape": job.config.dataset.shape,
        "unit": job.config.dataset.unit,
        "units": job.config.privacy.units,
        ("max_rows_per_unit" if table else "max_items_per_unit"): job.unit.contribution.bound,
        "columns": list(job.layout.columns),
        "clustered_by_unit": job.config.dataset.clustered_by_unit,
    }


def _workload(job: Job, workload: Workload) -> dict[str, object]:
    return {
        "asked": job.config.workload.model_dump(mode="json", exclude_none=True),
        "answers": workload.queries.size,
        "digest": workload.queries.digest(),
    }
