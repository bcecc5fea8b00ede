"""Small unions of Kronecker products with exchangeable values, and what is dense about them."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Product, Products

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 5})
CLIQUES = (("a", "b", "c"), ("b", "c"), ("a", "c"), ("b",), ())
CLASSES = {"a": [0, 1, 1], "b": [0, 1, 0, 1], "c": [0, 1, 2, 2, 2]}
SIGMA = 4.2246788893268326  # Of the published figures: the analytic Gaussian mechanism at epsilon 1, delta 1e-6.


def union(seed: int) -> Products:
    """Random 0/1 terms: each matrix treats values of one class of CLASSES alike, or asks for all values one by one."""
    generator = np.random.default_rng(seed)
    terms = []
    for clique in CLIQUES:
        matrices = []
        for name in clique:
            classes = np.array(CLASSES[name])
            rows = np.zeros((2, 1), dtype=np.int64)
            while not rows.any():
                rows = generator.integers(0, 2, (2, classes.max() + 1))[:, classes]
            matrices.append(
                np.vstack([rows, np.eye(len(classes), dtype=np.int64)]) if generator.random() < 0.5 else rows
            )
        terms.append(Product(clique, tuple(matrices), int(generator.integers(1, 3))))
    return Products(DOMAIN, tuple(terms))


def dense(queries: Products) -> list[NDArray[np.float64]]:
    """W of each term over all cells, float64 [rows, cells], with its weight."""
    made = []
    for term in queries.terms:
        factors = []
        for name, size in zip(queries.domain.names, queries.domain.sizes, strict=True):
            named = name in term.clique
            factors.append(term.matrices[term.clique.index(name)] if named else np.ones((1, size), dtype=np.int64))
        made.append(term.weight * reduce(np.kron, factors).astype(np.float64))
    return made


def dense_gram(queries: Products, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """V, float64 [cells, cells]."""
    given = np.ones(len(queries.terms)) if weights is None else weights
    return np.asarray(sum(w * each.T @ each for w, each in zip(given, dense(queries), strict=True)))
