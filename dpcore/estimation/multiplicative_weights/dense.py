"""Multiplicative weights on one dense table over all attributes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain
from dpcore.errors import DomainTooLargeError
from dpcore.estimation.graphical.sampling.rounded_tables import RoundedTables
from dpcore.estimation.linear_answers import answers_of_products
from dpcore.estimation.model import TableRows
from dpcore.estimation.multiplicative_weights.one_hot import answers_of_tables
from dpcore.queries import Marginals, Products, Queries

LARGEST_CELLS = 200_000_000  # Default limit of a dense table: 1.6 GB of doubles.
_MAX_INNER_CELLS = 1 << 12  # Largest inner offset table, small enough for the processor's cache.
# Largest exponent of an update: noise far above the total would overflow, and exp(30) moves nearly all mass anyway.
_MAX_EXPONENT = 30.0


def check_size(domain: Domain, purpose: str, limit: int = LARGEST_CELLS) -> None:
    """Refuses a domain whose dense table would be too large.

    domain: The domain of the table.
    purpose: What the table is for; the error message begins with it.
    limit: The largest allowed number of cells.

    Raises DomainTooLargeError for more cells than ``limit``.
    """
    if domain.size() > limit:
        advice = "choose fewer attributes or coarser bins, or a mechanism without a dense table: independent, gaussian"
        raise DomainTooLargeError(purpose, domain.size(), limit, advice)


@final
@dataclass(frozen=True, eq=False)
class DenseModel:
    """A non-negative table over a domain. Implements Model.

    domain: The attributes of the table.
    table: float64 [cells], in C order of the domain's attributes, in counts.
    """

    domain: Domain
    table: NDArray[np.float64]

    @property
    def total(self) -> float:
        """The number of units: the sum of the table."""
        return float(self.table.sum())

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        """Expected counts, float64 [queries.size]; see ``Model``."""
        if isinstance(queries, Marginals):
            return tables_of(self.table, self.domain, queries)
        if isinstance(queries, Products):
            return answers_of_products(queries, self.answer)
        return answers_of_tables(queries, self.domain, self.answer)

    def sample(self, units: int, generator: np.random.Generator) -> TableRows:
        """Rows drawn independently from the table; see ``Model``."""
        cumulative = np.cumsum(self.table)
        cells = np.searchsorted(cumulative, generator.random(units) * cumulative[-1], side="right")
        cells = np.minimum(cells, cumulative.size - 1)
        codes = np.stack(np.unravel_index(cells, self.domain.sizes), axis=1)
        return TableRows(self.domain, codes.astype(np.int32))

    def rounded(self, units: int, generator: np.random.Generator) -> RoundedTables:
        """The table as integer counts; see ``Model``."""
        return RoundedTables.of_product(self.domain, [(self.domain.names, self.table)], units, generator)


def tables_of(table: NDArray[np.float64], domain: Domain, queries: Marginals) -> NDArray[np.float64]:
    """The marginals of a dense table, concatenated in the order of ``queries``: float64 [queries.size].

    table: float64 [cells], in C order of the domain's attributes.
    domain: The attributes of the table.
    queries: The marginals.
    """
    marginals: dict[Clique, NDArray[np.float64]] = {}
    for clique, marginal in _projections(table.reshape(domain.sizes), domain.names, frozenset(queries.cliques)):
        marginals[clique] = marginal.ravel()
    return np.concatenate([marginals[clique] for clique in queries.cliques])


def _projections(
    table: NDArray[np.float64], names: tuple[str, ...], cliques: frozenset[Clique]
) -> Iterator[tuple[Clique, NDArray[np.float64]]]:
    """Yields every clique with its marginal.

    Attributes that occur in no clique are summed out. The cliques are then split by the largest attribute that occurs
    in only some of them, and each half is handled recursively.
    """
    needed = {name for clique in cliques for name in clique}
    unused = tuple(axis for axis, name in enumerate(names) if name not in needed)
    if unused:
        table, names = table.sum(axis=unused), tuple(name for name in names if name in needed)
    if names in cliques:
        yield names, table
    cliques = cliques - {names}
    if not cliques:
        return
    partial = [axis for axis, name in enumerate(names) if not all(name in clique for clique in cliques)]
    axis = max(partial, key=lambda candidate: table.shape[candidate])
    without = frozenset(clique for clique in cliques if names[axis] not in clique)
    yield from _projections(table.sum(axis=axis), names[:axis] + names[axis + 1 :], without)
    if cliques - without:
        yield from _projections(table, names, cliques - without)


@final
class MultiplicativeWeights:
    """The distribution of MWEM: a dense table that is updated towards measured marginals.

    domain: The attributes of the table.
    start: The initial table, float64 [cells], non-negative, of any positive sum, in C order.
    total: The sum n of the distribution, in counts.
    step: The length of an update. The default 1/2 is that of the paper.

    An update for a measured marginal m uses all of its cells q at once: A(x) <- A(x) exp(step q(x) (m - q(A)) / n);
    then A is scaled to sum n.

    Source: Hardt, Ligett and McSherry (2012), Fig. 1, step 3.
    """

    def __init__(self, domain: Domain, start: NDArray[np.float64], total: float, step: float = 0.5) -> None:
        self.domain = domain
        self.total = total
        self.step = step
        self.table = start * (total / start.sum())
        self._offsets: dict[Clique, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}

    def follow(self, measured: list[tuple[Clique, NDArray[np.float64]]], passes: int) -> None:
        """Updates the table for every measured marginal in turn.

        measured: The cliques with their noisy counts, float64 [cells of the clique].
        passes: The number of passes over all marginals, >= 0.
        """
        cycle = [pair for _ in range(passes) for pair in measured]
        if not cycle:
            return
        factor, scale = np.ones(self.domain.size(cycle[0][0])), 1.0
        previous = cycle[0][0]
        for clique, values in cycle:
            # One pass over the table applies the previous update and sums the marginal of the next one.
            sums = self._multiply_then_sum(previous, factor * scale, clique)
            scale = self.total / sums.sum()
            exponents = (values - scale * sums) * (self.step / self.total)
            factor = np.exp(np.clip(exponents, -_MAX_EXPONENT, _MAX_EXPONENT))
            previous = clique
        sums = self._multiply_then_sum(previous, factor * scale, previous)
        self.table *= self.total / sums.sum()

    def _multiply_then_sum(
        self, factor_clique: Clique, factor: NDArray[np.float64], sum_clique: Clique
    ) -> NDArray[np.float64]:
        """Multiplies each cell of the table by its factor in one clique, and returns the marginal of another."""
        sums = np.zeros(self.domain.size(sum_clique))
        _scale_and_sum(self.table, factor, *self._cells(factor_clique), sums, *self._cells(sum_clique))
        return sums

    def _cells(self, clique: Clique) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The clique's cell for each cell of the table, as the sum of an outer and an inner offset."""
        if clique not in self._offsets:
            self._offsets[clique] = _cell_offsets(self.domain, clique)
        return self._offsets[clique]


def _cell_offsets(domain: Domain, clique: Clique) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The offsets of a clique's cells for the leading attributes of the domain, and for the trailing ones."""
    strides = dict.fromkeys(domain.names, 0)
    step = 1
    for name in reversed(clique):
        strides[name] = step
        step *= domain.shape((name,))[0]
    split = len(domain.sizes) - 1
    while split > 0 and math.prod(domain.sizes[split - 1 :]) <= _MAX_INNER_CELLS:
        split -= 1
    return _offsets(domain, strides, 0, split), _offsets(domain, strides, split, len(domain.sizes))


def _offsets(domain: Domain, strides: dict[str, int], start: int, stop: int) -> NDArray[np.int32]:
    """The sum of code * stride over the attributes start .. stop - 1, for all of their codes in C order."""
    offsets = np.zeros(1, dtype=np.int32)
    for name, size in zip(domain.names[start:stop], domain.sizes[start:stop], strict=True):
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int32) * strides[name]).ravel().astype(np.int32)
    return offsets


@compiled
def _scale_and_sum(
    table: NDArray[np.float64],
    factor: NDArray[np.float64],
    outer_factor: NDArray[np.int32],
    inner_factor: NDArray[np.int32],
    sums: NDArray[np.float64],
    outer_sum: NDArray[np.int32],
    inner_sum: NDArray[np.int32],
) -> None:
    """Multiplies every cell of the table by its factor, and adds the result to its sum."""
    width = inner_factor.size
    for outer in range(outer_factor.size):
        start, factor_offset, sum_offset = outer * width, outer_factor[outer], outer_sum[outer]
        for inner in range(width):
            value = table[start + inner] * factor[factor_offset + inner_factor[inner]]
            table[start + inner] = value
            sums[sum_offset + inner_sum[inner]] += value
