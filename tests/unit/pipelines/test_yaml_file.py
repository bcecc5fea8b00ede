"""The YAML reader refuses what YAML would read in a surprising way, in bounded time; all else it reads as YAML."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path

import pytest
import yaml

from dpcore.errors import ConfigError
from pipelines.yaml_file import LARGEST_COUNT, LARGEST_DEPTH, read_yaml


def read(folder: Path, text: str, dates: bool = True) -> object:
    (folder / "a.yaml").write_text(text, encoding="utf-8")
    return read_yaml(folder / "a.yaml", "config", dates=dates)


@pytest.mark.parametrize("text", [
    "a: [1, -2, 0, 0.5, 1_000, 0x1F, 10:99, true, null, 'no', 0.0, -0, 1:2:x]",
    "a: &x [yes, no]\nb: *x\nc: {d: &y 1, e: *y}",
    "a: |\n  00123\nb: '12:30'\nc: \"007\"",
    "",
    "- caf\u00e9\n- [[[]]]",
])  # fmt: skip
def test_plain_yaml_is_read_as_yaml_reads_it(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text) == yaml.safe_load(text)


def test_exponents_are_numbers_and_dates_are_dates_or_text(tmp_path: Path) -> None:
    text = "a: 1e-6\nb: 2026-01-31\nc: -3E5\nd: 1.5e3"
    assert read(tmp_path, text) == {"a": 1e-6, "b": date(2026, 1, 31), "c": -3e5, "d": 1500.0}
    assert read(tmp_path, text, dates=False) == {"a": 1e-6, "b": "2026-01-31", "c": -3e5, "d": 1500.0}


@pytest.mark.parametrize(("text", "says"), [
    ("a: 1\nb: 2\na: 3", r"a\.yaml, line 3: key 'a' is given twice; want it once"),
    ("x:\n  - {1: a, 1: b}", "line 2: key 1 is given twice"),
    ("a: {<<: {b: 1}}", "merge keys"),
    ("[a]: 1", "a key is a list or a mapping"),
    ("a: 00123", "00123 is unquoted"),
    ("a: -007", "-007 is unquoted"),
    ("a: 0899", "0899 is unquoted"),
    ("a: 12:30", "12:30 is unquoted"),
    ("a: 1:20:30.5", r"1:20:30\.5 is unquoted"),
    ("12:30: a", "12:30 is unquoted"),
    ("a: &a [*a]", r"alias \*a repeats no anchor"),
    ("a: *b", r"alias \*b repeats no anchor|undefined alias"),
    ("a: 2026-13-01", "out of range"),
    ("a: " + "1" * 5000, "out of range"),
    ("a: \x07", "control characters"),
    ("--- 1\n--- 2", "another document"),
    ("a: !!python/name:os.system", "no tags"),
])  # fmt: skip
def test_what_would_surprise_is_refused(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        read(tmp_path, text)


def bomb(levels: int) -> str:
    return "a0: &a0 [x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, levels + 1)
    )


@pytest.mark.parametrize("text", [
    bomb(9), bomb(30), "a: " + "[" * 5000, "- " * 5000 + "x", "{a: " * 5000, "[" * 1_000_000,
    "[1" + ",1" * 1_500_000 + "]",
    "a: &x " + "{b: " * (LARGEST_DEPTH + 1) + "1" + "}" * (LARGEST_DEPTH + 1),
], ids=range(8))  # fmt: skip
def test_bombs_are_refused_at_once(text: str, tmp_path: Path) -> None:
    """Attack "YAML bomb": 240 s and 1.4 GB; nested lists overflowed the stack (exit code 70)."""
    start = time.process_time()
    with pytest.raises(ConfigError, match=r"nested more than 50 deep|holds more than 250,000 keys"):
        read(tmp_path, text)
    assert time.process_time() - start < 2


def test_values_are_counted_with_their_repetitions(tmp_path: Path) -> None:
    assert LARGEST_COUNT == 250_000
    assert read(tmp_path, bomb(4)) == yaml.safe_load(bomb(4))
    with pytest.raises(ConfigError, match="holds more than"):
        read(tmp_path, bomb(6))
    assert read(tmp_path, "[" + ", ".join(["1"] * (LARGEST_COUNT - 1)) + "]") == [1] * (LARGEST_COUNT - 1)


@pytest.mark.parametrize("value", ["!!str {b: c}", "!!int [1]", "!!timestamp x", '!!float ""', '!!int "-"', "!!bool x"])
def test_a_tag_that_does_not_fit_its_value_is_refused(tmp_path: Path, value: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"a: {value}\n")
    with pytest.raises(ConfigError, match="config.yaml"):
        read_yaml(path, "config", dates=False)
