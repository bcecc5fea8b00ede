"""Every reader at the fast size, what once crashed one, and planted readers with a fault each: all are reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.section import Size
from tests.reliability import fuzzing
from tests.reliability.fuzz_seeds import make_world
from tests.reliability.fuzz_targets import Target, targets
from tests.reliability.fuzzing import FAST, FULL, REGRESSIONS, Result, file_name, fuzzed, row_of

CASES = sorted(path for path in REGRESSIONS.iterdir() if path.is_file())


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    folder = tmp_path_factory.mktemp("fuzzing")
    (folder / "inputs").mkdir()
    return targets(make_world(folder / "world"), folder / "inputs")


def test_every_reader_reads_or_refuses_every_input() -> None:
    rows = fuzzing.run(Size.FAST)
    assert [row.cells["reader"] for row in rows] == [*FAST, "all"]
    assert [row.cells for row in rows if not row.passed] == []
    assert all(row.cells["inputs"] == count for row, count in zip(rows, FAST.values(), strict=False))
    assert all(0 < row.cells["refused"] < row.cells["inputs"] for row in rows if "verify" not in row.cells["reader"])


def test_every_target_has_its_counts_and_the_full_size_is_a_million(readers: dict[str, Target]) -> None:
    assert set(readers) == set(FAST) == set(FULL)
    assert sum(FULL.values()) >= 1_000_000


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_what_once_crashed_a_reader_is_read_or_refused(path: Path, readers: dict[str, Target]) -> None:
    (target,) = [target for name, target in readers.items() if path.name.startswith(f"{file_name(name)}-")]
    try:
        target.read(path.read_bytes())
    except target.refusals:
        return


def test_every_valid_input_is_read(readers: dict[str, Target]) -> None:
    for target in readers.values():
        for seed in target.seeds:
            target.read(seed)


def planted(fault: str) -> Result:
    name = f"planted: {fault}"
    return fuzzed({name: 60}, 1, [fault])[name]


def test_an_exception_that_is_not_promised_is_a_crash_with_its_smallest_input() -> None:
    result = planted("raises")
    assert (result.inputs, result.slow) == (60, 0)
    assert result.crashes > 1
    assert list(result.first.values()) == [b"!!!"]
    assert not row_of("planted", result).passed


@pytest.mark.full
@pytest.mark.parametrize("fault", ["never ends", "takes all memory", "dies"])
def test_a_process_that_dies_is_reported_and_the_next_one_goes_on(fault: str) -> None:
    result = planted(fault)
    assert result.inputs == 60
    assert (result.slow > 1) == (fault == "never ends")
    assert (result.crashes > 1) == (fault != "never ends")
    assert all(data.count(b"!") >= 3 for data in result.first.values())
    assert not row_of("planted", result).passed
