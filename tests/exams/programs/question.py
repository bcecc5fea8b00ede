"""What the programs of this folder share. They run in environments of their own, without Marquee."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd


class Question:
    """The question that a program was given: the tables as frames, and what is public about them."""

    def __init__(self, rows: int | None = None) -> None:
        self.facts: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
        self.seed = int(self.facts["seed"])
        self.ordered = list(self.facts["ordered"])
        self.names = list(self.facts["sizes"])
        self.secret = str(self.facts["secret"])
        self.released, self.held_out, self.synthetic = (
            self._frame(which, rows) for which in ("released", "held_out", "synthetic")
        )

    def _frame(self, which: str, rows: int | None) -> pd.DataFrame:
        frame = pd.read_parquet(self.facts[which])[self.names]
        return frame if rows is None else frame.sample(min(rows, len(frame)), random_state=self.seed, ignore_index=True)

    @property
    def named(self) -> list[str]:
        """Attributes whose codes are names and not numbers."""
        return [name for name in self.names if name not in self.ordered]


def answer(scores: dict[str, float]) -> None:
    Path(sys.argv[2]).write_text(json.dumps({name: float(value) for name, value in scores.items()}))
