"""schema.json: the schema of a released table with the words of its codebook, as a schema file in JSON. Public.

Every default is written out, so that a reader needs no rules: ``other`` and ``null`` are always there. The file can be
the ``dataset.schema`` of another release.
"""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from pipelines.attributes import Attribute, Kind
from pipelines.codebook import Entry
from pipelines.layout import Layout, TableLayout
from pipelines.schema import Schema, schema_from

SCHEMA_FILE: Final = "schema.json"
_EPOCH: Final = date(1970, 1, 1)


def write_schema(folder: Path, layout: Layout) -> None:
    """Writes schema.json into a folder. For baskets, which have no schema, nothing is written.

    folder: The folder of a release.
    layout: The public layout of the data.
    """
    if isinstance(layout, TableLayout):
        text = json.dumps(schema_document(layout.schema), indent=2, ensure_ascii=False)
        (folder / SCHEMA_FILE).write_text(text + "\n", encoding="utf-8")


def read_schema(folder: Path) -> Schema | None:
    """The schema that schema.json of a release describes; None if there is no such file.

    folder: The folder of the release.

    Raises: ConfigError when it describes no schema; ValueError when it is no JSON; OSError when it cannot be read.
    """
    path = folder / SCHEMA_FILE
    return schema_from(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def schema_document(schema: Schema) -> dict[str, Any]:
    """A schema as the JSON object of a schema file, with every default written out.

    schema: The schema, with or without words.
    """
    attributes = [_attribute(attribute, schema.codebook.entry(attribute.name)) for attribute in schema.attributes]
    return {"version": 1, "attributes": attributes}


def _attribute(attribute: Attribute, entry: Entry) -> dict[str, Any]:
    content: dict[str, Any] = {"name": attribute.name, "type": attribute.kind.value}
    if attribute.sum_of:
        content |= {"sum_of": dict(attribute.sum_of), "absolute": attribute.absolute, "dates": attribute.dates}
    else:
        content["column"] = attribute.column
    if entry.label:
        content["label"] = entry.label
    if entry.description:
        content["description"] = entry.description
    if attribute.kind is Kind.CATEGORICAL:
        content["values"] = list(attribute.values)
    elif attribute.kind is Kind.DATE:
        content["edges"] = [(_EPOCH + timedelta(days=int(edge))).isoformat() for edge in attribute.edges]
    elif attribute.kind is not Kind.BOOLEAN:
        content["edges"] = list(attribute.edges)
    content |= {"other": attribute.other, "null": attribute.null}
    return content | ({"labels": dict(entry.labels)} if entry.labels else {})
