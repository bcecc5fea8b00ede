"""L1 and L2 sensitivities of exact answers, derived from the declared contribution of a unit. TRUSTED."""

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
    """The neighbouring relation: which pairs of datasets must be hard to distinguish.

    ADD_REMOVE_UNIT: One dataset has one unit more than the other.
    REPLACE_ONE_UNIT: All data of one unit are exchanged for those of another; the number of units is the same.
    """

    ADD_REMOVE_UNIT = "add_remove_unit"
    REPLACE_ONE_UNIT = "replace_one_unit"


@dataclass(frozen=True)
class PrivacyUnit:
    """The privacy unit, set by the operator and never by a mechanism.

    neighbours: The neighbouring relation.
    contribution: Bound on what one unit holds, enforced by the pipeline.
    units: The number of units if it is declared public, else None. ``REPLACE_ONE_UNIT`` requires it: neighbours have
        the same number of units, so this relation does not protect that number.

    Raises ValueError for a number of units below 1, or when ``REPLACE_ONE_UNIT`` has none.
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
        """Whether neighbours differ by replacing one unit."""
        return self.neighbours is Neighbours.REPLACE_ONE_UNIT


def l1_sensitivity(queries: Measurable, unit: PrivacyUnit) -> int:
    """Upper bound on the L1 distance between the exact answers of neighbours.

    Proof. A unit of a table holds at most b rows. A unit of baskets is a set of at most b items. Let r be the largest
    number by which one unit moves the answer of one conjunction: b for a table and 1 for baskets. Adding a unit adds a
    vector v to the answers:
        * m marginals: each row falls into one cell of each marginal, so |v|_1 <= m b.
        * m conjunctions: each answer grows by at most r, so |v|_1 <= m r.
        * m parities: like a conjunction, a parity is a 0/1 property of a row or basket, so |v|_1 <= m r.
        * Conjunctions that are distinct positive single literals: a row satisfies at most one per one-hot group, and a
          basket at most one per item it holds, so |v|_1 is at most r times the number of groups, or b for baskets.
        * Products and symmetric queries: v is a sum of at most b columns of the integer matrix, so |v|_1 <= b C_1,
          where C_1 is the largest L1 norm of a column.
        * A satisfaction histogram of G groups: a unit lies in one cell of each group, so |v|_1 = G.
        * Clipped sums: |v|_1 <= sum over groups of max over k of k w(k), proved in ``clipped_sensitivity``.
        * The number of units: it grows by 1.
    Replacing a unit moves the answers by v' - v, where v and v' obey the same bounds. By the triangle inequality the
    bound at most doubles, whatever the signs. For conjunctions and parities m r still holds, because both units add 0
    to r to an answer, which therefore moves by at most r.

    Raises ConfigError for marginals, products or symmetric queries of baskets, and for histograms or clipped sums when
    a unit may hold several rows. Raises ValueError for the number of units when it is declared public.
    """
    match queries:
        case UnitCount():
            return _of_unit_count(unit)
        case Marginals():
            return _twice_if_replaced(len(queries.cliques) * _rows_of_unit(unit), unit)
        case Conjunctions():
            per_answer = answer_sensitivity(unit)
            return min(queries.size * per_answer, _twice_if_replaced(_largest_addition(queries, unit), unit))
        case Parities():
            return queries.size * answer_sensitivity(unit)
        case Products():
            return _twice_if_replaced(_rows_of_unit(unit) * largest_l1(queries), unit)
        case SymmetricQueries():
            return _twice_if_replaced(_rows_of_unit(unit) * symmetric_sensitivity.largest_l1(queries), unit)
        case SatisfactionHistogram() | ClippedSums():
            return _twice_if_replaced(_of_one_record(queries, unit, 1), unit)


def squared_l2_sensitivity(queries: Measurable, unit: PrivacyUnit) -> int:
    """Upper bound on the squared L2 distance between the exact answers of neighbours.

    Proof, with v, m, b and r as in ``l1_sensitivity``. For non-negative v and v', |v' - v|_2^2 <= |v|_2^2 + |v'|_2^2,
    so replacing a unit at most doubles the squared bound.
        * m marginals: |v|_2^2 <= m b^2, attained when all rows of the unit fall into one cell of each marginal.
        * m conjunctions or parities: every entry of v, and of v' - v, is at most r in size, so both squares are at most
          m r^2. Distinct positive single literals: no entry of v is above r, so |v|_2^2 <= r |v|_1.
        * Products and symmetric queries have entries of both signs. Adding a unit: |v|_2 <= b max |a(x)|_2, where a(x)
          is the column of cell x. Replacing a unit: pad the rows of both units to b with rows that add nothing. Then
          v' - v is a sum of b differences of two columns, or of a column and nothing, so |v' - v|_2 <=
          b max(|a(x) - a(y)|_2, |a(x)|_2).
        * A satisfaction histogram of G groups: v is non-negative and |v|_2^2 = G.
        * Clipped sums: v is non-negative and |v|_2^2 <= sum over groups of max over k of k w(k)^2, proved in
          ``clipped_sensitivity``.

    Raises the errors of ``l1_sensitivity``.
    """
    match queries:
        case UnitCount():
            return _of_unit_count(unit) ** 2
        case Marginals():
            return _twice_if_replaced(len(queries.cliques) * _rows_of_unit(unit) ** 2, unit)
        case Conjunctions():
            per_answer = answer_sensitivity(unit)
            return min(
                queries.size * per_answer**2, _twice_if_replaced(_largest_addition(queries, unit) * per_answer, unit)
            )
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
    """r: how far the answer of one conjunction or parity moves between neighbours, which is b for a table, else 1."""
    return unit.contribution.bound if unit.contribution.shape is Shape.TABLE else 1


def marginal_l1_sensitivity(unit: PrivacyUnit) -> int:
    """Upper bound on the L1 distance between one exact marginal of neighbours. Raises ConfigError for baskets."""
    return _twice_if_replaced(_rows_of_unit(unit), unit)


def _largest_addition(queries: Conjunctions, unit: PrivacyUnit) -> int:
    """Upper bound on the sum of what one unit adds to all answers."""
    per_answer = answer_sensitivity(unit)
    columns = queries.columns[:, 0]
    if queries.order > 1 or queries.negated.any() or len(np.unique(columns)) < len(columns):
        return queries.size * per_answer
    if unit.contribution.shape is Shape.BASKETS:
        return min(queries.size, unit.contribution.bound)
    return len(np.unique(queries.view.group_of_column()[columns])) * per_answer


def _of_one_record(queries: SatisfactionHistogram | ClippedSums, unit: PrivacyUnit, power: int) -> int:
    """Upper bound on the sum over all answers of what a unit of one record adds, raised to ``power``.

    Raises ConfigError when a unit may hold several rows: it could satisfy a query several times, so the number k of
    satisfied queries would not describe what it adds.
    """
    if answer_sensitivity(unit) != 1:
        raise ConfigError("clipped answers need units of one row or one basket; want max_rows_per_unit: 1")
    if isinstance(queries, SatisfactionHistogram):
        return queries.group_sizes.size
    return sum(largest_clipped(queries, power))


def _rows_of_unit(unit: PrivacyUnit) -> int:
    """b, the bound on the rows of a unit. Raises ConfigError for baskets."""
    if unit.contribution.shape is not Shape.TABLE:
        raise ConfigError("marginals were asked of baskets; want conjunctions, or data of shape table")
    return unit.contribution.bound


def _of_unit_count(unit: PrivacyUnit) -> int:
    """Sensitivity of the number of units. Raises ValueError when that number is public."""
    if unit.units is not None:
        raise ValueError("the number of units is declared public; want no measurement of it")
    return 1


def _twice_if_replaced(amount: int, unit: PrivacyUnit) -> int:
    return 2 * amount if unit.replaced else amount
