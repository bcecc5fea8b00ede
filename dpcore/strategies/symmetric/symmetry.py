"""Exchangeable values of a workload, and the blocks that its Gram matrix falls into because of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Products

Real = NDArray[np.float64]
Integers = NDArray[np.int64]
Choice = tuple[int | None, ...]

LARGEST_ORBITS: Final = 2048  # The side of the largest block, whose eigenvectors take seconds.
LARGEST_BLOCKS: Final = 1 << 14


@dataclass(frozen=True, eq=False)
class Block:
    """One block of a matrix that does not change when values of one class are swapped.

    choice: For each attribute None, where the block's vectors are constant on each of its classes, or one class, where
        they are 0 outside of it and sum to 0.
    multiplicity: The product of |C| - 1 over the chosen classes C: how often the block occurs.
    orbits: intp [k], the orbits with the chosen classes, the last attribute fastest.
    terms: intp [terms], the workload's terms that are not 0 on the block.
    gram: V on these orbits, float64 [k, k], in the basis of the vectors 1_C / |C|^(1/2) and orthonormal ones of sum 0.
    """

    choice: Choice
    multiplicity: int
    orbits: NDArray[np.intp]
    terms: NDArray[np.intp]
    gram: Real


@final
@dataclass(frozen=True, eq=False)
class SymmetricGram:
    """V = sum_j w_j (x)_i G_ij of a union of Kronecker products, in blocks by its symmetry.

    An orbit is a choice of a class for each attribute. V has the same diagonal entry on all cells of an orbit, and so
    has the Gram matrix of the optimal strategy. Blocks of zeros are left out.

    domain: The domain of the workload.
    classes: int64 [size of the attribute], one array per attribute: the class of each value.
    members: int64 [classes], one array per attribute: the number |C| of values of each class.
    sizes: float64 [orbits], the number of cells of each orbit.
    blocks: The blocks of V that are not 0.
    answers: The number of rows of the workload.
    """

    domain: Domain
    classes: tuple[Integers, ...]
    members: tuple[Integers, ...]
    sizes: Real
    blocks: tuple[Block, ...]
    answers: int

    @classmethod
    def of(cls, queries: Products, weights: Real | None = None) -> SymmetricGram:
        """V of a workload.

        queries: The workload.
        weights: float64 [terms], non-negative weights of the squared error of each term; None weighs all terms by 1.

        Raises ValueError for more than LARGEST_ORBITS orbits or LARGEST_BLOCKS blocks, and for weights that are
        negative, not finite or all 0.
        """
        given = np.ones(len(queries.terms)) if weights is None else np.asarray(weights, dtype=np.float64)
        if given.shape != (len(queries.terms),) or not (np.isfinite(given) & (given >= 0)).all() or not given.any():
            raise ValueError(f"weights of shape {given.shape}; want one per term, finite and >= 0, not all of them 0")
        weighted = given * np.array([float(term.weight) ** 2 for term in queries.terms])
        axes = [_Axis.of(queries, index) for index in range(len(queries.domain.names))]
        orbits = math.prod(len(axis.members) for axis in axes)
        if orbits > LARGEST_ORBITS:
            raise ValueError(f"{orbits:,} orbits of exchangeable values; want at most {LARGEST_ORBITS:,}")
        sizes = reduce(_outer, [axis.members.astype(np.float64) for axis in axes], np.ones(1))
        blocks: list[Block] = []
        _collect(axes, (), weighted, blocks)
        members = tuple(axis.members for axis in axes)
        classes = tuple(axis.classes for axis in axes)
        return cls(queries.domain, classes, members, sizes, tuple(blocks), queries.size)

    @property
    def cells(self) -> Real:
        """The diagonal entry of V on a cell of each orbit, float64 [orbits]."""
        return self.diagonal([block.gram.diagonal() for block in self.blocks])

    def diagonal(self, parts: list[Real]) -> Real:
        """The diagonal entry, on a cell of each orbit, of a matrix with such blocks: float64 [orbits].

        parts: float64 [k], the diagonal of each block of the matrix.
        """
        total = np.zeros(len(self.sizes))
        for block, part in zip(self.blocks, parts, strict=True):
            total[block.orbits] += block.multiplicity * part
        return total / self.sizes


def exchangeable_classes(grams: list[Integers]) -> Integers:
    """The class of each value, int64 [n], numbered by first value.

    grams: int64 [n, n], symmetric. Two values are in one class where swapping them leaves every Gram matrix unchanged.
    """
    stacked = np.stack(grams)
    n = stacked.shape[1]
    diagonal = np.einsum("tii->it", stacked)
    signatures = np.concatenate([diagonal, np.sort(stacked, axis=2).transpose(1, 0, 2).reshape(n, -1)], axis=1)
    _, alike = np.unique(signatures, axis=0, return_inverse=True)
    classes, next_class = np.full(n, -1, dtype=np.int64), 0
    for value in range(n):
        if classes[value] >= 0:
            continue
        candidates = np.flatnonzero((alike == alike[value]) & (classes < 0))
        differs = (stacked[:, candidates] != stacked[:, value, None]).any(axis=0)
        differs[:, value] = False
        differs[np.arange(len(candidates)), candidates] = False
        classes[candidates[~differs.any(axis=1)]] = next_class
        next_class += 1
    return classes


@dataclass(frozen=True, eq=False)
class _Axis:
    """The workload's queries about one attribute.

    classes: int64 [n], the class of each value.
    members: int64 [classes], the number of values of each class.
    quotients: float64 [terms, classes, classes], each term's Gram matrix on the vectors that are constant on classes.
    scalars: float64 [terms, classes], each term's eigenvalue on vectors of sum 0 within one class; 0 where the class
        has one value.
    """

    classes: Integers
    members: Integers
    quotients: Real
    scalars: Real

    @classmethod
    def of(cls, queries: Products, index: int) -> _Axis:
        """The queries about the attribute at position ``index`` of the domain."""
        name, size = queries.domain.names[index], queries.domain.sizes[index]
        distinct: dict[bytes, int] = {}
        grams: list[Integers] = []
        of_term = []
        for term in queries.terms:
            matrix = term.matrices[term.clique.index(name)] if name in term.clique else np.ones((1, size), np.int64)
            gram = matrix.T @ matrix
            content = gram.tobytes()
            if content not in distinct:
                distinct[content] = len(grams)
                grams.append(gram)
            of_term.append(distinct[content])
        classes = exchangeable_classes(grams)
        members = np.bincount(classes)
        indicator = (classes[:, None] == np.arange(len(members))) / np.sqrt(members)
        stacked = np.stack(grams).astype(np.float64)
        quotients = indicator.T @ stacked @ indicator
        first = np.argmax(classes[:, None] == np.arange(len(members)), axis=0)
        last = size - 1 - np.argmax((classes[:, None] == np.arange(len(members)))[::-1], axis=0)
        return cls(classes, members, quotients[of_term], (stacked[:, first, first] - stacked[:, first, last])[of_term])


def _collect(axes: list[_Axis], choice: Choice, weights: Real, into: list[Block]) -> None:
    """Appends every block whose choice begins with this one and that is not 0.

    weights: float64 [terms], the weights of the terms multiplied by their scalars for the choice so far.
    """
    if not weights.any():
        return
    if len(choice) == len(axes):
        if len(into) == LARGEST_BLOCKS:
            raise ValueError(f"a workload of more than {LARGEST_BLOCKS:,} blocks; want fewer attributes or classes")
        into.append(_block(axes, choice, weights))
        return
    axis = axes[len(choice)]
    _collect(axes, (*choice, None), weights, into)
    for index in np.flatnonzero(axis.members > 1).tolist():
        _collect(axes, (*choice, index), weights * axis.scalars[:, index], into)


def _block(axes: list[_Axis], choice: Choice, weights: Real) -> Block:
    terms = np.flatnonzero(weights)
    merged: dict[bytes, tuple[float, list[Real]]] = {}
    for term in terms.tolist():
        factors = [axis.quotients[term] for axis, at in zip(axes, choice, strict=True) if at is None]
        content = b"".join(factor.tobytes() for factor in factors)
        merged[content] = (merged.get(content, (0.0, []))[0] + float(weights[term]), factors)
    gram = np.asarray(sum(weight * reduce(_kron, factors, np.ones((1, 1))) for weight, factors in merged.values()))
    counts = [len(axis.members) for axis in axes]
    indices = [np.arange(count) if at is None else np.array([at]) for count, at in zip(counts, choice, strict=True)]
    orbits = np.ravel_multi_index(np.ix_(*indices), counts).ravel()
    free = [int(axis.members[at]) - 1 for axis, at in zip(axes, choice, strict=True) if at is not None]
    return Block(choice, math.prod(free), orbits, terms, gram)


def _kron(left: Real, right: Real) -> Real:
    return np.asarray(np.kron(left, right))


def _outer(left: Real, right: Real) -> Real:
    return np.multiply.outer(left, right).ravel()
