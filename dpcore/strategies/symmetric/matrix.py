"""Symmetric queries as a real matrix: column norms, the sensitivity, and the pieces that one block needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import BlockQueries, SymmetricQueries
from dpcore.queries.residual_matrices import residual_scale

Real = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class SymmetricMatrix:
    """The matrix A of symmetric queries, never written out; its columns are the cells of their clique, in C order.

    queries: The integer queries, block by block.
    """

    queries: SymmetricQueries

    def sensitivity(self, order: Literal[1, 2]) -> float:
        """The sensitivity of A x, its largest column norm: L1 for Laplace noise, L2 for Gaussian noise.

        Source: McKenna (2022), Proposition 2, for neighbours that differ in one added record.
        """
        return float(self.column_norms(order).max())

    def column_norms(self, order: Literal[1, 2]) -> Real:
        """The L1 or L2 norm of each column, float64 [cells]."""
        totals = np.zeros([len(axis.members) for axis in self.queries.axes])
        for block in self.queries.blocks:
            columns = (np.abs(block.matrix).astype(np.float64) ** order).sum(axis=0)
            for axis in block.chosen:
                attribute = self.queries.axes[axis]
                within = np.abs(attribute.matrix[attribute.row_slices[block.choice[axis]]]).astype(np.float64) ** order
                columns = columns * within.sum(axis=0).max()
            classes = tuple(slice(None) if chosen is None else slice(chosen, chosen + 1) for chosen in block.choice)
            totals[classes] += columns.reshape(totals[classes].shape)
        norms = totals[np.ix_(*self.queries.classes)].ravel()
        return norms if order == 1 else np.asarray(np.sqrt(norms))

    def parts(self, answers: Real) -> list[Real]:
        """The answers, split by block: float64 [rows of the block's matrix, rows of its residual matrices]."""
        pieces = np.split(answers, np.cumsum(self.queries.sizes)[:-1])
        return [piece.reshape(len(block.matrix), -1) for piece, block in zip(pieces, self.queries.blocks, strict=True)]

    def transposed_read(self, parts: Sequence[Real]) -> Real:
        """The transpose of ``SymmetricQueries.read`` followed by ``part``: float64 [cells].

        parts: One array per block, float64 [combinations of classes, rows of the block's residual matrices].
        """
        axes = self.queries.axes
        table = np.zeros(self.queries.read_shape)
        for block, part in zip(self.queries.blocks, parts, strict=True):
            order = [*block.free, *block.chosen]
            slices = tuple(axis.row_slices[at] for axis, at in zip(axes, block.choice, strict=True))
            view = table[slices].transpose(order)
            view += part.reshape(view.shape)
        for index, axis in enumerate(axes):
            table = np.moveaxis(np.tensordot(axis.matrix.astype(np.float64), table, axes=(0, index)), 0, index)
        return table.ravel()

    def scale(self, block: BlockQueries) -> float:
        """The c such that M'M is c^2 times a projection, for the Kronecker product M of a block's residual matrices."""
        members = [int(self.queries.axes[axis].members[block.choice[axis]]) for axis in block.chosen]
        return math.prod(residual_scale(size) for size in members)
