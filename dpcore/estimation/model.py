"""The protocol of a model: a public distribution that answers queries and yields synthetic rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Queries


@dataclass(frozen=True, eq=False)
class TableRows:
    """Synthetic rows of a table.

    domain: The attributes of the table.
    codes: int32 [rows, attributes], the code of each value, attributes in the order of ``domain``.
    """

    domain: Domain
    codes: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class BasketRows:
    """Synthetic baskets, as pairs of a unit and an item that the unit holds.

    units: The number of baskets; some may be empty.
    unit: int32 [pairs], the unit of each pair, numbered from 0, in ascending order.
    item: int32 [pairs], the item of each pair.
    """

    units: int
    unit: NDArray[np.int32]
    item: NDArray[np.int32]


SyntheticRows = TableRows | BasketRows


class RoundedRows(Protocol):
    """The integer counts of synthetic rows that are not dealt yet. Public, and sent to workers by pickle.

    See ``row_partitions`` for how workers use it.
    """

    @property
    def units(self) -> int:
        """Number of units, >= 0."""
        ...

    def half(self, units: int, generator: np.random.Generator, *, first: bool) -> Self:
        """The counts of the first ``units`` units, or those of the others. The two sum to the counts of all units.

        units: Number of units of the first part, 0 .. ``self.units``.
        generator: The source of randomness. Both parts are computed from a generator in the same state.
        first: Whether to return the first part.
        """
        ...

    def rows(self, generator: np.random.Generator) -> SyntheticRows:
        """Rows with exactly these counts, in random order."""
        ...


class Model(Protocol):
    """A public distribution over records, scaled to a number of units. Everything computed from it is post-processing.

    Contract, checked for every model by tests/contract:
        * ``answer(q)`` has the shape (q.size,) and is finite. Answers of counting queries are in [0, total].
        * The answers of overlapping marginals agree, and the answers of products are linear in those of marginals.
        * The frequencies in ``sample(n, generator)`` approach ``answer / total``. Equal generator states give equal
          samples.
        * The mean of the frequencies in ``rounded(n, generator)`` is ``answer / total``, and so is their limit.
    """

    @property
    def total(self) -> float:
        """The number of units that the model describes, >= 0."""
        ...

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        """Expected counts, float64 [queries.size].

        Raises ValueError or ConfigError for queries that the model cannot answer.
        """
        ...

    def sample(self, units: int, generator: np.random.Generator) -> SyntheticRows:
        """Synthetic rows.

        units: The number of synthetic units, >= 0.
        generator: The source of randomness. It need not be secret, because the model is public.
        """
        ...

    def rounded(self, units: int, generator: np.random.Generator) -> RoundedRows:
        """The counts of synthetic rows, by randomised rounding.

        units: The number of synthetic units, 0 .. 2^31 - 1.
        generator: The source of randomness. It need not be secret, because the model is public.

        Each count that the model keeps is its mean, rounded up or down, so the error of a marginal does not grow with
        ``units`` as that of independent rows does.
        """
        ...
