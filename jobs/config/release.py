"""The config of a release: every key, its type and its range. Unknown keys are refused with the nearest known one."""

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
    """Public facts about the data. ``path`` is relative to the working folder, ``schema`` to the config file."""

    name: Text
    snapshot: Annotated[Text, BeforeValidator(_label)]
    path: Text
    shape: Literal["table", "baskets"]
    unit: Text
    table_schema: Text | None = Field(default=None, alias="schema")
    max_rows_per_unit: Positive | None = None
    item: Text | None = None
    items: Positive | None = None
    max_items_per_unit: Positive | None = None
    clustered_by_unit: bool = False

    @model_validator(mode="after")
    def _keys_of_its_shape(self) -> Self:
        of_tables = {"schema": self.table_schema, "max_rows_per_unit": self.max_rows_per_unit}
        of_baskets = {"item": self.item, "items": self.items, "max_items_per_unit": self.max_items_per_unit}
        table = self.shape == "table"
        foreign = of_baskets if table else of_tables
        for key, value in foreign.items():
            if value is not None:
                raise ValueError(f"{key} does not go with shape: {self.shape}")
        wanted = {"schema": self.table_schema} if table else {"item": self.item, "items": self.items}
        for key, value in wanted.items():
            if value is None:
                raise ValueError(f"{key} is missing; shape: {self.shape} needs it")
        return self


class Privacy(Section):
    """What is promised, to whom, and where and in what it is accounted. A delta of 0 is pure differential privacy.

    accounting: "pure" if and only if delta is 0; "zcdp" or "gdp" (Gaussian differential privacy) otherwise. "auto" is
        gdp for mechanisms that only add Gaussian noise, and zcdp for those that also select or draw.
    consumer: Who pays beside the dataset, as marquee budget grant names it.
    """

    epsilon: Annotated[float, Field(gt=0, le=LARGEST_EPSILON)]
    delta: Annotated[float, Field(ge=0, lt=1)]
    accounting: Literal["auto", "pure", "zcdp", "gdp"] = "auto"
    neighbours: Literal["add_remove_unit", "replace_one_unit"] = "add_remove_unit"
    units: Annotated[Literal["private"] | int, BeforeValidator(_private_or_count)] = "private"
    ledger: Text = "sqlite:///marquee.db"
    consumer: Text | None = None

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
    name: Text

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class EngineChoice(Section):
    """Who calls the aggregators. Changes speed only: two runs that differ here have the same guarantee."""

    name: Literal["local", "spark", "beam"] = "local"
    options: dict[str, Any] = Field(default_factory=dict)


class Output(Section):
    """Where the release goes, relative to the working folder."""

    path: Annotated[Text, BeforeValidator(_local_path)]
    synthetic_rows: Annotated[Literal["auto"] | int, BeforeValidator(_auto_or_count)] = "auto"
    report: bool = False

    @model_validator(mode="after")
    def _no_report_yet(self) -> Self:
        if self.report:
            raise ValueError("report: true asks for a report, and reports do not exist yet; want report: false")
        return self


class Config(Section):
    """One release."""

    version: Literal[1] = 1
    dataset: Dataset
    privacy: Privacy
    workload: Queries
    mechanism: MechanismChoice
    engine: EngineChoice = EngineChoice()
    output: Output

    @model_validator(mode="after")
    def _queries_of_its_shape(self) -> Self:
        if self.dataset.shape == "baskets":
            for name, of_tables in (("marginals", self.workload.marginals), ("products", self.workload.products)):
                if of_tables is not None:
                    wanted = "want workload.conjunctions or workload.parities for baskets"
                    raise ValueError(f"workload.{name} needs shape: table; {wanted}")
            for name, asked in (("conjunctions", self.workload.conjunctions), ("parities", self.workload.parities)):
                if asked is not None and asked.attributes != "all":
                    raise ValueError(f"workload.{name}.attributes needs shape: table; want attributes: all")
        return self


def load_config(path: Path | str) -> Config:
    """Reads and checks a config file. Raises ConfigError that names the file and the key."""
    document = read_yaml(Path(path))
    try:
        return parse_config(document)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_config(document: object) -> Config:
    """The config that a parsed document describes. Raises ConfigError that names the key."""
    if not isinstance(document, Mapping):
        raise ConfigError("the config is not a mapping; want keys such as dataset, privacy, workload")
    try:
        return Config.model_validate_json(json.dumps(document))
    except TypeError as error:
        raise ConfigError("the config holds something that is not text, a number, a list or keys") from error
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
    """The first problem of a single value."""
    problem = error.errors(include_url=False)[0]
    if problem["type"] in _WANTED:
        return f"is {problem['input']!r}; want {_WANTED[problem['type']].format(**problem.get('ctx', {}))}"
    return f"is refused: {problem['msg']}"


def _sentence(error: ValidationError) -> str:
    """The first problem as one sentence, with its key, and how many more there are."""
    problems = error.errors(include_url=False)
    first, others = problems[0], len(problems) - 1
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        sentence = f"{place} is missing"
    elif first["type"] == "value_error":
        sentence = f"{place}: {first['ctx']['error']}" if place else str(first["ctx"]["error"])
    else:
        sentence = f"{place} {error_text(error)}"
    return sentence + (f" (and {others} more)" if others else "")
