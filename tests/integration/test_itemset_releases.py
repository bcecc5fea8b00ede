"""Releases of frequent itemsets, by command line and Python: files, tables, report, verification and evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import marquee
from dpcore.errors import ConfigError, IntegrityError
from jobs.outputs.itemset_tables import ITEMSETS, RULES
from jobs.verification.findings import Outcome
from jobs.verification.itemset_tables import itemset_finding
from jobs.verification.promises import layout_of
from jobs.verification.release import parse_certificate
from tests.support.releases import World, baskets_world

RELEASE = Path("out/shop")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = baskets_world(tmp_path, capsys)
    world.config["workload"] = {"itemsets": {"order": 3, "top": 6}}
    world.set("mechanism", {"name": "recommended"})
    world.budget(epsilon=40.0)
    return world


def test_a_release_is_planned_made_shown_and_verified(world: World) -> None:
    code, out, _ = world.marquee("plan", "release.yaml")
    assert code == 0
    for said in (
        "frequent_itemsets",
        "the 6 most frequent items, pairs and triples each",
        "at most 18",
        "clipped sums",
    ):
        assert said in out
    assert world.run()[0] == 0
    code, out, _ = world.marquee("verify", str(RELEASE))
    assert code == 0
    assert "itemsets: 18 itemsets as in answers.parquet" in out
    code, out, _ = world.marquee("itemsets", str(RELEASE), "--top", "2")
    assert code == 0
    assert out.count("%") == 4 * 3 + 2 * 2 + 3  # Two pairs, two triples, two rules, and three headers.
    assert "The most frequent pairs:" in out
    code, out, _ = world.marquee("itemsets", str(RELEASE), "--top", "2", "--json")
    assert [len(row["items"]) for row in json.loads(out)["itemsets"]] == [1, 1, 2, 2, 3, 3]
    code, out, _ = world.marquee("evaluate", "release.yaml", "--json")
    assert code == 0
    assert json.loads(out)["queries"] == 18


def test_items_with_names_are_shown_by_name(world: World) -> None:
    (world.folder / "items.txt").write_text("".join(f"item {number} & more\n" for number in range(40)))
    rows = pq.read_table("data")
    names = pa.array([f"item {number} & more" for number in rows["item"].to_pylist()])
    (path,) = Path("data").glob("*.parquet")
    pq.write_table(rows.set_column(rows.schema.get_field_index("item"), "item", names), path)
    world.set("dataset.items", {"file": "items.txt"})
    assert world.run()[0] == 0
    code, out, err = world.marquee("verify", str(RELEASE))
    assert code == 0, out + err
    for arguments in (("itemsets", str(RELEASE)), ("report", str(RELEASE), "--out", "report.html")):
        code, out, err = world.marquee(*arguments)
        assert code == 0, out + err
    code, out, _ = world.marquee("itemsets", str(RELEASE))
    assert '"item 0 & more" & "item ' in out
    assert "item 0 &amp; more" in Path("report.html").read_text()
    code, out, _ = world.marquee("itemsets", str(RELEASE), "--json", "--top", "1")
    assert json.loads(out)["itemsets"][0]["items"][0].endswith("& more")
    assert world.marquee("evaluate", "release.yaml")[0] == 0


def test_python_gives_the_same_tables(world: World) -> None:
    baskets = {"shape": "baskets", "unit": "user", "item": "item", "items": 40, "max_items_per_unit": 10}
    workload = {"itemsets": {"min_support": 0.05}}
    release = marquee.release(
        "data", name="shop", epsilon=20.0, delta=1e-6, workload=workload, mechanism="frequent_itemsets",
        progress=False, **baskets,
    )  # fmt: skip
    itemsets, rules = release.itemsets(), release.rules("pandas")
    assert itemsets.schema.names[:3] == ["items", "size", "count"]
    assert set(itemsets["size"].to_pylist()) == {1, 2}
    assert itemsets.num_rows == release.answers().num_rows
    assert len(rules) > 0
    release.verify()
    report = release.report("report.html").read_text()
    for said in (
        "Frequent itemsets and rules",
        "The most frequent pairs",
        "Rules with the largest lower bound of lift",
    ):
        assert said in report


def test_a_release_of_other_queries_has_no_itemsets(world: World) -> None:
    world.config["mechanism"] = {"name": "clipped_gaussian"}
    world.set("workload", {"conjunctions": {"count": 20, "order": 2}})
    assert world.run()[0] == 0
    release = marquee.open(RELEASE)
    for read in (release.itemsets, release.rules):
        with pytest.raises(ConfigError, match=r"want a release of workload\.itemsets"):
            read()


def rows(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], None]:
    """Changes the rows of a table."""

    def apply(path: Path) -> None:
        table = pq.read_table(path)
        content = table.to_pylist()
        change(content)
        pq.write_table(pa.Table.from_pylist(content, schema=table.schema), path)

    return apply


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (ITEMSETS, lambda path: path.unlink(), "is missing"),
        (RULES, lambda path: path.unlink(), "is missing"),
        (ITEMSETS, lambda path: path.write_bytes(b"PAR1"), "cannot be read"),
        (ITEMSETS, rows(lambda content: content.pop()), "lists other itemsets"),
        (ITEMSETS, rows(lambda content: content[0].update(items=[39])), "lists other itemsets"),
        (ITEMSETS, rows(lambda content: content[2].update(count=content[2]["count"] + 1e-3)), "has other counts"),
        (ITEMSETS, rows(lambda content: content[2].update(support_lower=1.0)), "outside its interval"),
        (RULES, rows(lambda content: content[0].update(lift=1e9, lift_upper=1.0)), "outside its interval"),
        (RULES, rows(lambda content: content[0].update(antecedent=[38])), "not one rule for each item"),
        (RULES, rows(lambda content: content.pop()), "not one rule for each item"),
        (RULES, rows(lambda content: content.append(content[-1])), "not one rule for each item"),
        (RULES, rows(lambda content: content[0].update(support=content[0]["support_lower"])), "of another support"),
        (
            RULES,
            rows(lambda content: content[0].update(confidence=content[0]["confidence_lower"])),
            "another confidence",
        ),
        (RULES, rows(lambda content: content[0].update(lift_upper=1.01 * content[0]["lift_upper"])), "another lift"),
        (RULES, rows(lambda content: content.reverse()), "in another order"),
        (ITEMSETS, rows(lambda content: content[1].update(support_lower=content[1]["support_lower"] / 2)), "supports"),
        (RULES, lambda path: pq.write_table(pq.read_table(path).drop_columns(["lift"]), path), "other columns"),
    ],
)
def test_changed_tables_are_found(world: World, name: str, change: Callable[[Path], None], said: str) -> None:
    assert world.run()[0] == 0
    certificate, _ = parse_certificate((RELEASE / "certificate.json").read_text())
    layout = layout_of(certificate)
    assert itemset_finding(RELEASE, certificate, layout).outcome is Outcome.PASSED
    change(RELEASE / name)
    finding = itemset_finding(RELEASE, certificate, layout)
    assert finding.outcome is Outcome.FAILED
    assert said in finding.text
    with pytest.raises(IntegrityError):
        marquee.open(RELEASE).verify()


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"order": 2}, "want exactly one of top and min_support"),
        ({"top": 5, "min_support": 0.1}, "want exactly one of top and min_support"),
        ({"order": 4, "top": 5}, "want <= 3"),
        ({"top": 0}, "want >= 1"),
    ],
)
def test_other_workloads_are_refused_with_the_key(world: World, workload: dict[str, object], said: str) -> None:
    world.set("workload", {"itemsets": workload})
    code, _, err = world.run()
    assert code == 2
    assert "workload.itemsets" in err
    assert said in err


def test_another_mechanism_is_refused_and_nothing_is_charged(world: World) -> None:
    world.set("mechanism", {"name": "gaussian"})
    code, _, err = world.run()
    assert (code, world.charges()) == (2, 0)
    assert "want mechanism: frequent_itemsets" in err


def test_a_table_has_no_itemsets(world: World) -> None:
    world.config["dataset"] = {"name": "t", "snapshot": "a", "path": "data", "shape": "table", "unit": "user"}
    world.config["dataset"]["schema"] = "people.schema.yaml"
    world.save()
    code, _, err = world.run()
    assert code == 2
    assert "workload.itemsets needs shape: baskets" in err
