"""The public filter of rows: which rows of a dataset a release is about. TRUSTED. No value makes it fail.

A row passes or fails by its own values alone, so a unit that is added or removed changes nothing about the rows of
others, and the sensitivity of every request is what it is without a filter. Rows are filtered before a unit is
truncated to the contribution bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from pipelines.arrow import integers
from pipelines.attributes import Attribute, Kind, Value
from pipelines.column_codes import marked_codes, numbers

_LISTED: dict[type, tuple[pa.DataType, Callable[[pa.DataType], bool], str]] = {
    str: (pa.large_string(), pa.types.is_large_string, "a string"),
    int: (pa.int64(), pa.types.is_integer, "an integer"),
    bool: (pa.bool_(), pa.types.is_boolean, "a boolean"),
}


@dataclass(frozen=True)
class Condition:
    """What the value of one column must be. Null, NaN and infinities never pass.

    column: Name of the column.
    values: The values that pass: strings, integers or booleans, all of one type. Empty for a range.
    low: Smallest number that passes, or its day since 1970-01-01 for dates; None for no limit.
    high: Largest number that passes; None for no limit.
    dates: Whether ``low`` and ``high`` are days.

    Raises: ConfigError when there are neither values nor limits, or both, or nothing can pass.
    """

    column: str
    values: tuple[Value, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    dates: bool = False
    _listed: Attribute | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        limits = self.low is not None or self.high is not None
        if limits == bool(self.values):
            raise ConfigError(f"the filter of column {self.column!r} wants a list of values, or min, max or both")
        if any(isinstance(limit, float) and not math.isfinite(limit) for limit in (self.low, self.high)):
            raise ConfigError(f"the filter of column {self.column!r} has a limit that is not finite; want a number")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ConfigError(f"the filter of column {self.column!r} has min > max; want min <= max")
        if self.values:
            try:
                listed = Attribute(self.column, Kind.CATEGORICAL, self.values)
            except ConfigError as error:
                raise ConfigError(f"the filter of a column: {error}") from error
            object.__setattr__(self, "_listed", listed)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the column if it is known as text alone, as for a partition column."""
        if self.values:
            return _LISTED[type(self.values[0])][0]
        whole = all(limit is None or isinstance(limit, int) for limit in (self.low, self.high))
        return pa.date32() if self.dates else pa.int64() if whole else pa.float64()

    @property
    def fitting(self) -> tuple[Callable[[pa.DataType], bool], str]:
        """Whether a type can be compared with the condition, and what is wanted in words."""
        if self.values:
            return _LISTED[type(self.values[0])][1:]
        if self.dates:
            return is_date, "a date or a timestamp, as its filter has dates"
        return is_number, "an integer, a float or a decimal, as its filter has numbers"

    def passes(self, column: pa.Array) -> NDArray[np.bool_]:
        """Which values of a column pass, bool [rows]. SENSITIVE."""
        if self._listed is not None:
            return marked_codes(column, self._listed) >= 0
        values, null = numbers(column, Kind.DATE if self.dates else Kind.FLOAT)
        passing = np.isfinite(values) if values.dtype.kind == "f" else np.ones(values.size, dtype=np.bool_)
        if self.low is not None:
            passing &= values >= self.low
        if self.high is not None:
            passing &= values <= self.high
        if null is not None:
            passing &= ~null
        return passing


@dataclass(frozen=True)
class RowFilter:
    """The conditions that a row must all meet; none for all rows. Public.

    conditions: At most one condition per column.

    Raises: ConfigError when two conditions are about one column.
    """

    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns):
            raise ConfigError("the filter names a column twice; want one condition per column")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the conditions are about."""
        return tuple(condition.column for condition in self.conditions)

    def type_of(self, column: str) -> pa.DataType:
        """``Condition.arrow_type`` of a column of the filter."""
        return self._condition(column).arrow_type

    def fitting(self, column: str) -> tuple[Callable[[pa.DataType], bool], str]:
        """``Condition.fitting`` of a column of the filter."""
        return self._condition(column).fitting

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that meet all conditions. SENSITIVE.

        batch: Rows with the columns of the filter.
        """
        if not self.conditions:
            return batch
        rows = np.flatnonzero(self.passing(batch))
        if rows.size == batch.num_rows:
            return batch
        return batch.take(integers(rows))

    def passing(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows meet all conditions, bool [rows]. SENSITIVE. The argument is that of ``apply``."""
        passing = np.ones(batch.num_rows, dtype=np.bool_)
        for condition in self.conditions:
            passing &= condition.passes(batch.column(condition.column))
        return passing

    def _condition(self, column: str) -> Condition:
        return self.conditions[self.columns.index(column)]


ALL_ROWS: Final = RowFilter()
"""The filter that every row passes."""


def is_number(kind: pa.DataType) -> bool:
    """Whether values of the type are numbers that can be compared with edges or limits."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_date(kind: pa.DataType) -> bool:
    """Whether values of the type have a day."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
