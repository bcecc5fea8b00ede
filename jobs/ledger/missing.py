"""What to say where there is no ledger, or a dataset has no budget."""

from __future__ import annotations

import shlex

CREATE_WITH = "create one with: "
"""What stands before the command that creates a budget."""

_FIGURES = "--epsilon EPSILON --delta DELTA"


def no_budget(ledger: str, name: str, figures: str = _FIGURES) -> str:
    """Says that a dataset has no budget, with the command that creates one.

    ledger: URL of the ledger without secrets.
    name: Name of the dataset.
    figures: Options of the command that say how large the budget is.
    """
    return f"dataset {name!r} has no budget in {ledger}; {CREATE_WITH}{_create(ledger, name, figures)}"


def no_ledger(ledger: str, name: str = "NAME", figures: str = _FIGURES) -> str:
    """Says that there is no ledger at a URL. The arguments are those of ``no_budget``."""
    return (
        f"there is no ledger at {ledger}; if there was one, restore its backup, otherwise {CREATE_WITH}"
        f"{_create(ledger, name, figures)}"
    )


def _create(ledger: str, name: str, figures: str) -> str:
    return f"marquee budget create --ledger {shlex.quote(ledger)} --dataset {shlex.quote(name)} {figures}"
