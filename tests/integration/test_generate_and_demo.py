"""The commands that generate data, and the whole demo."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.cli import main
from jobs.commands import demo
from jobs.ledger import SqlLedger


def marquee(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    assert isinstance(stop.value.code, int)
    return stop.value.code, out, err


def test_baskets_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--users", "5000", "--films", "100", "--pairs", "50000", "--files", "2")
    code, out, err = marquee(capsys, "generate", "baskets", str(tmp_path / "films"), *sizes)
    assert (code, out) == (0, f"Wrote baskets of 5,000 users to {tmp_path / 'films'}/ (2 files).\n"), err
    table = pq.read_table(tmp_path / "films")
    assert table.column_names == ["user_id", "movie_id"]
    assert table.num_rows == pytest.approx(50_000, rel=0.1)
    code, _, err = marquee(capsys, "generate", "baskets", str(tmp_path / "films"), *sizes)
    assert code == 2
    assert "is not an empty folder" in err


def test_a_table_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = marquee(capsys, "generate", "table", str(tmp_path / "people"), "--rows", "500", "--files", "1")
    assert code == 0, err
    assert pq.read_table(tmp_path / "people").num_rows == 500
    assert (tmp_path / "people.schema.yaml").exists()
    assert (
        out == f"Wrote 500 rows to {tmp_path / 'people'}/ (1 file). The schema is {tmp_path / 'people.schema.yaml'}.\n"
    )


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("USERS", 10_000), ("FILMS", 120), ("PAIRS", 240_000), ("PEOPLE", 3_000), ("FILES", 1)):
        monkeypatch.setattr(demo, name, size)


def test_the_demo_makes_three_releases_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small_demo: None
) -> None:
    folder = tmp_path / "demo"
    code, out, err = marquee(capsys, "demo", str(folder))
    assert code == 0, err
    for name in ("pairs", "baskets", "people"):
        assert (folder / f"{name}-release" / "_SUCCESS").exists()
        assert f"{folder}/{name}-release/" in out
    errors = re.findall(r"^  (release|synthetic|zeros|product) +(\S+) +(\S+)", out, re.MULTILINE)
    with_rows = ["release", "synthetic", "zeros", "product"]
    assert [row[0] for row in errors] == ["release", "zeros", "product", *with_rows, *with_rows]
    guarantees = re.findall(r"differential privacy for the units of column '\w+' \(add_remove_unit\)", out)
    assert len(guarantees) == 3
    factors = re.findall(r"the maximum error is (\S+) times smaller, and the mean error (\S+) times", out)
    assert len(factors) == 2
    assert all(float(factor) > 1.5 for pair in factors for factor in pair), factors
    assert re.findall(r"mechanism (\w+), (.*)", out) == [
        ("clipped_gaussian", "answers only"),
        ("basket_mixture", "10,000 synthetic rows"),
        ("aim", "3,000 synthetic rows"),
    ]
    assert len(re.findall(r"^ *\d+  \d+ & \d+ +[\d,]+ +[\d,]+ to [\d,]+ +[\d,]+ +#+ \d+%$", out, re.MULTILINE)) == 10
    assert re.search(r"^films per basket, mean +\d+\.\d +\d+\.\d$", out, re.MULTILINE)
    code, again, _ = marquee(capsys, "demo", str(folder))
    assert code == 0
    assert again.replace("generating data ...\n", "") == out.replace("generating data ...\n", "")
    ledger = SqlLedger(f"sqlite:///{folder}/marquee.db")
    assert [len(ledger.history(name)) for name in ("films", "people")] == [2, 1]


def test_an_interrupted_demo_starts_its_data_afresh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small_demo: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "EXAMPLES", demo.EXAMPLES[2:])
    (tmp_path / "people.partial").mkdir()
    (tmp_path / "people.partial" / "part-00000.parquet").write_text("half")
    (tmp_path / "people.partial.schema.yaml").write_text("half")
    code, _, err = marquee(capsys, "demo", str(tmp_path))
    assert code == 0, err
    assert not list(tmp_path.glob("*.partial*"))
