"""Builds from arguments the config that a YAML file would hold, and its job."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from dpcore.errors import ConfigError
from jobs.config import parse_config
from jobs.config.section import check_key
from jobs.planning.job import Job, job_of
from marquee.budgets import Ledger, ledger_url
from marquee.sources import DataSource, data_source
from pipelines.schema import Schema, schema_from

DEFAULT_OUTPUT: Final = "marquee-releases/{dataset.name}/{dataset.snapshot}-{release_id}"
"""Folder of a release for which none is named: every release has its own."""

_SCHEMA_OF_A_PROGRAM: Final = "the schema that a program gives"  # Stands for the file, and is never opened.

SchemaLike = str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Schema
WorkloadLike = Mapping[str, Any] | Sequence[Sequence[str]]


class Options(TypedDict, total=False):
    """Arguments of a release that have a default. See ``marquee.release``."""

    name: str | None
    snapshot: str | int
    schema: SchemaLike | None
    mechanism: str | Mapping[str, Any]
    ledger: str | os.PathLike[str] | Ledger
    shape: Literal["table", "baskets"]
    item: str | None
    items: int | Mapping[str, Any] | None
    max_rows_per_unit: int | None
    max_items_per_unit: int | None
    clustered: bool
    format: str | None
    csv: Mapping[str, Any] | None
    where: Mapping[str, Any] | None
    partition: Mapping[str, Any] | None
    neighbours: Literal["add_remove_unit", "replace_one_unit"]
    units: Literal["private"] | int
    accounting: Literal["auto", "pure", "zcdp", "gdp"]
    consumer: str | None
    engine: str | Mapping[str, Any] | None
    output: str | os.PathLike[str]
    synthetic_rows: Literal["auto"] | int
    signing_key: str | os.PathLike[str] | None


@dataclass(frozen=True)
class Request:
    """A job with the data that a program gives for it.

    job: The release, ready to run.
    frame: The data; None for data that have a place.
    """

    job: Job
    frame: Any = field(default=None, repr=False)


def request_of(
    data: Any, unit: str | Sequence[str], workload: WorkloadLike, epsilon: float, delta: float, options: Options
) -> Request:
    """The job that arguments describe, with their data. Paths start at the working folder. No data are read.

    The arguments are those of ``marquee.release``.

    Raises: The exceptions of ``jobs.planning.job.job_of``.
    """
    _check_known(options)
    source = data_source(data, options.get("name"))
    schema, path = _schema(options.get("schema"))
    document = {
        "dataset": _dataset(source, unit, path, options),
        "privacy": _privacy(epsilon, delta, options),
        "workload": _workload(workload),
        "mechanism": _named(options.get("mechanism", "recommended")),
        "engine": _named(options.get("engine") or source.engine),
        "output": _output(options),
    }
    return Request(job_of(parse_config(_with_text_paths(document)), Path.cwd(), schema=schema), source.frame)


def _check_known(options: Options) -> None:
    try:
        for name in options:
            check_key(name, list(Options.__annotations__), "argument")
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _dataset(source: DataSource, unit: str | Sequence[str], schema: str | None, options: Options) -> dict[str, Any]:
    keys = {
        "name": source.name,
        **source.keys,
        "shape": options.get("shape", "table"),
        "unit": unit if isinstance(unit, str) else list(unit),
        "schema": schema,
        "item": options.get("item"),
        "items": options.get("items"),
        "max_rows_per_unit": options.get("max_rows_per_unit"),
        "max_items_per_unit": options.get("max_items_per_unit"),
        "clustered_by_unit": options.get("clustered"),
        "format": options.get("format"),
        "csv": options.get("csv"),
        "where": options.get("where"),
        "partition": options.get("partition"),
    }
    if "snapshot" in options or not {"table", "catalog"} & set(source.keys):
        keys["snapshot"] = options.get("snapshot", "1")
    return _without_none(keys)


def _privacy(epsilon: float, delta: float, options: Options) -> dict[str, Any]:
    keys = {name: options.get(name) for name in ("neighbours", "units", "accounting", "consumer")}
    ledger = ledger_url(options.get("ledger", Ledger()))
    return {"epsilon": epsilon, "delta": delta, "ledger": ledger, **_without_none(keys)}


def _output(options: Options) -> dict[str, Any]:
    key = options.get("signing_key")
    keys = {
        "path": os.fspath(options.get("output", DEFAULT_OUTPUT)),
        "synthetic_rows": options.get("synthetic_rows"),
        "signing_key": None if key is None else os.fspath(key),
    }
    return _without_none(keys)


def _schema(schema: SchemaLike | None) -> tuple[Schema | None, str | None]:
    """A schema of the program, or None if it is in a file; and what the config has as the path of the file."""
    if schema is None:
        return None, None
    if isinstance(schema, str | os.PathLike):
        return None, os.fspath(schema)
    if isinstance(schema, Schema):
        return schema, _SCHEMA_OF_A_PROGRAM
    document = schema if isinstance(schema, Mapping) else {"attributes": list(schema)}
    return schema_from({"version": 1, **document}), _SCHEMA_OF_A_PROGRAM


def _workload(workload: WorkloadLike) -> dict[str, Any]:
    """The section ``workload``. A list of lists of attributes stands for their marginals."""
    if isinstance(workload, Mapping):
        return dict(workload)
    return {"marginals": {"cliques": [{"attributes": list(clique)} for clique in workload]}}


def _named(choice: str | Mapping[str, Any]) -> dict[str, Any]:
    """A section that is a name with settings. A name alone has none."""
    return {"name": choice} if isinstance(choice, str) else dict(choice)


def _with_text_paths(value: Any) -> Any:
    """A value of a config with text in place of path objects, at any depth."""
    if isinstance(value, Mapping):
        return {key: _with_text_paths(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_paths(inner) for inner in value]
    return os.fsdecode(value) if isinstance(value, os.PathLike) else value


def _without_none(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}
