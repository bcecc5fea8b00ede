"""Checks of what a config needs: its data, extras, ledger and folders. No data are read and nothing is charged."""

from __future__ import annotations

import glob
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dpcore.errors import MarqueeError
from jobs.diagnosis.findings import Finding, fail, ok, warn
from jobs.diagnosis.machine import EXTRAS, version_of
from jobs.ledger.connection import Database, shown_ledger
from jobs.ledger.schema import layout
from jobs.ledger.sql_ledger import SqlLedger
from jobs.ledger.tables import VERSION as LAYOUT
from jobs.objects.address import is_url
from jobs.permissions import is_shared
from jobs.planning.identity import is_name, local_path
from jobs.planning.job import Job
from jobs.release.publish import STATE_FOLDER

_WAIT: Final = 5.0  # Seconds for a lock of the ledger.


def check_data(job: Job) -> Finding:
    """Whether the data are there and may be read. Neither files nor rows are counted, because both are private."""
    root = job.config.dataset.root
    path = local_path(root)
    if is_name(root) or is_url(path):
        return ok("data", f"{root}; only marquee validate and a run open it")
    known = path if os.path.exists(path) else next(glob.iglob(path, recursive=True), None)
    if known is None:
        return fail("data", f"there is no file at {path}", "correct dataset.path, which may be a folder or a glob")
    if not os.access(known, os.R_OK):
        return fail("data", f"{path} may not be read by this user", "give this user permission to read the data")
    return ok("data", f"{path} exists and may be read; marquee validate checks its content")


def check_needed_extras(job: Job) -> Finding:
    """Whether the extras that the config needs are installed."""
    needed = sorted(needed_extras(job))
    missing = [name for name in needed if version_of(EXTRAS[name]) is None]
    if missing:
        return fail(
            "needs", f"extras not installed: {', '.join(missing)}", f"pip install 'marquee[{','.join(missing)}]'"
        )
    return ok("needs", f"extras of this config: {', '.join(needed) or 'none'}")


def needed_extras(job: Job) -> set[str]:
    """The extras without which a release of the config cannot be made."""
    config = job.config
    wanted = {
        "spark": config.engine.name == "spark",
        "beam": config.engine.name == "beam",
        "postgres": config.privacy.ledger.startswith("postgresql"),
        "objects": is_url(config.output.path),
        "incremental": config.engine.incremental is not None,
        "signature": config.output.signing_key is not None,
    }
    table = config.dataset.table
    return {name for name, needed in wanted.items() if needed} | ({str(table.format)} if table is not None else set())


def check_ledger(job: Job) -> Iterator[Finding]:
    """Whether the ledger can be reached, has this version's layout, and would accept the charge."""
    url = job.config.privacy.ledger
    try:
        database = Database(url, _WAIT)
        shown = database.shown_url
        if not database.exists():
            yield warn("ledger", f"there is no ledger at {shown} yet", _create(job))
            return
        with database.transaction(snapshot=True) as connection:
            version = layout(connection)
    except MarqueeError as error:
        yield fail("ledger", str(error), "correct privacy.ledger, start its server, or restore a backup")
        return
    yield from _layout_findings(job, shown, version)


def _create(job: Job) -> str:
    privacy = job.config.privacy
    return (
        f"create it: marquee budget create --ledger {shlex.quote(shown_ledger(privacy.ledger))} --dataset "
        f"{shlex.quote(job.config.dataset.name)} --epsilon {privacy.epsilon:g} --delta {privacy.delta:g} (or the "
        "totals that you have decided on)"
    )


def _layout_findings(job: Job, shown: str, version: int | None) -> Iterator[Finding]:
    if version is None:
        yield warn("ledger", f"the database {shown} has no tables of a ledger yet", _create(job))
    elif version > LAYOUT:
        yield fail("ledger", f"layout {version} is newer than this marquee's {LAYOUT}", "install the newer marquee")
    elif version < LAYOUT:
        advice = "back it up; the next command that opens it migrates it (marquee budget show, as its owner)"
        yield warn("ledger", f"{shown} has layout {version}, and this marquee needs {LAYOUT}", advice)
    else:
        yield ok("ledger", f"{shown} can be reached, and has layout {LAYOUT}")
        yield _budget_finding(job)


def _budget_finding(job: Job) -> Finding:
    privacy, name = job.config.privacy, job.config.dataset.name
    try:
        budget = SqlLedger(privacy.ledger).dataset(name, privacy.epsilon, privacy.delta)
    except MarqueeError as error:
        return warn("budget", str(error), _create(job))
    if budget.remaining is None or budget.total is None:
        return ok("budget", f"dataset {name!r} has a budget, of which nothing is spent; marquee plan says the charge")
    remaining = f"{float(budget.remaining):.6g} of {float(budget.total):.6g}"
    return ok("budget", f"dataset {name!r} has a budget, of which {remaining} remains; marquee plan says the charge")


def check_folders(job: Job) -> Iterator[Finding]:
    """Whether the folders of the ledger, the journal and the output may be written, and by whom."""
    output = job.config.output.path
    if is_url(output):
        yield ok("output", f"{output}; a run checks that the store keeps conditional writes")
    else:
        yield _folder_finding("output", Path(output).parent)
        if (state := Path(output).parent / STATE_FOLDER).exists():
            yield _folder_finding("state folder", state)
    if (file := _ledger_file(job)) is not None:
        yield _folder_finding("ledger folder", file.parent)
        if file.exists():
            yield _mode_finding(file)


def _folder_finding(check: str, folder: Path) -> Finding:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return fail(
            check, f"{existing} may not be written by this user", "give this user permission, or change the path"
        )
    shared = ", shared with its group" if is_shared(existing) else ""
    later = "" if existing == folder else f"; {folder} will be created"
    return ok(check, f"{existing} may be written{shared}{later}")


def _mode_finding(file: Path) -> Finding:
    """The ledger holds secrets, so that only its owner, or the group of a shared folder, may open it."""
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & 0o077 & ~(0o070 if is_shared(file.parent) else 0):
        return warn("permissions", f"{file} may be opened by other users (mode {mode:04o})", f"chmod 600 {file}")
    if not os.access(file, os.R_OK | os.W_OK):
        return fail("permissions", f"{file} may not be written by this user", "run as its owner, or share its folder")
    return ok("permissions", f"{file} has mode {mode:04o}")


def _ledger_file(job: Job) -> Path | None:
    scheme, _, path = job.config.privacy.ledger.partition(":///")
    return Path(path) if scheme.startswith("sqlite") and path else None
