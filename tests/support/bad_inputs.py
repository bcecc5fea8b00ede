"""Wrong inputs of ``marquee run``: what a person may write, damage or lose, and the exit code that each must give."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from jobs.ledger import SqlLedger
from tests.support.releases import SCHEMA, World

Spoil = Callable[[World], object]


@dataclass(frozen=True)
class Case:
    """One wrong input.

    name: What is wrong.
    code: The exit code.
    spoil: Makes a valid world wrong.
    baskets: Whether the data are baskets rather than a table.
    config: The config file on the command line.
    """

    name: str
    code: int
    spoil: Spoil
    baskets: bool = False
    config: str = "release.yaml"


def setting(place: str, value: object) -> Spoil:
    """Sets one key of the config."""
    return lambda world: world.set(place, value)


def appended(text: str, file: str = "release.yaml") -> Spoil:
    """Adds text at the end of a file."""
    return lambda world: (world.folder / file).write_text((world.folder / file).read_text() + text)


def replaced(old: str, new: str, file: str = "release.yaml") -> Spoil:
    """Replaces text in a file."""

    def spoil(world: World) -> None:
        before = (world.folder / file).read_text()
        assert old in before
        (world.folder / file).write_text(before.replace(old, new, 1))

    return spoil


def written(content: str | bytes, file: str = "release.yaml") -> Spoil:
    """Writes a whole file."""
    data = content.encode() if isinstance(content, str) else content
    return lambda world: (world.folder / file).write_bytes(data)


def encoded(encoding: str, file: str = "release.yaml") -> Spoil:
    """Saves a text file in another encoding."""
    return lambda world: (world.folder / file).write_bytes(
        ("# caf\u00e9\n" + (world.folder / file).read_text()).encode(encoding)
    )


def attribute(entry: str) -> Spoil:
    """A schema of one attribute, ``a``."""
    return written(f"version: 1\nattributes:\n  - {{name: a, {entry}}}\n", SCHEMA_FILE)


def both(*spoils: Spoil) -> Spoil:
    """Several changes, one after the other."""
    return lambda world: [spoil(world) for spoil in spoils]


def queries(content: str | bytes, name: str = "q.csv") -> Spoil:
    """A file of listed queries."""
    return both(
        written(content, name),
        setting("workload", {"conjunctions": {"file": name}}),
        setting("mechanism", {"name": "dqrs"}),
    )


def weights(content: str | bytes, name: str = "w.csv") -> Spoil:
    """A file of column weights."""
    section = {"count": 3, "order": 2, "weights": "file", "weights_file": name}
    return both(
        written(content, name), setting("workload", {"conjunctions": section}), setting("mechanism", {"name": "dqrs"})
    )


def workload(**section: Any) -> Spoil:
    """Another workload."""
    return setting("workload", section)


def mechanism(name: str, **settings: Any) -> Spoil:
    """Another mechanism."""
    return setting("mechanism", {"name": name, **settings})


def part(world: World, index: int = 1) -> Path:
    """One data file."""
    return world.folder / "data" / f"part-{index}.parquet"


def rewritten(change: Callable[[pa.Table], pa.Table], index: int = 1) -> Spoil:
    """Changes the rows of one data file."""
    return lambda world: pq.write_table(change(pq.read_table(part(world, index))), part(world, index))


def cast(column: str, kind: pa.DataType, index: int = 1) -> Spoil:
    """Changes the type of one column in one data file."""

    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.column_names.index(column), column, table.column(column).cast(kind))

    return rewritten(change, index)


def emptied(world: World) -> None:
    for path in (world.folder / "data").iterdir():
        path.unlink()


def wide(world: World) -> None:
    attributes = "".join(f"  - {{name: a{index}, type: integer, edges: {list(range(60))}}}\n" for index in range(40))
    (world.folder / SCHEMA_FILE).write_text(f"version: 1\nattributes:\n{attributes}")


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


def second_name_of_copies(world: World) -> None:
    second_name(world)
    shutil.copytree(world.folder / "data", world.folder / "copies")
    world.set("dataset.path", "copies")


def second_name_of_row_groups(world: World) -> None:
    second_name_of_copies(world)
    files = sorted((world.folder / "copies").iterdir())
    tables = [pq.read_table(file) for file in files]
    for file in files:
        file.unlink()
    with pq.ParquetWriter(files[0], tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)


def foreign_output(world: World) -> None:
    (world.folder / "out" / "people").mkdir(parents=True)
    (world.folder / "out" / "people" / "notes.txt").write_text("mine")


def another_release(world: World) -> None:
    assert world.run()[0] == 0
    world.set("dataset.snapshot", "next")


def second_ledger(world: World) -> None:
    assert world.run()[0] == 0
    SqlLedger("sqlite:///second.db").create_dataset("people", 1.0, 1e-6)
    world.set("privacy.ledger", "sqlite:///second.db")


def changed_data(world: World) -> None:
    assert world.run()[0] == 0
    emptied(world)
    pq.write_table(
        pa.table({"person": [1], "sex": ["male"], "work": ["none"], "age": [3], "home": [True]}), part(world)
    )


def changed_output(world: World) -> None:
    assert world.run()[0] == 0
    (world.folder / "out/people/certificate.json").write_text("{}")


def damaged_ledger(world: World) -> None:
    path = world.folder / "marquee.db"
    content = bytearray(path.read_bytes())
    content[100:8192] = b"\xff" * (8192 - 100)
    path.write_bytes(content)


SCHEMA_FILE = "people.schema.yaml"
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
DEEP = "x: " + "[" * 5000 + "]" * 5000 + "\n"
MANY = f"type: categorical, values: [{', '.join(f'v{n}' for n in range(10**6))}]"
CSV = "person,sex\n1,male\n"
PARQUET = b"PAR1" + b"\x15\x04\xff" * 50 + b"PAR1"

CASES: dict[str, list[Case]] = {
    "The config file": [
        Case("no config", 2, lambda w: (w.folder / "release.yaml").unlink()),
        Case("a folder as config", 2, lambda w: None, config="data"),
        Case("an endless file as config", 2, lambda w: None, config="/dev/zero"),
        Case("a config of 5 MB", 2, appended("#" * (5 << 20))),
        Case("a name of 300 letters as config", 2, lambda w: None, config="x" * 300),
        Case("an empty config", 2, written("")),
        Case("a list as config", 2, written("- dataset\n")),
        Case("Parquet as config", 2, written(PARQUET)),
        Case("config saved as UTF-16", 2, encoded("utf-16")),
        Case("config saved as UTF-32", 2, encoded("utf-32")),
        Case("config saved as Latin-1", 2, encoded("latin-1")),
        Case("a key given twice", 2, appended("output: {path: out}\n")),
        Case("a key given twice in a section", 2, replaced("  epsilon: 1.0\n", "  epsilon: 1.0\n  epsilon: 3.0\n")),
        Case("merge keys", 2, replaced("  epsilon: 1.0\n", "  <<: {epsilon: 1.0}\n")),
        Case("a list as key", 2, appended("[a, b]: 1\n")),
        Case("an alias bomb", 2, appended(BOMB)),
        Case("an alias within its own anchor", 2, appended("x: &x [*x]\n")),
        Case("nested 5,000 deep", 2, appended(DEEP)),
        Case("indented with a tab", 2, appended("engine:\n\tname: local\n")),
        Case("a bracket left open", 2, appended("engine: {name: local\n")),
        Case("two documents", 2, appended("---\nx: 1\n")),
        Case("a Python object", 2, appended("x: !!python/object/apply:os.system [ls]\n")),
        Case("a set", 2, appended("engine: !!set {a, b}\n")),
        Case("a snapshot 010 without quotes", 2, replaced("2026-11", "010")),
        Case("a snapshot 12:30 without quotes", 2, replaced("2026-11", "12:30")),
        Case("a snapshot 2026.11 without quotes", 2, replaced("2026-11", "2026.11")),
    ],
    "The keys of the config": [
        Case("unknown key", 2, setting("privacy.epsilno", 1)),
        Case("unknown section", 2, setting("mechanisms", {"name": "mwem"})),
        Case("no privacy", 2, lambda w: (w.config.pop("privacy"), w.save())),
        Case("three problems at once", 2, both(
            setting("privacy.epsilon", -1), setting("dataset.shape", "tables"), setting("output.path", 3))),
        Case("epsilon 0", 2, setting("privacy.epsilon", 0)),
        Case("epsilon 101", 2, setting("privacy.epsilon", 101)),
        Case("epsilon as text", 2, setting("privacy.epsilon", "one")),
        Case("epsilon not a number", 2, setting("privacy.epsilon", float("nan"))),
        Case("epsilon infinite", 2, setting("privacy.epsilon", float("inf"))),
        Case("delta -1", 2, setting("privacy.delta", -1)),
        Case("delta 1", 2, setting("privacy.delta", 1)),
        Case("a variable that is not set", 2, setting("dataset.snapshot", "${NO_SUCH_DAY}")),
        Case("units 0", 2, setting("privacy.units", 0)),
        Case("replacing without a number", 2, setting("privacy.neighbours", "replace_one_unit")),
        Case("a table without a schema", 2, lambda w: (w.config["dataset"].pop("schema"), w.save())),
        Case("items in a table", 2, setting("dataset.items", 3)),
        Case("rows without a model", 2, both(mechanism("gaussian"), setting("output.synthetic_rows", 5))),
        Case("a report", 2, setting("output.report", True)),
        Case("unknown engine", 2, setting("engine", {"name": "dask"})),
        Case("unknown option", 2, setting("engine", {"name": "local", "options": {"thread": 1}})),
    ],
    "The schema": [
        Case("no schema", 2, setting("dataset.schema", "none.yaml")),
        Case("a folder as schema", 2, setting("dataset.schema", "data")),
        Case("a zero byte in the schema's path", 2, setting("dataset.schema", "a\0b")),
        Case("another file as schema", 2, written("x: 1", SCHEMA_FILE)),
        Case("schema saved as UTF-16", 2, encoded("utf-16", SCHEMA_FILE)),
        Case("a key given twice in the schema", 2, replaced("- name: sex\n", "- name: x\n  name: y\n", SCHEMA_FILE)),
        Case("merge keys in the schema", 2, attribute("<<: {type: boolean}")),
        Case("an alias bomb in the schema", 2, appended(BOMB, SCHEMA_FILE)),
        Case("a schema nested 5,000 deep", 2, appended(DEEP, SCHEMA_FILE)),
        Case("postcodes 00123 without quotes", 2, attribute("type: categorical, values: [00123, 00124]")),
        Case("postcodes 00899 without quotes", 2, attribute("type: categorical, values: [00899, 00900]")),
        Case("times 12:30 without quotes", 2, attribute("type: categorical, values: [12:30, 13:30]")),
        Case("values of two types", 2, attribute("type: categorical, values: [a, 1]")),
        Case("values with a decimal number", 2, attribute("type: categorical, values: [1.5, 2.5]")),
        Case("a value twice", 2, attribute("type: categorical, values: [a, b, a]")),
        Case("no values", 2, attribute("type: categorical, values: []")),
        Case("a million categories", 2, attribute(MANY)),
        Case("ten million bins", 2, attribute("type: float, bins: {low: 0, high: 1, count: 10000000}")),
        Case("edges that overlap", 2, attribute("type: integer, edges: [0, 40, 18, 65]")),
        Case("an edge twice", 2, attribute("type: integer, edges: [0, 18, 18, 65]")),
        Case("one edge", 2, attribute("type: integer, edges: [0]")),
        Case("an edge that is no number", 2, attribute("type: float, edges: [0, .nan, 2]")),
        Case("an edge that is no date", 2, attribute("type: date, edges: [2026-13-01, 2026-14-01]")),
        Case("bins upside down", 2, attribute("type: float, bins: {low: 9, high: 1, count: 3}")),
        Case("unknown type", 2, attribute("type: catgorical, values: [a]")),
        Case("two attributes of one name", 2, lambda w: (w.folder / SCHEMA_FILE).write_text(yaml.safe_dump(
            {**SCHEMA, "attributes": [*SCHEMA["attributes"], SCHEMA["attributes"][3]]}))),
        Case("no attributes", 2, written("version: 1\nattributes: []\n", SCHEMA_FILE)),
        Case("domain too large", 2, both(
            wide, workload(marginals={"order": 1}), setting("mechanism.profile", "published"))),
    ],
    "The workload": [
        Case("two kinds of queries", 2, setting("workload.parities", {"order": 2})),
        Case("unknown attribute", 2, setting("workload.marginals.attributes", ["sexx", "age"])),
        Case("order too high", 2, setting("workload.marginals.order", 9)),
        Case("order a billion", 2, setting("workload.marginals.order", 10**9)),
        Case("up to order a billion", 2, workload(marginals={"up_to_order": 10**9})),
        Case("a billion attributes around a target", 2, workload(marginals={"order": 10**9, "target": "sex"})),
        Case("a billion skewed marginals", 2, workload(marginals={"order": 2, "skewed": {"count": 10**9}})),
        Case("workload too large", 2, both(wide, workload(marginals={"order": 4}))),
        Case("a weight that is no number", 2, workload(
            marginals={"cliques": [{"attributes": ["sex"], "weight": float("nan")}]})),
        Case("a hundred million queries", 2, both(
            workload(conjunctions={"count": 10**8, "order": 2}), mechanism("dqrs"))),
        Case("conjunctions of a billion literals", 2, both(
            workload(conjunctions={"count": 3, "order": 10**9}), mechanism("dqrs"))),
        Case("a hundred million conjunctions of items", 2, setting("workload.conjunctions.count", 10**8), baskets=True),
        Case("conjunctions of a billion items", 2, setting("workload.conjunctions.order", 10**9), baskets=True),
        Case("a hundred million parities", 2, both(
            workload(parities={"count": 10**8, "order": 2}), mechanism("dqrs"))),
        Case("an unknown value in a group", 2, both(
            workload(products=[{"attributes": {"sex": {"groups": [["malle"]]}}}]), mechanism("hdmm"))),
        Case("marginals of baskets", 2, workload(marginals={"order": 2}), baskets=True),
        Case("mwem of conjunctions", 2, workload(conjunctions={"count": 3, "order": 2})),
        Case("no file of queries", 2, both(workload(conjunctions={"file": "none.csv"}), mechanism("dqrs"))),
        Case("a CSV of queries named as Parquet", 2, queries("query\nsex=male\n", "q.parquet")),
        Case("Parquet of queries named as CSV", 2, queries(PARQUET)),
        Case("queries saved as UTF-16", 2, queries("query\nsex=male\n".encode("utf-16"))),
        Case("an endless file of queries", 2, both(workload(conjunctions={"file": "/dev/zero"}), mechanism("dqrs"))),
        Case("a query about no attribute", 2, queries("query\nsexx=male\n")),
        Case("a query weight that is no number", 2, queries("query,weight\nsex=male,nan\n")),
        Case("a query weight below 0", 2, queries("query,weight\nsex=male,-1\n")),
        Case("a query weight as text", 2, queries("query,weight\nsex=male,many\n")),
        Case("a column weight that is no number", 2, weights("value,weight\nsex=male,nan\n")),
        Case("weights without their column", 2, weights("value\nsex=male\n")),
        Case("all weights 0", 2, weights("value,weight\nsex=male,0\n")),
    ],
    "The mechanism": [
        Case("unknown mechanism", 2, mechanism("mwen")),
        Case("unknown setting", 2, mechanism("mwem", round=1)),
        Case("rounds of a mechanism without settings", 2, mechanism("gaussian", rounds=3)),
        Case("rounds below 1", 2, mechanism("mwem", rounds=0)),
        Case("rounds as text", 2, mechanism("mwem", rounds="ten")),
        Case("unknown profile", 2, mechanism("mwem", profile="publishd")),
        Case("gaussian without delta", 2, both(mechanism("gaussian"), setting("privacy.delta", 0))),
        Case("laplace with delta", 2, mechanism("laplace")),
    ],
    "The data": [
        Case("missing file", 3, setting("dataset.path", "data/none.parquet")),
        Case("empty glob", 3, emptied),
        Case("empty folder", 3, both(emptied, setting("dataset.path", "data"))),
        Case("an invalid glob", 3, setting("dataset.path", "data/[z-a].parquet")),
        Case("unknown store", 3, setting("dataset.path", "nostore://bucket/x")),
        Case("a CSV named as Parquet", 3, lambda w: part(w).write_text(CSV * 20)),
        Case("a damaged footer", 3, lambda w: part(w).write_bytes(PARQUET)),
        Case("an empty file", 3, lambda w: part(w).write_bytes(b"")),
        Case("truncated file", 3, lambda w: part(w).write_bytes(part(w).read_bytes()[:-100])),
        Case("a column less in one file", 3, rewritten(lambda t: t.drop(["sex"]))),
        Case("types that differ", 3, cast("person", pa.string())),
        Case("missing unit column", 3, setting("dataset.unit", "nobody")),
        Case("units that are decimal numbers", 3, both(*(cast("person", pa.float64(), n) for n in range(3)))),
        Case("missing item column", 3, setting("dataset.item", "thing"), baskets=True),
        Case("item column of floats", 3, cast("item", pa.float64(), 0), baskets=True),
        Case("wrong column type", 3, cast("age", pa.string())),
    ],
    "The budget and the ledger": [
        Case("more than the ledger has", 4, setting("privacy.epsilon", 2)),
        Case("all is spent", 4, spent),
        Case("no budget", 4, setting("dataset.name", "other")),
        Case("no ledger", 4, setting("privacy.ledger", "sqlite:///none.db")),
        Case("ledger of unknown kind", 2, setting("privacy.ledger", "nonsense")),
        Case("ledger in memory", 2, setting("privacy.ledger", "sqlite:///:memory:")),
        Case("ledger on another server", 2, setting("privacy.ledger", "mysql://host/db")),
        Case("a text file as ledger", 2, written("my notes " * 100, "marquee.db")),
        Case("a damaged ledger", 7, damaged_ledger),
        Case("a name with two paths", 2, bound_elsewhere),
        Case("a path with two names", 2, second_name),
        Case("a copy with another name", 2, second_name_of_copies),
        Case("row groups copied under another name", 2, second_name_of_row_groups),
        Case("a release of another ledger", 7, second_ledger),
        Case("other data under one snapshot", 7, changed_data),
    ],
    "The output": [
        Case("output in a store", 2, setting("output.path", "s3://bucket/out")),
        Case("output of 300 letters", 2, setting("output.path", "out/" + "x" * 300)),
        Case("output with an unknown placeholder", 2, setting("output.path", "out/{snapshot}")),
        Case("output of a snapshot that leads elsewhere", 2, both(
            setting("dataset.snapshot", "../x"), setting("output.path", "out/{dataset.snapshot}"))),
        Case("output in a file", 2, setting("output.path", f"{SCHEMA_FILE}/out")),
        Case("output among the data", 2, both(setting("dataset.path", "."), setting("output.path", "data/out"))),
        Case("output of something else", 2, foreign_output),
        Case("output of another release", 2, another_release),
        Case("a changed file in the output", 7, changed_output),
    ],
}  # fmt: skip
