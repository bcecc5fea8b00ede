"""Partitions of a dataset: the values of one column, by which rows are chosen and units are bounded. TRUSTED.

No value of a row makes anything here fail. What happens to the rows is in ``partition_rows``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from pipelines.arrow import decoded, integers, numbers_of, texts
from pipelines.attributes import Kind
from pipelines.column_codes import numbers
from pipelines.row_filter import is_date

MAX_CHOSEN: Final = 4000
"""The largest number of partitions that one release may be about."""
_LARGEST = 1 << 53  # Larger integers are not told apart where a column holds uint64.
_EPOCH = date(1970, 1, 1)


class Values(StrEnum):
    """What the values of a partition column are."""

    TEXT = "text"
    INTEGER = "integer"
    DATE = "date"


class UnitsIn(StrEnum):
    """In how many partitions a unit may have rows."""

    ONE = "one_partition"
    MANY = "many_partitions"


@dataclass(frozen=True)
class Partition:
    """The partitions that a release is about, and in how many of all partitions a unit counts. Public.

    A null in the partition column is no partition: no release of partitions counts the row.

    column: Name of the partition column.
    values: What its values are.
    chosen: The partitions that are counted, distinct and ascending: texts, integers, or days since 1970-01-01.
    units_in: With ``ONE``, a unit with rows in several partitions, chosen or not, is not counted. With ``MANY``, it
        is counted in ``max_per_unit`` partitions.
    max_per_unit: Number of partitions, the first ones in the order of the values, in which a unit is counted; None
        for all. Only with ``MANY``.

    Raises: ConfigError when no partition or too many are chosen, or a number is out of range.
    """

    column: str
    values: Values
    chosen: tuple[str, ...] | tuple[int, ...]
    units_in: UnitsIn = UnitsIn.ONE
    max_per_unit: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.chosen) <= MAX_CHOSEN:
            raise ConfigError(f"the release has {len(self.chosen)} partitions; want 1 .. {MAX_CHOSEN:,}")
        if any(isinstance(value, int) and abs(value) > _LARGEST for value in self.chosen):
            raise ConfigError(f"a partition of column {self.column!r} is out of range; want -2^53 .. 2^53")
        if self.max_per_unit is not None and (self.max_per_unit < 1 or self.units_in is UnitsIn.ONE):
            raise ConfigError(
                f"max_partitions_per_unit is {self.max_per_unit}; want >= 1, and units_in: {UnitsIn.MANY}"
            )
        object.__setattr__(self, "chosen", tuple(sorted(set(self.chosen), key=_order)))

    @property
    def is_checked(self) -> bool:
        """Whether the number of partitions of a unit is bounded, so that all of its rows must be seen."""
        return self.units_in is UnitsIn.ONE or self.max_per_unit is not None

    @property
    def limit(self) -> int | None:
        """The number of partitions in which a unit is counted at most; None for no bound."""
        return 1 if self.units_in is UnitsIn.ONE else self.max_per_unit

    @property
    def names(self) -> tuple[str, ...]:
        """The chosen partitions as text, in which two partitions never have one name."""
        if self.values is Values.DATE:
            return tuple((_EPOCH + timedelta(days=int(day))).isoformat() for day in self.chosen)
        return tuple(str(value) for value in self.chosen)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the column if it is known as text alone, as for names of folders."""
        return {Values.TEXT: pa.large_string(), Values.INTEGER: pa.int64(), Values.DATE: pa.date32()}[self.values]

    @property
    def fitting(self) -> tuple[Callable[[pa.DataType], bool], str]:
        """Whether a type can hold such partitions, and what is wanted in words."""
        match self.values:
            case Values.TEXT:
                return pa.types.is_large_string, "a string, as its partitions are texts"
            case Values.INTEGER:
                return pa.types.is_integer, "an integer, as its partitions are integers"
            case Values.DATE:
                return is_date, "a date or a timestamp, as its partitions are dates"

    def keys(self, column: pa.Array) -> pa.Array:
        """The partition of each row, int64 or large_binary [rows]; null where there is none. SENSITIVE."""
        if self.values is Values.TEXT:
            column = decoded(column)
            # Text is compared as bytes, because text that is not valid UTF-8 has no Python string.
            return column.cast(pa.large_string()).view(pa.large_binary())
        values, null = numbers(column, Kind.DATE if self.values is Values.DATE else Kind.INTEGER)
        keys = integers(values.astype(np.int64, copy=False))
        return keys if null is None else pc.if_else(column.is_null(), pa.scalar(None, pa.int64()), keys)

    def is_chosen(self, keys: pa.Array) -> NDArray[np.bool_]:
        """Which rows are in a chosen partition, bool [rows]. SENSITIVE."""
        return numbers_of(pc.is_in(keys, value_set=self._chosen_keys))

    def matters(self, keys: pa.Array) -> NDArray[np.bool_]:
        """Which rows decide whether their unit counts in a chosen partition, bool [rows]. SENSITIVE.

        Of later partitions than the chosen ones, no row matters to a unit that is counted in its first partitions.
        """
        if not self.is_checked:
            return np.zeros(len(keys), dtype=np.bool_)
        if self.units_in is UnitsIn.ONE:
            return numbers_of(keys.is_valid())
        last = self._chosen_keys[-1]
        return numbers_of(pc.less_equal(keys, last).fill_null(False))

    @property
    def _chosen_keys(self) -> pa.Array:
        if self.values is Values.TEXT:
            return texts([str(value) for value in self.chosen]).view(pa.large_binary())
        return integers(np.array(self.chosen, dtype=np.int64))


def _order(value: str | int) -> bytes | int:
    return value.encode() if isinstance(value, str) else value
