"""Twelve days on SQLite, and figures that each fail their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.section import Size
from tests.reliability import soak
from tests.reliability.drivers import Drivers


def test_twelve_days_with_faults(drivers: Drivers, tmp_path: Path) -> None:
    with soak.temporary_files_in(tmp_path / "temporary") as temporary:
        running = soak.new_soak(tmp_path, drivers, None, temporary)
        rows = soak.soaked(running, soak.DAYS[Size.FAST], soak.EVERY[Size.FAST])
        assert [row.cells["days"] for row in rows] == [6, 12]
        assert all(row.passed for row in rows), rows
        assert rows[-1].cells["faults"]
        # A release that is missing among the certificates, and one whose certificate says less, are noticed.
        forgotten = running.figures.published.pop()
        assert not soak.inspected(running, [], 0).passed
        running.figures.published.append(forgotten)
        certificate = forgotten.job().output / "certificate.json"
        certificate.write_text(certificate.read_text() + " ")
        assert soak.inspected(running, [forgotten], 0).cells["verify failed"]


FINE: dict[str, int | float | str | bool] = {
    "spent = certified": True,
    "charges": 9,
    "published": 9,
    "overspent": 0,
    "verify failed": 0,
    "temporary files": 0,
    "files of state, most": 2,
    "ledger bytes a release": 1000.0,
    "memory bytes a release": 10_000.0,
    "open files": 3,
    "connections": 4,
    "said wrong": "",
}


@pytest.mark.parametrize(("name", "value"), [
    ("spent = certified", False),
    ("charges", 10),
    ("overspent", 1),
    ("verify failed", 1),
    ("temporary files", 1),
    ("files of state, most", 3),
    ("ledger bytes a release", 20_000.0),
    ("memory bytes a release", 300_000.0),
    ("open files", 13),
    ("connections", 9),
    ("said wrong", "day 3: exit code 7"),
])  # fmt: skip
def test_each_figure_fails_its_line(name: str, value: float | str | bool) -> None:
    assert soak.sound(FINE)
    assert not soak.sound(FINE | {name: value})


def test_a_leak_has_a_slope() -> None:
    assert soak.slope([100_000_000 + 250_000 * number for number in range(100)]) == pytest.approx(250_000)
    assert soak.slope([100_000_000 + 250_000 * min(number, 5) for number in range(100)]) == pytest.approx(0, abs=1e-3)


def test_files_that_close_are_no_leak() -> None:
    assert soak.rise([46, 44, 12, 12, 14, 12]) == 2
    assert soak.rise([12, 13, 14, 20]) == 8
    assert soak.rise([30]) == 0
