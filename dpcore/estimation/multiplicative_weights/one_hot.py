"""Conjunctions and parities over one-hot columns, read off the marginals of the attributes they name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Conjunctions, Marginals, Parities


def answers_of_tables(
    queries: Conjunctions | Parities, domain: Domain, answer: Callable[[Marginals], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Answers of conjunctions or parities from a function that answers marginals; float64 [queries.size].

    Raises ValueError when the columns are not the one-hot view of the domain.
    """
    starts = np.concatenate([[0], np.cumsum(domain.sizes)])
    if queries.view.groups != tuple(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        raise ValueError("queries over other columns than the one-hot view of this domain")
    columns = [row[row >= 0] for row in queries.columns]
    attributes = [np.searchsorted(starts, row, side="right") - 1 for row in columns]
    cliques = [tuple(domain.names[axis] for axis in sorted(set(row.tolist()))) for row in attributes]
    marginals = Marginals(domain, tuple(dict.fromkeys(cliques)))
    tables = dict(zip(marginals.cliques, marginals.split(answer(marginals)), strict=True))
    answers = np.empty(queries.size)
    for row, clique in enumerate(cliques):
        table = tables[clique]
        places = [
            (clique.index(domain.names[axis]), column - starts[axis])
            for axis, column in zip(attributes[row], columns[row], strict=True)
        ]
        ones = [np.broadcast_to(_where(table.shape, *place), table.shape) for place in places]
        answers[row] = table[_satisfied(queries, row, ones)].sum()
    return answers


def _where(shape: tuple[int, ...], axis: int, code: int) -> NDArray[np.bool_]:
    """Where the attribute at ``axis`` has this code, broadcastable to the table."""
    here = np.arange(shape[axis]) == code
    return np.asarray(here.reshape([-1 if other == axis else 1 for other in range(len(shape))]), dtype=np.bool_)


def _satisfied(queries: Conjunctions | Parities, row: int, ones: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Cells of a table that satisfy one query. ones: Cells in which each of its columns is 1."""
    if isinstance(queries, Parities):
        odd: NDArray[np.bool_] = np.logical_xor.reduce(ones)
        return np.asarray(~odd)
    holds = [one != sign for one, sign in zip(ones, queries.negated[row], strict=True)]
    satisfied: NDArray[np.bool_] = np.logical_and.reduce(holds)
    return satisfied
