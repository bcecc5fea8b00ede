"""Relaxed rows: a distribution over the values of each attribute, and the gradients of their marginals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.measurement import Measurement
from dpcore.queries import Marginals

Array = NDArray[np.float64]


def softmax(logits: Array, domain: Domain) -> Array:
    """The distribution of each attribute's block of columns, float64 [rows, columns]."""
    blocks = [np.exp(part - part.max(axis=1, keepdims=True)) for part in split(logits, domain)]
    return np.concatenate([block / block.sum(axis=1, keepdims=True) for block in blocks], axis=1)


def softmax_gradient(rows: Array, gradient: Array, domain: Domain) -> Array:
    """The gradient by the logits, from the distributions and the gradient by them."""
    pairs = zip(split(rows, domain), split(gradient, domain), strict=True)
    return np.concatenate([p * (g - (p * g).sum(axis=1, keepdims=True)) for p, g in pairs], axis=1)


def sparsemax(logits: Array, domain: Domain) -> Array:
    """The nearest distribution to each block of columns. Source: Martins and Astudillo (2016), Algorithm 1."""
    return np.concatenate([_nearest(part) for part in split(logits, domain)], axis=1)


def sparsemax_gradient(rows: Array, gradient: Array, domain: Domain) -> Array:
    """As ``softmax_gradient``: the gradient on the support of each block, less its mean there."""
    parts = []
    for p, g in zip(split(rows, domain), split(gradient, domain), strict=True):
        support = p > 0
        mean = (g * support).sum(axis=1, keepdims=True) / support.sum(axis=1, keepdims=True)
        parts.append(support * (g - mean))
    return np.concatenate(parts, axis=1)


def _nearest(block: Array) -> Array:
    ordered = -np.sort(-block, axis=1)
    thresholds = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, block.shape[1] + 1)
    last = (ordered > thresholds).sum(axis=1) - 1
    return np.asarray(np.maximum(block - np.take_along_axis(thresholds, last[:, None], axis=1), 0))


def split(rows: Array, domain: Domain) -> list[Array]:
    """The columns of each attribute."""
    return np.split(rows, np.cumsum(domain.sizes)[:-1], axis=1)


def answers(rows: Array, queries: Marginals) -> Array:
    """Marginals of relaxed rows as fractions, float64 [queries.size]: attributes of a row are independent."""
    blocks = split(rows, queries.domain)
    return np.concatenate([table(blocks, queries.domain.axes(clique)) for clique in queries.cliques])


def table(blocks: Sequence[Array], axes: Sequence[int]) -> Array:
    if not axes:
        return np.ones(1)
    first = _joined([blocks[axis] for axis in axes[:-1]], len(blocks[0]))
    return np.asarray((first.T @ blocks[axes[-1]]).ravel() / len(first))


def _joined(blocks: Sequence[Array], count: int) -> Array:
    """The products of the entries of several blocks, row by row: [rows, product of their columns]."""
    joined = np.ones((count, 1))
    for block in blocks:
        joined = (joined[:, :, None] * block[:, None, :]).reshape(count, -1)
    return joined


@dataclass(frozen=True, eq=False)
class Targets:
    """Measured marginals as fractions.

    cliques: The measured cliques, with the values of each.
    """

    domain: Domain
    cliques: tuple[tuple[Clique, Array], ...]

    @classmethod
    def of(cls, domain: Domain, measured: Sequence[Measurement], total: float) -> Targets:
        pairs = []
        for measurement in measured:
            assert isinstance(measurement.queries, Marginals)
            pairs.append((measurement.queries.cliques[0], measurement.values / total))
        return cls(domain, tuple(pairs))

    def work(self, rows: int) -> int:
        """Multiplications of one gradient."""
        return 3 * rows * sum(values.size for _, values in self.cliques)

    def gradient(self, rows: Array, keep_above: float | None = None) -> tuple[float, Array, float]:
        """The sum of squared errors, its gradient by the relaxed rows, and the mean absolute error.

        keep_above: Errors of a smaller size are left out of the sum; None keeps all.
        """
        blocks = split(rows, self.domain)
        gradients = [np.zeros_like(block) for block in blocks]
        loss, absolute, cells = 0.0, 0.0, 0
        for clique, values in self.cliques:
            axes = self.domain.axes(clique)
            errors = table(blocks, axes) - values
            absolute, cells = absolute + float(np.abs(errors).sum()), cells + errors.size
            if keep_above is not None:
                errors = np.where(np.abs(errors) > keep_above, errors, 0.0)
            loss += float(errors @ errors)
            _add_gradient(gradients, blocks, axes, 2 * errors / len(rows))
        return loss, np.concatenate(gradients, axis=1), absolute / cells


def _add_gradient(gradients: list[Array], blocks: list[Array], axes: Sequence[int], by_cell: Array) -> None:
    """Adds the gradient of one marginal, whose cells have the gradient ``by_cell``."""
    count = len(blocks[0])
    for position, axis in enumerate(axes):
        others = [blocks[second] for second in axes if second != axis]
        cells = np.moveaxis(by_cell.reshape([blocks[second].shape[1] for second in axes]), position, -1)
        gradients[axis] += _joined(others, count) @ cells.reshape(-1, blocks[axis].shape[1])


@dataclass(eq=False)
class Adam:
    """Adam, one parameter array. Source: Kingma and Ba (2015), Algorithm 1."""

    rate: float
    steps: int = 0
    first: Array = field(default_factory=lambda: np.zeros(()))
    second: Array = field(default_factory=lambda: np.zeros(()))

    def step(self, gradient: Array) -> Array:
        """What to add to the parameters."""
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * np.square(gradient)
        mean, square = self.first / (1 - 0.9**self.steps), self.second / (1 - 0.999**self.steps)
        return np.asarray(-self.rate * mean / (np.sqrt(square) + 1e-8))


def drawn_codes(rows: Array, domain: Domain, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Rows drawn from relaxed rows, int64 [count, attributes]; each relaxed row serves nearly equally often."""
    of_row = np.arange(count) % len(rows)
    codes = []
    for block in split(rows, domain):
        bounds = np.cumsum(block, axis=1)[:, :-1]
        codes.append((generator.random(count)[:, None] > bounds[of_row]).sum(axis=1))
    return np.stack(codes, axis=1).astype(np.int64)
