"""Integer tables of a junction tree for all rows, and their shares for the rows of one partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.inference.node_tables import Conditionals, NodeTable
from dpcore.estimation.graphical.sampling.integer_tables import margin, round_model
from dpcore.estimation.graphical.sampling.synthetic_rows import dealt_codes
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.model import TableRows
from dpcore.estimation.row_partitions import LARGEST_UNITS, half_of_counts


@final
@dataclass(frozen=True, eq=False)
class RoundedTables:
    """Counts of rows in each node of a junction tree. Implements ``RoundedRows``.

    tree: The junction tree.
    tables: Counts of each node, int32 [cells of the separator, cells of the residual]. Every row sums to the count of
        its separator's value in the parent, and a root to ``units``.
    units: Number of rows.
    """

    tree: JunctionTree
    tables: tuple[NDArray[np.int32], ...]
    units: int

    @classmethod
    def of(
        cls, tree: JunctionTree, conditionals: Sequence[NDArray[np.float64]], units: int, generator: np.random.Generator
    ) -> RoundedTables:
        """Rounds the tables of a model; see ``round_model``.

        Raises: ValueError for more than ``LARGEST_UNITS`` units.
        """
        if units > LARGEST_UNITS:
            raise ValueError(f"units is {units}; want at most {LARGEST_UNITS}")
        # A copy frees the other half of a table's memory; ``map`` keeps no table while the next one is rounded.
        tables = map(partial(np.array, dtype=np.int32), round_model(tree, conditionals, units, generator))
        return cls(tree, tuple(tables), units)

    @classmethod
    def of_product(
        cls,
        domain: Domain,
        factors: Sequence[tuple[Clique, NDArray[np.float64]]],
        units: int,
        generator: np.random.Generator,
    ) -> RoundedTables:
        """Rounds the tables of independent groups of attributes.

        domain: All attributes.
        factors: The attributes of each group, and its table in C order of them: float64 [cells], of any positive sum.
        units: Number of rows, 0 .. ``LARGEST_UNITS``.
        generator: Algorithmic randomness.
        """
        nodes = tuple(clique for clique, _ in factors if clique)
        tree = JunctionTree(domain, nodes, (-1,) * len(nodes), ((),) * len(nodes))
        joints = [NodeTable(clique, table.reshape(domain.shape(clique))) for clique, table in factors if clique]
        return cls.of(tree, Conditionals(tree, joints), units, generator)

    def half(self, units: int, generator: np.random.Generator, *, first: bool) -> RoundedTables:
        """The tables of the first ``units`` rows, or of the others.

        The nodes are split in order, parents first: how many rows of each value of a separator are in the first part
        follows from the parent, and the residuals of these rows are split by ``half_of_counts``. Hence neighbouring
        nodes agree exactly in either part. Given its parent, the first part of a count has the mean that dealing the
        residuals in random order would give it, with a smaller variance.
        """
        halves: list[NDArray[np.int32]] = []
        for table, node_totals in zip(self.tables, self._first_totals(units, halves, first=first), strict=True):
            halves.append(half_of_counts(table, node_totals, generator, first=first))
        return RoundedTables(self.tree, tuple(halves), units if first else self.units - units)

    def rows(self, generator: np.random.Generator) -> TableRows:
        """Rows with exactly these counts, in random order."""
        codes = dealt_codes(self.tree, map(np.copy, self.tables), self.units, generator)
        return TableRows(self.tree.domain, codes)

    def _first_totals(
        self, units: int, halves: Sequence[NDArray[np.int32]], *, first: bool
    ) -> Iterator[NDArray[np.int64]]:
        """Yields for each node the sums of its rows in the first part.

        halves: The halves of the nodes so far. When a node is reached, it holds the parent's.
        """
        domain = self.tree.domain
        for parent, separator, table in zip(self.tree.parents, self.tree.separators, self.tables, strict=True):
            if parent < 0:
                yield np.array([units], dtype=np.int64)
                continue
            totals = margin(halves[parent], domain, self.tree.nodes[parent], separator)
            yield totals if first else table.sum(axis=1, dtype=np.int64) - totals
