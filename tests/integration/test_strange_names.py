"""Discovered names of any form: empty, long, of equal look, or no text at all; each stays itself or is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.releases import World, baskets_world

COMPOSED, APART = "caf\u00e9", "cafe\u0301"  # Two names, although they look the same.
NAMES = [
    "",
    " ",
    COMPOSED,
    APART,
    "two\nlines",
    "nul\0",
    "x" * 70_000,
    '"quoted"',
    "a & !b | c",
    "\U0001f35e",
    "Bread",
    "bread",
]
BROKEN = b"\xff\xfe"


def written(path: Path, units: list[int], items: list[bytes | None]) -> None:
    """A file of pairs whose items need not be valid UTF-8."""
    stops = np.cumsum([0, *(len(item or b"") for item in items)], dtype=np.int64)
    valid = pa.array([item is not None for item in items])
    data = pa.py_buffer(b"".join(item or b"" for item in items))
    column = pa.Array.from_buffers(pa.large_string(), len(items), [valid.buffers()[1], pa.py_buffer(stops), data])
    pq.write_table(pa.table({"user": units, "item": column.cast(pa.string())}), path)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """Everybody has every name, in two files, with repeats and nulls; and a name of one unit."""
    monkeypatch.chdir(tmp_path)
    world = baskets_world(tmp_path, capsys)
    everything = [*(name.encode() for name in NAMES), BROKEN]
    pairs = [(user, name) for user in range(400) for name in (*everything, *everything[::3], None)] + [(7, b"lone")]
    Path("data/part-0.parquet").unlink()
    for file in range(2):
        part = pairs[file::2]
        written(Path(f"data/part-{file}.parquet"), [user for user, _ in part], [name for _, name in part])
    world.set("dataset.items", {"discover": {"share": 0.3, "at_most": 50}})
    world.set("dataset.max_items_per_unit", 20)
    world.set("workload", {"conjunctions": {"count": 20, "order": 2}})
    world.budget(20.0)
    return world


def test_each_name_stays_itself_and_what_is_no_text_is_left_out(shop: World) -> None:
    code, _, err = shop.run()
    assert code == 0, err
    items = pq.read_table("out/shop/items.parquet")["item"].to_pylist()
    assert items == sorted(NAMES, key=str.encode)
    asked = {name for row in pq.read_table("out/shop/answers.parquet")["items"].to_pylist() for name in row}
    assert asked <= set(NAMES)
    code, out, err = shop.marquee("verify", "out/shop")
    assert code == 0, out + err
    for command in (("report", "out/shop"), ("validate", "release.yaml"), ("evaluate", "release.yaml")):
        code, out, err = shop.marquee(*command)
        assert code == 0, out + err
