"""The release id and the canonical path of the data: neither depends on how a config is written."""

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

# Paths and the engine change neither the guarantee nor any byte of the release, so they are not part of its id. Nor is
# the number of synthetic rows, which are drawn from noisy answers: another number must not be charged again.
WORKLOAD_PATHS = {"conjunctions": {"file", "weights_file"}}
_NOT_IDENTIFYING = {
    "dataset": {"path", "table_schema"},
    "privacy": {"ledger"},
    "workload": WORKLOAD_PATHS,
    "engine": True,
    "output": True,
}


def release_id(config: Config, schema: Schema | None, files: Mapping[str, str] | None = None) -> str:
    """SHA-256 of the public facts of a release, as 64 hexadecimal digits.

    The version of the code is one of these facts. The data are not: the config's snapshot label stands for them.

    config: The config, of which the paths, the engine and the number of synthetic rows are ignored.
    schema: The schema of a table; None for baskets.
    files: SHA-256 of the meaning of each public file that the workload names, by the config key that names it.
    """
    facts = {
        "config": config.model_dump(mode="json", exclude=_NOT_IDENTIFYING),  # type: ignore[arg-type]
        "schema": None if schema is None else asdict(schema),
        "files": dict(files or {}),
        "version": VERSION,
    }
    content = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(content.encode()).hexdigest()


def bound_path(path: str) -> str:
    """The canonical form of a dataset's path: absolute, with symbolic links resolved.

    A glob becomes the folder above its first wildcard, whatever it matches at the moment. The result therefore overlaps
    every other path of the same files, and may also overlap paths of files that the glob does not match.

    The canonical form prevents accidents, namely two names and two budgets for one dataset. It cannot stop an operator
    from copying files.
    """
    path = path.removeprefix("file://")
    if "://" in path:
        return _fixed_part(path).rstrip("/")
    path = os.path.expanduser(path)
    return os.path.realpath(path if os.path.exists(path) else _fixed_part(path))


def _fixed_part(path: str) -> str:
    """The path up to the first component with a wildcard; the whole path when there is no wildcard."""
    glob = re.search(r"[^/]*[*?\[]", path)
    return path if glob is None else path[: glob.start()]
