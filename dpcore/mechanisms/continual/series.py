"""A workload of products as queries about a series of tables, one table per value of the attribute that holds steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.errors import ConfigError
from dpcore.estimation.least_squares import local_least_squares, mean_absolute_error
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.series import series_rows
from dpcore.measurement import Measurement
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.queries import Product, Products
from dpcore.queries.ranges import identity
from dpcore.strategies.continual.planning import Choice, ContinualPlan, continual_plan, plan_of_strategy
from dpcore.strategies.continual.strategy import ContinualStrategy, last_steps
from dpcore.uncertainty import Answers
from dpcore.workload import Workload, relative

Real = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """Queries about a series, its strategy, and what each step measures and answers.

    workload: A workload of products.
    attribute: The attribute whose values are the steps, in their order.
    plan: The strategy for the rows of all terms' matrices of this attribute.
    """

    workload: Workload
    attribute: str
    plan: ContinualPlan

    @classmethod
    def of(
        cls,
        terms: PrivacyTerms,
        workload: Workload,
        attribute: str,
        choice: Choice,
        recorded: ContinualStrategy | None = None,
    ) -> Series:
        """Plans the strategy, from public facts alone; or takes the one that was recorded when the series began.

        Raises ConfigError for other queries than products, an attribute that the workload does not have, too many
        steps, and too many measured values.
        """
        queries = workload.queries
        if not isinstance(queries, Products):
            raise ConfigError(
                "mechanism continual answers products; want workload.products, or marginals with prefix or ranges"
            )
        if not any(attribute in term.clique for term in queries.terms):
            raise ConfigError(
                f"mechanism.attribute is {attribute!r}, which no query of the workload reads; want the attribute whose "
                "values are the steps"
            )
        squares = np.concatenate([_row_weights(queries, attribute, *each) for each in _weighted(workload)])
        try:
            asked, weights = _stacked(queries, attribute), np.sqrt(squares)
            if recorded is None:
                plan = continual_plan(asked, weights, terms.noise, choice)
            else:
                plan = plan_of_strategy(asked, weights, terms.noise, recorded)
        except ValueError as error:
            raise ConfigError(f"mechanism continual over {attribute!r}: {error}") from error
        series = cls(workload, attribute, plan)
        cells = queries.domain.size(series.clique) // plan.strategy.steps * len(plan.strategy.matrix)
        if cells > LARGEST_ANSWERS or max(queries.domain.shape(series.clique)) ** 2 > 1 << 22:
            raise ConfigError(
                f"mechanism continual would measure {cells:,} values; want at most {LARGEST_ANSWERS:,}, and at most "
                "2,048 values of an attribute"
            )
        return series

    @property
    def queries(self) -> Products:
        """The queries of the workload."""
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries

    @property
    def clique(self) -> Clique:
        """The attributes of the workload."""
        return self.queries.domain.canonical({name for term in self.queries.terms for name in term.clique})

    @cached_property
    def measured(self) -> Products:
        """What all steps together measure: the strategy over the steps, for every cell of the other attributes."""
        strategy = self.plan.strategy
        shape = self.queries.domain.shape(self.clique)
        matrices = [
            strategy.matrix if name == self.attribute else identity(size)
            for name, size in zip(self.clique, shape, strict=True)
        ]
        return Products(self.queries.domain, (Product(self.clique, tuple(matrices)),), strategy.denominator)

    def queries_at(self, step: int) -> Workload:
        """The queries that are answered at a step (from 0), as ``answered_at`` returns them."""
        return answered_at(self.workload, self.attribute, step)

    def joined(self, measurements: Sequence[Measurement]) -> Measurement:
        """The measurements of the first steps, in order, as one measurement of their rows of ``measured``.

        Raises ValueError for measurements of other rows, or with other noise.
        """
        (term,) = self.measured.terms
        axis = self.clique.index(self.attribute)
        first, values, rows = measurements[0], [], 0
        for step, measurement in enumerate(measurements):
            rows = self.plan.strategy.rows_of(step).stop
            part = series_rows(self.measured, self.attribute, step, self.plan.strategy.rows_of(step))
            if measurement.queries.digest() != part.digest() or measurement.scale != first.scale:
                raise ValueError(f"the measurement of step {step + 1} has other rows or noise; want this series'")
            values.append(measurement.values.reshape(part.terms[0].shape))
        matrices = tuple(matrix[:rows] if index == axis else matrix for index, matrix in enumerate(term.matrices))
        queries = Products(self.queries.domain, (Product(self.clique, matrices),), self.measured.denominator)
        return Measurement(queries, np.concatenate(values, axis=axis).ravel(), first.noise, first.scale)

    def answers(self, measurement: Measurement, step: int | None) -> Answers:
        """The answers of all queries, or of those of one step, with standard deviations and 95 % intervals.

        measurement: All measured values of the steps so far, in the order of ``measured``.
        step: The last of these steps, whose queries are answered; None for all steps and queries.
        """
        return local_least_squares([(measurement, factors) for factors in self._factors(step)])

    def mean_error(self, terms: PrivacyTerms, scale: float, step: int | None) -> float:
        """Expected absolute error of an answer, in counts, averaged over the answers of ``answers``.

        scale: Scale of the noise in the integer answers.
        """
        errors, sizes = [], []
        for factors in self._factors(step):
            errors.append(mean_absolute_error(terms.noise, scale, self.plan.strategy.denominator, factors))
            sizes.append(math.prod(len(factor) for factor in factors))
        return float(np.average(errors, weights=sizes))

    def _factors(self, step: int | None) -> list[list[Real]]:
        """For each answered term one matrix per attribute, which maps the measured values to its answers."""
        rows_so_far = len(self.plan.strategy.matrix) if step is None else self.plan.strategy.rows_of(step).stop
        factors = []
        sizes = dict(zip(self.clique, self.queries.domain.shape(self.clique), strict=True))
        everything = [np.ones(len(rows), dtype=np.bool_) for rows in self._reconstructions()]
        for term, rows, reconstruction in zip(
            self.queries.terms,
            everything if step is None else self._rows_at(step),
            self._reconstructions(),
            strict=True,
        ):
            if rows.any():
                named: dict[str, Real] = {name: np.ones((1, size)) for name, size in sizes.items()}
                named |= {
                    name: matrix.astype(np.float64) for name, matrix in zip(term.clique, term.matrices, strict=True)
                }
                scaled = reconstruction[rows, :rows_so_far]
                factors.append([scaled if name == self.attribute else named[name] for name in self.clique])
        return factors

    def _reconstructions(self) -> list[Real]:
        """The rows of R of each term."""
        ends = np.cumsum([len(_steps(self.queries, term, self.attribute)) for term in self.queries.terms])
        return np.split(self.plan.reconstruction, ends[:-1])

    def _rows_at(self, step: int) -> list[NDArray[np.bool_]]:
        """For each term, which rows of its matrix of the steps end at a step."""
        return [last_steps(_steps(self.queries, term, self.attribute)) == step for term in self.queries.terms]


def answered_at(workload: Workload, attribute: str, step: int) -> Workload:
    """The queries of a workload of products that end at a step: those that read it, and no later one.

    workload: The workload of the whole series.
    attribute: The attribute whose values are the steps.
    step: The step, from 0.

    Raises ConfigError if there is none.
    """
    queries = workload.queries
    assert isinstance(queries, Products)
    terms, weights = [], []
    for term, weight in zip(queries.terms, workload.weights.tolist(), strict=True):
        rows = last_steps(_steps(queries, term, attribute)) == step
        if rows.any():
            matrices = zip(term.clique, term.matrices, strict=True)
            terms.append(Product(term.clique, tuple(m[rows] if name == attribute else m for name, m in matrices)))
            weights.append(weight)
    if not terms:
        raise ConfigError(
            f"no query of the workload ends at step {step + 1}; want one for each step, such as {{{attribute}: each}}"
        )
    return Workload(Products(queries.domain, tuple(terms)), np.array(weights))


def _weighted(workload: Workload) -> list[tuple[Product, float]]:
    assert isinstance(workload.queries, Products)
    return list(zip(workload.queries.terms, relative(workload.weights).tolist(), strict=True))


def _steps(queries: Products, term: Product, attribute: str) -> NDArray[np.int64]:
    """The term's matrix of the steps; a row of ones if it counts all steps together."""
    if attribute in term.clique:
        return term.matrices[term.clique.index(attribute)]
    return np.ones((1, queries.domain.shape((attribute,))[0]), dtype=np.int64)


def _stacked(queries: Products, attribute: str) -> Real:
    return np.concatenate([_steps(queries, term, attribute) for term in queries.terms]).astype(np.float64)


def _row_weights(queries: Products, attribute: str, term: Product, weight: float) -> Real:
    """For each row of the term's matrix of the steps, the weight of its squared error, summed over all cells.

    An attribute that the term leaves out is summed over its values, which all have noise of their own.
    """
    names = {name for each in queries.terms for name in each.clique} - {attribute}
    matrices = dict(zip(term.clique, term.matrices, strict=True))
    sums = [
        float((matrices[name].astype(np.float64) ** 2).sum()) if name in matrices else queries.domain.size((name,))
        for name in names
    ]
    square = weight**2 * math.prod(sums)
    return np.full(len(_steps(queries, term, attribute)), square)
