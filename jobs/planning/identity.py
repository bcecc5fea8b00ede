"""The release id and the path of the data, in spellings that do not depend on how a config is written."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict

from jobs.config import Config
from jobs.version import VERSION
from pipelines.schema import Schema

# Paths and the engine change neither the guarantee nor a byte of the release, so the id leaves them out.
WORKLOAD_PLACES = {"conjunctions": {"file", "weights_file"}}
_PLACES = {
    "dataset": {"path", "table_schema"},
    "privacy": {"ledger"},
    "workload": WORKLOAD_PLACES,
    "engine": True,
    "output": {"path", "report"},
}


def release_id(config: Config, schema: Schema | None, files: Mapping[str, str] | None = None) -> str:
    """SHA-256 of the public facts of a release, as 64 hexadecimal digits.

    The content of the data does not enter; the config's snapshot label stands for it. The version of the code enters.

    config: The config; its paths and its engine do not enter.
    schema: The meaning of a table's schema; None for baskets.
    files: SHA-256 of the meaning of each public file that the workload names, by its config key.
    """
    facts = {
        "config": config.model_dump(mode="json", exclude=_PLACES),  # type: ignore[arg-type]
        "schema": None if schema is None else asdict(schema),
        "files": dict(files or {}),
        "version": VERSION,
    }
    content = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(content.encode()).hexdigest()


def bound_path(path: str) -> str:
    """One spelling of a dataset's path: absolute, with links resolved.

    A glob becomes the folder above its first wildcard, whatever it matches today. It then overlaps every other spelling
    of the same files, and also some files that it does not match.

    The spelling guards against accidents (two names and two budgets for one dataset). It does not guard against an
    operator who copies files.
    """
    path = path.removeprefix("file://")
    if "://" in path:
        return _fixed_part(path).rstrip("/")
    path = os.path.expanduser(path)
    return os.path.realpath(path if os.path.exists(path) else _fixed_part(path))


def _fixed_part(path: str) -> str:
    """The path's components before the first one that holds a wildcard; the whole path where none does."""
    glob = re.search(r"[^/]*[*?\[]", path)
    return path if glob is None else path[: glob.start()]
