"""0/1 matrices of queries about one attribute (single codes, prefixes, ranges), and products made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.frozen import frozen
from dpcore.queries.products import Product, Products

LARGEST_MATRIX = 1 << 22  # Largest number of entries of one matrix: 32 MiB.


def identity(size: int) -> NDArray[np.int64]:
    """The identity matrix, one row per code: int64 [size, size].

    Raises ValueError for more entries than LARGEST_MATRIX.
    """
    _check(size, 0, size)
    return _matrix([], 0, size)


def prefix(size: int, ordered: int | None = None) -> NDArray[np.int64]:
    """Row i counts the codes up to i, a lower triangle of ones: int64 [size, size].

    size: The number of codes.
    ordered: The number of leading codes that are ordered. By default all are. Each later code (such as the code of
        nulls) has a row of its own and belongs to no prefix.

    Source: thesis of McKenna (2022), section 4.6.1, P.

    Raises ValueError for more entries than LARGEST_MATRIX.
    """
    ordered = size if ordered is None else ordered
    _check(size, ordered, size)
    return _matrix([(0, last) for last in range(ordered)], ordered, size)


def all_ranges(size: int, ordered: int | None = None) -> NDArray[np.int64]:
    """One row per range of ordered codes, first code slowest: int64 [n (n + 1) / 2 + size - n, size].

    size: The number of codes.
    ordered: The number n of leading codes that are ordered, as for ``prefix``.

    Raises ValueError for more entries than LARGEST_MATRIX.
    """
    ordered = size if ordered is None else ordered
    _check(size, ordered, range_rows(size, ordered))
    return _matrix([(low, high) for low in range(ordered) for high in range(low, ordered)], ordered, size)


def of_width(size: int, ordered: int, width: int) -> NDArray[np.int64]:
    """One row per range of ``width`` ordered codes, then one row per unordered code: int64 [rows, size].

    size: The number of codes.
    ordered: The number of leading codes that are ordered.
    width: The number of codes of each range, 1 .. ordered.

    Source: thesis of McKenna (2022), section 3.8, Width-32 range.

    Raises ValueError for a width outside 1 .. ordered, and for more entries than LARGEST_MATRIX.
    """
    if not 1 <= width <= ordered:
        raise ValueError(f"ranges of {width} codes out of {ordered} in an order; want 1 .. {ordered}")
    _check(size, ordered, size - width + 1)
    return _matrix([(low, low + width - 1) for low in range(ordered - width + 1)], ordered, size)


def range_rows(size: int, ordered: int) -> int:
    """The number of rows of ``all_ranges``."""
    return ordered * (ordered + 1) // 2 + size - ordered


def range_marginals(domain: Domain, cliques: Iterable[Clique], matrices: Mapping[str, NDArray[np.int64]]) -> Products:
    """For each clique the Kronecker product of its attributes' matrices: one term per clique, in the given order.

    domain: The attributes.
    cliques: The cliques.
    matrices: The query matrix of each attribute, int64 [rows, size of the attribute]. Attributes without an entry are
        queried for their single codes.

    Source: thesis of McKenna (2022), section 4.6.1, W_r.

    Raises ValueError for an unknown attribute.
    """
    for name in matrices:
        domain.index(name)
    matrix_of = {name: frozen(matrix, np.int64) for name, matrix in matrices.items()}
    terms = []
    for clique in cliques:
        canonical = domain.canonical(clique)
        for name, size in zip(canonical, domain.shape(canonical), strict=True):
            if name not in matrix_of:
                matrix_of[name] = identity(size)
        terms.append(Product(canonical, tuple(matrix_of[name] for name in canonical)))
    return Products(domain, tuple(terms))


def _matrix(ranges: list[tuple[int, int]], ordered: int, size: int) -> NDArray[np.int64]:
    """One row per range, both ends included, then one row per code after the ordered ones."""
    ends = np.array([*ranges, *((code, code) for code in range(ordered, size))]).reshape(-1, 2)
    codes = np.arange(size)
    return frozen((ends[:, :1] <= codes) & (codes <= ends[:, 1:]), np.int64)


def _check(size: int, ordered: int, rows: int) -> None:
    if not 0 <= ordered <= size:
        raise ValueError(f"{ordered} ordered codes of {size}; want 0 .. {size}")
    if rows * size > LARGEST_MATRIX:
        raise ValueError(
            f"a matrix of {rows:,} rows for {size:,} codes; want at most {LARGEST_MATRIX:,} entries: fewer codes"
        )
