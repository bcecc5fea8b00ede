"""A fitted graphical model, a junction tree with a conditional table for each node: answers and synthetic rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.answering.answers import one_hot_answers
from dpcore.estimation.graphical.answering.calibrated import Calibrated
from dpcore.estimation.graphical.inference.node_tables import Conditionals
from dpcore.estimation.graphical.sampling.integer_tables import round_model
from dpcore.estimation.graphical.sampling.rounded_tables import RoundedTables
from dpcore.estimation.graphical.sampling.synthetic_rows import dealt_codes, sampled_codes
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.linear_answers import answers_of_products
from dpcore.estimation.model import TableRows
from dpcore.queries import Marginals, Products, Queries


@final
@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """The distribution p(x) = product over nodes of p(residual | separator), scaled to ``total``. Implements ``Model``.

    tree: A junction tree, or a forest of them, over all attributes.
    conditionals: p(residual | separator) of each node, float64 [cells of the separator, cells of the residual], in C
        order of their attributes as the node lists them. Each row sums to 1, or to 0 if the separator's cell has
        probability 0. If they are ``Conditionals``, they are computed from joint tables when needed, so that the model
        holds only one copy of its tables.
    total: Number of units, >= 0.

    Raises: ValueError for a total that is negative or not finite, and for tables of other shapes.
    """

    tree: JunctionTree
    conditionals: Sequence[NDArray[np.float64]]
    total: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.total) and self.total >= 0):
            raise ValueError(f"total is {self.total}; want a finite number >= 0")
        if len(self.conditionals) != len(self.tree.nodes):
            raise ValueError(f"{len(self.conditionals)} conditionals for {len(self.tree.nodes)} nodes; want one each")
        if isinstance(self.conditionals, Conditionals):
            return
        for node, separator, table in zip(self.tree.nodes, self.tree.separators, self.conditionals, strict=True):
            shape = (self.domain.size(separator), self.domain.size(node[len(separator) :]))
            if table.shape != shape:
                raise ValueError(f"conditional of node {node} has shape {table.shape}; want {shape}")

    @property
    def domain(self) -> Domain:
        """The attributes of the model."""
        return self.tree.domain

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        """The model's answers in counts, float64 [queries.size]; answers to counting queries are in [0, ``total``].

        Raises: ConfigError for a marginal on attributes that are not the model's. ValueError for conjunctions or
            parities over columns that are not the one-hot view of the domain.
        """
        if isinstance(queries, Products):
            return answers_of_products(queries, self.answer)
        if isinstance(queries, Marginals):
            self._check_named(queries)
            probabilities = self._calibrated.vector(queries.cliques)
        else:
            probabilities = one_hot_answers(self._calibrated, queries)
        np.clip(probabilities, 0.0, 1.0, out=probabilities)
        probabilities *= self.total
        return probabilities

    def sample(self, units: int, generator: np.random.Generator) -> TableRows:
        """Independent synthetic rows.

        units: Number of rows, >= 0.
        generator: Algorithmic randomness.
        """
        return TableRows(self.domain, sampled_codes(self.tree, self.conditionals, units, generator))

    def rows(self, units: int, generator: np.random.Generator) -> TableRows:
        """Synthetic rows by randomised rounding.

        units: Number of rows, >= 0.
        generator: Algorithmic randomness.

        Each row has the model's distribution, and the marginals of all rows together stay within about one count of
        their means.
        """
        # The rows are dealt by a generator of their own, so that they can be dealt again from the same rounding.
        (dealing,) = generator.spawn(1)
        tables = round_model(self.tree, self.conditionals, units, generator)
        return TableRows(self.domain, dealt_codes(self.tree, tables, units, dealing))

    def rounded(self, units: int, generator: np.random.Generator) -> RoundedTables:
        """The integer tables from which ``rows`` would deal its rows, for a generator in the same state.

        units: Number of rows, 0 .. 2^31 - 1.
        generator: Algorithmic randomness.
        """
        return RoundedTables.of(self.tree, self.conditionals, units, generator)

    def _check_named(self, queries: Marginals) -> None:
        """Checks the attributes that the cliques name; other attributes of the queries' domain may be unknown."""
        query_sizes = dict(zip(queries.domain.names, queries.domain.sizes, strict=True))
        model_sizes = dict(zip(self.domain.names, self.domain.sizes, strict=True))
        for name in {name for clique in queries.cliques for name in clique}:
            if model_sizes.get(name) != query_sizes[name]:
                raise ConfigError(
                    f"attribute {name!r} is not the model's; want those of {list(model_sizes)}, of the same sizes"
                )
        for clique in queries.cliques:
            if self.domain.canonical(clique) != clique:
                raise ConfigError(
                    f"marginal on {clique}; want its attributes in the order of the model, {list(model_sizes)}"
                )

    @cached_property
    def _calibrated(self) -> Calibrated:
        """The calibrated tree, whose cache lives as long as the model."""
        return Calibrated(self.tree, self.conditionals)
