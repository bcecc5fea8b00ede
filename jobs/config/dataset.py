"""The section ``dataset`` of a config: where the data are, and public facts about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dpcore.errors import ConfigError
from jobs.config.items import Items
from jobs.config.partition import PartitionChoice
from jobs.config.section import Positive, Section, Text
from pipelines.source.catalog import catalog_table
from pipelines.source.file_format import CsvOptions
from pipelines.unit_names import canonical, combined_name

CATALOG_SCHEME: Final = "catalog:"
FRAME_SCHEME: Final = "frame:"
"""What stands before the name of data that have no path."""

_METADATA: Final = re.compile(r"/metadata/[^/]*\.metadata\.json(\.gz)?(?=$|\?)")


def _label(value: object) -> object:
    if isinstance(value, float):
        raise ValueError("YAML reads this label as a decimal number; want it in quotes")
    return str(value) if type(value) is int else value


def _check_passing(value: object) -> object:
    """Checks what ``where`` says about a column before pydantic does, whose message would list every type."""
    if isinstance(value, Limits) or (isinstance(value, Mapping) and value and set(value) <= {"min", "max"}):
        return value
    values = value if isinstance(value, list | tuple) else (value,)
    if not values or not all(isinstance(entry, str | int) for entry in values):
        raise ValueError(f"is {value!r}; want a value, a list of values, or {{min: A, max: B}}")
    return tuple(values)


Finite = Annotated[float, Field(allow_inf_nan=False)]


def _joined(value: object) -> object:
    """The columns of a unit as one name, which is the same for every order of them."""
    try:
        if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
            return combined_name(value)
        return canonical(value) if isinstance(value, str) else value
    except ConfigError as error:
        raise ValueError(str(error)) from error


Columns = Annotated[list[Text], Field(min_length=1)]
Unit = Annotated[Text, BeforeValidator(_joined, json_schema_input_type=Text | Columns)]


class Limits(Section):
    """The numbers or dates that pass a filter: from ``min`` to ``max``, both included."""

    min: int | Finite | str | None = Field(default=None, description="Smallest number or first date that passes.")
    max: int | Finite | str | None = Field(default=None, description="Largest number or last date that passes.")


Listed = Annotated[tuple[str | int | bool, ...], Field(strict=False)]
Passing = Annotated[Listed | Limits, BeforeValidator(_check_passing)]


def table_folder(uri: str) -> str:
    """The folder of a table: every version of an Iceberg table has a metadata file of its own in it.

    uri: The folder, or one of its ``metadata/*.metadata.json``.
    """
    return _METADATA.sub("", uri)


def catalog_root(name: str) -> str:
    """What the ledger binds for a table in Spark's catalog: ``catalog:`` and its three parts in lower case.

    name: The name of the table, of one to three parts.

    Raises: ConfigError when it is no such name.
    """
    return f"{CATALOG_SCHEME}{catalog_table(name).name.lower()}"


class TableChoice(Section):
    """One version of a table in a table format."""

    format: Literal["delta", "iceberg"] = Field(description="Format of the table.")
    uri: Text = Field(
        description="Folder or URL of the table; for Iceberg also one of its *.metadata.json files. A relative path "
        "starts at the folder of the config file."
    )
    version: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Version of a Delta table. Required for Delta."
    )
    snapshot_id: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Id of a snapshot of an Iceberg table. Required for Iceberg."
    )

    @model_validator(mode="after")
    def _version_matches_format(self) -> Self:
        wanted, unwanted = ("version", "snapshot_id") if self.format == "delta" else ("snapshot_id", "version")
        if getattr(self, wanted) is None or getattr(self, unwanted) is not None:
            raise ValueError(f"format: {self.format} needs {wanted} and no {unwanted}; want the number of one version")
        return self


def _named(value: object) -> object:
    """A name alone stands for the table as it is."""
    return {"table": value} if isinstance(value, str) else value


def _one_line(value: object) -> object:
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"is {value!r}; want a name on one line, without control characters")
    return value


def _full_name(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return catalog_table(value).name
    except ConfigError as error:
        raise ValueError(str(error)) from error


class CatalogChoice(Section):
    """A table in a catalog of Spark, perhaps at one version."""

    table: Annotated[Text, BeforeValidator(_full_name)] = Field(
        description="Name of the table, of one to three parts, such as main.sales.people; a part with dots or spaces "
        "is in back-quotes. A missing database is default, and a missing catalog spark_catalog."
    )
    version: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Version of a Delta table. By default the table is read as it is."
    )
    snapshot_id: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Id of a snapshot of an Iceberg table. By default the table is read as it is."
    )

    @model_validator(mode="after")
    def _one_version(self) -> Self:
        if self.version is not None and self.snapshot_id is not None:
            raise ValueError(
                "both version and snapshot_id are given; want version for Delta, or snapshot_id for Iceberg"
            )
        return self


NamedTable = Annotated[CatalogChoice, BeforeValidator(_named, json_schema_input_type=CatalogChoice | str)]


class CsvChoice(Section):
    """How CSV files are written."""

    delimiter: Text = Field(default=",", description="Character between two fields.")
    quote: Text = Field(default='"', description="Character around fields with a delimiter or a line break.")
    encoding: Text = Field(default="utf-8", description="Encoding of the text, such as utf-8 or latin-1.")
    null_values: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=("",), description="Fields without quotes that stand for null. By default an empty field alone."
    )
    column_names: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] | None = Field(
        default=None, description="Names of the columns of files without a heading. By default the first line has them."
    )

    @property
    def options(self) -> CsvOptions:
        """The same for the pipelines. Raises ConfigError for what cannot be."""
        return CsvOptions(self.delimiter, self.quote, self.encoding, self.null_values, self.column_names)


class Dataset(Section):
    """Public facts about the data."""

    name: Text = Field(description="Name under which the ledger keeps the privacy budget of the dataset.")
    snapshot: Annotated[Text, BeforeValidator(_label)] = Field(
        description="Public label for the current state of the data, such as a date. A new label makes a new release. "
        "For a table, the default is its version."
    )
    path: Text | None = Field(
        default=None,
        description="File, folder, glob or URL of the data, in Parquet or another format. A relative path starts at "
        "the folder of the config file. Names of folders such as region=north give a column region to files that lack "
        "it.",
    )
    table: TableChoice | None = Field(
        default=None, description="A version of a Delta or Iceberg table, in place of path."
    )
    catalog: NamedTable | None = Field(
        default=None,
        description="A table in a catalog of Spark, in place of path: its name, or the name with a version. It needs "
        "engine: {name: spark}.",
    )
    frame: Annotated[Text, BeforeValidator(_one_line)] | None = Field(
        default=None,
        description="Name of a frame that a program gives to release() in Python, in place of path. The ledger binds "
        "the dataset to this name.",
    )
    format: Literal["parquet", "csv", "json", "orc", "feather"] | None = Field(
        default=None,
        description="Format of the files in path; json is one JSON object per line. The default is what their names "
        "tell: .parquet, .csv, .tsv, .jsonl, .ndjson, .json, .orc, .feather or .arrow. CSV and JSON may be compressed "
        "(.gz). The types of columns in CSV and JSON follow from the schema.",
    )
    csv: CsvChoice | None = Field(default=None, description="How CSV files are written. By default with commas.")
    where: Annotated[dict[str, Passing], Field(min_length=1)] | None = Field(
        default=None,
        description="Public filter of rows: for each column, the value or list of values that pass, or {min: A, max: "
        "B} with numbers or dates. Rows pass by their own values alone, before units are truncated; null never passes.",
    )
    partition: PartitionChoice | None = Field(
        default=None,
        description="Partitions that the release is about and is charged to, of a dataset that is partitioned in the "
        "ledger (marquee budget create --partitioned-by). By default a release is about the whole dataset.",
    )
    shape: Literal["table", "baskets"] = Field(
        description="Shape of the data: table (rows with attributes) or baskets (pairs of a unit and an item)."
    )
    unit: Unit = Field(
        description="Column that identifies the privacy unit: the person or thing whose presence the release hides. A "
        "list of columns, in any order, identifies it together: all rows with equal values in all of them."
    )
    table_schema: Text | None = Field(
        default=None,
        alias="schema",
        description="YAML file with the schema of a table, relative to the config file. Required for tables.",
    )
    max_rows_per_unit: Positive | None = Field(
        default=None,
        description="Contribution bound of a table: the maximum number of rows of a unit, at least 1. Further rows are "
        "dropped. The default is 1, because the noise grows with the bound.",
    )
    item: Text | None = Field(default=None, description="Column of the items. Required for baskets.")
    items: Items | None = Field(
        default=None,
        description="Number of possible items, which are numbered from 0, or {file: items.csv} with the names of all "
        "items, one per line. Required for baskets. Other items are dropped.",
    )
    max_items_per_unit: Positive | None = Field(
        default=None,
        description="Contribution bound of baskets: the maximum number of distinct items of a unit, at least 1. "
        "Further items are dropped. By default there is no bound below the number of possible items, which plan, run "
        "and certificate say.",
    )
    clustered_by_unit: bool = Field(
        default=False,
        description="Whether all rows of a unit are in one file, which saves a shuffle. Units with rows in several "
        "files are then dropped, so the guarantee does not rest on this claim.",
    )

    @model_validator(mode="before")
    @classmethod
    def _named_by_version(cls, values: object) -> object:
        """A version of a table is its own label."""
        table = (values.get("table") or values.get("catalog")) if isinstance(values, Mapping) else None
        if not isinstance(values, Mapping) or not isinstance(table, Mapping) or "snapshot" in values:
            return values
        known = {key: table.get(key) for key in ("version", "snapshot_id") if type(table.get(key)) is int}
        label = ", ".join(f"{table.get('format', 'table')} {key} {number}" for key, number in known.items())
        return {**values, "snapshot": label} if label else values

    @property
    def root(self) -> str:
        """Path or URL of the data, or of the folder of their table; ``catalog:NAME`` or ``frame:NAME`` without one."""
        if self.catalog is not None:
            return catalog_root(self.catalog.table)
        if self.frame is not None:
            return f"{FRAME_SCHEME}{self.frame}"
        return self.path or "" if self.table is None else table_folder(self.table.uri)

    @model_validator(mode="after")
    def _one_location(self) -> Self:
        locations = {"path": self.path, "table": self.table, "catalog": self.catalog, "frame": self.frame}
        given = [key for key, value in locations.items() if value is not None]
        if len(given) != 1:
            which = f"{', '.join(given[:-1])} and {given[-1]} are" if given else "no path is"
            raise ValueError(
                f"{which} given; want the path of files, a version of a table, the name of a table in Spark's "
                "catalog, or the name of a frame"
            )
        if given[0] != "path" and (self.format is not None or self.csv is not None):
            raise ValueError(f"format and csv are about files in path, not about a {given[0]}; want neither, or a path")
        if self.csv is not None and self.format not in (None, "csv"):
            raise ValueError(f"csv does not go with format: {self.format}; want format: csv, or no csv")
        if self.clustered_by_unit and given[0] in ("catalog", "frame"):
            raise ValueError(
                f"clustered_by_unit is about files, and {given[0]} names none; want no clustered_by_unit, or a path"
            )
        return self

    @model_validator(mode="after")
    def _keys_match_shape(self) -> Self:
        table_keys = {"schema": self.table_schema, "max_rows_per_unit": self.max_rows_per_unit}
        basket_keys = {"item": self.item, "items": self.items, "max_items_per_unit": self.max_items_per_unit}
        table = self.shape == "table"
        excluded = basket_keys if table else table_keys
        for key, value in excluded.items():
            if value is not None:
                raise ValueError(f"{key} does not go with shape: {self.shape}; want no {key}, or the other shape")
        required = {"schema": self.table_schema} if table else {"item": self.item, "items": self.items}
        for key, value in required.items():
            if value is None:
                raise ValueError(f"{key} is missing; shape: {self.shape} needs it")
        return self
