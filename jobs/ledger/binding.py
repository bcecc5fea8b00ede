"""Where the data of a dataset are: one path, bound by its first run, moved only on record."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select

from dpcore.errors import ConfigError
from jobs.ledger import budgets
from jobs.ledger.records import DatasetBudget
from jobs.ledger.rows import locked_dataset, set_dataset
from jobs.ledger.schema import lock_layout
from jobs.ledger.tables import DATASETS


def bind(connection: Connection, dataset: DatasetBudget, path: str) -> None:
    """Binds a dataset to its path, the first time; from then on checks that it is the same."""
    if dataset.path is None:
        _check_free(connection, dataset.name, path)
        set_dataset(connection, dataset.name, path=path)
    elif dataset.path != path:
        raise ConfigError(
            f"dataset {dataset.name!r} is bound to {dataset.path}; want that path, marquee budget move where the same "
            "data have moved, or another dataset name for other people's data"
        )


def move(connection: Connection, name: str, path: str, reason: str, now: datetime) -> DatasetBudget:
    """Binds a dataset to another path and puts that on record; to the path that it has, it changes nothing.

    Raises ConfigError when no run has bound the dataset yet, or the path overlaps that of another dataset.
    """
    dataset = locked_dataset(connection, name)
    if dataset.path is None:
        raise ConfigError(f"dataset {name!r} has no path yet; its first run binds it to the one in its config")
    if dataset.path == path:
        return dataset
    _check_free(connection, name, path)
    set_dataset(connection, name, path=path)
    return budgets.keep_total(connection, dataset, f"moved to {path}: {reason}", now)


def _check_free(connection: Connection, name: str, path: str) -> None:
    lock_layout(connection)  # No row can be locked for paths that overlap.
    for other, bound in connection.execute(select(DATASETS.c.name, DATASETS.c.path)):
        if other != name and bound is not None and _overlap(path, bound):
            raise ConfigError(f"path {path} belongs to dataset {other!r} in this ledger; want dataset.name: {other}")


def _overlap(path: str, other: str) -> bool:
    """Whether two bound paths are the same, or one lies in the other's folder."""
    one, two = path.rstrip("/") + "/", other.rstrip("/") + "/"
    return one.startswith(two) or two.startswith(one)
