"""Conjunctions over one-hot columns, read off the marginals of the attributes they name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.queries import Conjunctions, Marginals


def conjunctions_of_tables(
    queries: Conjunctions, domain: Domain, answer: Callable[[Marginals], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Answers of conjunctions from a function that answers marginals; float64 [queries.size].

    Raises ValueError when the columns are not the one-hot view of the domain.
    """
    starts = np.concatenate([[0], np.cumsum(domain.sizes)])
    if queries.view.groups != tuple(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        raise ValueError("conjunctions over other columns than the one-hot view of this domain")
    attributes = queries.view.group_of_column()[queries.columns]
    cliques = [tuple(domain.names[axis] for axis in sorted(set(row))) for row in attributes.tolist()]
    marginals = Marginals(domain, tuple(dict.fromkeys(cliques)))
    tables = dict(zip(marginals.cliques, marginals.split(answer(marginals)), strict=True))
    return np.array(
        [_masked_sum(queries, row, domain, clique, tables[clique], starts) for row, clique in enumerate(cliques)]
    )


def _masked_sum(
    queries: Conjunctions,
    row: int,
    domain: Domain,
    clique: Clique,
    table: NDArray[np.generic],
    starts: NDArray[np.int64],
) -> float:
    """Mass of the cells in which every literal of one conjunction holds."""
    mask = np.ones(table.shape, dtype=np.bool_)
    for column, negated in zip(queries.columns[row], queries.negated[row], strict=True):
        attribute = int(np.searchsorted(starts, column, side="right")) - 1
        axis = clique.index(domain.names[attribute])
        holds = np.arange(table.shape[axis]) == column - starts[attribute]
        mask &= (holds != negated).reshape([-1 if other == axis else 1 for other in range(table.ndim)])
    return float(table[mask].sum())
