"""The public schema of a table: its attributes, their values and bins.

A schema is a YAML file that is written without looking at the data, such as:

```yaml
version: 1
attributes:
  - {name: workclass, type: categorical, values: [Private, State-gov], other: true, 'null': true}
  - {name: age, type: integer, edges: [17, 25, 35, 45, 55, 65, 91]}
  - {name: income, type: float, bins: {low: 1, high: 100000, count: 10, scale: log}}
  - {name: day, type: date, edges: [2026-01-01, 2026-02-01, 2026-03-01]}
  - {name: insured, type: boolean, column: is_insured}
  - {name: stay, type: integer, sum_of: {discharge: 1, admission: -1}, dates: true, edges: [0, 1, 7, 30]}
```

* ``type``: categorical, integer, float, date or boolean.
* ``values`` (categorical): strings, integers or booleans; their codes are 0, 1, ... in the order given. Quote words
  that YAML reads as something else: 'no', 'on', 'null'. Numbers such as '00123' and '12:30' are refused without quotes.
* ``edges`` (integer, float, date): the edges of the bins [e0, e1), [e1, e2), ...; the last bin is closed. Values
  outside are clamped into the nearest end bin, so that no value is lost.
* ``bins`` (in place of ``edges``): ``count`` bins from ``low`` to ``high`` on a ``scale``, uniform (default) or log.
* ``other``: the code of unlisted values of a categorical attribute. With true (the default) they have a code of their
  own, after the listed values. With a listed value, they have the code of that value. With false, they have the code of
  null if null has its own, and otherwise the first code.
* ``null``: the code of nulls, NaN and infinities. With true (the default) they have a code of their own, the last one.
  With a listed value (categorical only), they have the code of that value. With false, they have the code of ``other``
  if that has its own, and otherwise the first code.
* ``column``: the Parquet column, if its name differs from the attribute's.
* ``sum_of`` (integer, float; in place of ``column``): columns and their coefficients. The value is the weighted sum of
  these columns, which need no attributes of their own. It is null if any of them is. With ``absolute: true`` it is the
  absolute value of the sum. With ``dates: true`` the columns are dates, and the sum is a number of days. Synthetic rows
  have the sum in a column with the attribute's name.
* ``label``, ``description`` and ``labels`` (a mapping of values to texts): words for readers, which change no release.

For example, eight listed values with ``other: false`` and ``null: true`` make nine codes.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from pipelines.attributes import Attribute, Kind, days_since_epoch
from pipelines.codebook import KEYS as CODEBOOK_KEYS
from pipelines.codebook import Codebook, Entry, entry_from
from pipelines.yaml_file import read_yaml

__all__ = ["Attribute", "Kind", "Schema", "load_schema", "schema_from"]

_VERSION = 1
KEYS = (
    *("name", "type", "values", "edges", "bins", "other", "null", "column", "sum_of", "absolute", "dates"),
    *CODEBOOK_KEYS,
)
"""The keys of an attribute in a schema file."""
_BIN_KEYS = ("low", "high", "count", "scale")
_MAX_BINS = 1_000_000
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True)
class Schema:
    """The attributes of a table. Public.

    attributes: The attributes in the order of the domain, at least one.
    codebook: What they mean in words. Schemas that differ in words alone are equal.

    Raises: ConfigError when there is no attribute, two attributes have the same name, a sum has the name of another
        attribute's column, or another attribute wants a column of a sum to hold something else.
    """

    attributes: tuple[Attribute, ...]
    codebook: Codebook = field(default=Codebook(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        names = [attribute.name for attribute in self.attributes]
        if not names:
            raise ConfigError("the schema has no attributes; want at least one")
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"the schema names attribute {name!r} twice; want distinct names")
        for attribute in self.attributes:
            if attribute.sum_of:
                _check_sum(attribute, [other for other in self.attributes if other is not attribute])

    @property
    def domain(self) -> Domain:
        """The domain: names of the attributes and their numbers of codes."""
        return Domain(
            tuple(attribute.name for attribute in self.attributes),
            tuple(attribute.size for attribute in self.attributes),
        )

    @property
    def as_written(self) -> Schema:
        """The schema of synthetic rows, which have each sum in a column of its own."""
        return Schema(tuple(attribute.as_written for attribute in self.attributes), self.codebook)


def _check_sum(summed: Attribute, others: Sequence[Attribute]) -> None:
    """Checks a sum against all other attributes."""
    for attribute in others:
        if attribute.column == summed.name:
            raise ConfigError(
                f"attribute {summed.name!r} is a sum and has the name of another attribute's column, so that both "
                "would be one column of synthetic rows; want another name"
            )
        shared = sorted(set(summed.columns) & set(attribute.columns))
        if shared and _content(summed) != _content(attribute):
            raise ConfigError(
                f"column {shared[0]!r} holds {_content(summed)} for attribute {summed.name!r}, and "
                f"{_content(attribute)} for attribute {attribute.name!r}; want the same, or dates: true for a sum of "
                "dates"
            )


def _content(attribute: Attribute) -> str:
    """What the columns of an attribute hold."""
    if attribute.dates or attribute.kind is Kind.DATE:
        return "dates"
    if attribute.values and not isinstance(attribute.values[0], int):
        return "texts"
    return "booleans" if attribute.values and isinstance(attribute.values[0], bool) else "numbers"


def load_schema(path: str | Path) -> Schema:
    """Reads a schema file.

    Raises: ConfigError that names the file and the key.
    """
    document = read_yaml(Path(path), "schema", dates=True)
    try:
        return schema_from(document)
    except ConfigError as error:
        raise ConfigError(f"schema {path}: {error}") from error


def schema_from(document: object) -> Schema:
    """Builds the schema that a parsed YAML document describes.

    Raises: ConfigError that names the key.
    """
    fields = _fields(document, ("version", "attributes"))
    if type(fields.get("version")) is not int or fields["version"] != _VERSION:
        raise ConfigError(f"version is {fields.get('version')!r}; want {_VERSION}")
    attributes = fields.get("attributes")
    if not isinstance(attributes, list):
        raise ConfigError("attributes is missing or not a list; want a list of attributes")
    read = [_attribute(entry, number) for number, entry in enumerate(attributes, start=1)]
    words = tuple((attribute.name, entry) for attribute, entry in read if entry != Entry())
    return Schema(tuple(attribute for attribute, _ in read), Codebook(words))


def _attribute(entry: object, number: int) -> tuple[Attribute, Entry]:
    fields = _fields(entry, KEYS, f"attribute {number}")
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"attribute {number} has name {name!r}; want a word (quote numbers, yes and no)")
    kind = _kind(name, fields.get("type"))
    _check_code_keys(name, kind, fields)
    column = fields.get("column", "")
    if not isinstance(column, str) or (not column and "column" in fields):
        raise ConfigError(f"attribute {name!r} has column {column!r}; want the name of a Parquet column")
    other = _checked_target(name, "other", fields.get("other", kind is Kind.CATEGORICAL))
    null = _checked_target(name, "null", fields.get("null", True))
    attribute = Attribute(
        name, kind, _values(name, kind, fields), _edges(name, kind, fields), other=other, null=null, column=column,
        sum_of=_sum_of(name, fields), absolute=_switch(name, "absolute", fields), dates=_switch(name, "dates", fields),
    )  # fmt: skip
    return attribute, entry_from(attribute, fields)


def _sum_of(name: str, fields: Mapping[str, object]) -> tuple[tuple[str, int | float], ...]:
    """The columns of a sum with their coefficients, whose values ``Attribute`` checks."""
    terms = fields.get("sum_of")
    if "sum_of" not in fields:
        return ()
    if not isinstance(terms, Mapping) or not terms:
        raise ConfigError(
            f"attribute {name!r} has sum_of {terms!r}; want a mapping of columns to coefficients, such as "
            "{discharge: 1, admission: -1}"
        )
    return tuple(terms.items())


def _switch(name: str, key: str, fields: Mapping[str, object]) -> bool:
    value = fields.get(key, False)
    if not isinstance(value, bool):
        raise ConfigError(f"attribute {name!r} has {key} {value!r}; want true or false")
    return value


def _checked_target(name: str, setting: str, target: object) -> str | int:
    """Checks the type of ``other`` or ``null``; ``Attribute`` checks the rest."""
    if not isinstance(target, str | int):
        raise ConfigError(f"attribute {name!r}: {setting} is {target!r}; want true, false or a listed value")
    return target


def _fields(entry: object, known: Collection[str], where: str | None = None) -> dict[str, object]:
    """Checks the keys of a mapping. YAML reads the unquoted key ``null`` as None, which is converted back here.

    where: What the mapping describes, for error messages; None for the schema itself.
    """
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where or 'the schema'} is not a mapping; want keys {', '.join(known)}")
    fields = {"null" if key is None else str(key): value for key, value in entry.items()}
    for key in fields:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            advice = f"did you mean {near[0]!r}?" if near else f"want {', '.join(known)}"
            raise ConfigError(f"{f'{where}: ' if where else ''}unknown key {key!r}; {advice}")
    return fields


def _kind(name: str, kind: object) -> Kind:
    if kind not in tuple(Kind):
        near = difflib.get_close_matches(str(kind), tuple(Kind), n=1, cutoff=0.0)
        raise ConfigError(f"attribute {name!r} has type {kind!r}; did you mean {str(near[0])!r}?")
    return Kind(str(kind))


def _check_code_keys(name: str, kind: Kind, fields: Mapping[str, object]) -> None:
    """Checks that exactly one of values, edges and bins is given, and that it fits the type."""
    fitting = {Kind.CATEGORICAL: {"values"}, Kind.BOOLEAN: set()}.get(kind, {"edges", "bins"})
    for key in ("values", "edges", "bins"):
        if key in fields and key not in fitting:
            raise ConfigError(f"attribute {name!r} of type {kind} has {key}; want {_either(fitting)}")
    if fitting and len(fitting & set(fields)) != 1:
        raise ConfigError(f"attribute {name!r} of type {kind} needs exactly one of: {_either(fitting)}")


def _either(keys: set[str]) -> str:
    return " or ".join(sorted(keys)) or "no list of values"


def _values(name: str, kind: Kind, fields: Mapping[str, object]) -> tuple[str | int | bool, ...]:
    if kind is not Kind.CATEGORICAL:
        return ()
    values = fields["values"]
    if not isinstance(values, list):
        raise ConfigError(f"attribute {name!r}: values is not a list; want a list of strings, integers or booleans")
    return tuple(values)


def _edges(name: str, kind: Kind, fields: Mapping[str, object]) -> tuple[int, ...] | tuple[float, ...]:
    if "bins" in fields:
        return _edges_of_bins(name, kind, _fields(fields["bins"], _BIN_KEYS, f"attribute {name!r}: bins"))
    if "edges" not in fields:
        return ()
    edges = fields["edges"]
    if not isinstance(edges, list):
        raise ConfigError(f"attribute {name!r}: edges is not a list; want increasing {kind} values")
    return tuple(_edge(name, kind, edge) for edge in edges)


def _edge(name: str, kind: Kind, edge: object) -> int | float:
    if kind is Kind.DATE:
        if isinstance(edge, str) and _DAY.fullmatch(edge):  # JSON has no dates.
            edge = _day(name, edge)
        if isinstance(edge, date) and not isinstance(edge, datetime):
            return days_since_epoch(edge)
    elif type(edge) is int or (kind is Kind.FLOAT and type(edge) is float and math.isfinite(edge)):
        if abs(edge) < 2**63 or type(edge) is float:
            return edge
        raise ConfigError(f"attribute {name!r} has the edge {edge}; want numbers between -2^63 and 2^63")
    wanted = "a date such as 2026-01-31" if kind is Kind.DATE else f"one finite {kind}"
    raise ConfigError(f"attribute {name!r} has the edge {edge!r}; want {wanted}")


def _day(name: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"attribute {name!r} has the edge {text!r}, which is no day; want a date") from error


def _edges_of_bins(name: str, kind: Kind, bins: Mapping[str, object]) -> tuple[int, ...] | tuple[float, ...]:
    for key in ("low", "high", "count"):
        if key not in bins:
            raise ConfigError(f"attribute {name!r}: bins has no {key}; want low, high and count")
    low, high = _edge(name, kind, bins["low"]), _edge(name, kind, bins["high"])
    count, scale = bins["count"], bins.get("scale", "uniform")
    if type(count) is not int or not 1 <= count <= _MAX_BINS:
        raise ConfigError(f"attribute {name!r}: bins count is {count!r}; want 1 .. {_MAX_BINS:,}")
    if scale not in ("uniform", "log") or (scale == "log" and kind is Kind.DATE):
        raise ConfigError(f"attribute {name!r}: bins scale is {scale!r}; want uniform, or log for numbers")
    if not low < high or (scale == "log" and low <= 0):
        raise ConfigError(
            f"attribute {name!r}: bins run from {low} to {high}; want low < high, and low > 0 on a log scale"
        )
    if scale == "log":
        inner = [low * (high / low) ** (step / count) for step in range(1, count)]
    else:
        inner = [low + (high - low) * (step / count) for step in range(1, count)]
    if kind is Kind.FLOAT:
        return (float(low), *inner, float(high))
    edges = (int(low), *(round(edge) for edge in inner), int(high))
    if len(set(edges)) != len(edges):
        raise ConfigError(f"attribute {name!r}: {count} bins do not fit between integer edges; want fewer bins")
    return edges
