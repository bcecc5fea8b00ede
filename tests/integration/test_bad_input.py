"""Every wrong input of a run gives an exit code and one sentence that names it; nothing is written or charged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.releases import World, baskets_world, table_world


@dataclass(frozen=True)
class Case:
    """One wrong input, its exit code, and what the sentence must name."""

    name: str
    code: int
    names: tuple[str, ...]
    spoil: Callable[[World], object]
    baskets: bool = False


def part(world: World, index: int = 1) -> Path:
    return world.folder / "data" / f"part-{index}.parquet"


def rewritten(world: World, change: Callable[[pa.Table], pa.Table], index: int = 1) -> None:
    pq.write_table(change(pq.read_table(part(world, index))), part(world, index))


def truncate(world: World) -> None:
    part(world).write_bytes(part(world).read_bytes()[:-100])


def emptied(world: World) -> None:
    for path in (world.folder / "data").iterdir():
        path.unlink()


def ages_as_text(table: pa.Table) -> pa.Table:
    return table.set_column(table.column_names.index("age"), "age", table.column("age").cast(pa.string()))


def wide(world: World) -> None:
    attributes = "".join(f"  - {{name: a{index}, type: integer, edges: {list(range(60))}}}\n" for index in range(40))
    (world.folder / "people.schema.yaml").write_text(f"version: 1\nattributes:\n{attributes}")


def spent(world: World) -> None:
    assert world.run()[0] == 0
    world.set("dataset.snapshot", "next")
    world.set("output.path", "out/next")


def bound_elsewhere(world: World) -> None:
    assert world.run()[0] == 0
    world.set("dataset.path", "other")
    (world.folder / "data").rename(world.folder / "other")


def second_name(world: World) -> None:
    assert world.run()[0] == 0
    world.set("dataset.name", "people2")
    world.set("output.path", "out/second")
    world.budget(name="people2")


def foreign_output(world: World) -> None:
    (world.folder / "out" / "people").mkdir(parents=True)
    (world.folder / "out" / "people" / "notes.txt").write_text("mine")


def another_release(world: World) -> None:
    assert world.run()[0] == 0
    world.set("dataset.snapshot", "next")


CASES = [
    Case("no config", 2, ("release.yaml",), lambda w: (w.folder / "release.yaml").unlink()),
    Case("missing file", 3, ("data/none.parquet",), lambda w: w.set("dataset.path", "data/none.parquet")),
    Case("empty glob", 3, ("data/*.parquet",), emptied),
    Case("empty folder", 3, ("data",), lambda w: (emptied(w), w.set("dataset.path", "data"))),
    Case("unknown store", 3, ("nostore://",), lambda w: w.set("dataset.path", "nostore://bucket/x")),
    Case("not Parquet", 3, ("part-1.parquet",), lambda w: part(w).write_text("unit,sex\n1,male\n" * 20)),
    Case("an empty file", 3, ("part-1.parquet",), lambda w: part(w).write_bytes(b"")),
    Case("truncated file", 3, ("part-1.parquet",), truncate),
    Case("a column less in one file", 3, ("part-1", "'sex'"), lambda w: rewritten(w, lambda t: t.drop(["sex"]))),
    Case("types that differ", 3, ("part-1", "'person'"), lambda w: rewritten(w, lambda t: t.set_column(
        0, "person", t.column("person").cast(pa.string())))),
    Case("missing unit column", 3, ("'nobody'",), lambda w: w.set("dataset.unit", "nobody")),
    Case("missing item column", 3, ("'thing'",), lambda w: w.set("dataset.item", "thing"), baskets=True),
    Case("item column of floats", 3, ("'item'",), lambda w: rewritten(w, lambda t: t.set_column(
        1, "item", t.column("item").cast(pa.float64())), 0), baskets=True),
    Case("wrong column type", 3, ("part-1", "'age'"), lambda w: rewritten(w, ages_as_text)),
    Case("no schema", 2, ("none.yaml",), lambda w: w.set("dataset.schema", "none.yaml")),
    Case("bad schema", 2, ("people.schema.yaml",), lambda w: (w.folder / "people.schema.yaml").write_text("x: 1")),
    Case("domain too large", 2, ("cells", "want at most", "independent"), lambda w: (
        wide(w), w.set("workload", {"marginals": {"order": 1}}), w.set("mechanism.profile", "published"))),
    Case("workload too large", 2, ("workload", "dual_query"), lambda w: (
        wide(w), w.set("workload", {"marginals": {"order": 4}}))),
    Case("epsilon 0", 2, ("privacy.epsilon", "> 0"), lambda w: w.set("privacy.epsilon", 0)),
    Case("epsilon 101", 2, ("privacy.epsilon", "<= 100"), lambda w: w.set("privacy.epsilon", 101)),
    Case("delta -1", 2, ("privacy.delta", ">= 0"), lambda w: w.set("privacy.delta", -1)),
    Case("delta 1", 2, ("privacy.delta", "< 1"), lambda w: w.set("privacy.delta", 1)),
    Case("replacing without a number", 2, ("units",), lambda w: w.set("privacy.neighbours", "replace_one_unit")),
    Case("more than the ledger has", 4, ("people", "rho", "remains"), lambda w: w.set("privacy.epsilon", 2)),
    Case("all is spent", 4, ("people", "rho", "remains"), spent),
    Case("no budget", 4, ("marquee budget create", "--dataset other"), lambda w: w.set("dataset.name", "other")),
    Case("no ledger", 4, ("marquee budget create", "none.db"), lambda w: w.set(
        "privacy.ledger", "sqlite:///none.db")),
    Case("ledger of unknown kind", 2, ("ledger",), lambda w: w.set("privacy.ledger", "nonsense")),
    Case("unknown mechanism", 2, ("'mwen'", "'mwem'"), lambda w: w.set("mechanism", {"name": "mwen"})),
    Case("unknown setting", 2, ("'round'", "'rounds'"), lambda w: w.set("mechanism", {"name": "mwem", "round": 1})),
    Case("unknown key", 2, ("'epsilno'", "'epsilon'"), lambda w: w.set("privacy.epsilno", 1)),
    Case("unknown attribute", 2, ("'sexx'",), lambda w: w.set("workload.marginals.attributes", ["sexx", "age"])),
    Case("order too high", 2, ("order 9",), lambda w: w.set("workload.marginals.order", 9)),
    Case("gaussian without delta", 2, ("delta",), lambda w: (
        w.set("mechanism", {"name": "gaussian"}), w.set("privacy.delta", 0))),
    Case("laplace with delta", 2, ("delta",), lambda w: w.set("mechanism", {"name": "laplace"})),
    Case("mwem of conjunctions", 2, ("marginals",), lambda w: w.set(
        "workload", {"conjunctions": {"count": 3, "order": 2}})),
    Case("rows without a model", 2, ("synthetic_rows",), lambda w: (
        w.set("mechanism", {"name": "gaussian"}), w.set("output.synthetic_rows", 5))),
    Case("a report", 2, ("report",), lambda w: w.set("output.report", True)),
    Case("output elsewhere", 2, ("output.path",), lambda w: w.set("output.path", "s3://bucket/out")),
    Case("output of something else", 2, ("out/people",), foreign_output),
    Case("output of another release", 2, ("out/people",), another_release),
    Case("a name with two paths", 2, ("'people'", "bound"), bound_elsewhere),
    Case("a path with two names", 2, ("'people'",), second_name),
    Case("unknown engine", 2, ("engine.name",), lambda w: w.set("engine", {"name": "dask"})),
    Case("unknown option", 2, ("'thread'", "'threads'"), lambda w: w.set(
        "engine", {"name": "local", "options": {"thread": 1}})),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    world = (baskets_world if case.baskets else table_world)(tmp_path, capsys)
    world.budget()
    case.spoil(world)
    before = world.files()
    code, out, err = world.run()
    assert (code, out) == (case.code, ""), err
    sentences = [line for line in err.splitlines() if line.startswith("marquee: ")]
    assert len(sentences) == 1, err
    assert err.endswith(sentences[0] + "\n")
    assert all(name in sentences[0] for name in case.names), err
    assert "Traceback" not in err
    assert world.files() == before


def without_a_proof(world: World) -> None:
    """No proof bounds the draws of DualQuery where a unit has several rows."""
    world.set("dataset.max_rows_per_unit", 2)
    world.config["workload"] = {"conjunctions": {"count": 5, "order": 2}}
    world.set("mechanism", {"name": "dual_query"})


def replaced_in_private(world: World) -> None:
    """Replacing a unit needs a public number of units; a private number is refused."""
    world.set("privacy.neighbours", "replace_one_unit")


@pytest.mark.parametrize(("spoil", "names"), [
    (without_a_proof, "has a proof for units of one row"), (replaced_in_private, "needs a public number"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_what_has_no_proof_is_refused_by_every_command(
    command: str,
    spoil: Callable[[World], None],
    names: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    spoil(world)
    code, out, err = world.marquee(command, "release.yaml")
    assert (code, out, names in err) == (2, "", True), err
    assert world.charges() == 0
