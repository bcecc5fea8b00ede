"""The path of a dataset's data: the first run binds it, and every later change of it is recorded."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, insert, select

from dpcore.errors import ConfigError
from jobs.ledger import budgets
from jobs.ledger.records import DatasetBudget, PlannedRelease
from jobs.ledger.rows import locked_dataset, set_dataset, stamp
from jobs.ledger.schema import lock_layout
from jobs.ledger.tables import DATASETS, PLACES


def bind(connection: Connection, dataset: DatasetBudget, planned: PlannedRelease, now: datetime) -> None:
    """Binds a dataset to its path on its first run, and checks on every later run that the path is the same.

    Files outside the path, to which links in it lead, are bound as well.

    Raises: ConfigError when the dataset has another path, or the path or a linked file belongs to another dataset.
    """
    if dataset.path is None:
        _check_free(connection, dataset, [planned.path])
        _set_path(connection, dataset.name, planned.path, now)
    elif dataset.path != planned.path:
        raise ConfigError(
            f"dataset {dataset.name!r} is bound to {dataset.path}; want that path; if the same data have moved, run "
            "marquee budget move; for data about other units, use another dataset name"
        )
    if planned.linked_files:
        known = connection.execute(select(PLACES.c.path).where(PLACES.c.dataset == dataset.name)).scalars()
        new_files = sorted({*planned.linked_files} - {*known})
        _check_free(connection, dataset, new_files)
        for file in new_files:
            _add_place(connection, dataset.name, file, now)


def move(connection: Connection, name: str, path: str, reason: str, now: datetime) -> DatasetBudget:
    """Binds a dataset to another path and records the move. Nothing happens if the dataset has this path already.

    Raises: ConfigError when no run has bound the dataset yet, or the path overlaps that of another dataset.
    """
    dataset = locked_dataset(connection, name)
    if dataset.path is None:
        raise ConfigError(f"dataset {name!r} has no path yet; its first run will bind it to the path in the config")
    if dataset.path == path:
        return dataset
    _check_free(connection, dataset, [path])
    _set_path(connection, name, path, now)
    return budgets.keep_total(connection, dataset, f"moved to {path}: {reason}", now)


def _set_path(connection: Connection, name: str, path: str, now: datetime) -> None:
    set_dataset(connection, name, path=path)
    _add_place(connection, name, path, now)


def _add_place(connection: Connection, name: str, path: str, now: datetime) -> None:
    connection.execute(insert(PLACES).values(dataset=name, path=path, bound=stamp(now)))


def _check_free(connection: Connection, dataset: DatasetBudget, paths: Sequence[str]) -> None:
    """Refuses a path where data of another dataset are or were, unless the operator has let both share data."""
    lock_layout(connection)  # Overlapping paths have no common row that could be locked.
    columns = (PLACES.c.path, DATASETS.c.name, DATASETS.c.shares_with)
    places = select(*columns).join(DATASETS, DATASETS.c.name == PLACES.c.dataset).order_by(PLACES.c.number)
    for place in connection.execute(places):
        path = next((path for path in paths if _overlap(path, place.path)), None)
        if path is not None and (place.shares_with or place.name) != dataset.data_owner:
            raise ConfigError(
                f"path {path} belongs to dataset {place.name!r} in this ledger, whose data are or were at "
                f"{place.path}; want dataset.name: {place.name}. If a second total must cover data there too, create a "
                "dataset with a new name: marquee budget create --dataset NAME --epsilon EPSILON --delta DELTA "
                f"--shares-with {shlex.quote(place.name)} --reason REASON; nothing then bounds what a unit loses "
                "through both"
            )


def _overlap(first: str, second: str) -> bool:
    """Whether two bound paths are equal, or one is inside the other."""
    first, second = first.rstrip("/") + "/", second.rstrip("/") + "/"
    return first.startswith(second) or second.startswith(first)
