"""Whom a dataset's total protects: which releases may be charged to it, and at which factor.

A total is one number about the units of one column under one neighbouring relation. Releases compose, that is, their
amounts add up, only if each is stated for these units and this relation. The contribution bound is no part of that: a
release with bound b drops the further rows of a unit before it counts, and its guarantee covers the unit with all its
rows, whatever b is. Releases with different bounds of one unit column therefore add up, and the recorded bound is
informative only.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

from dpcore.errors import ConfigError, NoBudgetError
from dpcore.kernel.sensitivity import Neighbours
from jobs.figures import format_exact
from jobs.ledger.records import OPEN, DatasetBudget, Protection
from pipelines.unit_names import canonical, in_words

UNRECORDED: Final = "for a unit and neighbours that an older version did not record"


def is_for_replacing(dataset: DatasetBudget, release: Protection, ledger: str) -> bool:
    """Whether an add/remove release is charged to a replace-one total, as ``replacement_factor`` proves.

    dataset: The dataset that is charged. What it has not bound yet is bound by the release.
    release: Whom the release protects.
    ledger: Database URL without secrets, for the error message.

    Raises: NoBudgetError when the release protects other units, when the dataset is for add/remove and the release for
        replace-one, or when earlier versions have charged the dataset without recording whom they protected.
    """
    if dataset.spent and not dataset.protection.is_bound:
        raise NoBudgetError(
            f"dataset {dataset.name!r} was charged by a version up to 0.10, which did not record whom its charges "
            "protect; record it once, with the unit and the neighbours of those releases: marquee budget create "
            f"--ledger {shlex.quote(ledger)} --dataset {shlex.quote(dataset.name)} --epsilon "
            f"{format_exact(dataset.epsilon)} --delta {format_exact(dataset.delta)}"
            f"{' --consumers-only' if dataset.consumers_only else ''} --unit COLUMN --neighbours RELATION, where "
            "RELATION is add_remove_unit or replace_one_unit"
        )
    bound = dataset.protection.bound_by(release)
    if bound.unit != release.unit:
        raise NoBudgetError(_other_unit(dataset, release, ledger))
    if bound.neighbours is release.neighbours:
        return False
    if bound.neighbours is Neighbours.ADD_REMOVE_UNIT:
        raise NoBudgetError(
            f"the total of dataset {dataset.name!r} is for add_remove_unit, and this release is for replace_one_unit, "
            "which says nothing about a unit that is added or removed; want privacy.neighbours: add_remove_unit. "
            + _second_dataset(dataset, release, ledger)
        )
    return True


def protection_of_bounds(
    unit: str | None,
    rows: int | None,
    items: int | None,
    neighbours: Neighbours | None,
    shown: Callable[[str], str] = str,
) -> Protection:
    """Whom a total protects, as an operator says it.

    unit: Column of the unit, or a JSON list of columns; None leaves it open.
    rows, items: Contribution bound of a table or of baskets, for the record; at most one of them, and only with a unit.
    neighbours: Neighbouring relation; None leaves it open.
    shown: How messages write the names of these arguments.

    Raises: ConfigError when the bounds contradict each other.
    """
    if rows is not None and items is not None:
        tables, baskets = shown("rows_per_unit"), shown("items_per_unit")
        raise ConfigError(f"{tables} is for tables and {baskets} for baskets; want one of them")
    bound = rows if rows is not None else items
    if bound is not None and unit is None:
        raise ConfigError(f"a bound per unit needs the column of the unit; want {shown('unit')}")
    contribution = None if bound is None else "rows" if rows is not None else "items"
    return Protection(None if unit is None else canonical(unit), contribution, bound, neighbours)


def described(protection: Protection, *, spent: bool = False) -> str:
    """Whom figures protect, to be read after them.

    spent: Whether charges exist to which ``protection`` belongs.
    """
    if protection == OPEN and spent:
        return UNRECORDED
    if protection == OPEN:
        return "for the unit and the neighbours of the first release"
    units = "the unit of the first release" if protection.unit is None else f"units of {in_words(protection.unit)}"
    neighbours = protection.neighbours or "the neighbours of the first release"
    return f"for {units} ({neighbours}{_bound(protection)})"


def _bound(protection: Protection) -> str:
    if protection.max_per_unit is None or protection.contribution is None:
        return ""
    noun = protection.contribution.removesuffix("s") if protection.max_per_unit == 1 else protection.contribution
    return f", {protection.max_per_unit} {noun} per unit"


def _other_unit(dataset: DatasetBudget, release: Protection, ledger: str) -> str:
    bound = dataset.protection.unit
    return (
        f"the total of dataset {dataset.name!r} protects units of {in_words(str(bound))}, and this release protects "
        f"units of {in_words(str(release.unit))}; their losses do not add up, because a unit of one may have rows of "
        f"many units of the other; want dataset.unit: {bound}. " + _second_dataset(dataset, release, ledger)
    )


def _second_dataset(dataset: DatasetBudget, release: Protection, ledger: str) -> str:
    return (
        f"A second dataset for the same data has a total of its own: marquee budget create --ledger "
        f"{shlex.quote(ledger)} --dataset NAME --epsilon EPSILON --delta DELTA --unit "
        f"{shlex.quote(str(release.unit))} --neighbours {release.neighbours} --shares-with "
        f"{shlex.quote(dataset.name)} --reason REASON, and dataset.name: NAME. Nothing then bounds what a person loses "
        f"through both totals: the first one and, for each of their units of {in_words(str(release.unit))}, the second "
        "one"
    )
