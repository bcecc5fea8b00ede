"""Matrices of 0 and 1 that ask an attribute for its codes, prefixes or ranges of them, and marginals of such rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.frozen import frozen
from dpcore.queries.products import Product, Products

LARGEST_MATRIX = 1 << 22  # Entries of one matrix: 32 MiB.


def identity(size: int) -> NDArray[np.int64]:
    """One row a code: int64 [size, size]."""
    _check(size, 0, size)
    return _matrix([], 0, size)


def prefix(size: int, ordered: int | None = None) -> NDArray[np.int64]:
    """Row i asks for the codes up to i: the lower triangle of ones, int64 [size, size].

    ordered: How many codes, from the first, are in an order, all where None. Each code after them (of nulls, say) is
        asked for alone, and no prefix holds it.

    Source: thesis of McKenna (2022), section 4.6.1, P.

    Raises ValueError for more entries than LARGEST_MATRIX.
    """
    ordered = size if ordered is None else ordered
    _check(size, ordered, size)
    return _matrix([(0, last) for last in range(ordered)], ordered, size)


def all_ranges(size: int, ordered: int | None = None) -> NDArray[np.int64]:
    """One row for every range of ordered codes, the first code slowest: int64 [n (n + 1) / 2 + size - n, size].

    ordered: n, as for ``prefix``.

    Raises ValueError for more entries than LARGEST_MATRIX.
    """
    ordered = size if ordered is None else ordered
    _check(size, ordered, range_rows(size, ordered))
    return _matrix([(low, high) for low in range(ordered) for high in range(low, ordered)], ordered, size)


def of_width(size: int, ordered: int, width: int) -> NDArray[np.int64]:
    """One row for every range of ``width`` ordered codes, then one for each code after these: int64 [rows, size].

    Source: thesis of McKenna (2022), section 3.8, Width-32 range.

    Raises ValueError for a width above the ordered codes, and more entries than LARGEST_MATRIX.
    """
    if not 1 <= width <= ordered:
        raise ValueError(f"ranges of {width} codes out of {ordered} in an order; want 1 .. {ordered}")
    _check(size, ordered, size - width + 1)
    return _matrix([(low, low + width - 1) for low in range(ordered - width + 1)], ordered, size)


def range_rows(size: int, ordered: int) -> int:
    """Rows of ``all_ranges``."""
    return ordered * (ordered + 1) // 2 + size - ordered


def range_marginals(domain: Domain, cliques: Iterable[Clique], matrices: Mapping[str, NDArray[np.int64]]) -> Products:
    """For each clique the Kronecker product of its attributes' matrices: one term a clique, in their order.

    matrices: int64 [rows, size of the attribute]; an attribute without one is asked for its codes.

    Source: thesis of McKenna (2022), section 4.6.1, W_r.

    Raises ValueError for an unknown attribute.
    """
    for name in matrices:
        domain.index(name)
    chosen = {name: frozen(matrix, np.int64) for name, matrix in matrices.items()}
    terms = []
    for clique in cliques:
        named = domain.canonical(clique)
        for name, size in zip(named, domain.shape(named), strict=True):
            if name not in chosen:
                chosen[name] = identity(size)
        terms.append(Product(named, tuple(chosen[name] for name in named)))
    return Products(domain, tuple(terms))


def _matrix(ranges: list[tuple[int, int]], ordered: int, size: int) -> NDArray[np.int64]:
    """Rows of ranges, both ends included, then a row for each code after the ordered ones."""
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
