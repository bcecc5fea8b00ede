"""The config of one release: its sections (``workload`` has a file of its own), and how a file is read and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dpcore.errors import ConfigError
from jobs.config.section import Positive, Section, Text
from jobs.config.workload import Queries
from jobs.config.yaml_file import read_yaml

LARGEST_EPSILON = 100.0
LARGEST_QUIET_DELTA = 1e-5


def _private_or_count(value: object) -> object:
    if value == "private" or (type(value) is int and value >= 1):
        return value
    raise ValueError("want private, or the public number of units")


def _auto_or_count(value: object) -> object:
    if value == "auto" or (type(value) is int and value >= 0):
        return value
    raise ValueError("want auto, 0, or a number of rows")


def _local_path(value: object) -> object:
    if isinstance(value, str) and "://" in value:
        raise ValueError("is a URL; want a folder on this machine, because output is local")
    return value


def _label(value: object) -> object:
    if isinstance(value, float):
        raise ValueError("reads as a decimal number; want it in quotes")
    return str(value) if type(value) is int else value


class Dataset(Section):
    """Public facts about the data."""

    name: Text = Field(description="Name under which the ledger keeps the dataset's privacy budget.")
    snapshot: Annotated[Text, BeforeValidator(_label)] = Field(
        description="Label of the data's state, such as a date; a new label makes a new release."
    )
    path: Text = Field(
        description="Parquet file, folder, glob or URL of the data, relative to the working folder of the process."
    )
    shape: Literal["table", "baskets"] = Field(
        description="Either a table (rows with attributes) or baskets (pairs of a unit and an item)."
    )
    unit: Text = Field(description="Column that names the privacy unit, whose presence the release hides.")
    table_schema: Text | None = Field(
        default=None,
        alias="schema",
        description="YAML schema of a table's attributes, relative to the config file; required for a table.",
    )
    max_rows_per_unit: Positive | None = Field(
        default=None,
        description="Contribution bound of a table: rows that one unit may have, at least 1; the rows above it are "
        "truncated. It is 1 when left out, because noise grows with it.",
    )
    item: Text | None = Field(default=None, description="Column of a basket's items; required for baskets.")
    items: Positive | None = Field(
        default=None, description="Number of possible items, which are numbered from 0; required for baskets."
    )
    max_items_per_unit: Positive | None = Field(
        default=None,
        description="Contribution bound of baskets: distinct items that one unit may have, at least 1; the items above "
        "it are truncated. There is no bound when left out.",
    )
    clustered_by_unit: bool = Field(
        default=False,
        description="Claims that no unit has rows in two files, which saves a shuffle; units that break the claim are "
        "dropped, so the guarantee does not rest on it. False claims nothing.",
    )

    @model_validator(mode="after")
    def _keys_of_its_shape(self) -> Self:
        of_tables = {"schema": self.table_schema, "max_rows_per_unit": self.max_rows_per_unit}
        of_baskets = {"item": self.item, "items": self.items, "max_items_per_unit": self.max_items_per_unit}
        table = self.shape == "table"
        foreign = of_baskets if table else of_tables
        for key, value in foreign.items():
            if value is not None:
                raise ValueError(f"{key} does not go with shape: {self.shape}; want no {key}, or the other shape")
        wanted = {"schema": self.table_schema} if table else {"item": self.item, "items": self.items}
        for key, value in wanted.items():
            if value is None:
                raise ValueError(f"{key} is missing; shape: {self.shape} needs it")
        return self


class Privacy(Section):
    """The guarantee of the release, and the ledger that accounts for it."""

    epsilon: Annotated[float, Field(gt=0, le=LARGEST_EPSILON)] = Field(
        description="Epsilon of the guarantee, in (0, 100]."
    )
    delta: Annotated[float, Field(ge=0, lt=1)] = Field(
        description="Delta of the guarantee, in [0, 1); 0 is pure differential privacy."
    )
    accounting: Literal["auto", "pure", "zcdp", "gdp"] = Field(
        default="auto",
        description="Currency of the budget: pure if and only if delta is 0, else zcdp or gdp (Gaussian DP). The "
        "default auto takes gdp for mechanisms that mostly add Gaussian noise, which then need less of it, and zcdp "
        "for the others.",
    )
    neighbours: Literal["add_remove_unit", "replace_one_unit"] = Field(
        default="add_remove_unit",
        description="Neighbouring datasets, which the guarantee makes hard to tell apart: they differ by the presence "
        "of one unit (the default, which keeps the number of units private), or by the rows of one unit.",
    )
    units: Annotated[Literal["private"] | int, BeforeValidator(_private_or_count)] = Field(
        default="private",
        description="Number of units where it is public, at least 1; the default keeps it private.",
    )
    ledger: Text = Field(
        default="sqlite:///marquee.db",
        description="Database URL of the ledger; the default is a file in the working folder.",
    )
    consumer: Text | None = Field(
        default=None,
        description="Consumer whose limit the release is charged to as well, as marquee budget grant names it.",
    )

    @model_validator(mode="after")
    def _replacing_needs_a_public_number(self) -> Self:
        if self.neighbours == "replace_one_unit" and self.units == "private":
            raise ValueError("neighbours: replace_one_unit needs a public number; want units: N, or add_remove_unit")
        return self

    @model_validator(mode="after")
    def _pure_without_delta(self) -> Self:
        if self.accounting == "pure" and self.delta > 0:
            raise ValueError(f"accounting: pure has no delta, which is {self.delta:g}; want delta: 0, zcdp or gdp")
        if self.accounting in ("zcdp", "gdp") and self.delta == 0:
            raise ValueError(f"accounting: {self.accounting} needs a delta above 0; want delta such as 1e-6, or pure")
        return self


class MechanismChoice(Section):
    """A mechanism by name; every other key is one of its settings."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    name: Text = Field(description="Name of the mechanism; marquee plan recommends one.")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as the config has them, by name."""
        return dict(self.model_extra or {})


class EngineChoice(Section):
    """Where the data are aggregated. The engine changes speed only: every engine gives the same release."""

    name: Literal["local", "spark", "beam"] = Field(
        default="local", description="The engine; local (threads of this process) needs no extra package."
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of the engine: threads and rows_in_memory (local), partitions and settings (spark), "
        "arguments (beam).",
    )


class Output(Section):
    """What the release writes, and where."""

    path: Annotated[Text, BeforeValidator(_local_path)] = Field(
        description="Folder of the release, relative to the working folder of the process; it must be new or empty."
    )
    synthetic_rows: Annotated[Literal["auto"] | int, BeforeValidator(_auto_or_count)] = Field(
        default="auto",
        description="Number of synthetic rows, at least 0; the default auto writes about as many as the data have, by "
        "the noisy total, where the mechanism fits a model.",
    )
    report: bool = Field(default=False, description="Reserved for a report; only false is accepted.")

    @model_validator(mode="after")
    def _no_report_yet(self) -> Self:
        if self.report:
            raise ValueError("report: true asks for a report, and reports do not exist yet; want report: false")
        return self


class Config(Section):
    """The config of one release."""

    version: Literal[1] = Field(default=1, description="Version of the config format.")
    dataset: Dataset = Field(description="The data and their public facts.")
    privacy: Privacy = Field(description="The guarantee and its ledger.")
    workload: Queries = Field(description="The queries to answer.")
    mechanism: MechanismChoice = Field(description="The mechanism that answers them, with its settings.")
    engine: EngineChoice = Field(default=EngineChoice(), description="The engine that aggregates the data.")
    output: Output = Field(description="Where the release is written.")

    @model_validator(mode="after")
    def _queries_of_its_shape(self) -> Self:
        if self.dataset.shape == "baskets":
            for name, of_tables in (("marginals", self.workload.marginals), ("products", self.workload.products)):
                if of_tables is not None:
                    wanted = "want workload.conjunctions or workload.parities for baskets"
                    raise ValueError(f"workload.{name} needs shape: table; {wanted}")
            over_columns = (("conjunctions", self.workload.conjunctions), ("parities", self.workload.parities))
            for name, queries in over_columns:
                if queries is not None and queries.attributes != "all":
                    raise ValueError(f"workload.{name}.attributes needs shape: table; want attributes: all")
        return self


def load_config(path: Path | str) -> Config:
    """Reads and checks a config file.

    Raises: ConfigError that names the file and the key.
    """
    document = read_yaml(Path(path))
    try:
        return parse_config(document)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_config(document: object) -> Config:
    """Checks the parsed document of a config file.

    document: Keys and values as YAML or JSON gives them.

    Raises: ConfigError that names the key.
    """
    if not isinstance(document, Mapping):
        raise ConfigError("the config is not a mapping; want keys such as dataset, privacy, workload")
    try:
        return Config.model_validate_json(json.dumps(document))
    except TypeError as error:
        raise ConfigError("the config holds a value of another type; want text, numbers, lists and keys") from error
    except ValidationError as error:
        raise ConfigError(_sentence(error)) from error


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


def error_text(error: ValidationError) -> str:
    """The first problem of a single value, as the end of a sentence that begins with its key."""
    problem = error.errors(include_url=False)[0]
    if problem["type"] in _WANTED:
        return f"is {problem['input']!r}; want {_WANTED[problem['type']].format(**problem.get('ctx', {}))}"
    return f"is refused: {problem['msg']}"


def _sentence(error: ValidationError) -> str:
    """The first problem as one sentence, with its key, and how many more there are."""
    problems = error.errors(include_url=False)
    first, further = problems[0], len(problems) - 1
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        sentence = f"{key} is missing"
    elif first["type"] == "value_error":
        sentence = f"{key}: {first['ctx']['error']}" if key else str(first["ctx"]["error"])
    else:
        sentence = f"{key} {error_text(error)}"
    return sentence + (f" (and {further} more)" if further else "")
