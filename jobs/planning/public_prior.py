"""Gives a mechanism the public table that its config names."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from dpcore.errors import ConfigError
from dpcore.mechanisms.api import Mechanism, TakesPublic
from dpcore.mechanisms.registry import MECHANISMS
from jobs.config import MechanismChoice
from jobs.planning.identity import bound_path, is_name, local_path
from jobs.workload.public_table import KEY, read_public_table
from pipelines.layout import Layout, TableLayout
from pipelines.source.stores import without_settings


def with_public(
    choice: MechanismChoice, mechanism: Mechanism, layout: Layout, data: str
) -> tuple[Mechanism, dict[str, str]]:
    """The mechanism with its public table, and the hash of the table by its config key; nothing changes without one.

    choice: The section ``mechanism`` of a config, with absolute paths.
    mechanism: The mechanism with its other settings.
    layout: The public layout of the data.
    data: Path of the private data, absolute.

    Raises: ConfigError, before the table is opened, if it is one of the files of the private data; for baskets, for a
    mechanism that takes no public table, and for an invalid table.
    """
    if choice.public is None:
        return mechanism, {}
    if not isinstance(mechanism, TakesPublic):
        raise ConfigError(
            f"{KEY} is {choice.public}, but mechanism {choice.name} takes no public table; want {takers_text()}, or no "
            f"{KEY}"
        )
    if not isinstance(layout, TableLayout):
        raise ConfigError(f"{KEY} is for tables; want dataset.shape: table, or no {KEY}")
    _check_apart(choice.public, data)
    table, digest = read_public_table(Path(choice.public), layout.schema)
    taught = mechanism.with_public(table)
    return taught, {KEY: digest}


def _check_apart(public: str, data: str) -> None:
    """Refuses a file of the private data as a public table: plans, errors and hashes show what is public exactly."""
    if is_name(data):
        return
    path = without_settings(local_path(data))
    real, pattern = Path(os.path.realpath(public)), os.path.basename(path)
    is_named = not glob.has_magic(path) or real.match(pattern)
    if is_named and real.is_relative_to(bound_path(path)):
        raise ConfigError(
            f"{KEY} is {public}, which is one of the files of the private data; want a table that is public"
        )


def takers_text() -> str:
    """The names of the mechanisms that take a public table."""
    return " or ".join(name for name, kind in MECHANISMS.items() if issubclass(kind, TakesPublic))
