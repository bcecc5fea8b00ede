"""A small release to be disturbed, and what must hold of it afterwards, whatever has happened."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from dpcore.errors import IntegrityError
from jobs import log
from jobs.ledger import SqlLedger
from jobs.planning.job import Job, load_job
from jobs.release.run import release
from jobs.verification.release import verify_release
from tests.audit.kill_points import Left, charged_enough, files_of, look
from tests.audit.small_releases import SHAPES
from tests.reliability.drivers import Drivers, Ended, Prepare
from tests.support.faults import drawn, note_draws, noted_draws

KILLED = -9
DOCUMENTED = (0, 2, 3, 4, 5, 6, 7, 70)
ANSWERS = 11  # Of the release: the total, four one-way marginals, and two for each of three rounds.
_SENTENCE = re.compile(r"^marquee: \S.*$", re.MULTILINE)


@dataclass(frozen=True)
class Scene:
    """A config beside its data. The ledger has the budget for this release alone.

    config: The config file. ledger: URL of the ledger.
    """

    config: Path
    ledger: str

    @property
    def folder(self) -> Path:
        return self.config.parent

    @property
    def out(self) -> Path:
        """What holds the output and the journal."""
        return self.folder / "out"

    @property
    def tally(self) -> Path:
        """Where draws are noted, which no fault may reach."""
        return self.folder.with_name(f"{self.folder.name}-draws")

    @property
    def data(self) -> list[Path]:
        return sorted((self.folder / "data").iterdir())

    def job(self) -> Job:
        return load_job(self.config)

    def change(self, section: str, **values: object) -> None:
        """Changes keys of one section of the config."""
        document: dict[str, Any] = yaml.safe_load(self.config.read_text())
        document.setdefault(section, {}).update(values)
        self.config.write_text(yaml.safe_dump(document, sort_keys=False))


def new_scene(folder: Path, ledger: str | None = None) -> Scene:
    """300 people in three files. ledger: URL of an empty database; a file beside the data by default."""
    return Scene(SHAPES["table"](folder, "local", ledger), ledger or f"sqlite:///{folder / 'ledger.db'}")


@dataclass
class Trial:
    """What came of one fault.

    codes: Exit codes of the disturbed runs. lost, overspent: What must not be; empty otherwise. wrong: Anything else.
    """

    codes: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    overspent: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def survived(self) -> bool:
        return not (self.lost or self.overspent or self.wrong)


def disturbed(scene: Scene, ended: Sequence[Ended], made: Sequence[Fraction], codes: Sequence[int]) -> Trial:
    """Judges what disturbed runs left. made: The draws of the last. codes: The exit codes that this fault may have."""
    trial = Trial(codes=[run.code for run in ended])
    left = look(scene.config)
    trial.wrong += [f"exit code {run.code}: {run.said[-300:]}" for run in ended if run.code not in codes]
    # Spark and Beam write to the same stream, with tracebacks of their own.
    alone = scene.job().config.engine.name == "local"
    trial.wrong += [f"said {run.said!r}" for run in ended if run.code not in (0, KILLED) and not _explained(run, alone)]
    if left.output == "partial":
        trial.wrong.append("partial output is visible")
    _charges(scene, left, made, trial)
    return trial


def healed(scene: Scene, drivers: Drivers, left: Left, trial: Trial, mended: Prepare | None = None) -> None:
    """Runs the release again without a fault, and judges what it published.

    left: What there was of it before. mended: What every process needs that has no fault.
    """
    tally = scene.tally
    failures, before = sum(code != 0 for code in trial.codes), len(drawn(tally))
    if mended is not None:
        mended()
    again = drivers.run(scene.config, partial(note_draws, tally), *([mended] if mended is not None else ()))
    if again.code:
        trial.lost.append(f"run again, it ends with {again.code}: {again.said[-300:]}")
        return
    end, made = look(scene.config), drawn(tally)
    if (end.output, end.answers) != ("whole", ANSWERS):
        trial.lost.append(f"run again, there are {end.answers} answers and the output is {end.output}")
    if not end.stored.startswith(left.stored):
        trial.lost.append("stored answers have changed")
    if len(made) - before > ANSWERS - left.answers:
        trial.overspent.append("stored answers were drawn again")
    if len(made) > ANSWERS + failures:
        trial.overspent.append(f"{len(made)} draws in {failures} failed runs, of {ANSWERS} answers")
    _charges(scene, end, made[before:], trial)
    if end.charges != 1:
        trial.overspent.append(f"{end.charges} charges")
    trial.lost += published_badly(scene.job(), scene.ledger)
    trial.lost += _replay(scene)


def published_badly(job: Job, ledger: str) -> list[str]:
    """What ``marquee verify --ledger`` finds wrong with the release of a job."""
    failures = verify_release(job.output, SqlLedger(ledger)).failures
    return [f"verify: {finding.check}: {finding.text}" for finding in failures]


def _replay(scene: Scene) -> list[str]:
    """Publishes the release once more from its journal alone, and compares the bytes."""
    job = scene.job()
    published, tally = files_of(job.output), scene.tally.with_suffix(".replay")
    shutil.rmtree(job.output)
    with redirect_stderr(io.StringIO()), noted_draws(tally):
        log.configure(log.LogFormat.TEXT)
        release(job)
    problems = ["the journal implies other bytes than were published"] if files_of(job.output) != published else []
    return problems + (["a replay drew noise"] if drawn(tally) else [])


def _charges(scene: Scene, left: Left, made: Sequence[Fraction], trial: Trial) -> None:
    if left.charges > 1:
        trial.overspent.append(f"{left.charges} charges of one release")
    if not charged_enough(left, made, scene.config):
        trial.lost.append(f"charged {float(left.charged):.3g}, drawn {float(sum(made, Fraction(0))):.3g}")
    try:
        budget = SqlLedger(scene.ledger).verified("people")
    except IntegrityError as error:
        trial.overspent.append(str(error))
        return
    if budget.spent > (budget.total or 0) or (left.charges and budget.spent != left.charged):
        trial.overspent.append("the recorded spending is not the sum of the charges, or above the total")


def _explained(run: Ended, alone: bool) -> bool:
    """Whether a failed run says what happened in one sentence. alone: Nobody else writes, so there is no traceback."""
    return len(_SENTENCE.findall(run.said)) == 1 and not (alone and "Traceback" in run.said)
