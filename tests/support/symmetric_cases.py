"""Symmetric queries as one dense matrix, one column a cell, by slow and obvious numpy; and random ones."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import BlockQueries, SymmetricQueries
from dpcore.queries.residual_matrices import residual_matrix
from dpcore.strategies.symmetric.symmetry import SymmetricGram


def dense(queries: SymmetricQueries) -> NDArray[np.object_]:
    """The stacked matrix over the cells of the clique in C order, of Python integers: [queries.size, cells]."""
    sizes = queries.domain.shape(queries.clique)
    return np.concatenate([_dense(queries, block, sizes) for block in queries.blocks])


def _dense(queries: SymmetricQueries, block: BlockQueries, sizes: tuple[int, ...]) -> NDArray[np.object_]:
    counts = [int(each.max()) + 1 for each in queries.classes]
    columns = []
    for cell in product(*map(range, sizes)):
        place, within = 0, []
        for classes, count, at, value in zip(queries.classes, counts, block.choice, cell, strict=True):
            members = np.flatnonzero(classes == at)
            if at is None:
                place = place * count + int(classes[value])
            elif value in members:
                within.append(residual_matrix(len(members))[:, np.searchsorted(members, value)].astype(object))
            else:
                within.append(np.zeros(len(residual_matrix(len(members))), dtype=object))
        columns.append(reduce(np.kron, within, block.matrix[:, place].astype(object)))
    return np.stack(columns, axis=1)


def random_symmetric(domain: Domain, generator: np.random.Generator, largest: int = 3) -> SymmetricQueries:
    """One to five blocks over all attributes of a domain, with random classes, some choices and matrices repeated."""
    classes = []
    for size in domain.sizes:
        drawn = generator.integers(0, generator.integers(1, size + 1), size)
        classes.append(np.unique(drawn, return_inverse=True)[1])
    blocks = tuple(_block(classes, generator, largest) for _ in range(int(generator.integers(1, 6))))
    return SymmetricQueries(domain, domain.names, tuple(classes), blocks)


def _block(classes: list[NDArray[np.int64]], generator: np.random.Generator, largest: int) -> BlockQueries:
    choice: list[int | None] = []
    combinations = 1
    for each in classes:
        members = np.bincount(each)
        several = np.flatnonzero(members > 1)
        if len(several) and generator.random() < 0.5:
            choice.append(int(generator.choice(several)))
        else:
            choice.append(None)
            combinations *= len(members)
    matrix = generator.integers(-largest, largest + 1, (int(generator.integers(1, 4)), combinations))
    matrix[0, 0] = matrix[0, 0] or 1
    return BlockQueries(tuple(choice), matrix)


def svd_bound(workload: SymmetricGram) -> float:
    """(sum of the singular values of W)^2 / cells, a lower bound on the error of every strategy at unit noise."""
    total = 0.0
    for block in workload.blocks:
        total += block.multiplicity * float(np.sqrt(np.maximum(np.linalg.eigvalsh(block.gram), 0)).sum())
    return total**2 / float(workload.sizes.sum())
