"""The release id and the canonical path of the data: neither depends on how a config is written."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from jobs.config import Config
from jobs.config.dataset import CATALOG_SCHEME, FRAME_SCHEME
from jobs.version import VERSION
from pipelines.schema import Schema

_LOCAL_SCHEMES = {"file", "local"}
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
_OTHER_URI = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # Of Databricks, for example.
_DEFAULT_PORTS = {"hdfs": ":8020", "http": ":80", "https": ":443"}
_STORES = {"s3", "gs", "hdfs", "http", "https"}  # What stands before @ in their URLs is a user, not a container.
_OF_SUMS = frozenset({"sum_of", "absolute", "dates"})
WORKLOAD_PATHS = {"conjunctions": {"file", "weights_file"}}
# Paths and the engine change neither the guarantee nor any byte of the release, so they are not part of its id. Nor is
# the number of synthetic rows, which are drawn from noisy answers: another number must not be charged again.
_NOT_IDENTIFYING = {
    "dataset": {"path": True, "format": True, "csv": True, "table_schema": True, "table": {"uri"}, "items": {"file"}},
    "privacy": {"ledger"},
    "workload": WORKLOAD_PATHS,
    "mechanism": {"public"},
    "engine": True,
    "output": True,
}


# Keys that have joined the config within this version: without them, an id is what it was.
_ONLY_IF_GIVEN = ("catalog", "frame", "partition")
_RANDOM_MARGINALS = ("count", "seed")
_MIXED_ORDERS = ("orders",)
_NEW_WORKLOADS = ("itemsets",)

# Every version up to 0.10 wrote releases whose records hold neither a version nor a digest of the identity. Their ids
# follow from the config as these versions saw it: 0.6 to 0.10 had the number of synthetic rows in the id, and up to 0.9
# the share of the popularity had another name. Not recognised are releases of versions before 0.6, which had other
# keys; of another number of synthetic rows than the config has now; and of public files whose meaning these versions
# hashed in another way.
_VERSIONS_WITHOUT_RECORD = ("0.6.0", "0.7.0", "0.8.0", "0.9.0", "0.10.0")
_LAST_WITHOUT_RECORD = _VERSIONS_WITHOUT_RECORD[-1]
_NOT_IDENTIFYING_BEFORE = {
    **_NOT_IDENTIFYING,
    "dataset": {"path", "table_schema", "table", "where", "partition", "catalog", "frame", "format", "csv"},
    "series": True,
    "output": {"path", "report", "signing_key"},
}


@dataclass(frozen=True)
class Identity:
    """What makes two releases the same, within one version of the code and across versions.

    release_id: SHA-256 of the release's public facts, of which the version is one.
    digest: SHA-256 of the same facts without the version and without everything that has its default, so that a later
        version with more keys finds the same digest for the same config.
    older: The ids that versions which recorded no digest gave to the same release, each with its version.
    version: Version of the code.
    """

    release_id: str
    digest: str
    older: Mapping[str, str]
    version: str


def identity_of(config: Config, schema: Schema | None, files: Mapping[str, str]) -> Identity:
    """The identity of a release. The arguments are those of ``release_id``."""
    written = _facts(config, exclude_defaults=True)
    digest = canonical_sha256({"config": written, "schema": _without_defaults(schema), "files": dict(files)})
    # No version without a record could read a table or a frame, choose rows or marginals, or make a step of a series.
    dataset, marginals = config.dataset, config.workload.marginals
    named = not isinstance(dataset.items, int | None)
    new_keys = (
        named
        or dataset.table
        or dataset.where
        or dataset.partition
        or dataset.catalog
        or dataset.frame
        or config.mechanism.public
        or config.series
    )
    random = marginals is not None and marginals.count is not None
    conjunctions = config.workload.conjunctions
    mixed = conjunctions is not None and conjunctions.orders is not None
    versions = () if new_keys or random or mixed or config.workload.itemsets else _VERSIONS_WITHOUT_RECORD
    older = {
        id_of(_as_before(config, version), identifying_schema(schema), files, version): version for version in versions
    }
    return Identity(release_id(config, schema, files), digest, older, VERSION)


def _as_before(config: Config, version: str) -> dict[str, Any]:
    """The part of a config that a version up to 0.10 took for identifying."""
    facts = config.model_dump(mode="json", exclude=_NOT_IDENTIFYING_BEFORE)  # type: ignore[arg-type]
    for key in _NEW_WORKLOADS:
        del facts["workload"][key]
    for key in _RANDOM_MARGINALS if facts["workload"]["marginals"] is not None else ():
        del facts["workload"]["marginals"][key]
    conjunctions = facts["workload"]["conjunctions"]
    for key in _MIXED_ORDERS if conjunctions is not None else ():
        del conjunctions[key]
    if version != _LAST_WITHOUT_RECORD and conjunctions is not None:
        conjunctions["share"] = conjunctions.pop("popularity_share")
    return facts


def _without_defaults(schema: Schema | None) -> list[dict[str, Any]] | None:
    """The attributes of a schema, each with the fields that differ from their defaults."""
    if schema is None:
        return None
    return [
        {
            field.name: value
            for field in fields(attribute)
            # True is 1 in Python, but not as the code of nulls: the type belongs to the value.
            if (type(value := getattr(attribute, field.name)), value) != (type(field.default), field.default)
        }
        for attribute in schema.attributes
    ]


def release_id(config: Config, schema: Schema | None, files: Mapping[str, str] | None = None) -> str:
    """SHA-256 of the public facts of a release, as 64 hexadecimal digits.

    The version of the code is one of these facts. The data are not: the config's snapshot label stands for them.

    config: The config, of which the paths, the engine and the number of synthetic rows are ignored.
    schema: The schema of a table; None for baskets.
    files: SHA-256 of the meaning of each public file that the workload names, by the config key that names it.
    """
    return id_of(identifying_config(config), identifying_schema(schema), files or {}, VERSION)


def identifying_config(config: Config) -> dict[str, Any]:
    """The part of a config that identifies a release, as a JSON object: all of it except paths, engine and output.

    A release that is no step of a series has no section ``series``.
    """
    facts = _facts(config)
    workload = facts["workload"]
    for section, keys in (
        (facts["dataset"], _ONLY_IF_GIVEN),
        (workload["marginals"], _RANDOM_MARGINALS),
        (workload["conjunctions"], _MIXED_ORDERS),
        (workload, _NEW_WORKLOADS),
    ):
        for key in keys if section is not None else ():
            if section[key] is None:
                del section[key]
    return {key: value for key, value in facts.items() if key != "series" or value is not None}


def series_id(config: Config, schema: Schema | None, files: Mapping[str, str]) -> str:
    """SHA-256 of what the releases of a series have in common, as 64 hexadecimal digits.

    This is all that ``release_id`` hashes except the step, the snapshot, the version of a table and the version of the
    code: a series goes on after an upgrade.
    """
    written = _facts(config, exclude_defaults=True)
    del written["series"]
    written["dataset"] = {
        key: _any_version(value) if key in ("table", "catalog") else value
        for key, value in written["dataset"].items()
        if key != "snapshot"
    }
    return canonical_sha256({"series": written, "schema": _without_defaults(schema), "files": dict(files)})


def _any_version(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table or a table of a catalog, at any version."""
    return {key: value for key, value in table.items() if key not in ("version", "snapshot_id")}


def _facts(config: Config, **options: bool) -> dict[str, Any]:
    facts = config.model_dump(mode="json", exclude=_NOT_IDENTIFYING, **options)  # type: ignore[arg-type]
    catalog = facts["dataset"].get("catalog")
    if catalog is not None:  # Spark's own catalog takes Sales.People and sales.people for one table.
        catalog["table"] = catalog["table"].lower()
    return facts


def identifying_schema(schema: Schema | None) -> dict[str, Any] | None:
    """The schema of a table as a JSON object, with every default filled in; None for baskets.

    The words of its codebook are for readers, and change no release. An attribute that is no sum has no keys of sums,
    as in releases of versions without sums.
    """
    if schema is None:
        return None
    attributes = [asdict(attribute) for attribute in schema.attributes]
    return {
        "attributes": tuple(
            {key: value for key, value in attribute.items() if attribute["sum_of"] or key not in _OF_SUMS}
            for attribute in attributes
        )
    }


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
    """The canonical form of a dataset's path: absolute, with symbolic links resolved, or one spelling of a URL.

    A glob becomes the folder above its first wildcard, whatever it matches at the moment. The result therefore overlaps
    every other path of the same files, and may also overlap paths of files that the glob does not match.

    In a URL, schemes that name one store become one scheme, the host becomes lower-case and loses a default port, and
    doubled slashes, ``.`` and ``..`` are resolved. Some stores keep keys such as ``a//b`` and ``a/b`` apart; here they
    overlap, which can only refuse too much.

    The name of a table in Spark's catalog (``catalog:NAME``) or of a frame (``frame:NAME``) is canonical already.

    The canonical form prevents accidents, namely two names and two budgets for one dataset. Copies have other paths;
    the ledger knows them by their content (``jobs.ledger.contents``).
    """
    if is_name(path):
        return path
    scheme, is_url, rest = path.partition("://")
    scheme = scheme.lower()
    if is_url and scheme not in _LOCAL_SCHEMES:
        return _canonical_url(_SCHEMES.get(scheme, scheme), _fixed_part(rest))
    if not is_url and _OTHER_URI.match(path):
        return path
    path = local_path(path)
    return os.path.realpath(path if os.path.exists(path) else _fixed_part(path))


def is_name(root: str) -> bool:
    """Whether data are bound by a name, of a table in Spark's catalog or of a frame, because they have no path."""
    return root.startswith((CATALOG_SCHEME, FRAME_SCHEME))


def local_path(path: str) -> str:
    """A local path or its URL as the engines read it; any other URL is returned as it is."""
    scheme, is_url, rest = path.partition("://")
    if is_url and scheme.lower() in _LOCAL_SCHEMES:
        return rest if scheme.lower() == "file" else os.path.expanduser(rest)
    return os.path.expanduser(path)


def linked_files(files: Sequence[str], path: str) -> tuple[str, ...]:
    """The files of a dataset to which links lead from its path, and which are outside it, sorted.

    files: Paths or URLs of all files of the dataset.
    path: The canonical path of the dataset.
    """
    inside = path.rstrip("/") + "/"
    places = {bound_path(file) for file in files}
    return tuple(sorted(place for place in places if place != path and not place.startswith(inside)))


def _canonical_url(scheme: str, rest: str) -> str:
    host, _, folder = rest.partition("/")
    host = host.lower().removesuffix(_DEFAULT_PORTS.get(scheme, "/"))  # No host ends in a slash.
    if scheme in _STORES:
        host = host.rpartition("@")[2]  # Credentials neither name the data nor belong in the ledger.
    return f"{scheme}://{host}{posixpath.normpath('/' + folder.lstrip('/'))}".rstrip("/")


def _fixed_part(path: str) -> str:
    """The path up to the first component with a wildcard; the whole path when there is no wildcard."""
    glob = re.search(r"[^/]*[*?\[]", path)
    return path if glob is None else path[: glob.start()]
