"""One public attribute: its codes, the meaning of each code, and the conversion of codes back to values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import StrEnum
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.errors import ConfigError

Value = str | int | bool

OTHER = "__other__"
NULL = "__null__"
_TYPES = {str: "string", int: "integer", bool: "boolean", float: "decimal number", type(None): "null", date: "date"}
_EPOCH = date(1970, 1, 1)
_MAX_CODES = 2**31 - 1
_MAX_COEFFICIENT = 1_000_000


class Kind(StrEnum):
    """Type of an attribute, as it is written in schema files."""

    CATEGORICAL = "categorical"
    INTEGER = "integer"
    FLOAT = "float"
    DATE = "date"
    BOOLEAN = "boolean"


@dataclass(frozen=True)
class Attribute:
    """A column as a finite set of codes 0 .. size - 1.

    The codes stand for the listed values or the bins, in order, followed by ``other`` and null if these have codes of
    their own.

    name: Name of the attribute.
    kind: Type of the attribute.
    values: Listed values of a categorical attribute: strings, integers or booleans, all of one type. For a boolean
        attribute they are (False, True).
    edges: Increasing bin edges of an integer, float or date attribute; dates are days since 1970-01-01. Bin i is
        [edges[i], edges[i + 1]), and the last bin is closed. Values outside are clamped into the nearest end bin.
    other: Code of unlisted values of a categorical attribute. True gives them a code of their own (the default in
        schema files). A listed value gives them the code of that value. False gives them the code of null if null has
        its own, and otherwise the first code.
    null: Code of nulls. True gives them a code of their own. A listed value (categorical only) gives them the code of
        that value. False gives them the code of ``other`` if that has its own, and otherwise the first code.
    column: Name of the Parquet column; if it is empty, the attribute's name.
    sum_of: Columns and their coefficients, sorted by column. The value is the weighted sum of these columns, in place
        of one column, and null if that of any of them is. For integer and float attributes; empty for one column.
    absolute: Whether the value is the absolute value of the sum.
    dates: Whether the columns of the sum are dates, which count as days since 1970-01-01: a difference of dates is a
        number of days.

    Raises: ConfigError that names the attribute.
    """

    name: str
    kind: Kind
    values: tuple[Value, ...] = ()
    edges: tuple[int, ...] | tuple[float, ...] = ()
    other: bool | Value = False
    null: bool | Value = True
    column: str = ""
    sum_of: tuple[tuple[str, int | float], ...] = ()
    absolute: bool = False
    dates: bool = False

    def __post_init__(self) -> None:
        self._check_sum()
        object.__setattr__(self, "sum_of", tuple(sorted(self.sum_of)))  # The order in a file means nothing.
        object.__setattr__(self, "column", self.column or self.name)
        if self.kind is Kind.BOOLEAN:
            object.__setattr__(self, "values", (False, True))
        if self.kind in (Kind.CATEGORICAL, Kind.BOOLEAN):
            self._check_values()
        else:
            self._check_edges()
        for setting, target in (("other", self.other), ("null", self.null)):
            self._check_target(setting, target)
        if self.size > _MAX_CODES:
            raise ConfigError(f"attribute {self.name!r} has {self.size} codes; want at most {_MAX_CODES}")

    def _check_values(self) -> None:
        types = {type(value) for value in self.values}
        if self.edges:
            raise ConfigError(f"attribute {self.name!r} of type {self.kind} has edges; want values alone")
        if not self.values:
            raise ConfigError(f"attribute {self.name!r} has no values; want a list of strings, integers or booleans")
        if len(types) > 1 or not types <= {str, int, bool}:
            found = ", ".join(sorted(_TYPES.get(kind, kind.__name__) for kind in types))
            raise ConfigError(
                f"attribute {self.name!r} lists values of these types: {found}; want strings, integers or booleans, "
                "all of one type (quote words such as 'no' and 'null', and numbers that are text)"
            )
        if len(set(self.values)) != len(self.values):
            raise ConfigError(f"attribute {self.name!r} lists a value twice; want distinct values")
        if {OTHER, NULL} & set(self.values):
            raise ConfigError(
                f"attribute {self.name!r} lists {OTHER!r} or {NULL!r}, which are reserved; want other values"
            )
        if types == {int} and not all(-(2**63) <= int(value) < 2**64 for value in self.values):
            raise ConfigError(f"attribute {self.name!r} lists an integer of more than 64 bits; want int64 or uint64")

    def _check_edges(self) -> None:
        if self.values or not all(_is_edge(edge, self.kind) for edge in self.edges):
            raise ConfigError(f"attribute {self.name!r} has edges of the wrong type; want finite {self.kind} values")
        if len(self.edges) < 2:
            raise ConfigError(f"attribute {self.name!r} has fewer than two edges; want the edges of at least one bin")
        for index, (low, high) in enumerate(pairwise(self.edges)):
            if low >= high:
                low_label, high_label = self.edge_label(index), self.edge_label(index + 1)
                raise ConfigError(
                    f"attribute {self.name!r}: edge {high_label} follows {low_label}, so bins overlap or are empty; "
                    "want increasing edges"
                )

    def _check_sum(self) -> None:
        for key in ("absolute", "dates"):
            if getattr(self, key) and not self.sum_of:
                raise ConfigError(f"attribute {self.name!r} has {key} without sum_of; want both, or neither")
        if not self.sum_of:
            return
        if self.kind not in (Kind.INTEGER, Kind.FLOAT):
            raise ConfigError(f"attribute {self.name!r} of type {self.kind} has sum_of; want type integer or float")
        if self.column not in ("", self.name):
            raise ConfigError(f"attribute {self.name!r} has both column and sum_of; want one of them")
        names = [name for name, _ in self.sum_of]
        if len(set(names)) != len(names) or not all(map(_is_name, names)):
            raise ConfigError(
                f"attribute {self.name!r} has sum_of with columns {names!r}; want distinct names (quote numbers, yes "
                "and no)"
            )
        for name, coefficient in self.sum_of:
            if not _is_edge(coefficient, self.kind) or coefficient == 0 or abs(coefficient) > _MAX_COEFFICIENT:
                raise ConfigError(
                    f"attribute {self.name!r}: the coefficient of column {name!r} in sum_of is {coefficient!r}; want "
                    f"{'an integer' if self.kind is Kind.INTEGER else 'a number'} other than 0, of at most "
                    f"{_MAX_COEFFICIENT:,}"
                )

    def _check_target(self, setting: str, target: bool | Value) -> None:
        """Checks ``other`` or ``null``, whose value says which code unlisted values or nulls get."""
        if target is True and setting == "other" and self.kind is not Kind.CATEGORICAL:
            raise ConfigError(f"attribute {self.name!r} has kind {self.kind} and {setting}: true; want false")
        if isinstance(target, bool):
            return
        if self.kind is not Kind.CATEGORICAL:
            raise ConfigError(
                f"attribute {self.name!r} has kind {self.kind} and a value for {setting}; want true or false"
            )
        if type(target) is not type(self.values[0]) or target not in self.values:
            raise ConfigError(
                f"attribute {self.name!r}: {setting} is not one of its values; want true, false or a listed value"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that give the value."""
        return tuple(name for name, _ in self.sum_of) or (self.column,)

    @property
    def as_written(self) -> Attribute:
        """The attribute of synthetic rows, which have a sum in a column with the attribute's name."""
        return replace(self, sum_of=(), absolute=False, dates=False)

    @property
    def known(self) -> int:
        """Number of listed values or bins."""
        return len(self.values) if self.values else len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.known + (self.other is True) + (self.null is True)

    @property
    def other_code(self) -> int:
        """Code of values that are not listed."""
        if self.other is True:
            return self.known
        if self.other is not False:
            return self.values.index(self.other)
        return self.size - 1 if self.null is True else 0

    @property
    def null_code(self) -> int:
        """Code of null, and of NaN and infinity."""
        if self.null is True:
            return self.size - 1
        if self.null is not False:
            return self.values.index(self.null)
        return self.known if self.other is True else 0

    @property
    def labels(self) -> tuple[str, ...]:
        """The meaning of each code as text."""
        own = (OTHER,) * (self.other is True) + (NULL,) * (self.null is True)
        return (*(self._value_labels() if self.values else self._bin_labels()), *own)

    def _value_labels(self) -> list[str]:
        return [str(value).lower() if isinstance(value, bool) else str(value) for value in self.values]

    def _bin_labels(self) -> list[str]:
        texts = [self.edge_label(index) for index in range(len(self.edges))]
        closings = [")"] * (self.known - 1) + ["]"]
        return [f"[{low}, {high}{closing}" for (low, high), closing in zip(pairwise(texts), closings, strict=True)]

    def edge_label(self, index: int) -> str:
        """Edge number ``index`` as text."""
        edge = self.edges[index]
        return _day(edge).isoformat() if self.kind is Kind.DATE else repr(edge)

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of decoded values."""
        if self.values:
            return {str: pa.string(), bool: pa.bool_()}.get(type(self.values[0]), _integer_type(self.values))
        return {Kind.INTEGER: pa.int64(), Kind.FLOAT: pa.float64(), Kind.DATE: pa.date32()}[self.kind]

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        """The value of each code: the listed value, or the middle of the bin (rounded down unless the kind is float).

        The code of null becomes null. The code of ``other`` becomes "__other__" for strings, and null for integers and
        booleans.

        codes: Integers [rows] in 0 .. size - 1.
        """
        values: list[object] = [*self.values] if self.values else [self._middle(*bin_) for bin_ in pairwise(self.edges)]
        if self.other is True:
            values.append(OTHER if pa.types.is_string(self.arrow_type) else None)
        if self.null is True:
            values.append(None)
        return pa.array(values, type=self.arrow_type).take(pa.array(codes))

    def _middle(self, low: float, high: float) -> float | date:
        if self.kind is Kind.FLOAT:
            return low / 2 + high / 2
        middle = (int(low) + int(high)) // 2
        return _day(middle) if self.kind is Kind.DATE else middle


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name)


def _is_edge(edge: object, kind: Kind) -> bool:
    if type(edge) is int:
        return abs(edge) < 2**63
    return kind is Kind.FLOAT and type(edge) is float and math.isfinite(edge)


def _integer_type(values: tuple[Value, ...]) -> pa.DataType:
    return pa.uint64() if any(not isinstance(value, str) and value >= 2**63 for value in values) else pa.int64()


def _day(days: float) -> date:
    return _EPOCH + timedelta(days=int(days))


def days_since_epoch(day: date) -> int:
    """The bin edge of a date, as days since 1970-01-01."""
    return (day - _EPOCH).days
