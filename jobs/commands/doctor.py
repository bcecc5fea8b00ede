"""marquee doctor"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.options import AsJson, Settings

if TYPE_CHECKING:
    from jobs.diagnosis.findings import Finding


def doctor(
    config: Annotated[Path | None, typer.Argument(help="The release's YAML config; without one, the machine.")] = None,
    settings: Settings = None,
    deep: Annotated[bool, typer.Option("--deep", help="Run Java, and start a Spark session.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check whether this machine, and a config, are ready for a release, and say what to do next.

    No data are read, no budget is spent, and nothing is started without --deep. The exit code is 2 if a check fails;
    warnings do not change it.

    Examples:

        marquee doctor

        marquee doctor adult.yaml

        marquee doctor adult.yaml --deep --json
    """
    from dpcore.errors import ConfigError
    from jobs.diagnosis.doctor import examined
    from jobs.diagnosis.findings import Health

    findings = list(examined(config, settings or (), deep))
    failed = [finding for finding in findings if finding.health is Health.FAIL]
    if as_json:
        facts = {"ready": not failed, "findings": [_facts(finding) for finding in findings]}
        typer.echo(json.dumps(facts, indent=2))
    else:
        _echo(findings)
    if failed:
        names = ", ".join(dict.fromkeys(finding.check for finding in failed))
        raise ConfigError(f"these checks fail: {names}; want what the lines above say next")


def _facts(finding: Finding) -> dict[str, str | None]:
    return {
        "check": finding.check,
        "outcome": finding.health.value,
        "text": finding.text,
        "next": finding.advice or None,
    }


def _echo(findings: list[Finding]) -> None:
    from jobs.tables import echo_rows, is_for_people

    if is_for_people():
        rows = [[finding.health.value, finding.check, finding.text, finding.advice] for finding in findings]
        echo_rows(("", "check", "what is the case", "next"), rows)
        return
    for finding in findings:
        advice = f"; next: {finding.advice}" if finding.advice else ""
        typer.echo(f"{finding.health.value:<6}{finding.check:<15}{finding.text}{advice}")
