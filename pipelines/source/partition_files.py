"""What a release of partitions needs of a file that lies in one partition as a whole, as its folder or table says."""

from __future__ import annotations

from enum import Enum

from pipelines.layout import Layout
from pipelines.source.columns import constant_column
from pipelines.source.data_file import DataFile


class Need(Enum):
    """What is read of a file: all columns of the layout, only the units, or nothing."""

    ROWS = "rows"
    UNITS = "units"
    NOTHING = "nothing"


def need_of(file: DataFile, layout: Layout) -> Need:
    """What is read of a file. A file that holds the partition column itself may have rows of every partition."""
    partition = layout.partition
    if partition is None or file.stored(partition.column):
        return Need.ROWS
    keys = partition.keys(constant_column(file, partition.column, layout, 1))
    if partition.is_chosen(keys)[0]:
        return Need.ROWS
    return Need.UNITS if partition.matters(keys)[0] else Need.NOTHING
