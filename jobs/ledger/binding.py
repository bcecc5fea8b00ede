"""The data of a dataset: the first run binds their path, every run their content, and every move is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, insert, select

from dpcore.errors import ConfigError
from jobs.ledger import budgets
from jobs.ledger.contents import bind_contents, check_moved, how_to_share, is_content_known
from jobs.ledger.records import DatasetBudget, PlannedRelease
from jobs.ledger.rows import locked_dataset, set_dataset, stamp
from jobs.ledger.schema import lock_layout
from jobs.ledger.tables import DATASETS, PLACES
from pipelines.source.content import FileContent


def bind(connection: Connection, dataset: DatasetBudget, planned: PlannedRelease, now: datetime) -> None:
    """Binds a dataset to its path on its first run, and checks on every later run that the path is the same.

    Files outside the path, to which links in it lead, are bound as well, and so is the content of all files.

    Raises: ConfigError when the dataset has another path, or the path, a linked file or the content of files belongs to
        another dataset.
    """
    if dataset.path is None:
        _check_free(connection, dataset, [planned.path])
        _set_path(connection, dataset.name, planned.path, now)
    elif dataset.path != planned.path:
        raise ConfigError(
            f"dataset {dataset.name!r} is bound to {dataset.path}; want that path; if the same data have moved, run "
            "marquee budget move; if each snapshot has a folder of its own, write a wildcard in the part that changes, "
            "because the folder above the first wildcard is bound; for data about other units, use another dataset name"
        )
    if planned.linked_files:
        known = connection.execute(select(PLACES.c.path).where(PLACES.c.dataset == dataset.name)).scalars()
        new_files = sorted({*planned.linked_files} - {*known})
        _check_free(connection, dataset, new_files)
        for file in new_files:
            _add_place(connection, dataset.name, file, now)
    if planned.contents:
        bind_contents(connection, dataset, planned.contents, now)
    if planned.rows is not None:  # Apart from the files, which hold the same rows.
        bind_contents(connection, dataset, (planned.rows,), now)


@dataclass(frozen=True)
class Move:
    """A new path of a dataset's data.

    path: Canonical path.
    reason: The operator's reason.
    contents: What identifies the content of each file there, without a key; None if the files were not read. SENSITIVE.
    new_content: Whether the operator has decided that the content need not be that of the dataset.
    """

    path: str
    reason: str
    contents: tuple[FileContent, ...] | None = field(default=None, repr=False)
    new_content: bool = False


def move(connection: Connection, name: str, moved: Move, now: datetime) -> DatasetBudget:
    """Binds a dataset to another path and records the move. Nothing happens if the dataset has this path already.

    Raises: ConfigError when no run has bound the dataset yet, the path or its files belong to another dataset, or the
        files hold no content of the dataset and the operator has not decided that they need not.
    """
    path, reason = moved.path, moved.reason
    dataset = locked_dataset(connection, name)
    if dataset.path is None:
        raise ConfigError(f"dataset {name!r} has no path yet; its first run will bind it to the path in the config")
    if dataset.path == path:
        return dataset
    _check_free(connection, dataset, [path])
    _check_content(connection, dataset, moved)
    _set_path(connection, name, path, now)
    unchecked = ", with new content" if moved.new_content else ""
    return budgets.keep_total(connection, dataset, f"moved to {path}{unchecked}: {reason}", now)


def _check_content(connection: Connection, dataset: DatasetBudget, moved: Move) -> None:
    """Checks the files at the new path, unless the operator has decided otherwise or there is nothing to compare."""
    if moved.new_content or not is_content_known(connection, dataset.name):
        return
    if moved.contents is None:
        raise ConfigError(
            f"runs of dataset {dataset.name!r} have recorded its content, and the files at {moved.path} were not read; "
            "want their contents, or new_content"
        )
    check_moved(connection, dataset, moved.path, moved.contents)


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
                f"{place.path}; {how_to_share(place.name)}"
            )


def _overlap(first: str, second: str) -> bool:
    """Whether two bound paths are equal, or one is inside the other."""
    first, second = first.rstrip("/") + "/", second.rstrip("/") + "/"
    return first.startswith(second) or second.startswith(first)
