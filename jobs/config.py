"""The config of a release: every key, its type and its range. Unknown keys are refused with the nearest known one."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dpcore.errors import ConfigError
from dpcore.queries.parities import LARGEST_ORDER
from jobs.yaml_file import read_yaml

LARGEST_EPSILON = 100.0
LARGEST_QUIET_DELTA = 1e-5
POPULARITY_SHARE = 0.05

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Names = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]


def _all_or_names(value: object) -> object:
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return tuple(value)
    if value == "all":
        return value
    raise ValueError("want all, or a list of attribute names")


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


Attributes = Annotated[Literal["all"] | tuple[str, ...], BeforeValidator(_all_or_names)]


class Section(BaseModel):
    """A group of keys; frozen, strict about types, closed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, values: object) -> object:
        if isinstance(values, Mapping) and cls.model_config.get("extra") == "forbid":
            for key in values:
                check_key(str(key), list(cls._keys()))
        return values

    @classmethod
    def _keys(cls) -> list[str]:
        return [field.alias or name for name, field in cls.model_fields.items()]


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


class Skewed(Section):
    """Random marginals that favour some attributes."""

    count: Positive
    seed: Seed = 0


class WeightedClique(Section):
    """One marginal and how much it matters."""

    attributes: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0


class MarginalQueries(Section):
    """All marginals of an order, those with a target attribute, skewed random ones, or named cliques.

    prefix, ranges: Attributes that are asked for the prefixes of their ordered codes, or for all their ranges, where a
        marginal holds them; all others for their codes. Codes of nulls and of other values are asked one by one.
    """

    order: Positive | None = None
    attributes: Attributes = "all"
    target: Text | None = None
    skewed: Skewed | None = None
    cliques: Annotated[tuple[WeightedClique, ...], Field(min_length=1, strict=False)] | None = None
    prefix: Names | None = None
    ranges: Names | None = None

    @model_validator(mode="after")
    def _one_matrix_an_attribute(self) -> Self:
        both = sorted({*(self.prefix or ())} & {*(self.ranges or ())})
        if both:
            raise ValueError(f"prefix and ranges both name {both}; want an attribute in one of them")
        return self

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.cliques is not None:
            if self.order or self.target or self.skewed or self.attributes != "all":
                raise ValueError("cliques stand alone; want no order, attributes, target or skewed beside them")
            return self
        if self.order is None:
            raise ValueError("order is missing; want order: N, or cliques")
        if self.target and self.skewed:
            raise ValueError("target and skewed exclude each other; want one of them")
        if self.attributes != "all" and (self.target or self.skewed):
            raise ValueError("target and skewed range over all attributes; want attributes: all")
        return self


class ConjunctionQueries(Section):
    """Random conjunctions of literals, over items of baskets or over the one-hot columns of a table, or listed ones.

    weights: How often a column is proposed: all alike, bought popularity, or the public numbers of ``weights_file``.
    share: Part of the budget that buys noisy popularity.
    file: A public file that lists the queries; it stands alone. Paths are relative to the config file.
    """

    count: Positive | None = None
    order: Positive | None = None
    weights: Literal["uniform", "noisy_popularity", "file"] = "uniform"
    weights_file: Text | None = None
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    negations: Literal["none", "random"] = "none"
    seed: Seed = 0
    attributes: Attributes = "all"
    file: Text | None = None

    @model_validator(mode="after")
    def _listed_or_drawn(self) -> Self:
        if self.file is not None:
            others = sorted(self.model_fields_set - {"file"})
            if others:
                raise ValueError(f"file stands alone; want no {', '.join(others)} beside it")
            return self
        for key, value in (("count", self.count), ("order", self.order)):
            if value is None:
                raise ValueError(f"{key} is missing; want count and order, or file")
        return self

    @model_validator(mode="after")
    def _what_goes_with_its_weights(self) -> Self:
        if self.share is not None and self.weights != "noisy_popularity":
            raise ValueError("share buys popularity; want weights: noisy_popularity, or no share")
        if (self.weights_file is not None) != (self.weights == "file"):
            raise ValueError("weights: file and weights_file: PATH go together; want both or none")
        return self

    @property
    def popularity_share(self) -> float:
        """Part of the budget spent before the mechanism starts."""
        if self.weights != "noisy_popularity":
            return 0.0
        return POPULARITY_SHARE if self.share is None else self.share


class ParityQueries(Section):
    """Parities of at most ``order`` columns: all of them, or ``count`` random ones."""

    order: Annotated[int, Field(ge=1, le=LARGEST_ORDER)]
    count: Positive | None = None
    seed: Seed = 0
    attributes: Attributes = "all"

    @model_validator(mode="after")
    def _seed_draws(self) -> Self:
        if self.count is None and "seed" in self.model_fields_set:
            raise ValueError("seed draws some parities; want count beside it, or no seed")
        return self


class Queries(Section):
    """What is asked: marginals, conjunctions or parities."""

    marginals: MarginalQueries | None = None
    conjunctions: ConjunctionQueries | None = None
    parities: ParityQueries | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if [self.marginals, self.conjunctions, self.parities].count(None) != 2:
            raise ValueError("want exactly one of marginals, conjunctions and parities")
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
            if self.workload.marginals is not None:
                raise ValueError(
                    "workload.marginals needs shape: table; want workload.conjunctions or workload.parities for baskets"
                )
            for name, asked in (("conjunctions", self.workload.conjunctions), ("parities", self.workload.parities)):
                if asked is not None and asked.attributes != "all":
                    raise ValueError(f"workload.{name}.attributes needs shape: table; want attributes: all")
        return self


def check_key(key: str, known: list[str], what: str = "key") -> None:
    """Raises ValueError that names the nearest known key."""
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        raise ValueError(f"unknown {what} {key!r}; " + (f"did you mean {near[0]!r}?" if near else f"want {known}"))


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


def said(error: ValidationError) -> str:
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
        sentence = f"{place} {said(error)}"
    return sentence + (f" (and {others} more)" if others else "")
