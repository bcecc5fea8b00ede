"""What a person may write, damage or lose before ``marquee run``: each function makes a valid world wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.ledger import SqlLedger
from tests.support.releases import World

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


def stored(section: dict[str, object]) -> Spoil:
    """A store of exact statistics, for files of whole units."""
    return both(setting("dataset.clustered_by_unit", True), setting("engine.incremental", section))


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


def in_a_table(**section: Any) -> Spoil:
    """A version of a table in place of the path."""

    def spoil(world: World) -> None:
        del world.config["dataset"]["path"]
        world.set("dataset.table", {"uri": "people.table", **section})

    return spoil


def in_a_catalog(named: object) -> Spoil:
    """A table of Spark's catalog in place of the path."""

    def spoil(world: World) -> None:
        del world.config["dataset"]["path"]
        world.set("dataset.catalog", named)

    return spoil


def in_a_frame(name: str) -> Spoil:
    """A frame in place of the path."""

    def spoil(world: World) -> None:
        del world.config["dataset"]["path"]
        world.set("dataset.frame", name)

    return spoil


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
