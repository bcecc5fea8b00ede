"""Conjunctions filed under their rarest column, so that a record looks only at those whose rarest column it holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled


@dataclass(frozen=True, eq=False)
class Pivots:
    """m conjunctions of positive literals, in the order of their pivots.

    order: int64 [m], number of the query in each place.
    starts: int64 [used + 1]; the places starts[row] : starts[row + 1] have column ``row`` as their pivot.
    others: int32 [k - 1, m], the other columns of the query in each place, the rarest first.

    A pivot is a column of its query with the smallest degree. The work of a record is the number of queries that are
    filed under its columns, in all the sum over queries of the smallest degree; no choice of pivots changes a count.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    others: NDArray[np.int32]

    @classmethod
    def of(cls, rows: NDArray[np.int32], degrees: NDArray[np.int64]) -> Pivots:
        """rows: int32 [m, k]. degrees: int64 [used], about how many records hold each column."""
        ranked = _rarest_first(rows, degrees)
        starts = np.concatenate([[0], np.cumsum(np.bincount(ranked[:, 0], minlength=degrees.size))])
        order = _filed(ranked[:, 0], starts[:-1].copy())
        return cls(order, starts, np.ascontiguousarray(ranked[order, 1:].T))


@compiled
def _rarest_first(rows: NDArray[np.int32], degrees: NDArray[np.int64]) -> NDArray[np.int32]:
    """The columns of each query by degree; an insertion sort, because there are few."""
    ranked = rows.copy()
    for query in range(rows.shape[0]):
        for place in range(1, rows.shape[1]):
            column = ranked[query, place]
            while place > 0 and degrees[ranked[query, place - 1]] > degrees[column]:
                ranked[query, place] = ranked[query, place - 1]
                place -= 1
            ranked[query, place] = column
    return ranked


@compiled
def _filed(pivots: NDArray[np.int32], free: NDArray[np.int64]) -> NDArray[np.int64]:
    """A counting sort; ``free`` holds the next free place of each pivot and is used up."""
    order = np.empty(pivots.size, dtype=np.int64)
    for query in range(pivots.size):
        order[free[pivots[query]]] = query
        free[pivots[query]] += 1
    return order


@compiled
def held_columns(
    items: NDArray[np.int32], row_of: NDArray[np.int32], marked: NDArray[np.bool_], held: NDArray[np.int32]
) -> int:
    """Marks the named columns of one record and lists each once in ``held``; returns how many there are."""
    count = 0
    for place in range(items.size):
        row = row_of[items[place]]
        if row >= 0 and not marked[row]:
            marked[row] = True
            held[count] = row
            count += 1
    return count


@compiled
def satisfied(
    held: NDArray[np.int32],
    marked: NDArray[np.bool_],
    starts: NDArray[np.int64],
    others: NDArray[np.int32],
    hits: NDArray[np.int64],
) -> int:
    """Lists in ``hits`` the places of the queries that one record satisfies; returns how many there are."""
    count = 0
    for row in held:
        for place in range(starts[row], starts[row + 1]):
            holds = True
            for other in range(others.shape[0]):
                if not marked[others[other, place]]:
                    holds = False
                    break
            if holds:
                hits[count] = place
                count += 1
    return count
