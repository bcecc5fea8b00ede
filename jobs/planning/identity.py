"""What a release is called, and where its data are, in spellings that do not depend on how a config is written."""

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

# Where things lie and who computes them changes neither the guarantee nor a byte of the release.
WORKLOAD_PLACES = {"conjunctions": {"file", "weights_file"}}
_PLACES = {
    "dataset": {"path", "table_schema"},
    "privacy": {"ledger"},
    "workload": WORKLOAD_PLACES,
    "engine": True,
    "output": {"path", "report"},
}


def release_id(config: Config, schema: Schema | None, files: Mapping[str, str] | None = None) -> str:
    """SHA-256 of the public facts of a release: its config, the meaning of its schema, the version of the code.

    The snapshot label stands for the content of the data, from which nothing here is derived.

    files: SHA-256 of what each public file means that the workload names, by its key.
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
    """One spelling of a dataset's path: absolute, links resolved, a folder for all the Parquet files in it.

    A glob is the folder above its first wildcard, whatever it matches today: so it overlaps every other spelling of
    the same files, and some files that it leaves out.

    It guards against accidents (two names for one dataset, two budgets), not against an operator who copies files.
    """
    path = path.removeprefix("file://")
    if "://" in path:
        return _fixed_part(path).rstrip("/")
    path = os.path.expanduser(path)
    return os.path.realpath(path if os.path.exists(path) else _fixed_part(path))


def _fixed_part(path: str) -> str:
    """The components before the first that holds a wildcard; all of them where none does."""
    glob = re.search(r"[^/]*[*?\[]", path)
    return path if glob is None else path[: glob.start()]
