"""Products of integer matrices as one dense matrix, one column a cell, by slow and obvious numpy."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Product, Products


def dense(queries: Products) -> NDArray[np.object_]:
    """The stacked matrix over all cells of the domain in C order, of Python integers: [queries.size, cells]."""
    return np.concatenate([_dense(queries.domain, term) for term in queries.terms])


def _dense(domain: Domain, term: Product) -> NDArray[np.object_]:
    axes = domain.axes(term.clique)
    columns = []
    for cell in product(*map(range, domain.sizes)):
        parts = [m[:, cell[axis]].astype(object) for m, axis in zip(term.matrices, axes, strict=True)]
        columns.append(term.weight * reduce(np.kron, parts, np.ones(1, dtype=object)))
    return np.stack(columns, axis=1)


def random_products(domain: Domain, generator: np.random.Generator, *, signed: bool = True) -> Products:
    """One to three terms over random cliques, with small entries, some of them repeated."""
    terms = []
    for _ in range(int(generator.integers(1, 4))):
        clique = tuple(name for name in domain.names if generator.random() < 0.6)
        low = -3 if signed else 0
        matrices = tuple(
            _nonzero(generator.integers(low, 4, size=(int(generator.integers(1, 4)), size)))
            for size in domain.shape(clique)
        )
        terms.append(Product(clique, matrices, int(generator.integers(1, 4))))
    return Products(domain, tuple(terms), int(generator.integers(1, 5)))


def _nonzero(matrix: NDArray[np.int64]) -> NDArray[np.int64]:
    matrix[0, 0] = matrix[0, 0] or 1
    return matrix
