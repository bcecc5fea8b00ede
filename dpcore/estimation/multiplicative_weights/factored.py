"""Multiplicative weights on a product of dense tables over disjoint groups of attributes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.sampling.rounded_tables import RoundedTables
from dpcore.estimation.linear_answers import answers_of_products
from dpcore.estimation.model import TableRows
from dpcore.estimation.multiplicative_weights.dense import LARGEST_CELLS, DenseModel, MultiplicativeWeights, check_size
from dpcore.estimation.multiplicative_weights.factored_answers import Factor, FactoredAnswers
from dpcore.estimation.multiplicative_weights.one_hot import answers_of_tables
from dpcore.queries import Marginals, Products, Queries

LARGEST_WHOLE: Final = 1 << 20  # Up to this many cells the model is returned as one dense table.
_SMALL_TABLE: Final = 1 << 12  # Up to this many cells a function call costs more than an update.
_MAX_EXPONENT: Final = 30.0  # Largest exponent of an update, as in ``dense``.

Measured = Sequence[tuple[Clique, NDArray[np.float64]]]


@final
@dataclass(frozen=True, eq=False)
class FactoredModel:
    """Independent groups of attributes, each with a dense table. Implements Model.

    domain: All attributes.
    groups: One model per group. Every attribute of the domain is in exactly one group, and each table sums to
        ``total``.
    total: The number of units.

    Raises ValueError if the groups are not a partition of the domain.

    Source: Hardt, Ligett and McSherry (2012), section 4.
    """

    domain: Domain
    groups: tuple[DenseModel, ...]
    total: float

    def __post_init__(self) -> None:
        grouped = [pair for group in self.groups for pair in zip(group.domain.names, group.domain.sizes, strict=True)]
        if sorted(grouped) != sorted(zip(self.domain.names, self.domain.sizes, strict=True)):
            raise ValueError("groups that are not a partition of the domain; want each attribute in one group")

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        """Expected counts, float64 [queries.size]; see ``Model``."""
        if isinstance(queries, Marginals):
            self.domain.axes(name for clique in queries.cliques for name in clique)
            return FactoredAnswers(queries).values(self._factors, self.total)
        if isinstance(queries, Products):
            return answers_of_products(queries, self.answer)
        return answers_of_tables(queries, self.domain, self.answer)

    def sample(self, units: int, generator: np.random.Generator) -> TableRows:
        """Rows drawn independently; the values of each group come from its own table."""
        codes = np.empty((units, len(self.domain.names)), dtype=np.int32)
        for group in self.groups:
            codes[:, self.domain.axes(group.domain.names)] = group.sample(units, generator).codes
        return TableRows(self.domain, codes)

    def rounded(self, units: int, generator: np.random.Generator) -> RoundedTables:
        """The tables of all groups as integer counts; see ``Model``."""
        factors = [(group.domain.names, group.table) for group in self.groups]
        return RoundedTables.of_product(self.domain, factors, units, generator)

    @cached_property
    def _factors(self) -> dict[int, Factor]:
        return {number: Factor(group.domain, group.table) for number, group in enumerate(self.groups)}


@final
class FactoredWeights:
    """The distribution of MWEM as a product of dense tables over disjoint groups of attributes.

    A measured marginal joins the groups of its attributes into one table, their product, and then updates that table
    alone. The distribution is the same as that of one dense table over all attributes that is updated for the same
    measurements in the same order.

    All cliques name their attributes in the order of the domain.

    domain: All attributes.
    start: The initial groups, each with a non-negative table of positive sum in C order. The groups share no attribute;
        every other attribute starts uniform, in a group of its own.
    total: The sum of the distribution, in counts.
    step: The length of an update. The default 1/2 is that of Fig. 1.
    limit: The largest number of cells of a joined table.

    Source: Hardt, Ligett and McSherry (2012), section 4 and Fig. 1, step 3.
    """

    def __init__(
        self, domain: Domain, start: Measured, total: float, step: float = 0.5, limit: int = LARGEST_CELLS
    ) -> None:
        self.domain, self.total, self.step, self.limit = domain, total, step, limit
        self._groups: dict[int, _Group] = {}
        self._group_of_attribute: dict[str, int] = {}
        self._next_number = 0  # The numbers of groups are never reused.
        grouped = {name for clique, _ in start for name in clique}
        uniform = [((name,), np.ones(domain.size((name,)))) for name in domain.names if name not in grouped]
        for clique, table in [*start, *uniform]:
            self._add(domain.project(clique), table)

    @property
    def factors(self) -> Mapping[int, Factor]:
        """The groups by number, as ``FactoredAnswers`` takes them."""
        return {number: group.factor for number, group in self._groups.items()}

    def joined_cells(self, clique: Clique) -> int:
        """The number of cells of the table that contains the clique once ``join`` was called."""
        return math.prod(self._groups[number].factor.table.size for number in self._numbers(clique))

    def join(self, clique: Clique) -> None:
        """Joins the groups of the clique's attributes into one.

        Raises DomainTooLargeError, and changes nothing, if the joined table would have more than ``limit`` cells.
        """
        numbers = self._numbers(clique)
        if len(numbers) < 2:
            return
        names = self.domain.canonical(name for number in numbers for name in self._groups[number].factor.domain.names)
        joined = self.domain.project(names)
        check_size(joined, f"the table that joins {' x '.join(names)}", self.limit)
        table = _outer([self._groups.pop(number).factor for number in numbers], joined)
        self._add(joined, table)

    def follow(self, measured: Measured, passes: int) -> None:
        """Updates the distribution for every measured marginal in turn.

        measured: The cliques with their noisy counts, float64 [cells of the clique].
        passes: The number of passes over all marginals, >= 0.

        Marginals of different groups do not affect each other, so each group is updated for its own marginals in their
        order.

        Raises DomainTooLargeError, without any update, if a marginal needs a table of more than ``limit`` cells.
        """
        for clique, _ in measured:
            self.join(clique)
        for number, pairs in self._by_group(measured).items():
            self._groups[number].follow(pairs, passes)

    def work(self, measured: Measured) -> int:
        """The number of cell updates of one pass of ``follow``, once the marginals are joined."""
        return sum(self.joined_cells(clique) for clique, _ in measured if clique)

    def whole(self) -> NDArray[np.float64]:
        """The dense table over all attributes, float64 [cells]. The caller must have checked its size."""
        factors = list(self.factors.values())
        return factors[0].table if len(factors) == 1 else np.asarray(self.total * _outer(factors, self.domain))

    def model(self) -> DenseModel | FactoredModel:
        """The distribution as a model: one dense table if there is one group or at most 2^20 cells, else factored."""
        if len(self._groups) == 1 or self.domain.size() <= LARGEST_WHOLE:
            return DenseModel(self.domain, self.whole())
        groups = tuple(DenseModel(factor.domain, factor.table) for factor in self.factors.values())
        return FactoredModel(self.domain, groups, self.total)

    def _add(self, domain: Domain, table: NDArray[np.float64]) -> None:
        self._groups[self._next_number] = _Group(MultiplicativeWeights(domain, table, self.total, self.step))
        self._group_of_attribute |= dict.fromkeys(domain.names, self._next_number)
        self._next_number += 1

    def _numbers(self, clique: Iterable[str]) -> list[int]:
        """The numbers of the groups of a clique's attributes."""
        return list(dict.fromkeys(self._group_of_attribute[name] for name in clique))

    def _by_group(self, measured: Measured) -> dict[int, list[tuple[Clique, NDArray[np.float64]]]]:
        """The measured marginals of each group. A measured number of rows belongs to no group and is left out."""
        by_group: dict[int, list[tuple[Clique, NDArray[np.float64]]]] = {}
        for clique, values in measured:
            if clique:
                by_group.setdefault(self._group_of_attribute[clique[0]], []).append((clique, values))
        return by_group


class _Group:
    """One table with its version. For a small table, the cells of each measured clique are cached."""

    def __init__(self, weights: MultiplicativeWeights) -> None:
        self._weights = weights
        self._version = 0
        self._cells: dict[Clique, NDArray[np.int32]] = {}

    @property
    def factor(self) -> Factor:
        """The table with its version."""
        return Factor(self._weights.domain, self._weights.table, self._version)

    def follow(self, pairs: list[tuple[Clique, NDArray[np.float64]]], passes: int) -> None:
        """Updates the table for each measured marginal in turn, ``passes`` times."""
        weights = self._weights
        self._version += 1
        if weights.table.size > _SMALL_TABLE:
            weights.follow(pairs, passes)
            return
        cells = np.stack([self._cells_of(clique) for clique, _ in pairs])
        values = np.concatenate([values for _, values in pairs]).astype(np.float64)
        starts = np.cumsum([0] + [values.size for _, values in pairs])
        _follow_small(weights.table, cells, values, starts, passes, weights.total, weights.step)

    def _cells_of(self, clique: Clique) -> NDArray[np.int32]:
        """The clique's cell for each cell of the table."""
        if clique not in self._cells:
            domain = self._weights.domain
            shape = [size if name in clique else 1 for name, size in zip(domain.names, domain.sizes, strict=True)]
            cells = np.arange(domain.size(clique), dtype=np.int32).reshape(shape)
            self._cells[clique] = np.broadcast_to(cells, domain.sizes).ravel()
        return self._cells[clique]


def _outer(factors: Sequence[Factor], domain: Domain) -> NDArray[np.float64]:
    """The product of tables over disjoint groups, scaled to sum 1: float64 [cells], in C order of ``domain``."""
    names = tuple(name for factor in factors for name in factor.domain.names)
    probabilities = [factor.table / factor.table.sum() for factor in factors]
    flat = reduce(lambda left, right: np.multiply.outer(left, right).ravel(), probabilities, np.ones(1))
    table = flat.reshape(domain.shape(names))
    return np.ascontiguousarray(table.transpose([names.index(name) for name in domain.names])).ravel()


@compiled
def _follow_small(
    table: NDArray[np.float64],
    cells: NDArray[np.int32],
    values: NDArray[np.float64],
    starts: NDArray[np.int64],
    passes: int,
    total: float,
    step: float,
) -> None:
    """``MultiplicativeWeights.follow`` in one compiled call; ``cells`` is int32 [marginals, cells of the table]."""
    for _ in range(passes):
        for marginal in range(cells.shape[0]):
            start = starts[marginal]
            factor = np.zeros(starts[marginal + 1] - start)
            for index in range(table.size):
                factor[cells[marginal, index]] += table[index]
            scale = total / factor.sum()
            for cell in range(factor.size):
                exponent = (values[start + cell] - scale * factor[cell]) * (step / total)
                factor[cell] = scale * np.exp(min(max(exponent, -_MAX_EXPONENT), _MAX_EXPONENT))
            for index in range(table.size):
                table[index] *= factor[cells[marginal, index]]
    scale = total / table.sum()
    for index in range(table.size):
        table[index] *= scale
