"""Conjunctions and parities over one-hot columns, answered from marginals of the attributes that they name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Conjunctions, Marginals, Parities


def answers_of_tables(
    queries: Conjunctions | Parities, domain: Domain, answer: Callable[[Marginals], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """The answers of conjunctions or parities, from a function that answers marginals: float64 [queries.size].

    queries: The conjunctions or parities.
    domain: The attributes whose one-hot columns the queries name.
    answer: Returns the concatenated answers of marginals. It is called once.

    Raises ValueError if the columns are not the one-hot view of the domain.
    """
    starts = np.concatenate([[0], np.cumsum(domain.sizes)])
    if queries.view.groups != tuple(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        raise ValueError("queries over other columns than the domain's; want its one-hot view")
    columns = [row[row >= 0] for row in queries.columns]
    attributes = [np.searchsorted(starts, row, side="right") - 1 for row in columns]
    cliques = [tuple(domain.names[axis] for axis in sorted(set(row.tolist()))) for row in attributes]
    marginals = Marginals(domain, tuple(dict.fromkeys(cliques)))
    tables = dict(zip(marginals.cliques, marginals.split(answer(marginals)), strict=True))
    answers = np.empty(queries.size)
    for row, clique in enumerate(cliques):
        table = tables[clique]
        indices = [
            (clique.index(domain.names[axis]), column - starts[axis])
            for axis, column in zip(attributes[row], columns[row], strict=True)
        ]
        ones = [np.broadcast_to(_cells_with_code(table.shape, *index), table.shape) for index in indices]
        answers[row] = table[_satisfied(queries, row, ones)].sum()
    return answers


def _cells_with_code(shape: tuple[int, ...], axis: int, code: int) -> NDArray[np.bool_]:
    """The cells where the attribute at ``axis`` has this code, as an array that broadcasts to the table."""
    matches = np.arange(shape[axis]) == code
    return np.asarray(matches.reshape([-1 if index == axis else 1 for index in range(len(shape))]), dtype=np.bool_)


def _satisfied(queries: Conjunctions | Parities, row: int, ones: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """The cells of a table that satisfy one query.

    ones: For each of the query's columns, the cells in which the column is 1.
    """
    if isinstance(queries, Parities):
        odd: NDArray[np.bool_] = np.logical_xor.reduce(ones)
        return np.asarray(~odd)
    holds = [cells != negated for cells, negated in zip(ones, queries.negated[row], strict=True)]
    satisfied: NDArray[np.bool_] = np.logical_and.reduce(holds)
    return satisfied
