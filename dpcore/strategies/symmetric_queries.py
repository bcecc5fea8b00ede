"""Integer queries about sums over classes of values, and about differences within a class: stacked in blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.frozen import frozen
from dpcore.queries.implicit import ImplicitMatrix
from dpcore.strategies.residual_bases import residual_matrix, residual_scale

Real = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_ENTRY: Final = 1 << 40
_LARGEST_ANSWER: Final = 1 << 62


@final
@dataclass(frozen=True, eq=False)
class BlockQueries:
    """matrix x M_C x ...: integer queries about one block.

    choice: For each attribute None, where counts are summed up within each of its classes, or one class C, where M_C =
        ``residual_matrix(|C|)`` is applied to the counts of its values and those of other values are left out.
    matrix: int64 [r, g], over the g combinations of classes of the attributes that are None, the last one fastest.
    """

    choice: tuple[int | None, ...]
    matrix: Integers

    def __post_init__(self) -> None:
        if not np.issubdtype(self.matrix.dtype, np.signedinteger) or self.matrix.ndim != 2 or not self.matrix.any():
            raise ValueError(f"a matrix of {self.matrix.dtype} {self.matrix.shape}; want integers, not all of them 0")
        if np.abs(self.matrix).max() > LARGEST_ENTRY:
            raise ValueError("a matrix with an entry above 2^40 in size; want smaller integers")
        object.__setattr__(self, "matrix", frozen(self.matrix, np.int64))


@final
@dataclass(frozen=True, eq=False)
class SymmetricQueries(ImplicitMatrix):
    """A stack of blocks A over the cells of a domain, all entries public integers.

    Answers come block by block; within one, those of ``matrix`` slowest, then those of each M_C in the order of the
    domain. Columns of one orbit, a class of each attribute, have the same norms.

    classes: int64 [size of the attribute], one an attribute: the class of each value, 0 .. classes - 1.

    Raises ValueError for classes or a block that do not fit the domain.
    """

    domain: Domain
    classes: tuple[Integers, ...]
    blocks: tuple[BlockQueries, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(frozen(each, np.int64) for each in self.classes))
        if tuple(len(each) for each in self.classes) != self.domain.sizes:
            raise ValueError(f"classes of {[len(each) for each in self.classes]} values; want {self.domain.sizes}")
        for each in self.classes:
            if not np.array_equal(np.unique(each), np.arange(each.max() + 1)):
                raise ValueError("classes that are not numbered from 0 on; want each number used")
        if not self.blocks:
            raise ValueError("no blocks; want one or more")
        for block in self.blocks:
            _Axes.of(self.classes, block)

    @property
    def shape(self) -> tuple[int, int]:
        return sum(axes.answers for axes in self._axes), self.domain.size()

    def squared_norms(self) -> NDArray[np.object_]:
        """Squared L2 norm of the columns of each orbit: exact integers, one axis an attribute over its classes."""
        return self._norms(2)

    def squared_sensitivity(self) -> int:
        """The square of how far one record that is added or removed moves A x in L2, exactly."""
        return int(self._norms(2).max())

    def absolute_sensitivity(self) -> int:
        """How far one record that is added or removed moves A x in L1, exactly."""
        return int(self._norms(1).max())

    def column_norms(self, order: Literal[1, 2]) -> Real:
        norms = self._norms(order).astype(np.float64)[np.ix_(*self.classes)].ravel()
        return norms if order == 1 else np.asarray(np.sqrt(norms))

    def exact_answers(self, table: Integers) -> Integers:
        """A x in integers, int64 [rows].

        table: x, int64 counts of the cells of the domain, in C order.

        Raises ValueError for counts that sum to so much that a number on the way might pass 2^62.
        """
        rows = int(np.abs(table).sum(dtype=object))
        if rows * max(axes.largest for axes in self._axes) >= _LARGEST_ANSWER:
            raise ValueError("a table whose answers might pass 2^62; want fewer rows, or smaller integers")
        answers: Integers = self._applied(np.asarray(table, dtype=np.int64))
        return answers

    def block_pseudo_inverse(self, place: int, answers: Real, inverse: Real) -> Real:
        """The table, float64 [cells], that least squares makes of the answers of one block.

        inverse: float64 [g, r], of the block's matrix: from its answers the values of the cells of each combination.
        """
        axes = self._axes[place]
        return axes.back(inverse @ answers.reshape(inverse.shape[1], -1)) / axes.scale**2

    def answers_of(self, place: int) -> slice:
        """Where the answers of a block are."""
        start = sum(axes.answers for axes in self._axes[:place])
        return slice(start, start + self._axes[place].answers)

    def _times(self, columns: Real) -> Real:
        return np.stack([self._applied(column) for column in columns.T], axis=1)

    def _transposed_times(self, columns: Real) -> Real:
        return np.stack([self._transposed(column) for column in columns.T], axis=1)

    def _transposed(self, answers: Real) -> Real:
        total = np.zeros(self.domain.size())
        for place, (block, axes) in enumerate(zip(self.blocks, self._axes, strict=True)):
            values = answers[self.answers_of(place)].reshape(len(block.matrix), -1)
            total += axes.back(block.matrix.T @ values)
        return total

    def _applied(self, table: NDArray[Any]) -> NDArray[Any]:
        counts = table.reshape(self.domain.sizes)
        pairs = zip(self.blocks, self._axes, strict=True)
        return np.concatenate([(block.matrix @ axes.ahead(counts)).ravel() for block, axes in pairs])

    def _gram(self) -> Real:
        return self._transposed_times(self._times(np.eye(self.shape[1])))

    @cached_property
    def _axes(self) -> tuple[_Axes, ...]:
        return tuple(_Axes.of(self.classes, block) for block in self.blocks)

    def _norms(self, order: Literal[1, 2]) -> NDArray[np.object_]:
        """Sums of |entries|^order of a column of each orbit; within M_C all columns have the same."""
        totals = np.zeros([int(each.max()) + 1 for each in self.classes], dtype=object)
        for block, axes in zip(self.blocks, self._axes, strict=True):
            within = math.prod(
                int((np.abs(axes.maps[axis][:, axes.value(axis)]) ** order).sum()) for axis in axes.chosen
            )
            columns = (np.abs(block.matrix).astype(object) ** order).sum(axis=0) * within
            at = tuple(slice(None) if each is None else slice(each, each + 1) for each in block.choice)
            totals[at] += columns.reshape(totals[at].shape)
        return totals


@dataclass(frozen=True, eq=False)
class _Axes:
    """How a block reads the attributes.

    maps: int64 [rows, size], one an attribute: sums over its classes, or M_C.
    free, chosen: Attributes of sums, and those of a class.
    """

    block: BlockQueries
    maps: tuple[Integers, ...]
    free: tuple[int, ...]
    chosen: tuple[int, ...]

    @classmethod
    def of(cls, classes: tuple[Integers, ...], block: BlockQueries) -> _Axes:
        if len(block.choice) != len(classes):
            raise ValueError(f"a block that chooses for {len(block.choice)} attributes; want {len(classes)}")
        maps = []
        for each, at in zip(classes, block.choice, strict=True):
            if at is None:
                maps.append((np.arange(int(each.max()) + 1)[:, None] == each).astype(np.int64))
                continue
            within = residual_matrix(int((each == at).sum()))
            spread = np.zeros((len(within), len(each)), dtype=np.int64)
            spread[:, each == at] = within
            maps.append(spread)
        free = tuple(axis for axis, at in enumerate(block.choice) if at is None)
        combinations = math.prod(len(maps[axis]) for axis in free)
        if combinations != block.matrix.shape[1]:
            raise ValueError(f"a block's matrix of {block.matrix.shape[1]} columns; want {combinations}")
        return cls(block, tuple(maps), free, tuple(axis for axis, at in enumerate(block.choice) if at is not None))

    @property
    def answers(self) -> int:
        return len(self.block.matrix) * math.prod(len(self.maps[axis]) for axis in self.chosen)

    @property
    def largest(self) -> int:
        """No entry of the block is larger in size."""
        return math.prod(int(np.abs(each).max()) for each in (self.block.matrix, *self.maps))

    @property
    def scale(self) -> float:
        """c with M'M = c^2 times a projection, for all M_C together."""
        members = [int(self.maps[axis].any(axis=0).sum()) for axis in self.chosen]
        return float(np.prod([residual_scale(size) for size in members]))

    def value(self, axis: int) -> int:
        """Some value of the chosen class."""
        return int(np.argmax(self.maps[axis].any(axis=0)))

    def ahead(self, table: NDArray[Any]) -> NDArray[Any]:
        """The table read through the maps, combinations of classes first: [g, answers of the chosen]."""
        ordered = _along(self.maps, table).transpose([*self.free, *self.chosen])
        return ordered.reshape(self.block.matrix.shape[1], -1)

    def back(self, groups: Real) -> Real:
        """The transpose of ``ahead``, float64 [cells]."""
        order = [*self.free, *self.chosen]
        ordered = groups.reshape([len(self.maps[axis]) for axis in order])
        return _along(tuple(each.T for each in self.maps), ordered.transpose(np.argsort(order))).ravel()


def _along(maps: tuple[Integers, ...], table: NDArray[Any]) -> NDArray[Any]:
    for axis, each in enumerate(maps):
        table = np.moveaxis(np.tensordot(each.astype(table.dtype), table, axes=(1, axis)), 0, axis)
    return table
