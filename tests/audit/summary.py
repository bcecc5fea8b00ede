"""The first table of RESULTS.md: the most that any run of each mechanism has given away, beside its claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpcore.mechanisms.registry import MECHANISMS
from tests.audit.section import Cell

CURRENCIES = {"PURE": "pure DP", "ZCDP": "zCDP", "GDP": "Gaussian DP"}
CLAIM = (
    "Each cell is the highest lower bound on the privacy loss that the end-to-end audit has found, of the claim, as a "
    "share of it (1 would be all of it; the higher the share, the more the audit could see). "
    "Violations are those of the grey-box replay."
)


def summary(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Cell]]:
    """One row for every mechanism, also for one that has not been audited.

    results: The stored results of the sections.
    """
    rows = {result["name"]: result["rows"] for result in results}
    losses, replays = rows.get("end_to_end", []), rows.get("grey_box", [])
    return [_of_mechanism(name, losses, replays) for name in MECHANISMS]


def _of_mechanism(name: str, losses: Sequence[Any], replays: Sequence[Any]) -> dict[str, Cell]:
    mine = [row for row in losses if row["mechanism"] == name]
    replayed = [row for row in replays if row["mechanism"] == name]
    passed = bool(mine) and bool(replayed) and all(row["passed"] for row in (*mine, *replayed))
    return {
        "mechanism": name,
        **{title: _highest(mine, currency) for currency, title in CURRENCIES.items()},
        "runs": sum(row["runs"] for row in mine),
        "pairs replayed": sum(row["pairs"] for row in replayed),
        "violations": sum(row["violations"] for row in replayed),
        "passed": passed,
    }


def _highest(rows: Sequence[Any], currency: str) -> str:
    """The row that came nearest to its claim, of the largest epsilon where none came near at all."""
    found = max(
        (row for row in rows if row["currency"] == currency),
        key=lambda row: (row["ratio"], row["epsilon"]),
        default=None,
    )
    if found is None:
        return "no proof is claimed" if rows else "not audited"
    return f"{found['measured in']} {found['lower bound']:.4g} of {found['claimed']:.4g} ({found['ratio']:.0%})"
