"""The release id and the canonical path of the data: neither depends on how a config is written."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from jobs.config import Config
from jobs.version import VERSION
from pipelines.schema import Schema

# Paths and the engine change neither the guarantee nor any byte of the release, so they are not part of its id.
WORKLOAD_PATHS = {"conjunctions": {"file", "weights_file"}}
_NOT_IDENTIFYING = {
    "dataset": {"path", "table_schema"},
    "privacy": {"ledger"},
    "workload": WORKLOAD_PATHS,
    "engine": True,
    "output": {"path", "report"},
}


def release_id(config: Config, schema: Schema | None, files: Mapping[str, str] | None = None) -> str:
    """SHA-256 of the public facts of a release, as 64 hexadecimal digits.

    The version of the code is one of these facts. The data are not: the config's snapshot label stands for them.

    config: The config, of which the paths and the engine are ignored.
    schema: The schema of a table; None for baskets.
    files: SHA-256 of the meaning of each public file that the workload names, by the config key that names it.
    """
    return id_of(identifying_config(config), identifying_schema(schema), files or {}, VERSION)


def identifying_config(config: Config) -> dict[str, Any]:
    """The part of a config that identifies a release, as a JSON object: all of it except the paths and the engine."""
    return config.model_dump(mode="json", exclude=_NOT_IDENTIFYING)  # type: ignore[arg-type]


def identifying_schema(schema: Schema | None) -> dict[str, Any] | None:
    """The schema of a table as a JSON object, with every default filled in; None for baskets."""
    return None if schema is None else asdict(schema)


def id_of(config: Mapping[str, Any], schema: Mapping[str, Any] | None, files: Mapping[str, str], version: str) -> str:
    """SHA-256 of the facts of ``release_id`` as JSON objects, which a certificate repeats in full.

    config: ``identifying_config`` of the config.
    schema: ``identifying_schema`` of the schema.
    files: As for ``release_id``.
    version: Version of the code.
    """
    return canonical_sha256({"config": config, "schema": schema, "files": dict(files), "version": version})


def canonical_sha256(content: object) -> str:
    """SHA-256 of a JSON value, written with sorted keys and without spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


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


def canonical_url(path: str) -> str:
    """The one spelling of a URL; a local path is returned as it is."""
    return path


def _fixed_part(path: str) -> str:
    """The path up to the first component with a wildcard; the whole path when there is no wildcard."""
    glob = re.search(r"[^/]*[*?\[]", path)
    return path if glob is None else path[: glob.start()]
