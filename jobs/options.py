"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Final

import typer

SET_HELP: Final = (
    "Set a key of the config in place of the file's, such as dataset.snapshot=2026-11-23 or "
    "workload.products.0.weight=2 (may be repeated). The value is read as YAML. Never set a secret, "
    "because others may see command lines."
)

Settings = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=SET_HELP)]
"""Keys of the config that the command line sets; None without any."""
