"""marquee store status | clean"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from jobs.options import AsJson, echo_result

app = typer.Typer(help="Show or clean the store of exact statistics that releases of engine.incremental keep.")

Folder = Annotated[Path, typer.Argument(help="The store's folder, as in engine.incremental.path of configs.")]
_CONTENT = "the number and sizes of kept exact statistics"


@app.command()
def status(
    folder: Folder,
    as_json: AsJson = False,
) -> None:
    """SENSITIVE: show how many entries a store has, their bytes, and when they were used last. No key is needed.

    Examples:

        marquee store status statistics
    """
    from datetime import UTC, datetime

    from jobs.sensitive import FIRST_KEY, announce, mark
    from pipelines.statistics_store.folder import check_private, entries

    check_private(folder)
    known = list(entries(folder))
    used = [datetime.fromtimestamp(entry.used, UTC).isoformat(timespec="seconds") for entry in known]
    facts = {
        "entries": len(known),
        "bytes": sum(entry.size for entry in known),
        "used_first": min(used, default=None),
        "used_last": max(used, default=None),
    }
    announce(_CONTENT)
    if as_json:
        typer.echo(json.dumps({FIRST_KEY: mark(_CONTENT), **facts}, indent=2))
        return
    typer.echo(mark(_CONTENT))
    for name, fact in facts.items():
        typer.echo(f"{name:<12}{'-' if fact is None else fact}")


@app.command()
def clean(
    folder: Folder,
    keep_days: Annotated[
        int, typer.Option(min=0, help="Remove entries that were not used for so many days; 0 removes all.")
    ] = 30,
    as_json: AsJson = False,
) -> None:
    """Remove entries that were not used for a while. No key is needed, and no release changes: files are read again.

    Examples:

        marquee store clean statistics

        marquee store clean statistics --keep-days 0
    """
    import time

    from jobs.wording import number_of
    from pipelines.statistics_store.store import clean_folder

    clean_folder(folder, keep_days, time.time())
    # How many were removed follows from the data, and this line may be logged.
    which = f"not used for {number_of(keep_days, 'day')}" if keep_days else "of any age"
    text = f"Removed all entries {which} from {folder}."
    echo_result(as_json, {"folder": str(folder), "keep_days": keep_days, "done": True}, text)
