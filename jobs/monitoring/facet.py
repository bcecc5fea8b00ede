"""The privacy facet of lineage events: what a release promises, and what the ledger charges for it. Public."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from jobs.outputs.certificate import CURRENCIES
from jobs.planning.job import Job
from jobs.version import VERSION

NAME: Final = "marquee_privacy"
"""Key of the facet among the facets of a run and of an output dataset."""

PRODUCER: Final = f"urn:marquee:{VERSION}"
SCHEMA_ID: Final = "urn:marquee:openlineage:1-0-0:PrivacyFacet"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LedgerEntry(_Part):
    """Where the release is charged."""

    id: str | None = Field(description="Id of the ledger, 16 hexadecimal digits; null before the release is published.")
    dataset: str = Field(description="Dataset of the ledger whose total is charged.")
    consumer: str | None = Field(description="Consumer whose limit is charged as well; null without one.")
    currency: Literal["pure epsilon", "zCDP rho", "Gaussian DP mu^2"] = Field(description="Currency of the amount.")
    amount: str = Field(description="Exact budget of the release, as a fraction such as 3/8.")


class PrivacyFacet(_Part):
    """Privacy of a release: the guarantee, and its entry in the ledger."""

    producer: str = Field(alias="_producer", description="Program that made the facet.")
    schema_url: str = Field(alias="_schemaURL", description="Id of this schema.")
    release_id: str = Field(alias="releaseId", description="SHA-256 of config, schema, public files and version.")
    snapshot: str = Field(description="Public label of the state of the data.")
    epsilon: float = Field(gt=0, description="Epsilon of the guarantee.")
    delta: float = Field(ge=0, lt=1, description="Delta of the guarantee.")
    unit: str = Field(description="Column of the privacy unit.")
    neighbours: Literal["add_remove_unit", "replace_one_unit"] = Field(description="Neighbouring relation.")
    max_per_unit: int = Field(alias="maxPerUnit", ge=1, description="Rows or items of a unit that are used, at most.")
    accounting: str = Field(description="Accounting that the config asks for: auto, pure, zcdp or gdp.")
    ledger: LedgerEntry = Field(description="Entry in the ledger.")


def privacy_facet(job: Job, ledger_id: str | None) -> dict[str, Any]:
    """The facet of a release as a JSON object.

    job: The release.
    ledger_id: Id of the ledger that was charged; None if it is not known yet.
    """
    privacy, dataset = job.config.privacy, job.config.dataset
    entry = LedgerEntry(
        id=ledger_id,
        dataset=dataset.name,
        consumer=privacy.consumer,
        currency=CURRENCIES[job.budget.currency],  # type: ignore[arg-type]
        amount=str(job.budget.amount),
    )
    facet = PrivacyFacet(
        _producer=PRODUCER,
        _schemaURL=SCHEMA_ID,
        releaseId=job.release_id,
        snapshot=dataset.snapshot,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        unit=dataset.unit,
        neighbours=privacy.neighbours,
        maxPerUnit=job.unit.contribution.bound,
        accounting=privacy.accounting,
        ledger=entry,
    )
    return facet.model_dump(mode="json", by_alias=True, exclude_none=True)


def facet_schema() -> str:
    """The JSON Schema of the facet. Keys that are null are left out of an event."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID}
    content = PrivacyFacet.model_json_schema(by_alias=True)
    for part in (content, *content.get("$defs", {}).values()):
        part["required"] = [key for key in part["required"] if "anyOf" not in part["properties"][key]]
    return json.dumps(schema | content, indent=2)
