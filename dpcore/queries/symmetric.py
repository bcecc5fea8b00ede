"""Integer queries about sums over classes of values, and about differences within a class: stacked in blocks."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.frozen import frozen
from dpcore.queries.marginals import Marginals
from dpcore.queries.products import LARGEST_ANSWER
from dpcore.queries.residual_matrices import residual_matrix

Integers = NDArray[np.int64]
Choice = tuple[int | None, ...]

LARGEST_ENTRY: Final = 1 << 30  # Of the whole matrix: answers about 2^32 rows stay within 2^62.
LARGEST_ROWS: Final = 1 << 20  # Of a block's matrix.
LARGEST_AXIS: Final = 1 << 23  # Entries of all that is read of one attribute: 64 MiB.
LARGEST_READ: Final = 1 << 26  # Cells of the table read through all sums and residuals of its attributes: 512 MiB.


@final
@dataclass(frozen=True, eq=False)
class BlockQueries:
    """matrix x M_C x ...: integer queries about one block.

    choice: For each attribute None, where counts are summed up within each of its classes, or one class C, where M_C =
        ``residual_matrix(|C|)`` is applied to the counts of its values and those of other values are left out.
    matrix: int64 [r, g], over the g combinations of classes of the attributes that are None, the last one fastest.

    Raises ValueError for a matrix of other numbers, of zeros or of an entry above LARGEST_ENTRY.
    """

    choice: Choice
    matrix: Integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "choice", tuple(self.choice))
        if any(at is not None and type(at) is not int for at in self.choice):
            raise ValueError("a block that chooses a class by what is no int; want None or an int")
        object.__setattr__(self, "matrix", _integers("a block's matrix", self.matrix, 2))
        if not self.matrix.any() or len(self.matrix) > LARGEST_ROWS:
            raise ValueError(f"a matrix of {len(self.matrix):,} rows, or of zeros; want at most {LARGEST_ROWS:,} rows")
        if max(int(self.matrix.max()), -int(self.matrix.min())) > LARGEST_ENTRY:
            raise ValueError("a matrix with an entry above 2^30 in size; want smaller integers")

    @property
    def free(self) -> tuple[int, ...]:
        """Attributes of sums."""
        return tuple(axis for axis, at in enumerate(self.choice) if at is None)

    @property
    def chosen(self) -> tuple[int, ...]:
        """Attributes of a class."""
        return tuple(axis for axis, at in enumerate(self.choice) if at is not None)


@final
@dataclass(frozen=True, eq=False)
class ClassAxis:
    """What is read of one attribute: the sums over its classes, then M_C of each class that some block chooses.

    matrix: int64 [rows, size of the attribute].
    places: Rows of the sums (None), and of the M_C of a class.
    members: int64 [classes], the values of each.
    """

    matrix: Integers
    places: Mapping[int | None, slice]
    members: Integers

    @classmethod
    def of(cls, classes: Integers, chosen: set[int]) -> ClassAxis:
        """Raises ValueError for a chosen class that there is not, or of one value, and for a matrix too large."""
        members = np.bincount(classes)
        if any(not 0 <= at < len(members) for at in chosen):
            raise ValueError(f"a block of a class beyond 0 .. {len(members) - 1}; want one of the attribute")
        rows = len(members) + sum(int(members[at]) for at in chosen)
        if rows * len(classes) > LARGEST_AXIS:
            raise ValueError(f"{rows:,} sums and residuals of {len(classes):,} values; want fewer values")
        parts = [(classes == np.arange(len(members))[:, None]).astype(np.int64)]
        indices: dict[int | None, slice] = {None: slice(0, len(members))}
        for at in sorted(chosen):
            within = residual_matrix(int(members[at]))
            part = np.zeros((len(within), len(classes)), dtype=np.int64)
            part[:, classes == at] = within
            start = sum(map(len, parts))
            indices[at] = slice(start, start + len(part))
            parts.append(part)
        return cls(frozen(np.vstack(parts), np.int64), MappingProxyType(indices), frozen(members, np.int64))


@final
@dataclass(frozen=True, eq=False)
class SymmetricQueries:
    """A stack A of blocks of queries about the marginal of one clique, every entry a public integer.

    Answers come block by block; within one, those of ``matrix`` slowest, then those of each M_C in the order of the
    domain. Every entry of a block is one of its matrix times one of each M_C.

    clique: Attributes in the order of the domain.
    classes: int64 [size of the attribute], one an attribute: the class of each value, 0 .. classes - 1.

    Raises ValueError for classes or a block that do not fit the clique, an entry of A above LARGEST_ENTRY, and more
    than LARGEST_READ cells to read.
    """

    domain: Domain
    clique: Clique
    classes: tuple[Integers, ...]
    blocks: tuple[BlockQueries, ...]

    def __post_init__(self) -> None:
        for name in ("clique", "classes", "blocks"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.clique or self.domain.canonical(self.clique) != self.clique:
            raise ValueError(f"clique {self.clique}; want attributes, in the order {list(self.domain.names)}")
        object.__setattr__(self, "classes", tuple(_integers("classes", each, 1) for each in self.classes))
        if tuple(map(len, self.classes)) != self.domain.shape(self.clique):
            raise ValueError(f"classes of {[*map(len, self.classes)]} values; want {self.domain.shape(self.clique)}")
        for each in self.classes:
            if not 0 <= int(each.min()) <= int(each.max()) < len(each) or not np.bincount(each).all():
                raise ValueError("classes that are not numbered from 0 on; want each number used")
        if not self.blocks or any(type(block) is not BlockQueries for block in self.blocks):
            raise ValueError("no blocks, or one that is no BlockQueries; want one or more")
        if any(len(block.choice) != len(self.clique) for block in self.blocks):
            raise ValueError(f"a block that does not choose for {len(self.clique)} attributes; want a choice for each")
        if math.prod(self.read_shape) > LARGEST_READ:
            raise ValueError(f"{math.prod(self.read_shape):,} cells to read; want at most {LARGEST_READ:,}")
        for block in self.blocks:
            combinations = math.prod(len(self.axes[axis].members) for axis in block.free)
            if combinations != block.matrix.shape[1]:
                raise ValueError(f"a block's matrix of {block.matrix.shape[1]} columns; want {combinations}")
        if self.largest > LARGEST_ENTRY:
            raise ValueError("a block with an entry above 2^30 in size; want smaller integers")

    @cached_property
    def axes(self) -> tuple[ClassAxis, ...]:
        """What is read of each attribute."""
        chosen = [{block.choice[axis] for block in self.blocks} - {None} for axis in range(len(self.clique))]
        pairs = zip(self.classes, chosen, strict=True)
        return tuple(ClassAxis.of(each, {at for at in some if at is not None}) for each, some in pairs)

    @property
    def read_shape(self) -> tuple[int, ...]:
        """Rows that are read of each attribute."""
        return tuple(len(axis.matrix) for axis in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Answers of each block."""
        return tuple(
            len(block.matrix) * math.prod(self._rows(axis, block.choice[axis]) for axis in block.chosen)
            for block in self.blocks
        )

    @property
    def size(self) -> int:
        """Length of the answer vector."""
        return sum(self.sizes)

    @property
    def description(self) -> str:
        """A few words for plans and certificates."""
        return f"{self.size:,} answers of an integer strategy on {' x '.join(self.clique)}"

    @property
    def marginal(self) -> Marginals:
        """The one marginal that all answers are made from."""
        return Marginals(self.domain, (self.clique,))

    def digest(self) -> str:
        """Identity of the queries."""
        shapes = [[block.choice, block.matrix.shape] for block in self.blocks]
        head = json.dumps(["symmetric", self.domain.names, self.domain.sizes, self.clique, shapes])
        content = hashlib.sha256(head.encode())
        for array in (*self.classes, *(block.matrix for block in self.blocks)):
            content.update(array.astype("<i8").tobytes())
        return content.hexdigest()

    def of_table(self, table: Integers, rows: int) -> Integers:
        """A x, exact and then clipped to +-2^62, int64 [size].

        table: x, non-negative counts of the clique, any shape, in C order.
        rows: The table sums to no more. A row adds at most one entry of a matrix, or of a product of them, to a number
            on the way, so that none passes rows times the largest. Where that may pass 2^62, which takes more rows than
            datasets have, the sums are made of Python's integers. Clipping an answer never moves two of them further
            apart.
        """
        reading = math.prod(int(np.abs(axis.matrix).max()) for axis in self.axes)
        kind: Any = np.int64 if rows * max(reading, self.largest) < LARGEST_ANSWER else object
        read = self.read(np.asarray(table).astype(kind))
        answers = [(block.matrix.astype(kind) @ self.part(block, read)).ravel() for block in self.blocks]
        return np.asarray(np.clip(np.concatenate(answers), -LARGEST_ANSWER, LARGEST_ANSWER), dtype=np.int64)

    def read(self, table: NDArray[Any]) -> NDArray[Any]:
        """The table through the matrices of all axes, in numbers of its own kind: ``read_shape``."""
        read = table.reshape([len(each) for each in self.classes])
        for axis, each in enumerate(self.axes):
            read = np.moveaxis(np.tensordot(each.matrix.astype(table.dtype), read, axes=(1, axis)), 0, axis)
        return read

    def part(self, block: BlockQueries, read: NDArray[Any]) -> NDArray[Any]:
        """What a block's matrix is applied to: [combinations of classes, answers of all M_C]."""
        indices = tuple(axis.places[at] for axis, at in zip(self.axes, block.choice, strict=True))
        return read[indices].transpose([*block.free, *block.chosen]).reshape(block.matrix.shape[1], -1)

    @property
    def largest(self) -> int:
        """No entry of A is larger in size."""
        return max(map(self._largest, self.blocks))

    def _largest(self, block: BlockQueries) -> int:
        """No entry of the block, and none of a matrix of it, is larger in size."""
        within = [np.abs(self.axes[axis].matrix[self.axes[axis].places[block.choice[axis]]]) for axis in block.chosen]
        return int(np.abs(block.matrix).max()) * math.prod(int(each.max()) for each in within)

    def _rows(self, axis: int, at: int | None) -> int:
        indices = self.axes[axis].places[at]
        return int(indices.stop - indices.start)


def _integers(what: str, array: Integers, dimensions: int) -> Integers:
    """A copy that cannot be changed. Floats are refused: their sensitivity would be that of other numbers."""
    if not np.issubdtype(array.dtype, np.signedinteger) or array.ndim != dimensions or 0 in array.shape:
        raise ValueError(f"{what} of {array.dtype} {array.shape}; want integers, one or more")
    held = frozen(array, np.int64)
    if held.ndim != dimensions or not held.size:
        raise ValueError(f"{what} of {held.shape}; want {dimensions} dimensions")
    return held
