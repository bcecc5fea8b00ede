"""The files of all candidates of a table and a seed, made once and kept under out/exams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.exams.bridge import Question, question
from tests.exams.candidates import CANDIDATES, Candidate
from tests.exams.releases import marquee
from tests.exams.tables import Table, adult, census, split
from tests.support.datasets import ROOT

OUT = ROOT / "out" / "exams"
CENSUS_ROWS = 30_000


@dataclass(frozen=True, eq=False)
class Material:
    """The candidates of a table whose rows were divided by ``seed``. rows: In the part that is released."""

    table: Table
    seed: int
    rows: int
    folder: Path

    def question(self, candidate: Candidate) -> Question:
        return question(self.folder, self.table, self.folder / f"{_plain(candidate.name)}.parquet", self.seed)


def tables() -> list[Table]:
    """The generated census table, and Adult where the shared data exist."""
    path = OUT / "census"
    if not path.is_dir():
        OUT.mkdir(parents=True, exist_ok=True)
        marquee("generate", "table", path, "--rows", str(CENSUS_ROWS), "--files", "1")
    real = adult()
    return [census(path), *([real] if real is not None else [])]


def prepared(table: Table, seed: int) -> Material:
    """Writes what is not there yet."""
    folder = OUT / f"{table.name}-{seed}"
    parts = split(table, seed)
    parts.released.write(folder / "released.parquet", unit=False)
    parts.held_out.write(folder / "held_out.parquet", unit=False)
    for candidate in CANDIDATES:
        path = folder / f"{_plain(candidate.name)}.parquet"
        if not path.exists():
            print(f"exams: {table.name}, seed {seed}: {candidate.name}", flush=True)
            rows = candidate.make(parts, seed, folder / "releases" / _plain(candidate.name))
            rows.write(path.with_suffix(".partial"), unit=False).rename(path)
    return Material(table, seed, parts.released.rows, folder)


def _plain(name: str) -> str:
    return name.replace(",", "").replace(" ", "_")
