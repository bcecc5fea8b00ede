"""The config of one release: its sections (``workload`` has its own file), and how a config is read and checked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dpcore.errors import ConfigError
from jobs.config.dataset import Dataset
from jobs.config.incremental import Incremental
from jobs.config.output_path import check_placeholders
from jobs.config.parameters import with_environment, with_settings
from jobs.config.section import Section, Text
from jobs.config.series import SeriesStep
from jobs.config.workload import Queries
from jobs.objects.address import SCHEMES
from pipelines.source.stores import ALIASES
from pipelines.yaml_file import read_yaml

LARGEST_EPSILON = 100.0
LARGEST_QUIET_DELTA = 1e-5
RECOMMENDED = "recommended"  # In place of the name of a mechanism.
LARGEST_ROWS = 1_000_000_000  # Synthetic rows of one release.


def _private_or_count(value: object) -> object:
    if value == "private" or (type(value) is int and value >= 1):
        return value
    raise ValueError(f"is {value!r}; want private, or the public number of units (an integer >= 1)")


def _auto_or_count(value: object) -> object:
    if value == "auto" or (type(value) is int and 0 <= value <= LARGEST_ROWS):
        return value
    if type(value) is int and value > LARGEST_ROWS:
        raise ValueError(f"is {value:,}; want at most {LARGEST_ROWS:,} rows")
    raise ValueError(f"is {value!r}; want auto, or a number of rows (an integer >= 0)")


def _folder(value: object) -> object:
    if isinstance(value, str) and "://" in value:
        scheme = value.partition("://")[0].lower()
        if ALIASES.get(scheme, scheme) not in SCHEMES:
            raise ValueError(f"is in a store {scheme}://; want a local folder, or one in s3://, gs:// or abfss://")
    if isinstance(value, str):
        check_placeholders(value)
    return value


class Privacy(Section):
    """The guarantee of the release, and the ledger that accounts for it."""

    epsilon: Annotated[float, Field(gt=0, le=LARGEST_EPSILON, allow_inf_nan=False)] = Field(
        description="Epsilon of the guarantee, in (0, 100]."
    )
    delta: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = Field(
        description="Delta of the guarantee, in [0, 1). With 0, the guarantee is pure differential privacy."
    )
    accounting: Literal["auto", "pure", "zcdp", "gdp"] = Field(
        default="auto",
        description="Accounting of the budget: pure when delta is 0, otherwise zcdp or gdp (Gaussian DP). The default, "
        "auto, uses gdp for mechanisms that mostly add Gaussian noise, because they need less noise in it: "
        "adaptive_residuals, aim, basket_mixture, clipped_gaussian, clique_tree, continual, fourier, "
        "frequent_itemsets, gaussian, gaussian_copula, gaussian_pgm, hdmm, independent, mst and mwem_pgm. It uses zcdp "
        "for all others. marquee plan shows which.",
    )
    neighbours: Literal["add_remove_unit", "replace_one_unit"] = Field(
        default="add_remove_unit",
        description="Neighbouring relation of the guarantee. Two datasets are neighbours when one has one unit more "
        "(add_remove_unit, the default, which keeps the number of units private), or when the rows of one unit differ "
        "(replace_one_unit).",
    )
    units: Annotated[Literal["private"] | int, BeforeValidator(_private_or_count)] = Field(
        default="private",
        description="Number of units, at least 1, if it is public. The default keeps it private.",
    )
    ledger: Text = Field(
        default="sqlite:///marquee.db",
        description="Database URL of the ledger. The path of a SQLite file may be relative to the folder of the config "
        "file. The default is marquee.db in that folder.",
    )
    consumer: Text | None = Field(
        default=None,
        description="Consumer, as named by marquee budget grant, to whose limit the release is charged as well.",
    )

    @model_validator(mode="after")
    def _replacing_needs_public_units(self) -> Self:
        if self.neighbours == "replace_one_unit" and self.units == "private":
            raise ValueError(
                "neighbours: replace_one_unit needs a public number of units; want units: N, or add_remove_unit"
            )
        return self

    @model_validator(mode="after")
    def _delta_matches_accounting(self) -> Self:
        if self.accounting == "pure" and self.delta > 0:
            raise ValueError(f"accounting: pure needs delta: 0, not {self.delta:g}; want delta: 0, zcdp or gdp")
        if self.accounting in ("zcdp", "gdp") and self.delta == 0:
            raise ValueError(f"accounting: {self.accounting} needs delta > 0; want a delta such as 1e-6, or pure")
        return self


class MechanismChoice(Section):
    """A mechanism by name. Every other key is one of its settings."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    name: Text = Field(
        description="Name of the mechanism, or recommended for the one that marquee plan recommends. The release id "
        "holds the name of the mechanism in both cases."
    )

    public: Text | None = Field(
        default=None,
        description="A public table in Parquet or CSV, relative to the config file, with the attributes of the schema: "
        "prior knowledge of mechanism clique_tree. It costs no budget, and is used as far as a noisy comparison says "
        "that it is right. It must be a table that may be published: never a part of the private data.",
    )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name, as they are written in the config."""
        return dict(self.model_extra or {})


class EngineChoice(Section):
    """Where data are aggregated and many rows are drawn. It affects the speed: every engine gives the same release."""

    name: Literal["local", "spark", "beam"] = Field(
        default="local",
        description="Name of the engine. The default, local, uses threads of this process and needs no extra package.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of the engine: threads and rows_in_memory (local), partitions and settings (spark), or "
        "arguments (beam).",
    )
    incremental: Incremental | None = Field(
        default=None,
        description="Keeps exact statistics of each partition in a store, so that the next run reads only new or "
        "changed files. By default every run reads all files.",
    )


class Output(Section):
    """What the release writes, and where."""

    path: Annotated[Text, BeforeValidator(_folder)] = Field(
        description="Folder of the release, new or empty. A relative path starts at the folder of the config file. A "
        "URL s3://, gs:// or abfss:// names a folder in an object store, where the journal is then kept too. "
        "{dataset.name}, {dataset.snapshot}, {mechanism.name} and {release_id} (its first 12 digits) stand for their "
        "values; {{ and }} are braces."
    )
    synthetic_rows: Annotated[Literal["auto"] | int, BeforeValidator(_auto_or_count)] = Field(
        default="auto",
        description="Number of synthetic rows, at least 0. The default, auto, writes as many rows as the noisy total "
        "says that the data have, if the mechanism fits a model, and at most 10,000 if that number may be noise alone. "
        "Rows cost no budget and are no part of the release id.",
    )
    signing_key: Text | None = Field(
        default=None,
        description="File with an Ed25519 private key in PEM, which signs the manifest of the release. By default the "
        "key is the content of the environment variable MARQUEE_SIGNING_KEY; without it the release is not signed.",
    )
    report: bool = Field(default=False, description="Reserved for a future report. Only false is accepted.")

    @model_validator(mode="after")
    def _no_report_yet(self) -> Self:
        if self.report:
            raise ValueError("report: true is not supported yet; want report: false")
        return self


class Config(Section):
    """The config of one release."""

    version: Literal[1] = Field(default=1, description="Version of the config format.")
    dataset: Dataset = Field(description="Where the data are, and public facts about them.")
    privacy: Privacy = Field(description="The guarantee, and the ledger that accounts for it.")
    workload: Queries = Field(description="The queries to answer.")
    mechanism: MechanismChoice = Field(description="The mechanism that answers the queries, with its settings.")
    series: SeriesStep | None = Field(
        default=None,
        description="One step of a series of releases, such as one day, for mechanism continual. All steps together "
        "are charged once. By default the release stands alone.",
    )
    engine: EngineChoice = Field(default=EngineChoice(), description="The engine that aggregates the data.")
    output: Output = Field(description="Where the release is written.")

    @model_validator(mode="after")
    def _series_can_grow(self) -> Self:
        if self.series is None:
            return self
        if self.mechanism.name != "continual":
            raise ValueError(f"series needs mechanism: continual, not {self.mechanism.name}; want that, or no series")
        if self.dataset.clustered_by_unit:
            raise ValueError(
                "series excludes dataset.clustered_by_unit, under which later files may drop a unit from earlier "
                "steps; want clustered_by_unit: false"
            )
        if self.dataset.partition is not None:
            raise ValueError(
                "series excludes dataset.partition, which chooses steps of its own; want dataset.where, or no series"
            )
        return self

    @model_validator(mode="after")
    def _queries_match_shape(self) -> Self:
        if self.dataset.shape != "baskets" and self.workload.itemsets is not None:
            raise ValueError("workload.itemsets needs shape: baskets; want marginals or conjunctions for a table")
        if self.dataset.shape == "baskets":
            for name, table_queries in (("marginals", self.workload.marginals), ("products", self.workload.products)):
                if table_queries is not None:
                    wanted = "want workload.conjunctions, itemsets or parities for baskets"
                    raise ValueError(f"workload.{name} needs shape: table; {wanted}")
            over_columns = (("conjunctions", self.workload.conjunctions), ("parities", self.workload.parities))
            for name, queries in over_columns:
                if queries is not None and queries.attributes != "all":
                    raise ValueError(f"workload.{name}.attributes needs shape: table; want attributes: all")
        return self


def load_config(path: Path | str, settings: Sequence[str] = ()) -> Config:
    """Reads and checks a config file.

    Environment variables in its values are replaced first, except in values that ``settings`` replace.

    path: The file.
    settings: Keys that are set in place of the file's, as ``KEY=VALUE`` (``jobs.config.parameters``).

    Raises: ConfigError that names the file and the key.
    """
    document = read_yaml(Path(path), "config", dates=False)
    try:
        document = with_environment(with_settings(document, settings, Config), os.environ)
        return parse_config(document)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_config(document: object) -> Config:
    """Checks the parsed content of a config file.

    document: Keys and values as the YAML parser returns them.

    Raises: ConfigError that names the key.
    """
    if not isinstance(document, Mapping):
        raise ConfigError("the config is not a mapping; want keys such as dataset, privacy, workload")
    try:
        return Config.model_validate_json(json.dumps(document))
    except TypeError as error:
        raise ConfigError(_other_type(document) or f"the config is refused: {error}") from error
    except ValidationError as error:
        raise ConfigError(_sentence(error)) from error


def _other_type(value: object, key: str = "") -> str | None:
    """Describes the first value that JSON has no type for, or the first such key; None if there is none."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str | int | float | None):
                return f"{key or 'the config'} has the key {name!r}; want keys that are text"
            if problem := _other_type(inner, f"{key}.{name}" if key else str(name)):
                return problem
        return None
    if isinstance(value, list | tuple):
        problems = (_other_type(inner, f"{key}.{number}") for number, inner in enumerate(value))
        return next(filter(None, problems), None)
    if isinstance(value, str | int | float | None):
        return None
    return f"{key or 'the config'} is of type {type(value).__name__}; want text, a number, a list or keys"


_WANTED = {
    "greater_than": "> {gt:g}",
    "greater_than_equal": ">= {ge:g}",
    "less_than": "< {lt:g}",
    "less_than_equal": "<= {le:g}",
    "literal_error": "{expected}",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "string_too_short": "some text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "too_short": "at least one",
    "dict_type": "keys and values",
    "model_type": "keys and values",
}


_SHOWN_PROBLEMS = 20


def error_text(error: ValidationError) -> str:
    """Describes the first problem of a value, as the end of a sentence that begins with its key."""
    return _text_of(error.errors(include_url=False)[0])


def _text_of(problem: Mapping[str, Any]) -> str:
    if problem["type"] in _WANTED:
        return f"is {problem['input']!r}; want {_WANTED[problem['type']].format(**problem.get('ctx', {}))}"
    return f"is refused: {problem['msg']}"


def _sentence(error: ValidationError) -> str:
    """Describes all problems in one sentence, each with its key."""
    listed = error.errors(include_url=False)
    places = [details["loc"] for details in listed]
    # A list with an invalid entry is reported as well, although only the entry is wrong.
    problems = [
        _problem(details)
        for details in listed
        if not any(
            len(place) > len(details["loc"]) and place[: len(details["loc"])] == details["loc"] for place in places
        )
    ]
    if len(problems) == 1:
        return problems[0]
    shown = problems if len(problems) <= _SHOWN_PROBLEMS else problems[:_SHOWN_PROBLEMS]
    hidden = len(problems) - len(shown)
    numbered = [f"({number}) {problem}" for number, problem in enumerate(shown, 1)]
    return f"{len(problems)} problems: " + ", ".join(numbered) + (f", and {hidden} more like these" if hidden else "")


def _problem(details: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in details["loc"])
    if details["type"] == "missing":
        return f"{key} is missing; want this key"
    if details["type"] == "value_error":
        problem = str(details["ctx"]["error"])
        # A problem of the value itself reads as a sentence about its key.
        return f"{key} {problem}" if problem.startswith("is ") else f"{key}: {problem}" if key else problem
    return f"{key} {_text_of(details)}"
