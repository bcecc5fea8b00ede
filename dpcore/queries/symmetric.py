"""Symmetric queries: integer queries about sums over classes of values and differences within a class, in blocks."""

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
from dpcore.frozen import frozen, plain_text
from dpcore.queries.marginals import Marginals
from dpcore.queries.products import LARGEST_ANSWER
from dpcore.queries.residual_matrices import residual_matrix

Integers = NDArray[np.int64]
Choice = tuple[int | None, ...]

LARGEST_ENTRY: Final = 1 << 30  # Largest entry of the whole matrix; with 2^32 rows, answers stay within 2^62.
LARGEST_ROWS: Final = 1 << 20  # Largest number of rows of a block's matrix.
LARGEST_AXIS: Final = 1 << 23  # Largest number of entries of one attribute's ``ClassAxis.matrix``: 64 MiB.
LARGEST_READ: Final = 1 << 26  # Largest number of cells of the transformed table that ``read`` returns: 512 MiB.


@final
@dataclass(frozen=True, eq=False)
class BlockQueries:
    """The integer queries of one block: the Kronecker product of ``matrix`` with the residual matrices of its classes.

    choice: One entry per attribute. None means that counts are summed within each class of the attribute. The number of
        a class C means that M_C = ``residual_matrix(|C|)`` is applied to the counts of the values in C, and the counts
        of other values are ignored.
    matrix: int64 [r, g], with one column per combination of classes of the attributes whose choice is None, last
        attribute fastest.

    Raises ValueError for a matrix that is not integer, is 0, or has an entry above LARGEST_ENTRY.
    """

    choice: Choice
    matrix: Integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "choice", tuple(self.choice))
        if any(at is not None and type(at) is not int for at in self.choice):
            raise ValueError("a block chooses a class by something other than an int; want None or an int")
        object.__setattr__(self, "matrix", _integers("a block's matrix", self.matrix, 2))
        if not self.matrix.any() or len(self.matrix) > LARGEST_ROWS:
            raise ValueError(f"a matrix of {len(self.matrix):,} rows, or of zeros; want at most {LARGEST_ROWS:,} rows")
        if max(int(self.matrix.max()), -int(self.matrix.min())) > LARGEST_ENTRY:
            raise ValueError("a matrix with an absolute entry above 2^30; want smaller integers")

    @property
    def free(self) -> tuple[int, ...]:
        """The attributes whose counts are summed within classes."""
        return tuple(axis for axis, at in enumerate(self.choice) if at is None)

    @property
    def chosen(self) -> tuple[int, ...]:
        """The attributes with a chosen class."""
        return tuple(axis for axis, at in enumerate(self.choice) if at is not None)


@final
@dataclass(frozen=True, eq=False)
class ClassAxis:
    """The stacked queries about one attribute: sums over its classes, then M_C of each class that a block chooses.

    matrix: int64 [rows, size of the attribute].
    row_slices: Where the rows of the sums (key None) and of each M_C (key C) are in ``matrix``.
    members: int64 [classes], the number of values of each class.
    """

    matrix: Integers
    row_slices: Mapping[int | None, slice]
    members: Integers

    @classmethod
    def of(cls, classes: Integers, chosen: set[int]) -> ClassAxis:
        """The stacked queries of one attribute.

        classes: int64 [size of the attribute], the class of each value.
        chosen: The classes that some block chooses.

        Raises ValueError for a class that does not exist or has one value, and for a matrix that is too large.
        """
        members = np.bincount(classes)
        if any(not 0 <= at < len(members) for at in chosen):
            raise ValueError(f"a block of a class beyond 0 .. {len(members) - 1}; want one of the attribute")
        rows = len(members) + sum(int(members[at]) for at in chosen)
        if rows * len(classes) > LARGEST_AXIS:
            raise ValueError(f"{rows:,} sums and residuals of {len(classes):,} values; want fewer values")
        parts = [(classes == np.arange(len(members))[:, None]).astype(np.int64)]
        row_slices: dict[int | None, slice] = {None: slice(0, len(members))}
        for at in sorted(chosen):
            residual = residual_matrix(int(members[at]))
            part = np.zeros((len(residual), len(classes)), dtype=np.int64)
            part[:, classes == at] = residual
            start = sum(map(len, parts))
            row_slices[at] = slice(start, start + len(part))
            parts.append(part)
        return cls(frozen(np.vstack(parts), np.int64), MappingProxyType(row_slices), frozen(members, np.int64))


@final
@dataclass(frozen=True, eq=False)
class SymmetricQueries:
    """A stack A of blocks of queries about the marginal of one clique; all entries are public integers.

    The answers are ordered by block. Within a block the row of ``matrix`` varies slowest, then the row of each M_C in
    the order of the domain. Every entry of a block is the product of one entry of its matrix and one of each M_C.

    domain: The attributes.
    clique: The attributes of the marginal, in the order of the domain.
    classes: One array per attribute of the clique, int64 [size of the attribute]: the class of each value, numbered
        from 0 without gaps.
    blocks: The blocks.

    Raises ValueError for classes or a block that do not fit the clique, an entry of A above LARGEST_ENTRY, and more
    than LARGEST_READ cells in ``read_shape``.
    """

    domain: Domain
    clique: Clique
    classes: tuple[Integers, ...]
    blocks: tuple[BlockQueries, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "clique", tuple(map(plain_text, self.clique)))
        for name in ("classes", "blocks"):
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
            raise ValueError("no blocks, or one that is not BlockQueries; want one or more")
        if any(len(block.choice) != len(self.clique) for block in self.blocks):
            raise ValueError(f"a block that does not choose for {len(self.clique)} attributes; want a choice for each")
        if math.prod(self.read_shape) > LARGEST_READ:
            raise ValueError(f"{math.prod(self.read_shape):,} cells to read; want at most {LARGEST_READ:,}")
        for block in self.blocks:
            combinations = math.prod(len(self.axes[axis].members) for axis in block.free)
            if combinations != block.matrix.shape[1]:
                raise ValueError(f"a block's matrix of {block.matrix.shape[1]} columns; want {combinations}")
        if self.largest > LARGEST_ENTRY:
            raise ValueError("a block with an absolute entry above 2^30; want smaller integers")

    @cached_property
    def axes(self) -> tuple[ClassAxis, ...]:
        """The stacked queries of each attribute."""
        chosen = [
            {at for block in self.blocks if (at := block.choice[axis]) is not None} for axis in range(len(self.clique))
        ]
        return tuple(ClassAxis.of(*pair) for pair in zip(self.classes, chosen, strict=True))

    @property
    def read_shape(self) -> tuple[int, ...]:
        """The number of rows of each attribute's stacked queries."""
        return tuple(len(axis.matrix) for axis in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of answers of each block."""
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
        """A short description for plans and certificates."""
        return f"{self.size:,} answers of an integer strategy on {' x '.join(self.clique)}"

    @property
    def marginal(self) -> Marginals:
        """The marginal from which all answers are computed."""
        return Marginals(self.domain, (self.clique,))

    def digest(self) -> str:
        """A digest of the queries."""
        shapes = [[block.choice, block.matrix.shape] for block in self.blocks]
        head = json.dumps(["symmetric", self.domain.names, self.domain.sizes, self.clique, shapes])
        content = hashlib.sha256(head.encode())
        for array in (*self.classes, *(block.matrix for block in self.blocks)):
            content.update(array.astype("<i8").tobytes())
        return content.hexdigest()

    def of_table(self, table: Integers, rows: int) -> Integers:
        """A x, exact and then clipped to +-2^62: int64 [size].

        table: x, the non-negative counts of the clique, in C order and of any shape.
        rows: An upper bound on the sum of the table.

        A row adds at most one matrix entry, or one product of entries, to every intermediate number, so none of them
        exceeds ``rows`` times the largest entry. If that may exceed 2^62, which takes more rows than datasets have, the
        sums are computed with Python's integers. Clipping is applied to each answer separately, so it never increases
        the distance between two answer vectors.
        """
        largest_read = math.prod(int(np.abs(axis.matrix).max()) for axis in self.axes)
        number_type: Any = np.int64 if rows * max(largest_read, self.largest) < LARGEST_ANSWER else object
        read = self.read(np.asarray(table).astype(number_type))
        answers = [(block.matrix.astype(number_type) @ self.part(block, read)).ravel() for block in self.blocks]
        return np.asarray(np.clip(np.concatenate(answers), -LARGEST_ANSWER, LARGEST_ANSWER), dtype=np.int64)

    def read(self, table: NDArray[Any]) -> NDArray[Any]:
        """The table multiplied by the stacked queries of all attributes: ``read_shape``, in the table's own dtype."""
        read = table.reshape([len(each) for each in self.classes])
        for axis, attribute in enumerate(self.axes):
            read = np.moveaxis(np.tensordot(attribute.matrix.astype(table.dtype), read, axes=(1, axis)), 0, axis)
        return read

    def part(self, block: BlockQueries, read: NDArray[Any]) -> NDArray[Any]:
        """The part of ``read`` that a block's matrix is applied to: [combinations of classes, rows of all M_C]."""
        indices = tuple(axis.row_slices[at] for axis, at in zip(self.axes, block.choice, strict=True))
        return read[indices].transpose([*block.free, *block.chosen]).reshape(block.matrix.shape[1], -1)

    @property
    def largest(self) -> int:
        """The largest absolute entry of A."""
        return max(map(self._largest, self.blocks))

    def _largest(self, block: BlockQueries) -> int:
        """The largest absolute entry of a block; no factor of the block has a larger one."""
        largest = int(np.abs(block.matrix).max())
        for axis in block.chosen:
            attribute = self.axes[axis]
            largest *= int(np.abs(attribute.matrix[attribute.row_slices[block.choice[axis]]]).max())
        return largest

    def _rows(self, axis: int, at: int | None) -> int:
        rows = self.axes[axis].row_slices[at]
        return int(rows.stop - rows.start)


def _integers(subject: str, array: Integers, dimensions: int) -> Integers:
    """A read-only copy. Floats are refused, because the sensitivity is derived from exact integers."""
    if not np.issubdtype(array.dtype, np.signedinteger) or array.ndim != dimensions or 0 in array.shape:
        raise ValueError(f"{subject} of {array.dtype} {array.shape}; want integers, one or more")
    integers = frozen(array, np.int64)
    if integers.ndim != dimensions or not integers.size:
        raise ValueError(f"{subject} of {integers.shape}; want {dimensions} dimensions")
    return integers
