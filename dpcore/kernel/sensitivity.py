"""How far one unit can move exact answers, derived from the declared contribution. TRUSTED."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel import symmetric_sensitivity
from dpcore.kernel.clipped_sensitivity import largest_clipped
from dpcore.kernel.product_sensitivity import largest_l1, largest_squared_exchange, largest_squared_l2
from dpcore.queries import (
    ClippedSums,
    Conjunctions,
    Marginals,
    Measurable,
    Parities,
    Products,
    SatisfactionHistogram,
    SymmetricQueries,
    UnitCount,
)


class Neighbours(StrEnum):
    """Which two datasets must look alike: one unit more or less, or one unit exchanged for another."""

    ADD_REMOVE_UNIT = "add_remove_unit"
    REPLACE_ONE_UNIT = "replace_one_unit"


@dataclass(frozen=True)
class PrivacyUnit:
    """Who is protected, and what is public about the data; set by the operator, never by a mechanism.

    contribution: Bound on what one unit holds, enforced by the pipeline.
    units: The number of units where it is declared public, else None. Replace-one needs it: its neighbours share
        that number, so a mechanism that keeps it secret would promise something else.
    """

    neighbours: Neighbours
    contribution: Contribution
    units: int | None = None

    def __post_init__(self) -> None:
        if self.units is not None and self.units < 1:
            raise ValueError(f"units is {self.units}; want >= 1")
        if self.neighbours is Neighbours.REPLACE_ONE_UNIT and self.units is None:
            raise ValueError("replace_one_unit with a private number of units; want units: N, or add_remove_unit")

    @property
    def replaced(self) -> bool:
        return self.neighbours is Neighbours.REPLACE_ONE_UNIT


def l1_sensitivity(queries: Measurable, unit: PrivacyUnit) -> int:
    """Largest L1 distance between the exact answers of neighbours.

    A unit of a table holds at most b rows, a unit of baskets is a set of at most b items and moves a conjunction by at
    most 1. Adding a unit adds a non-negative vector v:
        * marginals of m cliques: each row falls in one cell of each clique, so |v|_1 <= m b;
        * m conjunctions: each answer moves by at most r = b (table) or 1 (baskets), so |v|_1 <= m r;
        * m parities: a 0/1 property of a row or basket as a conjunction is, so |v|_1 <= m r;
        * distinct positive single literals: a row satisfies one for each one-hot group, a basket one for each item.
        * products and symmetric queries: v is a sum of at most b columns of the integer matrix, so |v|_1 <= b C_1, with
          C_1 their largest norm;
        * a satisfaction histogram of G groups: a unit is in one cell of each group, so |v|_1 = G;
        * clipped sums: |v|_1 <= sum over groups of max over k of k w, proved in ``clipped_sensitivity``.
    Replacing a unit moves by v' - v with both of that kind: at most 2 |v|_1 (whatever the signs), except that both add
    0 to r to the answer of a conjunction or a parity, which so moves by at most r: m r still holds.

    Raises ConfigError for marginals, products or symmetric queries of baskets and for a histogram or clipped sums where
    a unit may hold several rows, ValueError for the number of units where it is public.
    """
    match queries:
        case UnitCount():
            return _of_unit_count(unit)
        case Marginals():
            return _twice_if_replaced(len(queries.cliques) * _rows_of_unit(unit), unit)
        case Conjunctions():
            per_answer = answer_sensitivity(unit)
            return min(queries.size * per_answer, _twice_if_replaced(_satisfied(queries, unit), unit))
        case Parities():
            return queries.size * answer_sensitivity(unit)
        case Products():
            return _twice_if_replaced(_rows_of_unit(unit) * largest_l1(queries), unit)
        case SymmetricQueries():
            return _twice_if_replaced(_rows_of_unit(unit) * symmetric_sensitivity.largest_l1(queries), unit)
        case SatisfactionHistogram() | ClippedSums():
            return _twice_if_replaced(_of_one_record(queries, unit, 1), unit)


def squared_l2_sensitivity(queries: Measurable, unit: PrivacyUnit) -> int:
    """Square of the largest L2 distance between the exact answers of neighbours.

    With v as in ``l1_sensitivity``: |v|_2^2 <= m b^2 for marginals (one cell a clique at worst), m r^2 for
    conjunctions and parities, also for v' - v. For non-negative v, v': |v' - v|_2^2 <= |v|_2^2 + |v'|_2^2, so
    replace-one at most doubles the square.

    Products and symmetric queries have entries of either sign. Adding: |v|_2 <= b max |a(x)|_2. Replacing: fill the
    rows of both units up to b with rows that add nothing; v' - v is then a sum of b differences, each of two columns or
    of a column and nothing, so |v' - v|_2 <= b max(|a(x) - a(y)|_2, |a(x)|_2).

    A histogram of G groups: |v|_2^2 = G. Clipped sums: |v|_2^2 <= sum over groups of max over k of k w^2, proved in
    ``clipped_sensitivity``. Both v are non-negative.
    """
    match queries:
        case UnitCount():
            return _of_unit_count(unit) ** 2
        case Marginals():
            return _twice_if_replaced(len(queries.cliques) * _rows_of_unit(unit) ** 2, unit)
        case Conjunctions():
            per_answer = answer_sensitivity(unit)
            return min(queries.size * per_answer**2, _twice_if_replaced(_satisfied(queries, unit) * per_answer, unit))
        case Parities():
            return queries.size * answer_sensitivity(unit) ** 2
        case Products():
            one_row = largest_squared_exchange(queries) if unit.replaced else largest_squared_l2(queries)
            return _rows_of_unit(unit) ** 2 * one_row
        case SymmetricQueries():
            exchanged, alone = symmetric_sensitivity.largest_squared_exchange, symmetric_sensitivity.largest_squared_l2
            return _rows_of_unit(unit) ** 2 * (exchanged if unit.replaced else alone)(queries)
        case SatisfactionHistogram() | ClippedSums():
            return _twice_if_replaced(_of_one_record(queries, unit, 2), unit)


def answer_sensitivity(unit: PrivacyUnit) -> int:
    """How far one conjunction or parity moves between neighbours: rows of a table unit, or the one unit of a basket."""
    return unit.contribution.bound if unit.contribution.shape is Shape.TABLE else 1


def marginal_l1_sensitivity(unit: PrivacyUnit) -> int:
    """Largest L1 distance between one exact marginal of neighbours."""
    return _twice_if_replaced(_rows_of_unit(unit), unit)


def _satisfied(queries: Conjunctions, unit: PrivacyUnit) -> int:
    """Most that one unit can add over all answers together."""
    per_answer = answer_sensitivity(unit)
    columns = queries.columns[:, 0]
    if queries.order > 1 or queries.negated.any() or len(np.unique(columns)) < len(columns):
        return queries.size * per_answer
    if unit.contribution.shape is Shape.BASKETS:
        return min(queries.size, unit.contribution.bound)
    return len(np.unique(queries.view.group_of_column()[columns])) * per_answer


def _of_one_record(queries: SatisfactionHistogram | ClippedSums, unit: PrivacyUnit, power: int) -> int:
    """Largest sum of what one unit adds to each answer, raised to ``power``.

    It is a unit's k that is binned and weighed: with several rows it would satisfy a query several times over.
    """
    if answer_sensitivity(unit) != 1:
        raise ConfigError("clipped answers need units of one row or one basket; want max_rows_per_unit: 1")
    if isinstance(queries, SatisfactionHistogram):
        return queries.group_sizes.size
    return sum(largest_clipped(queries, power))


def _rows_of_unit(unit: PrivacyUnit) -> int:
    if unit.contribution.shape is not Shape.TABLE:
        raise ConfigError("marginals were asked of baskets; want conjunctions, or data of shape table")
    return unit.contribution.bound


def _of_unit_count(unit: PrivacyUnit) -> int:
    if unit.units is not None:
        raise ValueError("the number of units is declared public; want no measurement of it")
    return 1


def _twice_if_replaced(amount: int, unit: PrivacyUnit) -> int:
    return 2 * amount if unit.replaced else amount
