"""marquee status"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from jobs.options import AsJson, Settings


def status(
    config: Annotated[Path, typer.Argument(help="The release's YAML config.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show how far the release of a config has progressed, as the ledger records it.

    With --log-format json it prints one line of JSON. "answers" is the number of answers that are recorded so far, and
    "charged" the time of the charge.

    Examples:

        marquee status adult.yaml

        marquee status adult.yaml --json
    """
    from jobs import log
    from jobs.ledger import SqlLedger
    from jobs.planning.job import load_job
    from jobs.tables import echo_facts

    job = load_job(config, settings or ())
    ledger = SqlLedger(job.config.privacy.ledger)
    record = ledger.release(job.release_id)
    facts = {
        "release_id": job.release_id,
        "dataset": job.config.dataset.name,
        "snapshot": job.config.dataset.snapshot,
        "state": "unknown to the ledger" if record is None else record.state.value,
        "output": None if record is None else record.output,
        "answers": None if record is None else record.answers,
        "charged": None if record is None else ledger.charged_at(job.release_id),
        "version": None if record is None else record.version,
    }
    if as_json or log.for_machines():
        typer.echo(json.dumps(facts, indent=2 if as_json else None))
        return
    echo_facts([(name, "-" if fact is None else str(fact)) for name, fact in facts.items()], 12)
