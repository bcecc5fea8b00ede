"""PrivBayes's scores: how far one attribute of a marginal, the child, depends on the others, its parents. TRUSTED.

Both are multiplied by the number of rows, which every candidate shares, so that no number of rows need be public.
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
_SMALL: Final = 1 << 26  # Counts whose c ln c a double holds to far less than a step.
_PRECISE: Final = Context(prec=50)


@final
@dataclass(frozen=True)
class RScore:
    """n R = 1/2 sum over cells of |c(x, p) - c(x) c(p) / n|: n times the distance of a marginal from independence.

    children: For each clique the attribute that is the child x; the others are the parents p.

    Formal guarantee: one row more or less moves n R by at most 2, one row exchanged by at most 3, whatever n.
    With m rows in the smaller dataset, u and v the shares of the values of child and parents in it, e and f the unit
    vectors of the row's values: the table of differences moves from m (w - u v) to m w + e f - (m u + e)(m v + f) /
    (m + 1), w the joint shares, which is by

        m / (m + 1) (e - u)(f - v),

    the outer product of two vectors of L1 norm at most 2: half of the sum of its absolute values is below 2. Where a
    row (e, f) is exchanged for (e', f'), both are moves from the common m rows, and their difference is m / (m + 1)
    times e' f' - e f - (e' - e) v - u (f' - f), of L1 norm at most 1 + 1 + 2 + 2: half of it is below 3.
    A unit of up to b rows is b such moves. The sum is made of integers, n c(x, p) - c(x) c(p), and divided once,
    rounded down: scores x <= y + k of whole k have floor(x) <= floor(y) + k, so rounding adds nothing.

    Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao (2017), section 5.2, the score R, which the paper bounds by
    3 + 2 / n for exchanged rows.
    """

    children: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", _plain(self.children))

    def check(self, candidates: Candidates, unit: PrivacyUnit) -> None:
        """Refuses products, baskets and children that are not in their cliques."""
        _check(self.children, candidates, unit)

    def digest(self) -> str:
        """What the journal knows the score by, beside its candidates."""
        return json.dumps(["R", *self.children])

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """n R of each clique in steps of 1 / GRID rows, int64 [cliques]. SENSITIVE."""
        scores = np.zeros(len(self.children), dtype=np.int64)
        for index, joint in _joint(candidates, self.children, tables):
            scores[index] = _distance_from_independence(joint)
        return scores

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """How far one unit moves any score."""
        return GRID * unit.contribution.bound * (3 if unit.replaced else 2)

    def step(self, candidates: Candidates) -> float:
        """One step of the integer scores, in rows."""
        return 1 / GRID


@final
@dataclass(frozen=True)
class MutualInformation:
    """n I = sum of f(c(x, p)) - f(c(x)) - f(c(p)) + f(n), f(c) = c ln c: n times the mutual information, in nats.

    children: For each clique the attribute that is the child x; the others are the parents p.

    Formal guarantee. Let g(c) = f(c) - f(c - 1), with g(1) = 0; it rises and is concave. A row that makes n rows of its
    dataset, and c(x, p) = a, c(x) = a + s, c(p) = a + t, a + s + t <= n, adds A = g(a) - g(a + s) - g(a + t) + g(n).
        * A <= g(n), as g(a) <= g(a + s). And A >= g(n) - 2 g((n + 1) / 2): A >= g(a) - g(a + s) - g(a + t) +
          g(a + s + t), which rises with a, as g' is convex. At a = 1, with N = 1 + s + t <= n, it is g(N) - g(1 + s) -
          g(1 + t) >= g(N) - 2 g((N + 1) / 2), as g is concave, and this falls with N, as g' falls.
          So one row more or less moves n I by at most g(n).
        * Two rows added to the same rows move it by A and A', which differ by at most 2 g((n + 1) / 2): the bound for
          one row exchanged.
        * Where the child, or all parents together, have at most two values, exchanging moves it by at most g(n).
          Let it be the child. If both rows share x, A - A' is at most g(c(p')) - g(c(x, p')) <= g(n), counts with the
          row; likewise if they share p. Else let the other rows hold k of x', n - 1 - k of x and h of (x', p'). Then
          A - A' <= [g(k + 1) - g(n - k)] + [g(c(p') + 1) - g(h + 1)], with c(p') - h <= n - 1 - k rows of p' that have
          x: by concavity the last is at most g(n - k), and together at most g(k + 1) <= g(n).
    n is at most units * b where a unit is replaced, which is then public, and 2^44 otherwise, where a run ends. A unit
    of up to b rows is b such moves, a lost row among exchanged ones being covered: g(n) <= 2 g((n + 1) / 2).

    Integers: f is rounded to steps of 1 / GRID, as one function of the count that is off by less than a step. What is
    the same in both datasets cancels, so rounding adds at most a step for each count that differs, before and after: 8
    a row (the cell, both of its margins, n) or 12 (two cells and their margins).

    Raises IntegrityError where the rows are more than ``units`` units can hold.

    Source: Zhang et al. (2017), Lemma 4.1, with the same bounds for exchanged rows.
    """

    children: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", _plain(self.children))

    def check(self, candidates: Candidates, unit: PrivacyUnit) -> None:
        """Refuses products, baskets and children that are not in their cliques."""
        _check(self.children, candidates, unit)

    def digest(self) -> str:
        """What the journal knows the score by, beside its candidates."""
        return json.dumps(["mutual information", *self.children])

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """n I of each clique in steps of 1 / GRID nats, int64 [cliques]. SENSITIVE."""
        known: dict[int, int] = {}
        scores = np.zeros(len(self.children), dtype=np.int64)
        for index, joint in _joint(candidates, self.children, tables):
            rows = joint.sum(keepdims=True)
            if int(rows[0, 0]) > _most_rows(unit):
                raise IntegrityError("a marginal holds more rows than the declared units can; want their public number")
            parts = [_sum_of_f(counts, known) for counts in (joint, joint.sum(axis=1), joint.sum(axis=0), rows)]
            scores[index] = parts[0] - parts[1] - parts[2] + parts[3]
        return scores

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """How far one unit moves any score."""
        rows = _most_rows(unit)
        if not unit.replaced:
            return unit.contribution.bound * (_steps_up(_g(Decimal(rows))) + 8)
        narrow = all(min(shape) <= 2 for shape in _shapes(candidates, self.children))
        half = _PRECISE.divide(Decimal(rows + 1), Decimal(2))
        one_row = _g(Decimal(rows)) if narrow else _PRECISE.multiply(Decimal(2), _g(half))
        return unit.contribution.bound * (_steps_up(one_row) + 12)

    def step(self, candidates: Candidates) -> float:
        """One step of the integer scores, in nats."""
        return 1 / GRID


def _plain(children: tuple[str, ...]) -> tuple[str, ...]:
    if type(children) is not tuple or any(type(child) is not str for child in children):
        raise TypeError("the children of a score are no tuple of strings; want one attribute a clique")
    return children


def _check(children: tuple[str, ...], candidates: Candidates, unit: PrivacyUnit) -> None:
    if not isinstance(candidates, Marginals):
        raise TypeError("a score of dependence among products; want marginals")
    if len(children) != len(candidates.cliques):
        raise ValueError(f"{len(children)} children of a score; want one for each of {len(candidates.cliques)} cliques")
    for child, clique in zip(children, candidates.cliques, strict=True):
        if child not in clique:
            raise ValueError(f"child {child} of a score is not in its clique {clique}; want one of its attributes")
    marginal_l1_sensitivity(unit)  # Refuses baskets.


def _shapes(candidates: Candidates, children: tuple[str, ...]) -> list[tuple[int, int]]:
    """Values of each child, and cells of its parents."""
    assert isinstance(candidates, Marginals)
    own = [candidates.domain.size((child,)) for child in children]
    return [(size, cells // size) for size, cells in zip(own, candidates.sizes, strict=True)]


def _joint(
    candidates: Candidates, children: tuple[str, ...], tables: Tables
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each table as int64 [values of the child, cells of the parents], with its place."""
    assert isinstance(candidates, Marginals)
    shapes = _shapes(candidates, children)
    for index, table in tables:
        clique = candidates.cliques[index]
        shaped = table.reshape(candidates.domain.shape(clique))
        yield index, np.moveaxis(shaped, clique.index(children[index]), 0).reshape(shapes[index])


def _distance_from_independence(joint: NDArray[np.int64]) -> int:
    """floor(GRID / 2 sum |c(x, p) - c(x) c(p) / n|) in exact integers: below 2^62 each where n is below 2^31."""
    rows = int(joint.sum())
    if rows >= 1 << 31:
        wide = joint.astype(object)
        gaps = abs(rows * wide - np.outer(wide.sum(axis=1), wide.sum(axis=0)))
        return GRID * int(gaps.sum()) // (2 * rows)
    gap = np.abs(rows * joint - np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    return GRID * exact_sum(gap) // (2 * rows) if rows else 0


def _sum_of_f(counts: NDArray[np.int64], known: dict[int, int]) -> int:
    """Sum of f over the counts, in steps. known: Values that were computed before."""
    total = 0
    for count, times in zip(*(part.tolist() for part in np.unique(counts, return_counts=True)), strict=True):
        if count not in known:
            known[count] = _f(count)
        total += times * known[count]
    return total


def _f(count: int) -> int:
    """c ln c in steps of 1 / GRID, off by less than one.

    As a double it is below 2^39 steps, so that a relative error of 2^-48, many times that of the library's logarithm,
    is under 2^-9 steps beside the half of rounding.
    """
    if count < _SMALL:
        return round(GRID * (count * math.log(count))) if count else 0
    return _whole(_f_exactly(Decimal(count)), ROUND_FLOOR)


def _f_exactly(count: Decimal) -> Decimal:
    return _PRECISE.multiply(count, _PRECISE.ln(count)) if count else Decimal(0)


def _g(count: Decimal) -> Decimal:
    """g at a whole or half number >= 1, off by less than 10^-30."""
    return _PRECISE.subtract(_f_exactly(count), _f_exactly(_PRECISE.subtract(count, Decimal(1))))


def _steps_up(amount: Decimal) -> int:
    """Steps of 1 / GRID, rounded up by a little more than the error of ``_g``."""
    return _whole(_PRECISE.add(amount, Decimal("1e-25")), ROUND_CEILING)


def _whole(amount: Decimal, rounding: str) -> int:
    return int(_PRECISE.multiply(Decimal(GRID), amount).to_integral_value(rounding, _PRECISE))


def _most_rows(unit: PrivacyUnit) -> int:
    """Public: no dataset has more rows."""
    if unit.replaced and unit.units is not None:
        return min(_LARGEST_ROWS, unit.units * unit.contribution.bound)
    return _LARGEST_ROWS
