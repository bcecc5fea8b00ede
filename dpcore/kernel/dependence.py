"""The scores of PrivBayes: how strongly one attribute of a marginal, the child, depends on the others. TRUSTED.

The other attributes are the parents. Both scores are multiplied by the number of rows n. All candidates share n, so the
factor does not change their order, and n need not be public.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import IntegrityError
from dpcore.kernel.integers import exact_sum
from dpcore.kernel.l1_scores import GRID, Candidates, Tables
from dpcore.kernel.sensitivity import PrivacyUnit, marginal_l1_sensitivity
from dpcore.queries import Marginals

_LARGEST_ROWS: Final = 1 << 44
_SMALL: Final = 1 << 26  # Below, doubles give c ln c with an error far below one step.
_PRECISE: Final = Context(prec=50)  # Decimal arithmetic with 50 digits.


@final
@dataclass(frozen=True)
class RScore:
    """n R = 1/2 sum over cells of |c(x, p) - c(x) c(p) / n|: n times the distance of a marginal from independence.

    c is the count of a value of the child x, of the parents p, or of both.

    children: The child of each clique, an attribute of the clique. The other attributes are the parents.

    Formal guarantee: for every n, adding or removing one row moves n R by at most 2, and exchanging one row for another
    moves n R by at most 3.

    Proof for one row. Let m be the number of rows of the smaller dataset. Let u and v be the vectors of shares of the
    child's and the parents' values in it, and w the matrix of joint shares. Let e and f be the unit vectors of the
    values of the additional row. The matrix of differences moves from m (w - u v) to
    m w + e f - (m u + e)(m v + f) / (m + 1), where products are outer products. The difference of both is

        m / (m + 1) (e - u)(f - v),

    an outer product of two vectors of L1 norm at most 2, times a factor below 1. Half of its L1 norm is below 2.

    Proof for an exchange of (e, f) for (e', f'). Both datasets arise from the m common rows by adding one row. The
    difference of the two moves is m / (m + 1) times e' f' - e f - (e' - e) v - u (f' - f). Its L1 norm is at most
    1 + 1 + 2 + 2, and half of that is 3.

    A unit of up to b rows makes at most b such moves. Rounding adds nothing: the sum is computed from the integers
    n c(x, p) - c(x) c(p), divided once and rounded down, and x <= y + k with an integer k implies floor(x) <= floor(y)
    + k.

    Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao (2017), section 5.2, the score R. The paper bounds the
    sensitivity of R by 3 / n + 2 / n^2 for an exchanged row.
    """

    children: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", _checked(self.children))

    def check(self, candidates: Candidates, unit: PrivacyUnit) -> None:
        """Raises an error for products, for baskets, and for a child that is not in its clique."""
        _check(self.children, candidates, unit)

    def digest(self) -> str:
        """Identifies the score in the journal, together with its candidates."""
        return json.dumps(["R", *self.children])

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """n R of each clique in units of 1 / GRID rows, int64 [cliques]. SENSITIVE."""
        scores = np.zeros(len(self.children), dtype=np.int64)
        for index, joint in _joint_tables(candidates, self.children, tables):
            scores[index] = _distance_from_independence(joint)
        return scores

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """Upper bound on how far one unit moves any score, in steps of 1 / GRID."""
        return GRID * unit.contribution.bound * (3 if unit.replaced else 2)

    def step(self, candidates: Candidates) -> float:
        """Size of one step of the integer scores, in rows."""
        return 1 / GRID


@final
@dataclass(frozen=True)
class MutualInformation:
    """n I = sum of f(c(x, p)) - f(c(x)) - f(c(p)) + f(n) with f(c) = c ln c: n times the mutual information, in nats.

    c is the count of a value of the child x, of the parents p, or of both; each term is summed over its values.

    children: The child of each clique, an attribute of the clique. The other attributes are the parents.

    Formal guarantee. Let g(c) = f(c) - f(c - 1), with g(1) = 0. Adding or removing one row moves n I by at most g(n).
    Exchanging one row moves n I by at most 2 g((n + 1) / 2), and by at most g(n) when the child, or all parents
    together, have at most two values.

    Proof. g is increasing and concave, and g' is convex. Consider a row that brings its dataset to n rows. Let
    c(x, p) = a, c(x) = a + s and c(p) = a + t be the counts of its values, including the row, so a + s + t <= n. Adding
    the row moves n I by A = g(a) - g(a + s) - g(a + t) + g(n).
        * One row. A <= g(n), because g(a) <= g(a + s). For the lower bound, A >= g(n) - 2 g((n + 1) / 2): A is at least
          g(a) - g(a + s) - g(a + t) + g(a + s + t), which increases with a because g' is convex. At a = 1, with N = 1 +
          s + t <= n, it equals g(N) - g(1 + s) - g(1 + t), which is at least g(N) - 2 g((N + 1) / 2) because g is
          concave. The latter decreases with N because g' decreases. Hence |A| <= g(n).
        * One exchanged row. Adding either of two rows to the same n - 1 rows moves n I by A and A'. Both lie in
          [g(n) - 2 g((n + 1) / 2), g(n)], so they differ by at most 2 g((n + 1) / 2).
        * One exchanged row, at most two values. Suppose that the child has at most two values; for the parents the
          argument is the same. If both rows have the same x, then A - A' is at most g(c(p')) - g(c(x, p')) <= g(n),
          where the counts include the row. If both rows have the same p, the argument is the same. Otherwise let the
          n - 1 common rows contain k rows with x', n - 1 - k rows with x, and h rows with (x', p'). Then A - A' <=
          [g(k + 1) - g(n - k)] + [g(c(p') + 1) - g(h + 1)]. The c(p') - h rows that have p' but not x' have x, so there
          are at most n - 1 - k of them. By concavity the second bracket is at most g(n - k), and both brackets together
          are at most g(k + 1) <= g(n).
    When a unit is replaced, the number of units is public and n <= units * b. Otherwise n <= 2^44, because a run with
    more rows ends with an error. A unit of up to b rows makes at most b such moves. When the new unit has fewer or more
    rows than the old one, some moves add or remove a row; they are covered, because g(n) <= 2 g((n + 1) / 2).

    Rounding. f is rounded to multiples of 1 / GRID, by one function of the count whose error is less than one step.
    Terms of counts that do not change cancel between the datasets. Rounding therefore adds at most one step for each
    count that changes, before and after the change: 8 steps for a row (its cell, its two margins, and n), and 12 for an
    exchange (two cells with their margins).

    Source: Zhang et al. (2017), Lemma 4.1, with the same bounds for exchanged rows.
    """

    children: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", _checked(self.children))

    def check(self, candidates: Candidates, unit: PrivacyUnit) -> None:
        """Raises an error for products, for baskets, and for a child that is not in its clique."""
        _check(self.children, candidates, unit)

    def digest(self) -> str:
        """Identifies the score in the journal, together with its candidates."""
        return json.dumps(["mutual information", *self.children])

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """n I of each clique in units of 1 / GRID nats, int64 [cliques]. SENSITIVE.

        Raises IntegrityError when a table holds more rows than the public number of units can hold.
        """
        known: dict[int, int] = {}
        scores = np.zeros(len(self.children), dtype=np.int64)
        for index, joint in _joint_tables(candidates, self.children, tables):
            rows = joint.sum(keepdims=True)
            if int(rows[0, 0]) > _max_rows(unit):
                raise IntegrityError("a marginal holds more rows than the declared units can; want their public number")
            parts = [_sum_of_f(counts, known) for counts in (joint, joint.sum(axis=1), joint.sum(axis=0), rows)]
            scores[index] = parts[0] - parts[1] - parts[2] + parts[3]
        return scores

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """Upper bound on how far one unit moves any score, in steps of 1 / GRID."""
        rows = _max_rows(unit)
        if not unit.replaced:
            return unit.contribution.bound * (_steps_up(_g(Decimal(rows))) + 8)
        two_values = all(min(shape) <= 2 for shape in _shapes(candidates, self.children))
        half = _PRECISE.divide(Decimal(rows + 1), Decimal(2))
        one_row = _g(Decimal(rows)) if two_values else _PRECISE.multiply(Decimal(2), _g(half))
        return unit.contribution.bound * (_steps_up(one_row) + 12)

    def step(self, candidates: Candidates) -> float:
        """Size of one step of the integer scores, in nats."""
        return 1 / GRID


def _checked(children: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the children. Raises TypeError unless they are a tuple of strings, of exactly these types."""
    if type(children) is not tuple or any(type(child) is not str for child in children):
        raise TypeError("the children of a score are not a tuple of strings; want one attribute per clique")
    return children


def _check(children: tuple[str, ...], candidates: Candidates, unit: PrivacyUnit) -> None:
    """Raises an error for candidates without a proof and for children that do not belong to them."""
    if not isinstance(candidates, Marginals):
        raise TypeError("a score of dependence among products; want marginals")
    if len(children) != len(candidates.cliques):
        raise ValueError(f"{len(children)} children of a score; want one for each of {len(candidates.cliques)} cliques")
    for child, clique in zip(children, candidates.cliques, strict=True):
        if child not in clique:
            raise ValueError(f"child {child} of a score is not in its clique {clique}; want one of its attributes")
    marginal_l1_sensitivity(unit)  # Refuses baskets.


def _shapes(candidates: Candidates, children: tuple[str, ...]) -> list[tuple[int, int]]:
    """(number of values of the child, number of joint values of the parents) of each clique."""
    assert isinstance(candidates, Marginals)
    child_sizes = [candidates.domain.size((child,)) for child in children]
    return [(size, cells // size) for size, cells in zip(child_sizes, candidates.sizes, strict=True)]


def _joint_tables(
    candidates: Candidates, children: tuple[str, ...], tables: Tables
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """(index of the candidate, its table as int64 [values of the child, joint values of the parents]). SENSITIVE."""
    assert isinstance(candidates, Marginals)
    shapes = _shapes(candidates, children)
    for index, table in tables:
        clique = candidates.cliques[index]
        shaped = table.reshape(candidates.domain.shape(clique))
        yield index, np.moveaxis(shaped, clique.index(children[index]), 0).reshape(shapes[index])


def _distance_from_independence(joint: NDArray[np.int64]) -> int:
    """floor(GRID / 2 sum |c(x, p) - c(x) c(p) / n|), exact. SENSITIVE.

    Below 2^31 rows every product stays below 2^62; otherwise Python integers are used.
    """
    rows = int(joint.sum())
    if rows >= 1 << 31:
        exact = joint.astype(object)
        exact_differences = abs(rows * exact - np.outer(exact.sum(axis=1), exact.sum(axis=0)))
        return GRID * int(exact_differences.sum()) // (2 * rows)
    differences = np.abs(rows * joint - np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    return GRID * exact_sum(differences) // (2 * rows) if rows else 0


def _sum_of_f(counts: NDArray[np.int64], known: dict[int, int]) -> int:
    """Sum of f over the counts, in steps of 1 / GRID. SENSITIVE.

    known: Cache of f by count, extended here.
    """
    total = 0
    for count, times in zip(*(part.tolist() for part in np.unique(counts, return_counts=True)), strict=True):
        if count not in known:
            known[count] = _f(count)
        total += times * known[count]
    return total


def _f(count: int) -> int:
    """c ln c in steps of 1 / GRID, with an error below one step.

    For small counts the double is below 2^39 steps. Even a relative error of 2^-48, many times that of the library's
    logarithm, is below 2^-9 steps, and rounding adds half a step.
    """
    if count < _SMALL:
        return round(GRID * (count * math.log(count))) if count else 0
    return _in_steps(_f_exactly(Decimal(count)), ROUND_FLOOR)


def _f_exactly(count: Decimal) -> Decimal:
    """c ln c to 50 digits."""
    return _PRECISE.multiply(count, _PRECISE.ln(count)) if count else Decimal(0)


def _g(count: Decimal) -> Decimal:
    """g at an integer or half-integer >= 1, with an error below 10^-30."""
    return _PRECISE.subtract(_f_exactly(count), _f_exactly(_PRECISE.subtract(count, Decimal(1))))


def _steps_up(amount: Decimal) -> int:
    """An upper bound in steps of 1 / GRID; what is added before rounding up exceeds the error of ``_g``."""
    return _in_steps(_PRECISE.add(amount, Decimal("1e-25")), ROUND_CEILING)


def _in_steps(amount: Decimal, rounding: str) -> int:
    """The amount in steps of 1 / GRID, rounded to an integer."""
    return int(_PRECISE.multiply(Decimal(GRID), amount).to_integral_value(rounding, _PRECISE))


def _max_rows(unit: PrivacyUnit) -> int:
    """A public upper bound on the number of rows of every dataset."""
    if unit.replaced and unit.units is not None:
        return min(_LARGEST_ROWS, unit.units * unit.contribution.bound)
    return _LARGEST_ROWS
