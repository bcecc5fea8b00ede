"""Runs of a release with everything durable elsewhere: data, output and journal in a store, the ledger in PostgreSQL.

    python -m tests.support.stored_runs POINT TALLY CONFIG

runs ``marquee run CONFIG`` in a process that is killed at a named point of a release in an object store.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.support.datasets import ROOT
from tests.support.faults import Point, When, arm

_LEDGER, _FOLDER = "jobs.ledger:SqlLedger", "jobs.objects.folder:StoredFolder"
_CREATE, _DRAW = f"{_FOLDER}.create", "the kernel:draw"
_BEFORE, _AFTER = When.BEFORE, When.AFTER
POINTS = (
    Point("store probed", _CREATE, _AFTER, argument="probe"),
    Point("charged", f"{_LEDGER}.reserve", _AFTER),
    Point("first draw, not stored", _DRAW, _AFTER),
    Point("ledger named, no answer stored", _CREATE, _AFTER, argument="ledger"),
    Point("first answer, before it is stored", _CREATE, _BEFORE, argument="000000.json"),
    Point("first answer, stored, unknown to the ledger", _CREATE, _AFTER, argument="000000.json"),
    Point("4th answer, stored, unknown to the ledger", _CREATE, _AFTER, argument="000003.json"),
    Point("4th answer, told to the ledger, not committed", f"{_LEDGER}.record_answer", When.IN_COMMIT, 4),
    Point("4th answer, known to the ledger", f"{_LEDGER}.record_answer", _AFTER, 4),
    Point("estimated", f"{_LEDGER}.advance", _AFTER, argument="estimated"),
    Point("certificate written", "jobs.release.run:write_certificate", _AFTER),
    Point("one file staged", f"{_FOLDER}.upload", _AFTER),
    Point("all files staged", _CREATE, _BEFORE, argument="manifest.json"),
    Point("manifest written, unknown to the ledger", _CREATE, _AFTER, argument="manifest.json"),
    Point("manifest known to the ledger", f"{_LEDGER}.record_manifest", _AFTER),
    Point("one file copied", f"{_FOLDER}.copy", _AFTER),
    Point("all files copied", _CREATE, _BEFORE, argument="_SUCCESS"),
    Point("_SUCCESS written", _CREATE, _AFTER, argument="_SUCCESS"),
    Point("staged files deleted", f"{_FOLDER}.delete", _AFTER),
    Point("published", f"{_LEDGER}.advance", _AFTER, argument="published"),
)


@dataclass(frozen=True)
class Machine:
    """A fresh machine: nothing on it is older than the run, and nothing of it is left afterwards.

    folder: Its home, temporary and working folder, and what a config needs beside the data.
    """

    folder: Path

    def run(self, config: Path, where: Point | None = None, tally: Path | None = None) -> tuple[int, str]:
        """Copies a config and its schema here, and runs the release; exit code and stderr.

        where: Where the process is killed. tally: Gets a line a draw.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("home", "temporary", "work"):
            (self.folder / name).mkdir(parents=True)
        work = self.folder / "work"
        shutil.copy(config, work)
        shutil.copy(config.parent / "people.schema.yaml", work)
        places = {"HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "temporary")}
        arguments = [where.name if where else "", str(tally or self.folder / "draws"), config.name]
        done = subprocess.run(
            [sys.executable, "-m", __name__, *arguments],
            cwd=work,
            env={
                **os.environ,
                **{key: str(self.folder / name) for key, name in places.items()},
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stderr

    def written(self) -> set[str]:
        """What a run has left on the machine, except what was copied there before it."""
        files = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()}
        return files - {"work/release.yaml", "work/people.schema.yaml", "draws"}


def moved_to(config: Path, data: str, output: str) -> None:
    """Rewrites a config to other data and another output."""
    document = yaml.safe_load(config.read_text())
    document["dataset"]["path"], document["output"]["path"] = data, output
    document["dataset"]["schema"] = "people.schema.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))


def main(arguments: Sequence[str]) -> None:
    from jobs import cli
    from tests.support.faults import note_draws

    name, tally, config = arguments
    if name:
        arm(next(point for point in POINTS if point.name == name), Path(tally))
    else:
        note_draws(Path(tally))
    cli.main(["run", config])


if __name__ == "__main__":
    main(sys.argv[1:])
