"""The YAML draft of a schema: what names, types and a codebook say, and questions about the rest.

A draft is not a schema yet: lists that a person must fill are empty, which ``marquee schema check`` lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dpcore.errors import ConfigError
from jobs.drafting.columns import Column, kind_of
from jobs.drafting.variables import Variable
from pipelines.attributes import Kind, Value

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_YAML_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_BINS: Final = 10
_HEAD: Final = """\
# yaml-language-server: $schema=marquee.schema.json
#
# A draft of a schema, from names and types of columns alone. No value was read. Where it says TO DO, only you can say
# what is true of every possible row, from a codebook or a questionnaire. Never look the answer up in the data: values
# and bins that follow from the data would give away what is in them.
#
# `marquee schema json > marquee.schema.json` gives editors the help that the first line names, and
# `marquee schema check FILE --data DATA` says what is left to do.
"""
_UNIT: Final = """\
#
# TO DO: one column identifies the unit, the person or thing whose presence a release hides. It is no attribute: delete
# its entry here, and name it under dataset.unit of the config. Delete every other column that is not to be released.
"""
_QUESTIONS: Final = {
    Kind.CATEGORICAL: ("values: []", "TO DO: all values that are possible, such as [north, south]."),
    Kind.INTEGER: ("edges: []", "TO DO: increasing edges of bins, such as [0, 18, 65, 100]; numbers outside count in "
                   "the end bins. Or type: categorical with values."),
    Kind.FLOAT: ("edges: []", "TO DO: increasing edges of bins, such as [0, 0.5, 1]; or in place of edges "
                 "bins: {low: 0, high: 1, count: 10}."),
    Kind.DATE: ("edges: []", "TO DO: increasing edges of bins, such as [2026-01-01, 2026-02-01, 2026-03-01]."),
}  # fmt: skip


def variables_of(columns: Sequence[Column]) -> tuple[Variable, ...]:
    """What names and types of columns say.

    columns: The columns of a file.
    """
    return tuple(
        Variable(column.name, kind_of(column.kind), "" if column.kind is None else str(column.kind))
        for column in columns
    )


def draft(variables: Sequence[Variable], unit: str | None = None) -> str:
    """The draft as YAML.

    variables: What is known, in the order of the schema.
    unit: The column of units, which is left out; None if it is not known.

    Raises: ConfigError when there is no such column, or no other.
    """
    names = [variable.name for variable in variables]
    if unit is not None and unit not in names:
        raise ConfigError(f"there is no column {unit!r} for the unit; want one of {names[:20]}")
    kept = [variable for variable in variables if variable.name != unit]
    if not kept:
        raise ConfigError("there is nothing to draft; want at least one column beside that of the unit")
    entries = "\n".join("\n".join(_entry(variable)) for variable in kept)
    return f"{_HEAD}{_UNIT if unit is None else ''}version: 1\nattributes:\n{entries}\n"


def _entry(variable: Variable) -> Iterator[str]:
    kind = Kind.CATEGORICAL if variable.values and variable.kind is not Kind.BOOLEAN else variable.kind
    yield f"  - name: {scalar(variable.name)}"
    origin = f"  # The file says {variable.column_type}." if variable.column_type else ""
    if kind is None:
        yield "    type:  # TO DO: categorical, integer, float, date or boolean; then values, or edges of bins."
    else:
        yield f"    type: {kind.value}{origin}"
        yield from _codes(kind, variable)
    for key, text in (("label", variable.label), ("description", variable.description)):
        if text:
            yield f"    {key}: {quoted(text)}"
    pairs = [(value, label) for value, label in zip(variable.values, variable.labels, strict=False) if label]
    if pairs and kind is Kind.CATEGORICAL:
        yield "    labels:"
        yield from (f"      {scalar(value)}: {quoted(label)}" for value, label in pairs)


def _codes(kind: Kind, variable: Variable) -> Iterator[str]:
    if kind is Kind.BOOLEAN:
        return
    if kind is Kind.CATEGORICAL and variable.values:
        yield f"    values: [{', '.join(map(scalar, variable.values))}]"
        yield "    # Values that are not listed get a code of their own, unless you add other: false."
    elif kind is not Kind.CATEGORICAL and variable.low is not None and variable.high is not None:
        ends = f"low: {_end(variable.low)}, high: {_end(variable.high)}"
        yield f"    bins: {{{ends}, count: {_count(kind, variable)}}}  # The codebook gives the ends. Choose the count."
    else:
        line, question = _QUESTIONS[kind]
        yield f"    {line}  # {question}"
    yield "    # Nulls get a code of their own, unless you add 'null': false."


def _count(kind: Kind, variable: Variable) -> int:
    """Ten bins, or as many as there are integers."""
    low, high = variable.low, variable.high
    if kind is Kind.INTEGER and isinstance(low, int) and isinstance(high, int):
        return max(1, min(_BINS, high - low))
    return _BINS


def _end(value: float | str) -> str:
    return value if isinstance(value, str) else repr(value)


def scalar(value: Value) -> str:
    """A value as YAML that reads as itself."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    return value if _PLAIN.fullmatch(value) and value.lower() not in _YAML_WORDS else quoted(value)


def quoted(text: str) -> str:
    """A text in quotes that YAML reads as itself."""
    return "".join(['"', *(_escaped(character) for character in text), '"'])


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
