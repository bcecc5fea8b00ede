"""What is asked of a calibrated tree, and in which parts: factors, values to which it is restricted, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.contraction import Table

Results = Mapping[tuple[int, ...], NDArray[np.float64]]  # By the attributes of their axes.


class Request(NamedTuple):
    """What is asked of some attributes besides their values.

    largest: Cells that a table between the nodes and the answer may have.
    factors: Tables by an attribute that they sum out; their other label stands for it in the answer.
    ranges: Values to which an attribute is restricted.
    """

    largest: int
    factors: Mapping[int, Table] = MappingProxyType({})
    ranges: Mapping[int, slice] = MappingProxyType({})

    def only(self, label: int, begin: int, end: int) -> Request:
        """The request for some places of what is asked of one attribute."""
        if label in self.factors:
            labels, values = self.factors[label]
            return self._replace(factors={**self.factors, label: Table(labels, values[:, begin:end])})
        before = self.ranges[label].start if label in self.ranges else 0
        return self._replace(ranges={**self.ranges, label: slice(before + begin, before + end)})

    def restricted(self, table: Table, sizes: Sequence[int]) -> Table:
        """The part of a table that is asked for; it may come with an attribute already cut off.

        sizes: Values of each attribute where it is not.
        """
        if not self.ranges:
            return table
        parts = [slice(None)] * len(table.labels)
        for axis, label in enumerate(table.labels):
            if label in self.ranges and table.values.shape[axis] == sizes[label]:
                parts[axis] = self.ranges[label]
        return Table(table.labels, table.values[tuple(parts)])


def cuts(begin: int, end: int, pieces: int) -> list[int]:
    """Bounds of that many pieces of nearly one length, at least two and at most one for each place."""
    pieces = min(max(2, pieces), end - begin)
    return [begin + (end - begin) * piece // pieces for piece in range(pieces + 1)]


def parts_of(results: Results, label: int, places: slice) -> Results:
    """The parts of some results that are about some values of an attribute, whole where they are not about it."""
    return {
        labels: result[(slice(None),) * labels.index(label) + (places,)] if label in labels else result
        for labels, result in results.items()
    }
