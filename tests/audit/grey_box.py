"""Everything a run shows beside its draws, compared between generated neighbours: nothing may differ."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.sensitivity import Neighbours
from dpcore.mechanisms.continual.continual import Continual
from tests.audit.mechanism_table import TABLES, VERBS, AuditRow, Kind
from tests.audit.neighbours import NeighbourPair, pair
from tests.audit.release_folders import differences
from tests.audit.section import Row, Size
from tests.support.recorder import Scene, Trace, record, used, violations

TITLE = "Grey-box replay on neighbours"
CLAIM = (
    "A run on one dataset is replayed on a generated neighbour with the kernel's draws frozen. Requests, charges, "
    "progress, messages, errors, shapes, post-processing and the release are the same, and every draw saw inputs no "
    "further apart than it was charged for (L1, L2, spread of scores, log-weights or log-chances): no violation. Half "
    "of the pairs are Parquet files that go through the whole pipeline. Folders are pairs of whole releases of which "
    "every published byte, the journal and the log are the same. The last column is the largest part of a charge that "
    "the move of some input accounts for: near 1, a unit that moved it further would have been seen."
)
PAIRS = {Size.FAST: 10, Size.FULL: 400}
FOLDERS = {Size.FAST: 1, Size.FULL: 9}
NAMES = tuple(row.name for row in (*TABLES, *VERBS))
_EPSILONS = (0.1, 1.0, 10.0)
T = TypeVar("T")


@dataclass
class Tally:
    """What the pairs of one mechanism and relation came to. found: Violations, with the seed that shows each."""

    pairs: int = 0
    in_files: int = 0
    compared: int = 0
    used: float = 0.0
    found: list[str] = field(default_factory=list)

    def add(self, seed: int, in_files: bool, traces: tuple[Trace, Trace]) -> None:
        self.pairs += 1
        self.in_files += in_files
        self.compared += traces[0].requests
        self.used = max(self.used, used(*traces))
        self.found += [f"pair {seed}: {problem}" for problem in problems(*traces)]


def run(size: Size, names: Sequence[str] = NAMES) -> list[Row]:
    """The rows of some mechanisms and verbs."""
    return [_row(row, relation, size) for row in (*TABLES, *VERBS) if row.name in names for relation in Neighbours]


def _row(row: AuditRow, relation: Neighbours, size: Size) -> Row:
    tally = Tally()
    for replayed in replays(row, relation, PAIRS[size]):
        tally.add(*replayed)
    folders = FOLDERS[size] if row.release else 0
    differing = [f"folders {seed}: {name}" for seed in range(folders)
                 for name in _folder_differences(row, relation, seed)]  # fmt: skip
    found = tally.found + differing
    cells = {
        "mechanism": row.name,
        "neighbours": relation.value,
        "pairs": tally.pairs,
        "through the pipeline": tally.in_files,
        "requests compared": tally.compared,
        "folders": folders,
        "violations": len(found),
        "the first": found[0] if found else "none",
        "of a charge": tally.used,
    }
    return Row(cells, not found and tally.compared > 0)


def replays(row: AuditRow, relation: Neighbours, pairs: int) -> Iterator[tuple[int, bool, tuple[Trace, Trace]]]:
    """Each seed with whether its pair went through the pipeline, and both traces."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(pairs):
            in_files = seed % 2 == 1
            where = Path(folder) / str(seed) if in_files else None
            kind = _turn(list(row.small), seed // 2)
            positive = row.positive and seed // 8 % 2 == 0
            made = pair(kind, relation, seed, where, one_row=row.one_row, positive=positive, min_items=row.min_items)
            yield seed, in_files, replay(scene(row, kind, made, seed), made)


def scene(row: AuditRow, kind: Kind, made: NeighbourPair, seed: int) -> Scene:
    """Settings, currencies and budgets take turns."""
    mechanism = _turn(row.small[kind], seed // (2 * len(row.small)))
    if isinstance(mechanism, Continual):  # Its steps are values of an attribute of these data.
        queries: Any = made.workload.queries
        mechanism = replace(mechanism, attribute=queries.terms[0].clique[0])
    budget = _budget(_turn(row.currencies, seed), _turn(_EPSILONS, seed // 5))
    return Scene(mechanism, made.workload, made.unit, budget, seed)


def replay(shared: Scene, made: NeighbourPair) -> tuple[Trace, Trace]:
    """A run on the first dataset, and on the neighbour with its draws."""
    first = record(shared, made.first)
    return first, record(shared, made.neighbour, first.draws)


def problems(first: Trace, neighbour: Trace) -> list[str]:
    """Violations; a run that fails shows nothing, so that is one too."""
    failed = [f"the first run raised {event[1]}" for event in first.events if event[0] == "raised"]
    return failed + violations(first, neighbour)


def _folder_differences(row: AuditRow, relation: Neighbours, seed: int) -> list[str]:
    kind, currency = _turn(list(row.release), seed), _turn(row.currencies, seed // len(row.release))
    with tempfile.TemporaryDirectory() as folder:
        return differences(row, kind, relation, currency, seed, Path(folder))


def _budget(currency: Currency, epsilon: float) -> Budget:
    return budget_of(epsilon, 0.0 if currency is Currency.PURE else 1e-6, currency)


def _turn(values: Sequence[T], seed: int) -> T:
    return values[seed % len(values)]
