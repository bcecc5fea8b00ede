"""The exchangeable values of a workload, and the blocks into which they split its Gram matrix."""

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

LARGEST_ORBITS: Final = 2048  # Side of the largest block; the eigenvectors of such a block take seconds.
LARGEST_BLOCKS: Final = 1 << 14  # Largest number of blocks of a workload.


@dataclass(frozen=True, eq=False)
class Block:
    """One block of a matrix that is unchanged when two values of one class are swapped.

    choice: One entry per attribute: None if the block's vectors are constant on each class of the attribute, or the
        number of a class C if they are 0 outside C and sum to 0.
    multiplicity: How often the block occurs: the product of |C| - 1 over the chosen classes C.
    orbits: intp [k], the orbits with the chosen classes, last attribute fastest.
    terms: intp [terms], the terms of the workload that are not 0 on the block.
    gram: V on these orbits, float64 [k, k], in the basis of the vectors 1_C / |C|^(1/2) and of orthonormal vectors of
        sum 0.
    """

    choice: Choice
    multiplicity: int
    orbits: NDArray[np.intp]
    terms: NDArray[np.intp]
    gram: Real


@final
@dataclass(frozen=True, eq=False)
class SymmetricGram:
    """The Gram matrix V = sum_j w_j (x)_i G_ij of a union of Kronecker products, split into blocks by its symmetry.

    An orbit is a choice of one class per attribute. All cells of an orbit have the same diagonal entry of V, and the
    same diagonal entry of the optimal strategy's Gram matrix. Blocks of zeros are left out.

    domain: The domain of the workload.
    classes: One array per attribute, int64 [size of the attribute]: the class of each value.
    members: One array per attribute, int64 [classes]: the number |C| of values of each class.
    sizes: float64 [orbits], the number of cells of each orbit.
    blocks: The non-zero blocks of V.
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
        """The Gram matrix of a workload.

        queries: The workload.
        weights: float64 [terms], non-negative weights of the squared error of each term. By default all are 1.

        Raises ValueError for more than LARGEST_ORBITS orbits or LARGEST_BLOCKS blocks, and for weights that are
        negative, not finite or all 0.
        """
        weights = np.ones(len(queries.terms)) if weights is None else np.asarray(weights, dtype=np.float64)
        valid = weights.shape == (len(queries.terms),) and (np.isfinite(weights) & (weights >= 0)).all()
        if not valid or not weights.any():
            raise ValueError(f"weights of shape {weights.shape}; want one per term, finite and >= 0, not all of them 0")
        weighted = weights * np.array([float(term.weight) ** 2 for term in queries.terms])
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
        """The diagonal entry, on a cell of each orbit, of a matrix with the same block structure: float64 [orbits].

        parts: The diagonal of each block of that matrix, float64 [k].
        """
        total = np.zeros(len(self.sizes))
        for block, part in zip(self.blocks, parts, strict=True):
            total[block.orbits] += block.multiplicity * part
        return total / self.sizes


def exchangeable_classes(grams: list[Integers]) -> Integers:
    """The class of exchangeable values that each value belongs to: int64 [n], numbered in order of their first values.

    grams: Symmetric matrices, int64 [n, n]. Two values are exchangeable if swapping them leaves every matrix unchanged.
    """
    stacked = np.stack(grams)
    n = stacked.shape[1]
    diagonal = np.einsum("tii->it", stacked)
    signatures = np.concatenate([diagonal, np.sort(stacked, axis=2).transpose(1, 0, 2).reshape(n, -1)], axis=1)
    _, signature_of_value = np.unique(signatures, axis=0, return_inverse=True)
    classes, next_class = np.full(n, -1, dtype=np.int64), 0
    for value in range(n):
        if classes[value] >= 0:
            continue
        candidates = np.flatnonzero((signature_of_value == signature_of_value[value]) & (classes < 0))
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
    scalars: float64 [terms, classes], each term's eigenvalue on the vectors of sum 0 within one class; 0 for a class of
        one value.
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
        gram_of_term = []
        for term in queries.terms:
            matrix = term.matrices[term.clique.index(name)] if name in term.clique else np.ones((1, size), np.int64)
            gram = matrix.T @ matrix
            content = gram.tobytes()
            if content not in distinct:
                distinct[content] = len(grams)
                grams.append(gram)
            gram_of_term.append(distinct[content])
        classes = exchangeable_classes(grams)
        members = np.bincount(classes)
        indicator = (classes[:, None] == np.arange(len(members))) / np.sqrt(members)
        stacked = np.stack(grams).astype(np.float64)
        quotients = indicator.T @ stacked @ indicator
        first_value = np.argmax(classes[:, None] == np.arange(len(members)), axis=0)
        last_value = size - 1 - np.argmax((classes[:, None] == np.arange(len(members)))[::-1], axis=0)
        scalars = stacked[:, first_value, first_value] - stacked[:, first_value, last_value]
        return cls(classes, members, quotients[gram_of_term], scalars[gram_of_term])


def _collect(axes: list[_Axis], choice: Choice, weights: Real, blocks: list[Block]) -> None:
    """Appends every non-zero block whose choice begins with ``choice``.

    weights: float64 [terms], the terms' weights times their scalars for the classes chosen so far.
    """
    if not weights.any():
        return
    if len(choice) == len(axes):
        if len(blocks) == LARGEST_BLOCKS:
            raise ValueError(f"a workload of more than {LARGEST_BLOCKS:,} blocks; want fewer attributes or classes")
        blocks.append(_block(axes, choice, weights))
        return
    axis = axes[len(choice)]
    _collect(axes, (*choice, None), weights, blocks)
    for index in np.flatnonzero(axis.members > 1).tolist():
        _collect(axes, (*choice, index), weights * axis.scalars[:, index], blocks)


def _block(axes: list[_Axis], choice: Choice, weights: Real) -> Block:
    """The block of one complete choice; terms with equal factors are merged."""
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
    dimensions = [int(axis.members[at]) - 1 for axis, at in zip(axes, choice, strict=True) if at is not None]
    return Block(choice, math.prod(dimensions), orbits, terms, gram)


def _kron(left: Real, right: Real) -> Real:
    return np.asarray(np.kron(left, right))


def _outer(left: Real, right: Real) -> Real:
    return np.multiply.outer(left, right).ravel()
