"""Data that are damaged, replaced or of another schema, and a store that fails or is slow."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.audit.section import Row, Size
from tests.audit.small_releases import SQLITE
from tests.reliability.failing_store import FAILURES, SCHEME, Trouble, install
from tests.reliability.injections import Action, arm_action, replace_file
from tests.reliability.scene import Trial
from tests.reliability.trials import Place, Tally
from tests.support.faults import Point, When
from tests.support.releases import people

_READ = "pipelines.engines.local:read_batches"


def rows(place: Place, size: Size) -> Iterator[Row]:
    """The lines of the table. The fast size has some of the damaged files."""
    for damage in DAMAGES if size is Size.FULL else DAMAGES[:1]:
        trials = [damaged_before(place, damage, part) for part in range(3 if size is Size.FULL else 1)]
        yield Tally(trials).row(damage.name, SQLITE, "before the run, each file")
    calls = range(1, 4) if size is Size.FULL else range(2, 3)
    yield Tally([replaced(place, call) for call in calls]).row(
        "Parquet replaced by other rows", SQLITE, "while the engine reads"
    )
    if size is Size.FULL:
        yield Tally([gone(place, call) for call in calls]).row("Parquet removed", SQLITE, "while the engine reads")
        yield from store_rows(place)


@dataclass(frozen=True)
class Damage:
    """What is done to a file. codes: The exit codes that it may have."""

    name: str
    codes: tuple[int, ...]
    harm: Callable[[Path], None]


def damaged_before(place: Place, damage: Damage, part: int) -> Trial:
    scene = place.scene()
    file = scene.data[part]
    kept = shutil.copy2(file, scene.folder / "kept")
    damage.harm(file)
    return place.disturb(scene, [], damage.codes, partial(_restore, kept, file))


def replaced(place: Place, call: int, *plant: Action) -> Trial:
    """Another whole file takes the place of one after it was planned with the first; nothing may be drawn from it."""
    scene = place.scene()
    file = scene.data[2]
    kept = shutil.copy2(file, scene.folder / "kept")
    pq.write_table(people(0, 250, np.random.default_rng(9)), scene.folder / "other.parquet")
    action = partial(replace_file, str(file), str(scene.folder / "other.parquet"))
    armed = partial(arm_action, Point("", _READ, When.BEFORE, call), action)
    return place.disturb(scene, [*plant, armed], (7,), partial(_restore, kept, file))


def gone(place: Place, call: int) -> Trial:
    scene = place.scene()
    file = scene.data[2]
    armed = partial(
        arm_action, Point("", _READ, When.BEFORE, call), partial(replace_file, str(scene.folder / "kept"), str(file))
    )
    return place.disturb(scene, [armed], (3, 7), partial(_restore, str(scene.folder / "kept"), file))


def _restore(kept: str, file: Path) -> None:
    shutil.copy2(kept, file)


def _zeros(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    file.write_bytes(content)


def _noise(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4:400] = np.random.default_rng(4).bytes(396)
    file.write_bytes(content)


def _footer(file: Path) -> None:
    content = bytearray(file.read_bytes())
    length = int.from_bytes(content[-8:-4], "little")
    content[-8 - length : -8] = bytes(length)
    file.write_bytes(content)


def _last_byte(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _cut(share: float) -> Callable[[Path], None]:
    def cut(file: Path) -> None:
        content = file.read_bytes()
        file.write_bytes(content[: int(share * len(content))])

    return cut


def _rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def rewrite(file: Path) -> None:
        pq.write_table(change(pq.read_table(file)), file)

    return rewrite


def _as_text(rows: pa.Table) -> pa.Table:
    place = rows.column_names.index("age")
    return rows.set_column(place, "age", rows["age"].cast(pa.string()))


DAMAGES = (
    Damage("Parquet cut at half its length", (3,), _cut(0.5)),
    Damage("schema drift: a column has another type", (3,), _rewritten(_as_text)),
    Damage("Parquet corrupted: zeros in its pages", (3, 6), _zeros),
    Damage("Parquet corrupted: noise in its pages", (3, 6), _noise),
    Damage("Parquet corrupted: zeros in its footer", (3, 6), _footer),
    Damage("Parquet half written: its last byte is missing", (3,), _last_byte),
    Damage("Parquet empty", (3,), _cut(0)),
    Damage("schema drift: a column is missing", (3,), _rewritten(lambda rows: rows.drop_columns(["home"]))),
    Damage("schema drift: the unit has another type", (3,), _rewritten(
        lambda rows: rows.set_column(0, "person", rows["person"].cast(pa.string()))
    )),
)  # fmt: skip


def store_rows(place: Place) -> Iterator[Row]:
    """A store behind an fsspec driver: each failure at the first, a middle and a late call, and delays."""
    for name in FAILURES:
        trials = [store_fails(place, Trouble(name, first)) for first in (1, 4, 9, 14, 20, 30)]
        yield Tally(trials).row(f"store fails: {name}", SQLITE, "from its nth call on")
    for name in FAILURES:
        trials = [store_fails(place, Trouble(name, first, failures=1)) for first in (2, 12, 25)]
        yield Tally(trials).row(f"store fails once: {name}", SQLITE, "at its nth call")
    yield Tally([store_fails(place, Trouble("", 1, seconds=0.02))]).row("store is slow", SQLITE, "every call")


def store_fails(place: Place, trouble: Trouble) -> Trial:
    scene = place.scene()
    scene.change("dataset", path=f"{SCHEME}://{scene.folder / 'data'}")
    codes = (0,) if not trouble.failure else (0, 3, 6)
    return place.disturb(
        scene, [partial(install, trouble)], codes, lambda: None, mended=partial(install, Trouble("", 1))
    )
