"""Options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

SET_HELP: Final = (
    "Set a key of the config in place of the file's, such as dataset.snapshot=2026-11-23 or "
    "workload.products.0.weight=2 (may be repeated). The value is read as YAML. Never set a secret, "
    "because others may see command lines."
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
"""Whether the result is for machines."""

Settings = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=SET_HELP)]
"""Keys of the config that the command line sets; None without any."""

TIME_HELP: Final = (
    "CPU minutes that the fits of the mechanism may take: sets mechanism.max_work, a number of units of work, which is "
    "part of the release id. Less time means more error. The time itself is not measured, so equal runs stay equal."
)
TimeBudget = Annotated[float | None, typer.Option("--time-budget", metavar="MINUTES", help=TIME_HELP)]
"""CPU minutes for the fits of a mechanism; None for the config's own ``mechanism.max_work``."""

AGAIN_HELP: Final = "Make a new release with a new charge, although another version was charged for the same config."
METRICS_HELP: Final = (
    "Write metrics of the run to this file for Prometheus's node exporter; counters of earlier runs in it go on. Use "
    "one file per config (extra [metrics])."
)
SENSITIVE_HELP: Final = (
    "SENSITIVE: add exact sizes of the input to this file, as JSON lines for the operator only (mode 0600)."
)

MetricsFile = Annotated[Path | None, typer.Option("--metrics-file", help=METRICS_HELP)]
SensitiveLog = Annotated[Path | None, typer.Option("--log-sensitive", help=SENSITIVE_HELP)]


def echo_result(as_json: bool, facts: Any, text: str) -> None:
    """Prints the result of a command: as one JSON object, or in words.

    as_json: Whether the option ``--json`` was given.
    facts: The result as a JSON value.
    text: The result in words.
    """
    typer.echo(json.dumps(facts, indent=2) if as_json else text)
