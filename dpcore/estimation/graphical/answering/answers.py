"""Answers of a graphical model to many conjunctions or parities of one-hot columns at once."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.calibrated import Calibrated
from dpcore.queries import Conjunctions, Parities

_GROUP_CELLS: Final = 1 << 17  # One attribute of a group costs as much time as messages of this many cells.
_CHUNK_CELLS: Final = 1 << 21  # Largest number of weights of queries that are answered together.
_CELLS_PER_QUERY: Final = 64  # A table is made if it has at most this many cells for each query that reads it.


def one_hot_answers(model: Calibrated, queries: Conjunctions | Parities) -> NDArray[np.float64]:
    """The probability that a record satisfies each query, float64 [queries.size].

    Queries with the same attributes are answered together: from one table if it is small, else by messages with one row
    per query. If few queries share their attributes, all queries are answered together by such messages.

    model: The calibrated tree.
    queries: Queries over the one-hot view of the model's domain.

    Raises: ValueError if the columns are not the one-hot view of the domain.
    """
    domain = model.domain
    starts = np.concatenate([[0], np.cumsum(domain.sizes)])
    if queries.view.groups != tuple(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        raise ValueError("queries over other columns than the one-hot view of the domain; want that view")
    attributes = np.searchsorted(starts, queries.columns, side="right") - 1  # -1 where a parity has no more columns.
    codes = queries.columns - starts[attributes]
    literals = _Literals(attributes, codes, queries.negated if isinstance(queries, Conjunctions) else None)
    groups = _groups(attributes)
    if len(groups) * queries.columns.shape[1] * _GROUP_CELLS > queries.size * model.tree.cells:
        groups = [np.arange(queries.size)]
    answers = np.empty(queries.size)
    for rows in groups:
        answers[rows] = _group_answers(model, literals.select(rows))
    return np.clip(answers if isinstance(queries, Conjunctions) else (1 + answers) / 2, 0, 1)


class _Literals(NamedTuple):
    """The literals of some queries.

    attributes: Attribute of each literal by position, -1 for no literal; int64 [m, k].
    codes: Its value, int64 [m, k].
    negated: Whether the literal is negated, bool [m, k], for conjunctions; None for parities.
    """

    attributes: NDArray[np.int64]
    codes: NDArray[np.int64]
    negated: NDArray[np.bool_] | None

    def select(self, rows: NDArray[np.int64] | slice) -> _Literals:
        """The literals of some of the queries."""
        return _Literals(self.attributes[rows], self.codes[rows], None if self.negated is None else self.negated[rows])


def _groups(attributes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Positions of the queries with the same set of attributes, one array for each set."""
    sets = np.sort(attributes, axis=1)
    sets[:, 1:][sets[:, 1:] == sets[:, :-1]] = -1  # A set names an attribute once.
    sets.sort(axis=1)
    order = np.lexsort(sets.T)
    begins = np.flatnonzero((sets[order[1:]] != sets[order[:-1]]).any(axis=1)) + 1
    return np.split(order, begins)


def _group_answers(model: Calibrated, literals: _Literals) -> NDArray[np.float64]:
    """Expectations of products of one function per attribute: indicators for conjunctions, signs for parities."""
    domain = model.domain
    named = np.unique(literals.attributes[literals.attributes >= 0]).tolist()
    clique = tuple(domain.names[label] for label in named)
    queries, order = literals.codes.shape
    is_plain = literals.negated is not None and len(named) == order and not literals.negated.any()
    if is_plain and domain.size(clique) <= _CELLS_PER_QUERY * queries:
        cells = np.take_along_axis(literals.codes, np.argsort(literals.attributes, axis=1), axis=1)
        return np.asarray(model.marginals([clique])[0][tuple(cells.T)])
    answers = np.empty(queries)
    step = max(1, _CHUNK_CELLS // sum(domain.shape(clique)))
    for begin in range(0, queries, step):
        part = literals.select(slice(begin, begin + step))
        weights = {domain.names[label]: _weights(part, label, domain.sizes[label]) for label in named}
        answers[begin : begin + step] = model.products(weights)
    return answers


def _weights(literals: _Literals, label: int, size: int) -> NDArray[np.float64]:
    """The function of one attribute in the product of each query, by value; float64 [m, size]."""
    weights = np.ones((literals.codes.shape[0], size))
    for column in range(literals.codes.shape[1]):
        rows = np.flatnonzero(literals.attributes[:, column] == label)
        codes = literals.codes[rows, column]
        if literals.negated is None:
            weights[rows, codes] *= -1
        else:
            negated = literals.negated[rows, column]
            weights[rows[negated], codes[negated]] = 0
            rows, codes = rows[~negated], codes[~negated]
            required = weights[rows, codes]
            weights[rows] = 0
            weights[rows, codes] = required
    return weights
