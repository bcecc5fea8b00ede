"""The summary of the audit names every mechanism, shows its worst figures, and passes none without figures."""

from __future__ import annotations

from typing import Any

import pytest

from dpcore.mechanisms.registry import MECHANISMS
from tests.audit.__main__ import report
from tests.audit.summary import summary

pytestmark = pytest.mark.false_alarm(0)

LOSS: dict[str, Any] = {
    "mechanism": "laplace", "currency": "PURE", "epsilon": 1.0, "measured in": "epsilon", "claimed": 1.0,
    "lower bound": 0.5, "ratio": 0.5, "runs": 100, "passed": True,
}  # fmt: skip
REPLAY: dict[str, Any] = {"mechanism": "laplace", "pairs": 10, "violations": 0, "passed": True}


def results(*losses: dict[str, Any], replays: tuple[dict[str, Any], ...] = (REPLAY,)) -> list[dict[str, Any]]:
    stored = {"claim": "", "commit": "c0ffee", "day": "2026-11-24", "machine": {"cores": 2, "processor": "one"}}
    stored |= {"cpu_seconds": 1.0, "wall_seconds": 1.0, "passed": True, "version": "0.11.0"}
    return [
        stored | {"name": "end_to_end", "title": "End to end", "rows": list(losses)},
        stored | {"name": "grey_box", "title": "Grey box", "rows": list(replays)},
    ]


def row(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return summary(found)[list(MECHANISMS).index(name)]


def test_it_names_every_mechanism_and_passes_none_without_figures() -> None:
    found = summary(results(LOSS))
    assert [one["mechanism"] for one in found] == list(MECHANISMS)
    assert [one["mechanism"] for one in found if one["passed"]] == ["laplace"]
    assert row(results(LOSS), "mwem")["pure DP"] == "not audited"
    assert not row(results(LOSS, replays=()), "laplace")["passed"]


def test_it_shows_the_row_that_came_nearest_to_its_claim() -> None:
    worse = LOSS | {"epsilon": 4.0, "claimed": 4.0, "lower bound": 3.6, "ratio": 0.9}
    shown = row(results(LOSS, worse), "laplace")
    assert (shown["pure DP"], shown["zCDP"]) == ("epsilon 3.6 of 4 (90%)", "no proof is claimed")
    assert (shown["runs"], shown["pairs replayed"]) == (200, 10)


@pytest.mark.parametrize("bad", [{"passed": False}, {"passed": False, "violations": 1}])
def test_a_failure_is_on_the_first_screen(bad: dict[str, Any]) -> None:
    assert not row(results(LOSS, replays=(REPLAY | bad,)), "laplace")["passed"]
    assert not row(results(LOSS | {"passed": False}), "laplace")["passed"]


@pytest.mark.smoke
def test_the_report_begins_with_it() -> None:
    lines = report(results(LOSS)).splitlines()
    assert "* version 0.11.0; commit c0ffee; 2026-11-24" in lines[:6]
    assert "* not run: accounting, canaries, convolution, kill_points" in "\n".join(lines[:8])
    shown = next(line for line in lines if line.startswith("| laplace"))
    assert lines.index(shown) < 20
    assert shown.endswith("| epsilon 0.5 of 1 (50%) | no proof is claimed | no proof is claimed | 100 | 10 | 0 | yes |")
