"""The public filter of rows as Spark's own condition, so that partitions and files without such rows are not read.

Spark's condition may only drop rows that do not pass. The tasks apply the exact filter afterwards, so a condition that
Spark would compare in another way is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as kinds

from pipelines.row_filter import Condition, RowFilter

_WHOLE = (kinds.ByteType, kinds.ShortType, kinds.IntegerType, kinds.LongType)


def prefiltered(frame: DataFrame, where: RowFilter) -> DataFrame:
    """The frame without some of the rows that do not pass the filter.

    frame: A DataFrame with the columns of the filter.
    where: The filter.
    """
    types = {field.name: field.dataType for field in frame.schema.fields}
    for condition in where.conditions:
        column = frame[f"`{condition.column.replace('`', '``')}`"]
        for passing in _conditions(column, types[condition.column], condition):
            frame = frame.filter(passing)
    return frame


def _conditions(column: Column, kind: kinds.DataType, condition: Condition) -> Iterator[Column]:
    if condition.values:
        if _is_listed(kind, condition):
            yield column.isin(list(condition.values))
    elif _is_ranged(kind, condition):
        if condition.low is not None:
            yield column >= _limit(condition.low, condition)
        if condition.high is not None:
            yield column <= _limit(condition.high, condition)


def _limit(limit: int | float, condition: Condition) -> int | float | date:
    return date(1970, 1, 1) + timedelta(days=int(limit)) if condition.dates else limit


def _is_listed(kind: kinds.DataType, condition: Condition) -> bool:
    """Whether Spark compares the column with the listed values as the exact filter does."""
    of_type: dict[type, tuple[type[kinds.DataType], ...]] = {
        str: (kinds.StringType,),
        int: _WHOLE,
        bool: (kinds.BooleanType,),
    }
    small = all(isinstance(value, str) or abs(value) < 2**63 for value in condition.values)
    return small and isinstance(kind, of_type[type(condition.values[0])])


def _is_ranged(kind: kinds.DataType, condition: Condition) -> bool:
    """Whether Spark compares the column with the limits as the exact filter does.

    Timestamps are left out, because their days depend on the session's time zone.
    """
    limits = [limit for limit in (condition.low, condition.high) if limit is not None]
    if condition.dates:
        return isinstance(kind, kinds.DateType)
    if isinstance(kind, kinds.DoubleType):
        return all(isinstance(limit, float) or abs(limit) < 2**53 for limit in limits)
    return isinstance(kind, _WHOLE) and all(isinstance(limit, int) and abs(limit) < 2**63 for limit in limits)
