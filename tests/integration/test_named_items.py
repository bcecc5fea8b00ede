"""Baskets whose items have public names, from the command line: the same release as with codes, written in names."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.item_names import ItemNames
from tests.support.releases import World, baskets_world

NAMES = [f"item {code}" for code in range(38)] + ["fish & chips", "!odd"]


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """The small shop with text in place of codes, and one pair of an item that is not listed."""
    monkeypatch.chdir(tmp_path)
    world = baskets_world(tmp_path, capsys)
    _name_items(tmp_path / "data" / "part-0.parquet")
    (tmp_path / "items.csv").write_text("item,price\n" + "".join(f"{name},1\n" for name in NAMES))
    world.set("dataset.items", {"file": "items.csv"})
    world.budget(20.0)
    return world


def _name_items(path: Path) -> None:
    table = pq.read_table(path)
    names = [NAMES[code] for code in table["item"].to_pylist()]
    table = pa.table({"user": table["user"], "item": names})
    extra = pa.table({"user": pa.array([0]), "item": ["not listed"]})
    pq.write_table(pa.concat_tables([table, extra]), path)


def test_a_release_is_written_in_names_and_verified(named: World) -> None:
    code, _, err = named.run()
    assert code == 0, err
    answers = pq.read_table("out/shop/answers.parquet")
    assert answers.schema.field("items").type == pa.list_(pa.string())
    asked = {name for names in answers["items"].to_pylist() for name in names}
    assert len(asked) > 5
    assert asked <= set(NAMES)
    first = answers.slice(0, 1).to_pylist()[0]
    assert first["query"] == " & ".join(first["items"])
    assert pq.read_table("out/shop/items.parquet")["item"].to_pylist() == NAMES
    certificate = json.loads(Path("out/shop/certificate.json").read_text())
    assert certificate["hashes"]["public_files"]["dataset.items.file"] == ItemNames.of(NAMES).digest
    assert certificate["config"]["dataset"]["items"] == {"discover": None}
    code, out, err = named.marquee("verify", "out/shop")
    assert code == 0, out + err
    assert "items.parquet has the 40 names" in out


@pytest.mark.parametrize("change", ["swap", "remove"])
def test_verify_finds_other_names(named: World, change: str) -> None:
    named.run()
    path = Path("out/shop/items.parquet")
    if change == "remove":
        path.unlink()
    else:
        table = pq.read_table(path)
        pq.write_table(table.set_column(1, "item", pa.array([NAMES[1], NAMES[0], *NAMES[2:]])), path)
    code, out, err = named.marquee("verify", "out/shop")
    assert code != 0
    assert "items" in out + err


def test_another_order_of_the_list_is_another_release(named: World) -> None:
    before = named.job().release_id
    Path("items.csv").write_text("item\n" + "".join(f"{name}\n" for name in reversed(NAMES)))
    assert named.job().release_id != before


def test_a_list_in_parquet_or_lines_gives_the_same_release(named: World) -> None:
    before = named.job().release_id
    pq.write_table(pa.table({"item": NAMES}), "items.parquet")
    named.set("dataset.items", {"file": "items.parquet"})
    assert named.job().release_id == before
    Path("items.txt").write_text("\n".join(NAMES) + "\n")
    named.set("dataset.items", {"file": "items.txt"})
    assert named.job().release_id == before


def test_queries_in_a_file_name_items(named: World) -> None:
    Path("queries.txt").write_text('item 0 & item 1\n"fish & chips" & !item 2\n"!odd" & !"fish & chips"\n')
    named.set("workload", {"conjunctions": {"file": "queries.txt"}})
    queries = named.job().stand_in.queries
    assert queries.columns.tolist() == [[0, 1], [38, 2], [39, 38]]
    assert queries.negated.tolist() == [[False, False], [False, True], [False, True]]
    code, _, err = named.run()
    assert code == 0, err
    written = pq.read_table("out/shop/answers.parquet")["query"].to_pylist()
    assert written == ["item 0 & item 1", '"fish & chips" & !item 2', '"!odd" & !"fish & chips"']
    Path("queries.txt").write_text("item 0 & tea\n")
    code, _, err = named.marquee("plan", "release.yaml")
    assert code == 2
    assert "line 1" in err
    assert "unknown item 'tea'" in err


def test_weights_in_a_file_name_items(named: World) -> None:
    Path("weights.csv").write_text('item,weight\nitem 3,2\n"""fish & chips""",1\n!odd,1\n')
    section = {"count": 3, "order": 2, "weights": "file", "weights_file": "weights.csv"}
    named.set("workload", {"conjunctions": section})
    assert set(named.job().stand_in.queries.columns.ravel().tolist()) == {3, 38, 39}
    Path("weights.csv").write_text("item,weight\ntea,2\n")
    code, _, err = named.marquee("plan", "release.yaml")
    assert code == 2
    assert "unknown item 'tea'" in err


def test_synthetic_baskets_have_names(named: World) -> None:
    named.set("mechanism", {"name": "independent"})
    named.set("workload", {"conjunctions": {"count": 20, "order": 2}})
    named.set("output.synthetic_rows", 50)
    code, _, err = named.run()
    assert code == 0, err
    rows = pq.read_table("out/shop/synthetic")
    assert rows["item"].type == pa.string()
    assert set(rows["item"].to_pylist()) <= set(NAMES)
    assert rows.num_rows > 50
    assert named.marquee("verify", "out/shop")[0] == 0
    code, out, err = named.marquee("evaluate", "release.yaml", "--json")
    assert code == 0, err
    assert json.loads(out)["error"]


def test_validate_counts_items_that_are_not_listed(named: World) -> None:
    code, out, _ = named.marquee("validate", "release.yaml", "--json")
    assert code == 0
    assert json.loads(out)["items_out_of_range"] == 1


def test_validate_fails_when_most_items_are_not_declared(named: World) -> None:
    Path("items.csv").write_text("item\n" + "".join(f"{name}\n" for name in NAMES[20:]))
    code, out, err = named.marquee("validate", "release.yaml")
    assert code == 3
    assert "items not declared (dropped)" in out
    assert "more than half of the items" in err
    assert "dataset.items.file" in err


def test_numbers_in_the_data_match_their_decimals(named: World) -> None:
    table = pa.table({"user": [1, 2, 2], "item": pa.array([700, 2**40, 5])})
    pq.write_table(table, "data/part-0.parquet")
    named.set("workload", {"conjunctions": {"count": 1, "order": 2}})
    Path("items.csv").write_text(f"item\n{2**40}\n700\n")
    code, out, _ = named.marquee("validate", "release.yaml", "--json")
    assert code == 0
    assert json.loads(out)["items_out_of_range"] == 1


def test_a_huge_number_of_items_is_refused(named: World) -> None:
    named.set("dataset.items", 2_000_000_000)
    code, _, err = named.marquee("plan", "release.yaml")
    assert code == 2
    assert "items is 2,000,000,000; want 1 .. 67,108,864" in err


@pytest.mark.parametrize("value", [0, True, 1.5, "items.csv", {"files": "items.csv"}, [1]])
def test_other_values_are_refused(named: World, value: object) -> None:
    named.set("dataset.items", value)
    code, _, err = named.marquee("plan", "release.yaml")
    assert code == 2
    assert "items" in err


@pytest.mark.parametrize("content", ["", "item\n", "name\nmilk\n", "item\nmilk\nmilk\n"])
def test_a_list_that_is_none_is_refused(named: World, content: str) -> None:
    Path("items.csv").write_text(content)
    code, _, err = named.marquee("plan", "release.yaml")
    assert code == 2
    assert "items.csv" in err


def test_a_missing_list_is_refused(named: World) -> None:
    for name in ("items2.csv", "items2.parquet"):
        named.set("dataset.items", {"file": name})
        code, _, err = named.marquee("plan", "release.yaml")
        assert code == 2
        assert f"{name} does not exist" in err
