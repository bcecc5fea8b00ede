"""marquee plan"""

from __future__ import annotations

import json
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
    from jobs.ledger.connection import shown_ledger
    from jobs.outputs.plan_report import plan_facts, plan_lines
    from jobs.planning.job import load_job

    job = load_job(config)
    ledger = shown_ledger(job.config.privacy.ledger)
    if as_json:
        typer.echo(json.dumps({"ledger": ledger, **plan_facts(job)}, indent=2))
        return
    typer.echo("\n".join([f"ledger     {ledger}", *plan_lines(job)]))


def config_schema() -> str:
    """The JSON Schema of a config."""
    from jobs.config import Config

    return json.dumps(Config.model_json_schema(), indent=2)
