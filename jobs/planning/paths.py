"""Resolves the paths of a config, which start at the folder of the config file, whatever the working folder is."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Final

from dpcore.errors import ConfigError
from jobs.config import Config
from jobs.config.items import ItemsChoice
from jobs.config.output_path import expanded_output
from jobs.objects.address import address_of, is_url

_SQLITE: Final = re.compile(r"(?P<start>sqlite(?:\+\w+)?:///)(?P<file>[^?]+)(?P<query>\?.*)?", re.DOTALL)
_IN_MEMORY: Final = (":memory:", "file:")


def with_absolute_paths(config: Config, folder: Path) -> Config:
    """The config with absolute paths for schema, data, public files, SQLite ledger, signing key and statistics store.

    Absolute paths and URLs stay as they are, and ``~`` becomes the home folder. Paths are no part of the release id.
    ``with_absolute_output`` resolves the output, which may contain the release id.

    config: The config as it was written.
    folder: The folder of the config file.

    Raises: ConfigError when the data or the ledger are missing there, but exist at the same path in the working folder,
        where earlier versions looked for them.
    """
    _check_no_zero_byte(config)
    base = os.path.realpath(folder)
    dataset, conjunctions = config.dataset, config.workload.conjunctions
    table, incremental = dataset.table, config.engine.incremental
    update: dict[str, object] = {
        "dataset": dataset.model_copy(
            update={
                "path": dataset.path and _data("dataset.path", dataset.path, base),
                "table": table and table.model_copy(update={"uri": _data("dataset.table.uri", table.uri, base)}),
                "items": _items(dataset.items, base),
                "table_schema": dataset.table_schema and _absolute(dataset.table_schema, base),
            }
        ),
        "privacy": config.privacy.model_copy(update={"ledger": _ledger(config.privacy.ledger, base)}),
        "engine": config.engine.model_copy(
            update={
                "incremental": incremental
                and incremental.model_copy(update={"path": _absolute(incremental.path, base)})
            }
        ),
        "mechanism": config.mechanism.model_copy(
            update={"public": config.mechanism.public and _absolute(config.mechanism.public, base)}
        ),
        "output": config.output.model_copy(
            update={"signing_key": config.output.signing_key and _absolute(config.output.signing_key, base)}
        ),
    }
    if conjunctions is not None:
        files = {
            "file": conjunctions.file and _absolute(conjunctions.file, base),
            "weights_file": conjunctions.weights_file and _absolute(conjunctions.weights_file, base),
        }
        update["workload"] = config.workload.model_copy(update={"conjunctions": conjunctions.model_copy(update=files)})
    return config.model_copy(update=update)


def with_absolute_output(config: Config, folder: Path, release_id: str) -> Config:
    """The config with the absolute path or URL of the output, and with values in place of its placeholders.

    config: The config, whose output path is as it was written.
    folder: The folder of the config file.
    release_id: The id of the release.

    Raises: ConfigError when a placeholder's value would lead elsewhere, a URL names no folder of an object store, or a
        release lies at the same path in the working folder, where earlier versions put it.
    """
    path = expanded_output(config, release_id)
    if is_url(path):
        if not address_of("output.path", path).key:
            raise ConfigError("output.path is a whole bucket; want a folder in it, such as s3://bucket/releases/adult")
    else:
        path = _output(path, os.path.realpath(folder))
    return config.model_copy(update={"output": config.output.model_copy(update={"path": path})})


def _items(choice: int | ItemsChoice | None, base: str) -> int | ItemsChoice | None:
    if not isinstance(choice, ItemsChoice) or choice.file is None:
        return choice
    return choice.model_copy(update={"file": _absolute(choice.file, base)})


def _check_no_zero_byte(config: Config) -> None:
    """Refuses paths that no operating system accepts, before a library fails on them."""
    conjunctions = config.workload.conjunctions
    paths = {
        "dataset.path": config.dataset.path,
        "dataset.table.uri": config.dataset.table and config.dataset.table.uri,
        "dataset.items.file": config.dataset.items.file if isinstance(config.dataset.items, ItemsChoice) else None,
        "dataset.schema": config.dataset.table_schema,
        "privacy.ledger": config.privacy.ledger,
        "engine.incremental.path": config.engine.incremental and config.engine.incremental.path,
        "output.path": config.output.path,
        "output.signing_key": config.output.signing_key,
        "mechanism.public": config.mechanism.public,
        "workload.conjunctions.file": conjunctions and conjunctions.file,
        "workload.conjunctions.weights_file": conjunctions and conjunctions.weights_file,
    }
    for key, path in paths.items():
        if path is not None and "\0" in path:
            raise ConfigError(f"{key} contains a zero byte; want a path without it")


def _absolute(path: str, base: str) -> str:
    """``path`` itself if it is absolute, and otherwise the path that it names in the folder ``base``."""
    expanded = os.path.expanduser(path)
    return expanded if os.path.isabs(expanded) else os.path.normpath(os.path.join(base, expanded))


def _data(key: str, path: str, base: str) -> str:
    if "://" in path or path.startswith("dbfs:/"):
        return path
    resolved = _absolute(path, base)
    _check_not_in_working_folder(key, path, path, resolved)
    return resolved


def _output(path: str, base: str) -> str:
    """The output folder. Up to version 0.10 it was relative to the working folder, where a release may still lie."""
    resolved, elsewhere = _absolute(path, base), os.path.abspath(os.path.expanduser(path))
    if elsewhere != resolved and not _exists(resolved) and _exists(os.path.join(elsewhere, "manifest.json")):
        raise ConfigError(
            f"output.path is {path}; there is no {resolved}, but there is a release in {elsewhere}, in the working "
            f"folder; relative paths start at the folder of the config file: want {elsewhere}, or another output"
        )
    return resolved


def _ledger(url: str, base: str) -> str:
    """The URL of the ledger, with an absolute path for a SQLite file."""
    parts = _SQLITE.fullmatch(url)
    if parts is None or parts["file"].startswith(_IN_MEMORY):
        return url
    file = _absolute(parts["file"], base)
    if "?" in file:
        raise ConfigError(
            f"privacy.ledger is a file in {base}, whose name contains a question mark, which a URL cannot hold; want a "
            "ledger in another folder"
        )
    _check_not_in_working_folder("privacy.ledger", url, parts["file"], file, parts["start"])
    return f"{parts['start']}{file}{parts['query'] or ''}"


def _check_not_in_working_folder(key: str, written: str, path: str, resolved: str, start: str = "") -> None:
    """Refuses a path that names nothing in the folder of the config, but something in the working folder.

    key: The config key.
    written: Its value as it was written.
    path: The path in that value.
    resolved: The absolute path.
    start: What stands before the path in the value.
    """
    elsewhere = os.path.abspath(os.path.expanduser(path))
    if elsewhere == resolved or _exists(resolved) or not _exists(elsewhere):
        return
    raise ConfigError(
        f"{key} is {written}; there is no {resolved}, but there is {elsewhere} in the working folder; relative paths "
        f"start at the folder of the config file: want {start}{elsewhere}"
    )


def _exists(path: str) -> bool:
    return os.path.exists(path) or (glob.has_magic(path) and next(glob.iglob(path, recursive=True), None) is not None)
