"""The store of exact statistics that a config names, and its key from the environment or a command."""

from __future__ import annotations

import base64
import binascii
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dpcore.errors import ConfigError, EngineError
from jobs import log
from jobs.config import Config, Dataset, EngineChoice
from jobs.config.incremental import Incremental
from jobs.planning.partition import partition_from
from pipelines.engines.statistics import TaskEngine
from pipelines.statistics_store.file_groups import GroupBy
from pipelines.statistics_store.incremental import IncrementalEngine
from pipelines.statistics_store.store import KEY_BYTES, StatisticsStore, StoreLimits

KEY_VARIABLE: Final = "MARQUEE_STORE_KEY"
"""Environment variable with the key of the store."""

_SECONDS: Final = 60
_WANTED: Final = f"{KEY_BYTES} random bytes in base64, as openssl rand -base64 {KEY_BYTES} prints them"


def check_incremental(choice: EngineChoice, dataset: Dataset) -> None:
    """Checks that files of a dataset can be counted one by one. No key is read.

    choice: The section ``engine`` of a config.
    dataset: Its section ``dataset``.

    Raises: ConfigError when there are no files, or units may have rows in several of them.
    """
    if choice.incremental is not None and (dataset.catalog is not None or dataset.frame is not None):
        raise ConfigError(
            "engine.incremental keeps statistics of files, and the data are a table of Spark's catalog or a frame; "
            "want dataset.path or dataset.table, or no engine.incremental"
        )
    partition = None if dataset.partition is None else partition_from(dataset.partition)
    if choice.incremental is not None and partition is not None and partition.is_checked:
        raise ConfigError(
            "engine.incremental counts file by file, and dataset.partition needs all partitions of a unit at once; "
            "want no engine.incremental, or units_in: many_partitions without max_partitions_per_unit"
        )
    if choice.incremental is not None and not dataset.clustered_by_unit:
        raise ConfigError(
            "engine.incremental needs files of whole units, because a unit with rows in several files cannot be "
            "counted file by file; want dataset.clustered_by_unit: true, or no engine.incremental"
        )


def check_store_folder(config: Config) -> None:
    """Refuses a store and an output folder of which one is in the other: the store is secret, the output is public.

    config: The config of a release, with absolute paths.

    Raises: ConfigError that names both.
    """
    if config.engine.incremental is None:
        return
    store, output = (Path(os.path.realpath(path)) for path in (config.engine.incremental.path, config.output.path))
    if store.is_relative_to(output) or output.is_relative_to(store):
        raise ConfigError(
            f"engine.incremental.path {store} holds exact statistics, and output.path {output} a public release; want "
            "two folders of which neither is in the other"
        )


def open_store(choice: EngineChoice, environment: Mapping[str, str] = os.environ) -> StatisticsStore | None:
    """Opens the store of a config; None if it names none.

    choice: The section ``engine`` of a config, with absolute paths.
    environment: The variables of this process.

    Raises: ConfigError when there is no usable key, or others may open the folder; EngineError when the command for
        the key fails. The key itself, and what the command prints, are in no message.
    """
    incremental = choice.incremental
    if incremental is None:
        return None
    key = store_key(incremental, environment)
    limits = StoreLimits(incremental.keep_days, incremental.max_mb * 10**6)
    return StatisticsStore(Path(incremental.path), key, limits, log.warning)


def with_store(engine: TaskEngine, choice: Incremental, store: StatisticsStore) -> TaskEngine:
    """An engine that reads only what a store has no statistics of.

    engine: The engine that counts the rest.
    choice: The section ``engine.incremental``.
    store: The store.
    """
    return IncrementalEngine(engine, store, GroupBy(choice.group_by))


def store_key(choice: Incremental, environment: Mapping[str, str] = os.environ) -> bytes:
    """The key of the store, 32 bytes. SECRET.

    choice: The section ``engine.incremental``.

    The other argument and the exceptions are those of ``open_store``.
    """
    if choice.key_command is not None:
        return _decoded("the output of engine.incremental.key_command", _printed(choice.key_command))
    text = environment.get(KEY_VARIABLE)
    if not text:
        raise ConfigError(
            f"engine.incremental has no key; want {_WANTED}, in the variable {KEY_VARIABLE}, or key_command"
        )
    return _decoded(f"the variable {KEY_VARIABLE}", text.encode())


def _decoded(place: str, text: bytes) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{place} is no key of a statistics store; want {_WANTED}")
    return key


def _printed(command: tuple[str, ...]) -> bytes:
    try:
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise EngineError(
            f"engine.incremental.key_command {command[0]!r} took more than {_SECONDS} seconds; want a command that "
            "asks nothing, and try again"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"engine.incremental.key_command {command[0]!r} cannot be run ({error.strerror}); want a program and its "
            "arguments"
        ) from error
    if done.returncode != 0:
        raise EngineError(
            f"engine.incremental.key_command {command[0]!r} ended with exit code {done.returncode}; want a command "
            "that prints the key, and try again"
        )
    return done.stdout
