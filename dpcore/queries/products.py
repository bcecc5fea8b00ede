"""Kronecker products of integer matrices, applied to marginals: prefixes, ranges and integer strategies."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.frozen import frozen, plain_text
from dpcore.queries.marginals import Marginals

LARGEST_ANSWER = 1 << 62  # Answers are clipped to this absolute value.
_LARGEST_SQUARE = 1 << 60  # Largest squared norm of a matrix column, so that inner products of columns fit 64 bits.
_LARGEST_WEIGHT = 1 << 40
_EXACT_DOUBLE = 1 << 53  # Doubles represent all integers below this exactly.


@dataclass(frozen=True, eq=False)
class Product:
    """weight * (M_1 x ... x M_k) applied to the marginal of one clique.

    clique: The attributes, in the order of the domain; () for the number of rows.
    matrices: One matrix per attribute of the clique, int64 [rows, size of the attribute].
    weight: A public integer >= 1. A term with a larger weight gets less noise relative to its answers.

    Raises ValueError for a weight outside 1 .. 2^40, and for matrices that are not integer, are 0, or have too large
    entries.
    """

    clique: Clique
    matrices: tuple[NDArray[np.int64], ...]
    weight: int = 1

    def __post_init__(self) -> None:
        if type(self.weight) is not int or not 1 <= self.weight <= _LARGEST_WEIGHT:  # A float would be truncated.
            raise ValueError(f"the weight of a product is {self.weight}; want an int in 1 .. 2^40")
        if len(self.matrices) != len(self.clique):
            raise ValueError(f"{len(self.matrices)} matrices for {len(self.clique)} attributes; want one each")
        object.__setattr__(self, "clique", tuple(map(plain_text, self.clique)))
        object.__setattr__(self, "matrices", tuple(_checked(matrix) for matrix in self.matrices))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows of each matrix."""
        return tuple(matrix.shape[0] for matrix in self.matrices)

    @property
    def size(self) -> int:
        """The number of answers of this term."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Products:
    """A stack of products over one domain: a workload or a strategy whose entries are all public integers.

    The answer vector is the concatenation of the terms in their order, each raveled in C order over the rows of its
    matrices. Exact answers and their noise are integers; an answer in counts is its integer / denominator.

    domain: The attributes.
    terms: The products.
    denominator: A public integer >= 1, common to all terms. ``rounded_rows`` returns the denominator of a real matrix.

    Raises ValueError for no terms, a clique out of the order of the domain, and a matrix that does not fit its
    attribute.
    """

    domain: Domain
    terms: tuple[Product, ...]
    denominator: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        if not self.terms or type(self.denominator) is not int or self.denominator < 1:
            raise ValueError(f"{len(self.terms)} terms over the denominator {self.denominator}; want integers >= 1")
        if any(type(term) is not Product for term in self.terms):
            raise ValueError("a term is not a Product; want Products alone")
        for term in self.terms:
            if self.domain.canonical(term.clique) != term.clique:
                raise ValueError(f"clique {term.clique}; want its attributes in the order {list(self.domain.names)}")
            columns = tuple(matrix.shape[1] for matrix in term.matrices)
            if columns != self.domain.shape(term.clique):
                raise ValueError(f"matrices for {term.clique} have {columns} columns; want the sizes of the attributes")

    @property
    def size(self) -> int:
        """Length of the answer vector."""
        return sum(term.size for term in self.terms)

    @property
    def description(self) -> str:
        """A short description for plans and certificates."""
        count = f"{self.size:,} answers of an integer strategy"
        return count if len(self.terms) > 1 else f"{count} on {' x '.join(self.terms[0].clique) or 'number of rows'}"

    @property
    def marginals(self) -> Marginals:
        """The distinct marginals that the terms are applied to."""
        return Marginals(self.domain, tuple(dict.fromkeys(term.clique for term in self.terms)))

    def digest(self) -> str:
        """A digest of the queries."""
        shapes = [[term.clique, term.shape, term.weight] for term in self.terms]
        head = json.dumps(["products", self.domain.names, self.domain.sizes, self.denominator, shapes])
        content = hashlib.sha256(head.encode())
        for term in self.terms:
            for matrix in term.matrices:
                content.update(matrix.astype("<i8").tobytes())
        return content.hexdigest()

    def of_tables(self, tables: Sequence[NDArray[np.int64]], largest_rows: int) -> NDArray[np.int64]:
        """Integer answers, exact and then clipped to +-2^62: int64 [size].

        tables: One table per term: the non-negative counts of its clique, in C order and of any shape.
        largest_rows: An upper bound on the sum of each table. If its product with the matrix entries may exceed 2^62,
            the sums are computed with Python's integers.

        Clipping is applied to each answer separately, so it never increases the distance between two answer vectors.
        """
        pairs = zip(self.terms, tables, strict=True)
        return np.concatenate([_applied(term, table, largest_rows) for term, table in pairs])


def rounded_rows(matrix: NDArray[np.float64], bits: int) -> tuple[NDArray[np.int64], int]:
    """A real matrix rounded to multiples of 2^-bits, as integers and their denominator 2^bits.

    matrix: The real matrix, of any shape.
    bits: The number of bits after the binary point, 0 .. 40.

    Raises ValueError for other bits, entries that are not finite, and integers above 2^53.
    """
    if not 0 <= bits <= 40 or not np.isfinite(matrix).all():
        raise ValueError(f"{bits} bits, or a matrix entry that is no finite number; want 0 .. 40 bits of finite ones")
    scaled = np.rint(np.ldexp(np.asarray(matrix, dtype=np.float64), bits))
    if scaled.size and np.abs(scaled).max() > 2.0**53:
        raise ValueError(f"a matrix entry is above 2^{53 - bits} in size; want fewer bits or smaller entries")
    return scaled.astype(np.int64), 1 << bits


def _checked(matrix: NDArray[np.int64]) -> NDArray[np.int64]:
    """A read-only copy. Floats are refused, because the sensitivity is derived from exact integers."""
    if not np.issubdtype(matrix.dtype, np.signedinteger):
        raise ValueError(f"a matrix of {matrix.dtype}; want integers")
    matrix = frozen(matrix, np.int64)  # What is checked below is the copy that is kept.
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"a matrix of shape {matrix.shape}; want one row and one column or more")
    if not matrix.any():
        raise ValueError("a matrix of zeros; want a row with an entry other than 0")
    if (np.square(matrix, dtype=np.float64).sum(axis=0) > 0.99 * _LARGEST_SQUARE).any():
        raise ValueError("a column of a matrix has a square above 2^60; want smaller integers")
    return matrix


def _applied(term: Product, table: NDArray[np.int64], largest_rows: int) -> NDArray[np.int64]:
    # Every partial result is a sum over rows of products of entries, so this bound covers all of them.
    largest = term.weight * math.prod(max(1, int(np.abs(matrix).max())) for matrix in term.matrices)
    number_type = _number_type(largest_rows * largest)
    if number_type is object and _absolute_bounds(term, table).max() < LARGEST_ANSWER // 2:
        # Sums modulo 2^64 are correct whenever the final answer fits, whatever the partial sums were. Tables or entries
        # far larger than those of a matrix mechanism take the slow path instead, and its running time reveals that.
        number_type = np.uint64
    answers = _contracted(term, table, number_type)
    if number_type is np.uint64:
        return answers.view(np.int64)
    return np.asarray(np.clip(answers, -LARGEST_ANSWER, LARGEST_ANSWER), dtype=np.int64)


def _number_type(largest: int) -> Any:
    """The fastest number type that represents every integer of at most this absolute value.

    Doubles represent integers below 2^53 exactly, in any order of summation, and are several times faster.
    """
    if largest < _EXACT_DOUBLE:
        return np.float64
    return np.int64 if largest < LARGEST_ANSWER else object


def _absolute_bounds(term: Product, table: NDArray[np.int64]) -> NDArray[np.float64]:
    """Bounds on the absolute answers, up to rounding: the answers of the matrices of absolute entries."""
    absolute = Product(term.clique, tuple(np.abs(matrix) for matrix in term.matrices), term.weight)
    with np.errstate(over="ignore", invalid="ignore"):
        bounds: NDArray[np.float64] = _contracted(absolute, table, np.float64)
    return np.where(np.isnan(bounds), np.inf, bounds)


def _contracted(term: Product, table: NDArray[np.int64], number_type: Any) -> NDArray[Any]:
    """weight * (M_1 x ... x M_k) times the table, raveled, computed in the given number type."""
    answers = np.asarray(table).astype(number_type).reshape([matrix.shape[1] for matrix in term.matrices])
    for axis, matrix in enumerate(term.matrices):
        answers = np.moveaxis(np.tensordot(matrix.astype(number_type), answers, axes=(1, axis)), 0, axis)
    return np.asarray(answers.ravel() * (term.weight if number_type is object else number_type(term.weight)))
