"""The grey-box audit at a small size, and that it reports what leaks beside the noise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

import jobs.release.run
from dpcore.kernel import privacy_terms as terms
from dpcore.kernel import scales, sensitivity
from dpcore.kernel.budget import Currency
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.kernel.sensitivity import Neighbours
from dpcore.mechanisms.additive_noise import Laplace
from dpcore.mechanisms.api import Mechanism, Plan, Progress, Release, silent, tell_stage
from dpcore.queries import UnitCount
from dpcore.testing.doubles import ADD_REMOVE, REPLACE
from dpcore.uncertainty import of_measurements
from dpcore.workload import Workload
from jobs import log
from jobs.outputs.certificate import write_certificate
from pipelines import contribution
from pipelines.engines.statistics import EngineStatistics
from tests.audit import grey_box
from tests.audit.grey_box import problems, replays, run
from tests.audit.mechanism_table import TABLES, VERBS, AuditRow, Kind
from tests.audit.neighbours import pair
from tests.audit.release_folders import differences
from tests.audit.section import Size

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.

ROWS = {row.name: row for row in (*TABLES, *VERBS)}
PAIRS = 24
Peek = Callable[[PrivateStatistics, Workload, Release, Progress], object]


def test_no_line_of_the_fast_audit_shows_a_violation() -> None:
    rows = run(Size.FAST)
    assert "\n".join(str(row.cells) for row in rows if not row.passed) == ""
    assert all(row.cells["pairs"] == 10 and row.cells["through the pipeline"] == 5 for row in rows)
    # Moves as large as what is charged do occur, so that larger ones would be seen.
    assert {row.cells["mechanism"] for row in rows if float(row.cells["of a charge"]) > 0.99} >= {"laplace", "gaussian"}


def test_the_full_audit_has_at_least_200_pairs_of_each() -> None:
    assert grey_box.PAIRS[Size.FULL] >= 200


def found(row: AuditRow, relation: Neighbours = ADD_REMOVE, pairs: int = PAIRS) -> list[str]:
    return [problem for _, _, traces in replays(row, relation, pairs) for problem in problems(*traces)]


@dataclass(frozen=True)
class Peeking:
    """Laplace, with something that only the kernel may know."""

    peek: Peek

    def plan(self, terms: terms.PrivacyTerms, workload: Workload) -> Plan:
        return Laplace().plan(terms, workload)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        release = Laplace().run(private, workload, generator=generator)
        changed = self.peek(private, workload, release, progress)
        return changed if isinstance(changed, Release) else release


def exact(private: PrivateStatistics) -> int:
    return int(private._exact.of(UnitCount())[0])


def raises(private: PrivateStatistics, *_: object) -> None:
    if exact(private) > 3:
        raise ValueError("more than three")


def adds_the_exact_number(private: PrivateStatistics, _: Workload, release: Release, __: Progress) -> Release:
    return replace(release, answers=replace(release.answers, values=release.answers.values + exact(private)))


def asks_again_for_many(private: PrivateStatistics, workload: Workload, *_: object) -> None:
    queries = workload.queries
    for clique in getattr(queries, "cliques", ((),))[: exact(private) % 2]:
        private.expect(queries.only([clique, ()]))  # type: ignore[union-attr]


LEAKS: dict[str, Peek] = {
    "the exact number of units in the answers": adds_the_exact_number,
    "an error that depends on the data": raises,
    "a line that is printed": lambda private, *_: print(exact(private)),  # noqa: T201
    "a warning": lambda private, *_: warnings.warn(f"{exact(private)} units", stacklevel=1),
    "progress over exact units": lambda private, _, __, progress: progress(exact(private), 100),
    "a stage that names exact units": lambda private, _, __, progress: tell_stage(progress, f"{exact(private)} units"),
    "requests that depend on the data": asks_again_for_many,
}


def rows_of(mechanism: Mechanism) -> AuditRow:
    return AuditRow("planted", (Currency.PURE,), lambda _: (), {Kind.MARGINALS: (mechanism,)})


@pytest.mark.parametrize("leak", LEAKS)
def test_a_mechanism_that_looks_past_the_kernel_is_reported(leak: str) -> None:
    assert found(rows_of(Laplace())) == []
    assert found(rows_of(Peeking(LEAKS[leak]))) != []


@dataclass(frozen=True)
class RoundsOfTheData:
    """Measures as often as the exact answers say."""

    def plan(self, terms: terms.PrivacyTerms, workload: Workload) -> Plan:
        return Laplace().plan(terms, workload)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        for _ in range(exact(private) % 3):
            private.measure(workload.queries, Fraction(1, 8))
        measured = private.measure(workload.queries, Fraction(1, 8))
        return Release(workload, of_measurements([measured]), None, (measured,))


@pytest.mark.smoke
def test_rounds_that_depend_on_exact_data_are_reported() -> None:
    assert any("event" in problem for problem in found(rows_of(RoundsOfTheData())))


def first_rows(hashes: NDArray[np.uint64], starts: NDArray[np.int64], bound: int) -> NDArray[np.bool_]:
    """Which rows lie first: their place in a file, not their own content, decides."""
    kept = np.zeros(hashes.size, dtype=np.bool_)
    for start, stop in pairwise(starts.tolist()):
        kept[start : min(stop, start + bound)] = True
    return kept


AGGREGATE, SELECTION_SCALE = EngineStatistics.aggregate, scales.selection_scale
PLANTED: list[tuple[str, tuple[Any, str, Any], str, Neighbours]] = [
    ("rows kept by their position", (contribution, "_smallest", first_rows), "laplace", ADD_REMOVE),
    ("every unit counted twice", (EngineStatistics, "aggregate", lambda *given: 2 * AGGREGATE(*given)), "laplace",
     ADD_REMOVE),
    ("rows of a unit ignored", (sensitivity, "_rows_of_unit", lambda _: 1), "gaussian", ADD_REMOVE),
    ("replacing counted once", (sensitivity, "_twice_if_replaced", lambda amount, _: amount), "independent", REPLACE),
    ("half the noise", (terms, "noise_scale", lambda *given, law=scales.noise_scale: law(*given) / 2), "measure",
     ADD_REMOVE),
    ("selections twice too sharp", (terms, "selection_scale", lambda *given: SELECTION_SCALE(*given) / 2), "select",
     ADD_REMOVE),
    ("scores that move twice", (L1Error, "sensitivity", lambda *_: 1 << 15), "mwem", REPLACE),
    ("a draw charged in one direction", (terms.PrivacyTerms, "draw_range",
     lambda self, slope, total: abs(slope) / total + Fraction(1, 2**27)), "sample", REPLACE),
    ("bits charged for their ones alone", (terms.PrivacyTerms, "_bit_cost", lambda self, width, gap: width / 2),
     "retain", ADD_REMOVE),
]  # fmt: skip


@pytest.mark.parametrize(("place", "name", "relation"), [row[1:] for row in PLANTED], ids=[row[0] for row in PLANTED])
def test_a_unit_that_moves_more_than_is_charged_is_reported(
    place: tuple[Any, str, Any], name: str, relation: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(ROWS[name], relation) == []
    monkeypatch.setattr(*place)
    assert any("than it was charged for" in problem for problem in found(ROWS[name], relation))


def with_rows_beside(path: Path, job: Any, *more: Any, **named: Any) -> None:
    rows = sum(pq.read_metadata(file).num_rows for file in Path(job.config.dataset.path).glob("*.parquet"))
    (path.parent / "rows.txt").write_text(str(rows))
    write_certificate(path, job, *more, **named)


def with_rows_logged(path: Path, job: Any, *more: Any, **named: Any) -> None:
    files = Path(job.config.dataset.path).glob("*.parquet")
    log.info("written", rows=sum(pq.read_metadata(file).num_rows for file in files))
    write_certificate(path, job, *more, **named)


@pytest.mark.parametrize(("wrong", "where"), [(with_rows_beside, "rows.txt"), (with_rows_logged, "log")])
def test_a_release_folder_that_differs_is_reported(
    wrong: Callable[..., None], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ROWS["independent"]
    assert differences(row, Kind.MARGINALS, ADD_REMOVE, Currency.GDP, 0, tmp_path / "right") == []
    monkeypatch.setattr(jobs.release.run, "write_certificate", wrong)
    shown = differences(row, Kind.MARGINALS, ADD_REMOVE, Currency.GDP, 0, tmp_path / "wrong")
    assert any(name.endswith(where) for name in shown)


@pytest.mark.parametrize("kind", Kind)
def test_generated_neighbours_differ_and_hold_what_breaks_systems(kind: Kind, tmp_path: Path) -> None:
    """Both relations: some pairs differ in every kind of answer, some datasets are empty, bounds cut some units."""
    sizes, moved = set(), 0
    for relation in Neighbours:
        for seed in range(30):
            folder = tmp_path / f"{relation} {seed}" if seed % 2 else None
            min_items = 3 if kind is Kind.ITEMSETS else 1
            made = pair(kind, relation, seed, folder, one_row=False, min_items=min_items)
            one, other = (int(side.aggregate(UnitCount())[0]) for side in (made.first, made.neighbour))
            assert abs(one - other) <= 1
            sizes |= {one, other}
            moved += one != other
    assert {0, 1} < sizes
    assert moved > 15
