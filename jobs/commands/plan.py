"""marquee plan"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.options import Settings

if TYPE_CHECKING:
    from jobs.ledger.partitioning import Blocks
    from jobs.ledger.pricing import Price
    from jobs.outputs.plan_report import LedgerFacts
    from jobs.planning.job import Job


def plan(
    config: Annotated[Path | None, typer.Argument(help="The release's YAML config.")] = None,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a config and exit.")] = False,
) -> None:
    """Show what a release would cost and do. No budget is spent, and no data are read, not even file footers.

    Examples:

        marquee plan adult.yaml

        marquee plan adult.yaml --set privacy.epsilon=0.5 --set mechanism.name=mst

        marquee plan --schema > marquee.schema.json
    """
    if schema:
        typer.echo(config_schema())
        return
    if config is None:
        raise typer.BadParameter("the config file is missing; want a config file, or --schema")
    from jobs.outputs.plan_report import plan_facts, plan_lines
    from jobs.planning.job import load_job
    from jobs.release.signing import signer

    job = load_job(config, settings or ())
    key = signer(job.config.output.signing_key)
    facts = (job, ledger_facts(job), None if key is None else key.fingerprint)
    typer.echo(json.dumps(plan_facts(*facts), indent=2) if as_json else "\n".join(plan_lines(*facts)))


def ledger_facts(job: Job) -> LedgerFacts:
    """What the ledger says about the release. A plan can be made where there is no ledger, or none can be reached."""
    from dpcore.errors import (
        BudgetExceededError,
        ConfigError,
        EngineError,
        IntegrityError,
        LedgerUnavailableError,
        NoBudgetError,
    )
    from jobs.ledger import SqlLedger
    from jobs.ledger.connection import shown_ledger
    from jobs.ledger.partitioning import Blocks
    from jobs.ledger.pricing import Request
    from jobs.ledger.protection import described
    from jobs.ledger.records import State
    from jobs.outputs.plan_report import LedgerFacts
    from jobs.release.other_version import folder_of, refusal
    from jobs.release.run import protection_of
    from jobs.release.series import with_recorded_strategy

    privacy, dataset = job.config.privacy, job.config.dataset.name
    url, ledger_id = shown_ledger(privacy.ledger), None
    request = Request(
        job.budget,
        protection_of(job),
        privacy.consumer,
        (privacy.epsilon, privacy.delta),
        Blocks.of(job.layout.partition),
    )
    try:
        ledger = SqlLedger(privacy.ledger)
        ledger_id = ledger.ledger_id()
        ledger.dataset(dataset, privacy.epsilon, privacy.delta)  # Without one, the error has the command with figures.
        record = ledger.release(job.release_id)
        if record is not None and record.state is not State.PLANNED:
            return LedgerFacts(url, ledger_id, "none: this release was charged already")
        others = ledger.charged_by_others(job.identity)
        published = [(other, folder_of(other, job.output)) for other in others]
        for other, folder in published:
            if folder is not None:
                return LedgerFacts(url, ledger_id, f"none: already published by version {other.version}: {folder}")
        if others:
            return LedgerFacts(url, ledger_id, f"refused now: {refusal(others)}")
        paid_by = ledger.series.paid_by(with_recorded_strategy(job, ledger).series, job.release_id)
        if paid_by is not None:
            return LedgerFacts(url, ledger_id, f"none: release {paid_by[:12]} has paid for all steps of this series")
        price = ledger.price(dataset, request)
    except (BudgetExceededError, NoBudgetError) as error:
        return LedgerFacts(url, ledger_id, f"refused now: {error}")
    except (ConfigError, EngineError, IntegrityError, LedgerUnavailableError) as error:
        return LedgerFacts(url, ledger_id, f"unknown: {error}")
    charge = f"{price.currency.value} = {float(price.amount):.6g} {described(price.protection)}"
    if price.dataset.partitioning is not None:
        charge = f"{charge}; {_of_partitions(price, request.blocks)}"
    if price.replacing:
        charge = f"{charge}: the release is for add_remove_unit, so group privacy multiplies its charge"
    return LedgerFacts(url, ledger_id, charge)


def _of_partitions(price: Price, blocks: Blocks | None) -> str:
    """Which partitions are charged, and what remains."""
    assert price.dataset.partitioning is not None
    charged = "every partition" if blocks is None else blocks.described
    total = float(price.dataset.total or 0)
    return (
        f"charged to {charged}, where {price.currency.value} = {float(price.available):.6g} remains; a unit has then "
        f"lost at most {float(price.spent):.6g} of {total:.6g} ({price.dataset.partitioning.composition})"
    )


def config_schema() -> str:
    """The JSON Schema of a config."""
    from jobs.config import Config

    return json.dumps(Config.model_json_schema(), indent=2)
