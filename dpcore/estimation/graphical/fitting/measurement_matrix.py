"""All measured values as one linear map of the marginals of a few cliques."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.linear_terms import LinearTerm, home, maximal, merged
from dpcore.estimation.graphical.inference.strides import Parts, add_part, parts, sum_part
from dpcore.queries import Marginals


@final
class Rows:
    """The rows A of all terms, stacked: A mu against values y with precisions 1 / sigma^2.

    queries: The marginals mu: the measured cliques that lie in no other one.
    terms: What each block of rows is; a function measured more than once is one term unless ``merge`` is False.
    values, precisions: float64 [rows].
    starts: Where each term's rows begin, and the end of the last.
    constant: What merging takes off 1/2 sum (A mu - y)^2 / sigma^2.
    """

    def __init__(self, domain: Domain, terms: Sequence[LinearTerm], merge: bool = True) -> None:
        self.terms = merged(terms) if merge else list(terms)
        if not self.terms:
            raise ValueError("no measurements; want at least one")
        self.queries = Marginals(domain, maximal(domain, (term.clique for term in self.terms)))
        self.values = np.concatenate([term.values for term in self.terms])
        sizes = [term.values.size for term in self.terms]
        self.precisions = np.repeat([term.precision for term in self.terms], sizes)
        self.starts = np.cumsum([0, *sizes])
        self.constant = sum(term.constant for term in self.terms)
        self._cells = np.cumsum([0, *(domain.size(term.clique) for term in self.terms)])
        self._whole = all(term.matrices is None for term in self.terms)
        self._plan = self._parts(domain)
        self._axes = _Axes.of(domain, self.terms)

    def applied(self, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """A mu, float64 [rows]."""
        tables = self._tables(marginals)
        _centre(self._axes, tables)
        return self._measured(tables)

    def expected(self, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """A mu, but the marginal itself for the rows of a centred term, float64 [rows]."""
        return self._measured(self._tables(marginals))

    def transposed(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """A^T rows, float64 [queries.size]."""
        if not self._whole:
            pieces = np.split(rows, self.starts[1:-1])
            rows = np.concatenate([term.transposed(piece) for term, piece in zip(self.terms, pieces, strict=True)])
        found, values = np.zeros(self.queries.size), np.array(rows, dtype=np.float64)
        _centre(self._axes, values)
        _add_parts(self._plan, found, values)
        return found

    def _tables(self, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """The marginal of each term, one after another."""
        tables = np.empty(self._cells[-1])
        _sum_parts(self._plan, marginals, tables)
        return tables

    def _measured(self, tables: NDArray[np.float64]) -> NDArray[np.float64]:
        """The matrices of each term applied to its table."""
        if self._whole:
            return tables
        pieces = np.split(tables, self._cells[1:-1])
        return np.concatenate([term.applied(piece) for term, piece in zip(self.terms, pieces, strict=True)])

    def _parts(self, domain: Domain) -> Parts:
        """Where the marginal of each term lies in those of the queries."""
        begins = np.cumsum([0, *self.queries.sizes]).tolist()
        pairs = []
        for term, begin in zip(self.terms, self._cells.tolist(), strict=False):
            above = home(term.clique, self.queries.cliques, domain)
            pairs.append((self.queries.cliques[above], begins[above], term.clique, begin))
        return parts(domain, pairs)


class _Axes(NamedTuple):
    """The axes along which centred terms lose their mean, in order.

    begin, cells: The cells of the term. size, inner: Length of the axis, and cells from one of its values to the next.
    """

    begin: NDArray[np.int64]
    cells: NDArray[np.int64]
    size: NDArray[np.int64]
    inner: NDArray[np.int64]

    @classmethod
    def of(cls, domain: Domain, terms: Sequence[LinearTerm]) -> _Axes:
        rows: list[tuple[int, int, int, int]] = []
        begin = 0
        for term in terms:
            inner = cells = domain.size(term.clique)
            for size in domain.shape(term.clique):
                inner //= size
                if term.centred:
                    rows.append((begin, cells, size, inner))
            begin += cells
        begins, cells_of, sizes, inners = np.array(rows, dtype=np.int64).reshape(-1, 4).T.copy()
        return cls(begins, cells_of, sizes, inners)


@compiled
def _centre(axes: _Axes, values: NDArray[np.float64]) -> None:
    """Takes the mean along each axis off, in place."""
    for axis in range(axes.begin.size):
        size, inner = axes.size[axis], axes.inner[axis]
        for outer in range(axes.cells[axis] // (size * inner)):
            first = axes.begin[axis] + outer * size * inner
            for place in range(first, first + inner):
                mean = 0.0
                for step in range(size):
                    mean += values[place + step * inner]
                mean /= size
                for step in range(size):
                    values[place + step * inner] -= mean


@compiled
def _sum_parts(plan: Parts, marginals: NDArray[np.float64], tables: NDArray[np.float64]) -> None:
    for part in range(plan.table.size):
        sum_part(plan, part, marginals, tables)


@compiled
def _add_parts(plan: Parts, marginals: NDArray[np.float64], tables: NDArray[np.float64]) -> None:
    for part in range(plan.table.size):
        add_part(plan, part, marginals, tables)
