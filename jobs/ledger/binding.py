"""The path of a dataset's data: the first run binds it, and every later change of it is recorded."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, insert, select

from dpcore.errors import ConfigError
from jobs.ledger import budgets
from jobs.ledger.records import DatasetBudget
from jobs.ledger.rows import locked_dataset, set_dataset, stamp
from jobs.ledger.schema import lock_layout
from jobs.ledger.tables import DATASETS, PLACES


def bind(connection: Connection, dataset: DatasetBudget, path: str, now: datetime) -> None:
    """Binds a dataset to its path on its first run, and checks on every later run that the path is the same.

    Raises: ConfigError when the dataset has another path, or the path belongs to another dataset.
    """
    if dataset.path is None:
        _check_free(connection, dataset.name, path)
        _set_path(connection, dataset.name, path, now)
    elif dataset.path != path:
        raise ConfigError(
            f"dataset {dataset.name!r} is bound to {dataset.path}; want that path; if the same data have moved, run "
            "marquee budget move; for data about other units, use another dataset name"
        )


def move(connection: Connection, name: str, path: str, reason: str, now: datetime) -> DatasetBudget:
    """Binds a dataset to another path and records the move. Nothing happens if the dataset has this path already.

    Raises: ConfigError when no run has bound the dataset yet, or the path overlaps that of another dataset.
    """
    dataset = locked_dataset(connection, name)
    if dataset.path is None:
        raise ConfigError(f"dataset {name!r} has no path yet; its first run will bind it to the path in the config")
    if dataset.path == path:
        return dataset
    _check_free(connection, name, path)
    _set_path(connection, name, path, now)
    return budgets.keep_total(connection, dataset, f"moved to {path}: {reason}", now)


def _set_path(connection: Connection, name: str, path: str, now: datetime) -> None:
    set_dataset(connection, name, path=path)
    connection.execute(insert(PLACES).values(dataset=name, path=path, bound=stamp(now)))


def _check_free(connection: Connection, name: str, path: str) -> None:
    lock_layout(connection)  # Overlapping paths have no common row that could be locked.
    for owner, bound in connection.execute(select(DATASETS.c.name, DATASETS.c.path)):
        if owner != name and bound is not None and _overlap(path, bound):
            raise ConfigError(f"path {path} belongs to dataset {owner!r} in this ledger; want dataset.name: {owner}")


def _overlap(first: str, second: str) -> bool:
    """Whether two bound paths are equal, or one is inside the other."""
    first, second = first.rstrip("/") + "/", second.rstrip("/") + "/"
    return first.startswith(second) or second.startswith(first)
