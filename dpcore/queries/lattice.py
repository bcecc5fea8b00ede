"""Conjunctions with negations as signed sums of positive ones.

A record satisfies a & not b exactly if it satisfies a but not a & b, so the numbers of records obey

    count(a & not b) = count(a) - count(a & b),

and in general, for positive literals P and negated literals N,

    count(P & not N) = sum over the subsets S of N of (-1)^|S| count(P and S),

where count() of no literals is the number of records (inclusion and exclusion). The positive conjunctions of all
queries together, shared ones once, are the members of a lattice under inclusion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.sorted_rows import SortedRows

LARGEST_NEGATED: Final = 6  # Negated literals of a query, which then is a sum of at most 64 terms.
LARGEST_TERMS: Final = 1 << 26  # Terms of all queries together.


@final
@dataclass(frozen=True, eq=False)
class Lattice:
    """The positive conjunctions that queries need, and the queries as signed sums of them.

    members: Distinct positive conjunctions, low orders first, with ascending columns. Two columns of one one-hot group
        are in no member, because no row satisfies both.
    starts: int64 [m + 1], where the terms of each query start. A query of s negated literals has 2^s terms, one for
        each subset S of them: S is a bit mask that counts up from 0, and its term has the sign (-1)^|S|.
    terms: int64 [terms], the member of each term; ``units`` stands for no literals, ``nothing`` for what no row has.
    parents: int64 [members, order], the member without each of the literals; ``nothing`` where it is not a member.
    """

    members: Conjunctions
    starts: NDArray[np.int64]
    terms: NDArray[np.int64]
    parents: NDArray[np.int64]

    @classmethod
    def of(cls, queries: Conjunctions) -> Lattice:
        """The lattice of some queries.

        Raises ValueError if ``terms_of`` refuses the queries, or if no row can satisfy any member.
        """
        starts = np.concatenate([[0], np.cumsum(terms_of(queries))])
        order_of_term, position, rows = _term_rows(queries, starts)
        terms, parts, layers = np.empty(starts[-1], dtype=np.int64), [], []
        contradicts = np.zeros(starts[-1], dtype=np.bool_)
        members = 0
        for order in range(1, queries.order + 1):
            at, columns = position[order_of_term == order], rows[order_of_term == order, :order]
            possible = _possible(queries.view, columns)
            contradicts[at[~possible]] = True
            if not possible.any():
                continue
            layer, index = SortedRows.of(columns[possible], queries.view.columns)
            terms[at[possible]] = members + index
            parts.append(Conjunctions(queries.view, layer.rows, np.zeros_like(layer.rows, dtype=np.bool_)))
            layers.append((members, layer))
            members += len(layer.rows)
        if not parts:
            raise ValueError("no row can satisfy a query without its negated literals; want one that a row can satisfy")
        terms[position[order_of_term == 0]] = members
        terms[contradicts] = members + 1
        return cls(Conjunctions.joined(parts), starts, terms, _parents(layers, members))

    @property
    def size(self) -> int:
        """The number of queries."""
        return self.starts.size - 1

    @property
    def units(self) -> int:
        """The index that stands for the conjunction of no literals."""
        return self.members.size

    @property
    def nothing(self) -> int:
        """The index that stands for a conjunction that no row satisfies."""
        return self.members.size + 1

    @property
    def needs_units(self) -> bool:
        """Whether the number of units is a term of some query."""
        return bool((self.terms == self.units).any())

    @property
    def signs(self) -> NDArray[np.float64]:
        """The sign of each term, float64 [terms]."""
        mask = np.arange(self.terms.size) - np.repeat(self.starts[:-1], np.diff(self.starts))
        return np.where(_set_bits(mask) & 1, -1.0, 1.0)

    def signed_sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The answer of each query from those of its terms, float64 [m].

        values: float64 [members + 2], the answers of the members, the number of units, and 0.
        """
        return np.asarray(np.add.reduceat(self.signs * values[self.terms], self.starts[:-1]))

    def plain_sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of the terms of each query without their signs, such as the variance of its answer, float64 [m].

        values: float64 [members + 2].
        """
        return np.asarray(np.add.reduceat(values[self.terms], self.starts[:-1]))

    def sums_of_sign(self, values: NDArray[np.float64], sign: int) -> NDArray[np.float64]:
        """The sum over the terms of one sign alone, float64 [m].

        values: float64 [members + 2].
        """
        return np.asarray(np.add.reduceat(np.where(self.signs == sign, values[self.terms], 0.0), self.starts[:-1]))


def needs_lattice(queries: Conjunctions) -> bool:
    """Whether the queries are more than positive conjunctions of one order."""
    return bool(queries.is_mixed or queries.negated.any())


def terms_of(queries: Conjunctions) -> NDArray[np.int64]:
    """The number of terms of each query, int64 [m].

    Raises ValueError for a query with too many negated literals, and for too many terms of all queries together.
    """
    negated = (queries.negated & queries.counted).sum(axis=1)
    if negated.max() > LARGEST_NEGATED:
        raise ValueError(f"a conjunction has {negated.max()} negated literals; want at most {LARGEST_NEGATED}")
    terms = np.asarray(np.left_shift(1, negated), dtype=np.int64)
    if terms.sum() > LARGEST_TERMS:
        raise ValueError(
            f"the queries are signed sums of {terms.sum():,} positive conjunctions; want at most {LARGEST_TERMS:,}"
        )
    return terms


def _term_rows(
    queries: Conjunctions, starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """The order of each term, its position in ``terms``, and its columns, ascending: [terms], [terms], [terms, k]."""
    parts = list(_terms_by_pattern(queries, starts))
    orders, positions, rows = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    return orders, positions, rows


def _terms_by_pattern(
    queries: Conjunctions, starts: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]]:
    """The terms of all queries of the same numbers of positive and negated literals, for each subset of the latter."""
    last = queries.view.columns  # Sorts after every column.
    kind = np.where(queries.counted, queries.negated.astype(np.int8), 2)
    sorted_by_kind = np.argsort(kind, axis=1, kind="stable")
    columns = np.take_along_axis(queries.columns, sorted_by_kind, axis=1)
    negated = (kind == 1).sum(axis=1)
    positive = queries.orders - negated
    for negated_count, positive_count in np.unique(np.stack([negated, positive], axis=1), axis=0).tolist():
        chosen = np.flatnonzero((negated == negated_count) & (positive == positive_count))
        for mask in range(1 << negated_count):
            kept = [*range(positive_count), *(positive_count + b for b in range(negated_count) if mask >> b & 1)]
            rows = np.full((chosen.size, queries.order), last, dtype=np.int32)
            rows[:, : len(kept)] = np.sort(columns[chosen][:, kept], axis=1)
            yield np.full(chosen.size, len(kept)), starts[chosen] + mask, rows


def _possible(view: BinaryView, columns: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether a record can have a 1 in all columns of a row: not in two columns of one one-hot group; bool [rows]."""
    groups = np.sort(view.group_of_column()[columns], axis=1)
    return np.asarray((groups[:, 1:] != groups[:, :-1]).all(axis=1))


def _parents(layers: list[tuple[int, SortedRows]], members: int) -> NDArray[np.int64]:
    """``parents``, from the layers of members of one order, each with the index of its first member."""
    by_order = {layer.rows.shape[1]: (first, layer) for first, layer in layers}
    parents = np.full((members, max(by_order)), members + 1, dtype=np.int64)
    for order, (first, layer) in by_order.items():
        if order - 1 not in by_order:
            continue
        first_below, below = by_order[order - 1]
        for literal in range(order):
            index = below.find(np.delete(layer.rows, literal, axis=1))
            rows = np.flatnonzero(index >= 0)
            parents[first + rows, literal] = first_below + index[rows]
    return parents


def _set_bits(masks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of ones of each mask."""
    return np.bitwise_count(masks).astype(np.int64)
