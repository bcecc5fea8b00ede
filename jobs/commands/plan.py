"""marquee plan"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer


def plan(
    config: Annotated[Path | None, typer.Argument(help="The release's YAML config.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a config and exit.")] = False,
) -> None:
    """Show what a release would cost and do. No budget is spent, and no data are read, not even file footers.

    Examples:

        marquee plan adult.yaml

        marquee plan --schema > marquee.schema.json
    """
    if schema:
        typer.echo(config_schema())
        return
    if config is None:
        raise typer.BadParameter("the config file is missing; want a config file, or --schema")
    from dpcore.errors import LedgerUnavailableError
    from jobs.ledger import SqlLedger
    from jobs.outputs.plan_report import plan_facts, plan_lines
    from jobs.planning.job import load_job

    job = load_job(config)
    ledger = SqlLedger(job.config.privacy.ledger)
    ledger_id = None
    with suppress(LedgerUnavailableError):  # A plan can be made where the ledger's server cannot be reached.
        ledger_id = ledger.ledger_id()
    if as_json:
        typer.echo(json.dumps(plan_facts(job, ledger.shown_url, ledger_id), indent=2))
    else:
        typer.echo("\n".join(plan_lines(job, ledger.shown_url, ledger_id)))


def config_schema() -> str:
    """The JSON Schema of a config."""
    from jobs.config import Config

    return json.dumps(Config.model_json_schema(), indent=2)
