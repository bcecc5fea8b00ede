"""Integer-scaled strategies: Kronecker products of integer matrices, applied to marginals."""

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
from dpcore.frozen import frozen
from dpcore.queries.marginals import Marginals

LARGEST_ANSWER = 1 << 62
_LARGEST_SQUARE = 1 << 60  # Of a column of one matrix, so that inner products of columns fit 64 bits.
_LARGEST_WEIGHT = 1 << 40
_EXACT_DOUBLE = 1 << 53


@dataclass(frozen=True, eq=False)
class Product:
    """weight * (M_1 x ... x M_k) applied to the marginal of one clique.

    clique: Attributes in the order of the domain; () for the number of rows.
    matrices: int64 [rows, size of the attribute], one an attribute of the clique.
    weight: A public integer >= 1, with which terms share the noise.
    """

    clique: Clique
    matrices: tuple[NDArray[np.int64], ...]
    weight: int = 1

    def __post_init__(self) -> None:
        if type(self.weight) is not int or not 1 <= self.weight <= _LARGEST_WEIGHT:  # A float would be cut off.
            raise ValueError(f"the weight of a product is {self.weight}; want an int in 1 .. 2^40")
        if len(self.matrices) != len(self.clique):
            raise ValueError(f"{len(self.matrices)} matrices for {len(self.clique)} attributes; want one each")
        object.__setattr__(self, "matrices", tuple(_checked(matrix) for matrix in self.matrices))

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows of each matrix."""
        return tuple(matrix.shape[0] for matrix in self.matrices)

    @property
    def size(self) -> int:
        """Answers of this term."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Products:
    """A stack of products over one domain: the strategy of a matrix mechanism, with every entry a public integer.

    The answer vector is the concatenation of the terms in their order, each raveled in C order over the rows of its
    matrices. Exact answers and their noise are integers; what the analyst reads is that integer / denominator.

    denominator: A public integer >= 1, one for all terms; ``rounded_rows`` gives the one of a real matrix.

    Raises ValueError for a matrix that does not fit its attribute, or is not of integers that stay within 64 bits.
    """

    domain: Domain
    terms: tuple[Product, ...]
    denominator: int = 1

    def __post_init__(self) -> None:
        if not self.terms or type(self.denominator) is not int or self.denominator < 1:
            raise ValueError(f"{len(self.terms)} terms over the denominator {self.denominator}; want integers >= 1")
        if any(type(term) is not Product for term in self.terms):
            raise ValueError("a term that is no Product; want Products alone")
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
        """A few words for plans and certificates."""
        said = f"{self.size:,} answers of an integer strategy"
        return said if len(self.terms) > 1 else f"{said} on {' x '.join(self.terms[0].clique) or 'number of rows'}"

    @property
    def marginals(self) -> Marginals:
        """The marginals that the terms are applied to, each once."""
        return Marginals(self.domain, tuple(dict.fromkeys(term.clique for term in self.terms)))

    def digest(self) -> str:
        """Identity of the queries."""
        shapes = [[term.clique, term.shape, term.weight] for term in self.terms]
        head = json.dumps(["products", self.domain.names, self.domain.sizes, self.denominator, shapes])
        content = hashlib.sha256(head.encode())
        for term in self.terms:
            for matrix in term.matrices:
                content.update(matrix.astype("<i8").tobytes())
        return content.hexdigest()

    def of_tables(self, tables: Sequence[NDArray[np.int64]], largest_rows: int) -> NDArray[np.int64]:
        """Integer answers from one table a term, exact and then clipped to +-2^62, int64 [size].

        tables: Non-negative counts of the term's clique, any shape, in C order.
        largest_rows: No table sums to more; where its product with the entries may pass 2^62, the sums are made of
            Python's integers. Clipping one answer never moves two of them further apart.
        """
        pairs = zip(self.terms, tables, strict=True)
        return np.concatenate([_applied(term, table, largest_rows) for term, table in pairs])


def rounded_rows(matrix: NDArray[np.float64], bits: int) -> tuple[NDArray[np.int64], int]:
    """A real matrix on the public grid of multiples of 2^-bits: (integers, denominator 2^bits)."""
    if not 0 <= bits <= 40 or not np.isfinite(matrix).all():
        raise ValueError(f"{bits} bits, or a matrix entry that is no finite number; want 0 .. 40 bits of finite ones")
    scaled = np.rint(np.ldexp(np.asarray(matrix, dtype=np.float64), bits))
    if scaled.size and np.abs(scaled).max() > 2.0**53:
        raise ValueError(f"a matrix entry is above 2^{53 - bits} in size; want fewer bits or smaller entries")
    return scaled.astype(np.int64), 1 << bits


def _checked(matrix: NDArray[np.int64]) -> NDArray[np.int64]:
    """A copy that cannot be changed. Floats are refused: their sensitivity would be that of other numbers."""
    if not np.issubdtype(matrix.dtype, np.signedinteger) or matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"a matrix of {matrix.dtype} {matrix.shape}; want integers, one row and one column or more")
    if not matrix.any():
        raise ValueError("a matrix of zeros; want a row that asks something")
    if (np.square(matrix, dtype=np.float64).sum(axis=0) > 0.99 * _LARGEST_SQUARE).any():
        raise ValueError("a column of a matrix has a square above 2^60; want smaller integers")
    return frozen(matrix, np.int64)


def _applied(term: Product, table: NDArray[np.int64], largest_rows: int) -> NDArray[np.int64]:
    # Every partial result is a sum over rows of products of entries; a later matrix of zeros does not undo it.
    largest = term.weight * math.prod(max(1, int(np.abs(matrix).max())) for matrix in term.matrices)
    kind = _kind(largest_rows * largest)
    if kind is object and _sizes(term, table).max() < LARGEST_ANSWER // 2:
        # Sums modulo 2^64 end at the right answer where that fits, whatever the partial sums were. Rows and entries far
        # beyond those of a matrix mechanism take the slow way, whose length then tells that they do.
        kind = np.uint64
    answers = _contracted(term, table, kind)
    if kind is np.uint64:
        return answers.view(np.int64)
    return np.asarray(np.clip(answers, -LARGEST_ANSWER, LARGEST_ANSWER), dtype=np.int64)


def _kind(largest: int) -> Any:
    """The fastest numbers that hold every integer up to this size.

    Doubles hold integers below 2^53 exactly, in whatever order they are added, and are several times faster.
    """
    if largest < _EXACT_DOUBLE:
        return np.float64
    return np.int64 if largest < LARGEST_ANSWER else object


def _sizes(term: Product, table: NDArray[np.int64]) -> NDArray[np.float64]:
    """Bounds on the answers in absolute value, up to rounding: the answers of the absolute entries."""
    absolute = Product(term.clique, tuple(np.abs(matrix) for matrix in term.matrices), term.weight)
    with np.errstate(over="ignore", invalid="ignore"):
        sizes: NDArray[np.float64] = _contracted(absolute, table, np.float64)
    return np.where(np.isnan(sizes), np.inf, sizes)


def _contracted(term: Product, table: NDArray[np.int64], kind: Any) -> NDArray[Any]:
    """weight * (M_1 x ... x M_k) times the table in this kind of number, raveled."""
    answers = np.asarray(table).astype(kind).reshape([matrix.shape[1] for matrix in term.matrices])
    for axis, matrix in enumerate(term.matrices):
        answers = np.moveaxis(np.tensordot(matrix.astype(kind), answers, axes=(1, axis)), 0, axis)
    return np.asarray(answers.ravel() * (term.weight if kind is object else kind(term.weight)))
