"""A lower bound on the error of every strategy for products of prefixes, ranges and other queries of single attributes.

Let W be the stacked queries over all cells, and D^2 a diagonal matrix of trace 1. Every X whose diagonal entries are at
most 1 then has tr(W X^-1 W') >= |W D|_*^2, the square of the sum of the singular values (Cauchy and Schwarz). Here D is
the product over attributes of D_i = diag(v_i)^(1/2), with d_i the diagonal of D_i. A clique b contributes the rows
c_b^(1/2) (x)_{i in b} W_i D_i (x)_{i not in b} d_i', whose number of columns is astronomical.

The sum of singular values does not grow when the matrix is cut to diagonal blocks (pinching). Each attribute's space is
split into a core, spanned by d_i and a few further directions, and the rest, which is orthogonal to d_i; rows are split
through an isometry Q_i. A block belongs to a set r of attributes that are in their rests, while all others are in their
cores. Only cliques b >= r reach it, and its sum of singular values is the product over r of nu_i, that of the rest of
attribute i, times that of a matrix over the cores. The latter is small: column groups for the subsets of b - r.

Cores of d_i alone give, for the same multipliers, at most ``closed_form_bound``: it weighs d_i against the other
directions as well, but neglects their coupling. That is 5 to 8 % of the error of 2-way prefixes and 12 to 14 % of that
of 3-way ones; a few more directions recover most of it. Very many cliques leave no room for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Part = tuple[int, ...]
_MAX_CORE: Final = 24  # Largest number of directions of a core besides d_i.
_MAX_COLUMNS: Final = 1200  # Largest number of columns of a matrix over cores.
_MAX_WORK: Final = 4e9  # Largest sum of cubed numbers of columns of all matrices over cores, for one evaluation.
_MAX_TOTAL_WORK: Final = 1e10  # Of all evaluations, about 2 CPU seconds; 1 is a cubed number of columns, about 0.2 ns.
_COLUMN_WORK: Final = 1e4  # Work of a column, for each attribute that it is summed over.
_WEIGHT_WORK: Final = 1.5e5  # Work of a weight of ``Blocks``.
_VALUE_WORK: Final = 3.0  # Work of a frame, relative to the cubed number of the attribute's values.
# Largest sum over the cliques of 3^(attributes with a residual), the subsets of their subsets: 0.4 CPU seconds.
_MAX_SUBSETS: Final = 1 << 18
_CHAIN: Final = 3  # The last directions of a core follow the coupling; the others are those of the largest values.
_STEPS: Final = 4  # Largest number of improvements of the multipliers.
_MIN_GAIN: Final = 1e-4  # The improvements stop after one whose relative gain is smaller than this.
_MIN_MULTIPLIER: Final = 1e-12  # Smallest multiplier, relative to the largest.


@dataclass(frozen=True, eq=False)
class Frame:
    """An attribute's space, split into a core of q + 1 directions and the rest.

    gram: float64 [q + 1, q + 1], the Gram matrix of W_i D_i cut to the core; its first direction is d_i.
    rest: nu_i, the sum of the singular values of W_i D_i cut to the rest.
    core: float64 [n, q + 1], the orthonormal directions of the core.
    root: float64 [n, n], the square root of the Gram matrix of W_i D_i cut to the rest.
    """

    gram: Real
    rest: float
    core: Real
    root: Real

    @classmethod
    def of(cls, gram: Real, multipliers: Real, directions: int) -> Frame:
        """The frame of an attribute, for the isometry Q that makes Q' W D the root of its Gram matrix.

        gram: W'W, float64 [n, n].
        multipliers: v, float64 [n], positive, with sum 1.
        directions: q, between 0 and n - 1. The core has the directions of the largest values across d, and last a few
            that have all the coupling to d, and to each other, that remains.
        """
        d = np.sqrt(multipliers)
        whole = _root(d[:, None] * gram * d)
        projection = np.eye(len(d)) - np.outer(d, d)
        sizes, vectors = np.linalg.eigh(projection @ whole @ projection)
        order = np.argsort(-np.abs(sizes), kind="stable")[:-1]  # The last one is d, with size 0.
        chain = min(_CHAIN, directions)
        largest, rest = np.split(vectors[:, order], [directions - chain], axis=1)
        columns, coupled = [d[:, None], largest], d
        for _ in range(chain):
            turned = _turned(rest, whole @ coupled)
            columns.append(turned[:, :1])
            coupled, rest = turned[:, 0], turned[:, 1:]
        core = np.hstack(columns)
        rest_root = _root(_gram(rest.T @ whole @ rest))
        return cls(_gram(core.T @ whole @ core), float(np.trace(rest_root)), core, rest @ rest_root @ rest.T)


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of a workload's cliques: for each set r, the weights of the sets of cored attributes.

    weights: For each r, by set s of attributes with a core of their own, the sum over the cliques b >= r whose other
        attributes are s, besides ones without a core, of c_b times the squared means of the latter.
    """

    weights: Mapping[Part, Mapping[Part, float]]

    @classmethod
    def of(
        cls, cliques: Sequence[Part], weights: Sequence[float], residual: NDArray[np.bool_], means: Mapping[int, float]
    ) -> Blocks:
        """
        cliques, weights, residual: The same as for ``CliqueParts``.
        means: sigma_i^2 of each attribute without a core of its own: |W_i D_i d_i|^2.
        """
        blocks: dict[Part, dict[Part, float]] = {}
        for clique, weight in zip(cliques, weights, strict=True):
            axes = [axis for axis in clique if residual[axis]]
            for part in (part for order in range(len(axes) + 1) for part in combinations(axes, order)):
                others = [axis for axis in clique if axis not in part]
                cored = tuple(axis for axis in others if axis not in means)
                factor = weight * math.prod(means[axis] for axis in others if axis in means)
                block = blocks.setdefault(part, {})
                block[cored] = block.get(cored, 0.0) + factor
        return cls(blocks)

    @cached_property
    def _orders(self) -> list[NDArray[np.int64]]:
        """For each set r, the number of column groups over 0, 1, 2 and more attributes."""
        return [np.bincount([len(group) for group in _groups(block)]) for block in self.weights.values()]

    def _columns(self, q: int) -> Real:
        """For each set r, the number of columns of the matrix over cores of q directions besides d_i."""
        return np.array([sum(count * q**order for order, count in enumerate(orders)) for orders in self._orders], float)

    def largest_core(self, work: float = 0.0) -> int:
        """The largest number q of directions of all cores for which the matrices are small enough; 0 if none is.

        work: That of an evaluation besides the matrices, such as of the frames.
        """
        for q in range(_MAX_CORE, 0, -1):
            columns = self._columns(q)
            within = columns.max() <= _MAX_COLUMNS and (columns**3).sum() <= _MAX_WORK
            if within and work + self.work(q) <= _MAX_TOTAL_WORK:
                return q
        return 0

    def work(self, q: int) -> float:
        """About how much work the matrices of an evaluation are, in cubed numbers of columns."""
        columns = self._columns(q)
        reached = np.array([len(set().union(*block)) for block in self.weights.values()])
        weights = sum(len(block) for block in self.weights.values())
        return float((columns**3).sum() + _COLUMN_WORK * (columns @ reached) + _WEIGHT_WORK * weights)

    def evaluate(self, frames: Mapping[int, Frame], rests: Mapping[int, float]) -> tuple[float, dict[int, Real]]:
        """The sum of the singular values of all blocks, and the multipliers to try next.

        frames: Of each attribute with a core of its own.
        rests: nu_i of each other attribute that has a rest.

        The next multipliers are the diagonal of (D W'W D)^(1/2), summed over the values of the other attributes, where
        the matrix is replaced by its blocks: the bound is stationary where they equal the present ones.
        """
        all_rests = {**rests, **{axis: frame.rest for axis, frame in frames.items()}}
        cores = {axis: np.zeros_like(frame.gram) for axis, frame in frames.items()}
        shares = dict.fromkeys(frames, 0.0)
        total = 0.0
        for part, block in self.weights.items():
            outside = [axis for axis in frames if axis not in part]
            root, columns = _core_root(block, frames)
            factor = math.prod(all_rests[axis] for axis in part)
            value = factor * float(np.trace(root))
            total += value
            reached = set().union(*block)
            for axis in outside:
                if axis in reached:
                    cores[axis] += factor * _reduced(root, columns, axis, len(frames[axis].gram))
                else:
                    cores[axis][0, 0] += value
            for axis in part:
                if axis in frames and value > 0:
                    shares[axis] += value / all_rests[axis]
        following = {}
        for axis, frame in frames.items():
            diagonal = np.einsum("ij,jk,ik->i", frame.core, cores[axis], frame.core)
            diagonal = np.maximum(diagonal + shares[axis] * frame.root.diagonal(), 0.0)
            following[axis] = _normalised(diagonal)
        return total, following


def core_bound(
    cliques: Sequence[Part],
    weights: Sequence[float],
    means: Mapping[int, float],
    grams: Mapping[int, Real],
    rests: Mapping[int, float],
    multipliers: Mapping[int, Real],
) -> float:
    """A lower bound on the error of every strategy: the largest of a few multipliers and their improvements.

    cliques, weights: The same as for ``CliqueParts``.
    means: sigma_i^2 of each attribute without a core of its own: |W_i D_i d_i|^2.
    grams: W_i'W_i of each attribute with a core of its own, float64 [n, n].
    rests: nu_i of each attribute without a core of its own that has a rest.
    multipliers: v_i to start from, float64 [n], non-negative, with sum 1. Every choice gives a bound.

    It is 0 where no attribute has a core or cores would consist of d_i alone, so that ``closed_form_bound`` serves, and
    where it would take more than about 2 CPU seconds: with more than 2^18 subsets of subsets of cliques, or where even
    one evaluation is too much work. Close to that limit there are fewer improvements.
    """
    residual = np.array([axis in grams or axis in rests for axis in range(len(grams) + len(means))], dtype=bool)
    subsets = sum(3 ** int(residual[list(clique)].sum()) for clique in cliques)
    if not grams or subsets > _MAX_SUBSETS:
        return 0.0
    blocks = Blocks.of(cliques, weights, residual, means)
    frames_work = _VALUE_WORK * sum(float(len(gram)) ** 3 for gram in grams.values())
    q = blocks.largest_core(frames_work)
    if q == 0:
        return 0.0
    steps = min(_STEPS, int(_MAX_TOTAL_WORK / (frames_work + blocks.work(q))))
    best, current = 0.0, {axis: _normalised(v) for axis, v in multipliers.items()}
    for _ in range(steps):
        frames = {axis: Frame.of(gram, current[axis], min(q, len(gram) - 1)) for axis, gram in grams.items()}
        value, current = blocks.evaluate(frames, rests)
        gain, best = value - best, max(best, value)
        if gain < _MIN_GAIN * best:
            break
    return best**2


def _turned(basis: Real, coupling: Real) -> Real:
    """Another orthonormal basis of the same space, whose first direction has all of the coupling (Householder)."""
    shares = basis.T @ coupling
    if len(shares) < 2 or not shares.any():
        return basis
    reflection = shares / np.linalg.norm(shares)
    reflection[0] += math.copysign(1.0, reflection[0])
    return np.asarray(basis - np.outer(basis @ reflection, reflection) * (2 / (reflection @ reflection)))


def _core_root(block: Mapping[Part, float], frames: Mapping[int, Frame]) -> tuple[Real, dict[tuple[Part, Part], int]]:
    """The square root of the Gram matrix over the cores, and the index of each column.

    A column is named by the attributes that are in a direction other than d_i, and these directions.
    """
    columns: dict[tuple[Part, Part], int] = {}
    for group in _groups(block):
        for directions in product(*(range(1, len(frames[axis].gram)) for axis in group)):
            columns[group, directions] = len(columns)
    gram = np.zeros((len(columns), len(columns)))
    for cored, weight in block.items():
        indices = [columns[_named(cored, each)] for each in product(*(range(len(frames[i].gram)) for i in cored))]
        term = np.full((1, 1), weight)
        for axis in cored:
            term = np.kron(term, frames[axis].gram)
        gram[np.ix_(indices, indices)] += term
    return _root(gram), columns


def _groups(block: Mapping[Part, float]) -> list[Part]:
    """All subsets of the sets of a block, small ones first."""
    groups = {part for cored in block for order in range(len(cored) + 1) for part in combinations(cored, order)}
    return sorted(groups, key=lambda group: (len(group), group))


def _named(cored: Part, directions: Part) -> tuple[Part, Part]:
    """The name of the column in which each attribute of ``cored`` is in the given direction, 0 for d_i."""
    away = [(axis, direction) for axis, direction in zip(cored, directions, strict=True) if direction]
    return tuple(axis for axis, _ in away), tuple(direction for _, direction in away)


def _reduced(root: Real, columns: Mapping[tuple[Part, Part], int], axis: int, size: int) -> Real:
    """The sum of a matrix over the directions of all attributes but one: float64 [size, size]."""
    rows: dict[tuple[Part, Part], list[int]] = {}
    for (group, directions), index in columns.items():
        pairs = [(each, direction) for each, direction in zip(group, directions, strict=True) if each != axis]
        key = tuple(each for each, _ in pairs), tuple(direction for _, direction in pairs)
        row = rows.setdefault(key, [len(root)] * size)
        row[directions[group.index(axis)] if axis in group else 0] = index
    indices = np.array(list(rows.values()))
    padded = np.pad(root, (0, 1))
    return np.asarray(padded[indices[:, :, None], indices[:, None, :]].sum(axis=0))


def _gram(matrix: Real) -> Real:
    return matrix.T @ matrix


def _root(gram: Real) -> Real:
    """The square root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _normalised(multipliers: Real) -> Real:
    raised = np.maximum(multipliers, _MIN_MULTIPLIER * multipliers.max())
    return np.asarray(raised / raised.sum())
