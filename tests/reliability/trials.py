"""One fault in one release, and one line of the table that counts such trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.audit.kill_points import look
from tests.audit.section import Row
from tests.audit.small_releases import POSTGRES, SQLITE
from tests.reliability.drivers import Drivers, Ended
from tests.reliability.injections import Action
from tests.reliability.scene import Scene, Trial, disturbed, healed, new_scene
from tests.support.faults import drawn, note_draws
from tests.support.postgres import Server


@dataclass
class Tally:
    """One line of the table while it is counted."""

    trials: list[Trial] = field(default_factory=list)

    def row(self, fault: str, ledger: str, point: str) -> Row:
        codes = sorted({code for trial in self.trials for code in trial.codes})
        cells = {
            "fault": fault,
            "ledger": ledger,
            "point": point,
            "injected": len(self.trials),
            "survived": sum(trial.survived for trial in self.trials),
            "lost": sum(bool(trial.lost) for trial in self.trials),
            "overspent": sum(bool(trial.overspent) for trial in self.trials),
            "exit codes": ", ".join(map(str, codes)),
            "said wrong": "; ".join(self._problems()[:3]),
        }
        return Row(cells, bool(self.trials) and all(trial.survived for trial in self.trials))

    def _problems(self) -> list[str]:
        return [problem for trial in self.trials for problem in (*trial.lost, *trial.overspent, *trial.wrong)]


@dataclass(frozen=True)
class Place:
    """Where releases are made and disturbed. postgres: A server that may be killed."""

    drivers: Drivers
    folder: Path
    postgres: Server | None = None
    numbers: list[int] = field(default_factory=lambda: [0])

    def scene(self, ledger: str = SQLITE, folder: Path | None = None) -> Scene:
        """A new scene."""
        self.numbers[0] += 1
        url = self.postgres.emptied() if ledger == POSTGRES and self.postgres is not None else None
        return new_scene(folder or self.folder / str(self.numbers[0]), url)

    def disturb(
        self,
        scene: Scene,
        prepare: Sequence[Action],
        codes: Sequence[int],
        heal: Callable[[], object],
        mended: Action | None = None,
    ) -> Trial:
        """One run with a fault, ``heal``, and one run without. mended: What every process needs that has no fault."""
        ended = self.drivers.run(scene.config, partial(note_draws, scene.tally), *prepare)
        heal()
        return self.judged(scene, [ended], codes, mended)

    def judged(self, scene: Scene, ended: Sequence[Ended], codes: Sequence[int], mended: Action | None = None) -> Trial:
        """The verdict over runs that have ended, and over the run after them."""
        trial = disturbed(scene, ended, drawn(scene.tally), codes)
        healed(scene, self.drivers, look(scene.config), trial, mended)
        return trial
