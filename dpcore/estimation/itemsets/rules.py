"""Association rules X -> y from intervals of supports.

Write n for the number of units, and c(Z) for the number of those that hold all items of Z. The rule X -> y has

    support = c(X u y) / n,   confidence = c(X u y) / c(X),   lift = n c(X u y) / (c(X) c(y)).

Each is monotone in every count, so that intervals [l, u] of the counts that hold together give an interval:

    support in [l(X u y) / u(n), u(X u y) / l(n)],   confidence in [l(X u y) / u(X), min(1, u(X u y) / l(X))],
    lift in [l(n) l(X u y) / (u(X) u(y)), u(n) u(X u y) / (l(X) l(y))].

The intervals of all rules then hold together too, whenever those of the counts do: no further error is added. An upper
end is infinite where l(X) or l(y) is 0.

Source: Agrawal, Imielinski and Swami (1993) for rules with one consequent; Brin et al. (1997) for lift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ratios:
    """Estimates with intervals, float64 [rules] each; an upper end may be infinite."""

    values: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rules:
    """Association rules with one consequent each.

    antecedents: int32 [rules, width], ascending; unused places at the end of a row are -1.
    consequents: int32 [rules].
    support: Fraction of the units that hold antecedent and consequent.
    confidence: Fraction of the units with the antecedent that hold the consequent too.
    lift: The confidence over the support of the consequent.
    """

    antecedents: NDArray[np.int32]
    consequents: NDArray[np.int32]
    support: Ratios
    confidence: Ratios
    lift: Ratios

    @property
    def size(self) -> int:
        """Number of rules."""
        return int(self.consequents.size)


@dataclass(frozen=True, eq=False)
class Counts:
    """Estimates and interval ends of some counts, float64 [3, m]."""

    of: NDArray[np.float64]

    @property
    def values(self) -> NDArray[np.float64]:
        """The estimates."""
        return np.asarray(self.of[0])

    @property
    def lower(self) -> NDArray[np.float64]:
        """Lower ends."""
        return np.asarray(self.of[1])

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper ends."""
        return np.asarray(self.of[2])


def association_rules(
    antecedents: NDArray[np.int32],
    consequents: NDArray[np.int32],
    both: Counts,
    with_x: Counts,
    with_y: Counts,
    n: Counts,
) -> Rules:
    """The rules with their measures (``measures_of``), by the lower end of their lift, largest first.

    antecedents: int32 [rules, width]; unused places are -1.
    consequents: int32 [rules].
    both: Counts of units that hold antecedent and consequent.
    with_x: Counts of units that hold the antecedent.
    with_y: Counts of units that hold the consequent.
    n: The number of units, one column.
    """
    support, confidence, lift = measures_of(both, with_x, with_y, n)
    order = np.lexsort((-lift.values, -lift.lower))
    ratios = (Ratios(part.values[order], part.lower[order], part.upper[order]) for part in (support, confidence, lift))
    return Rules(antecedents[order], consequents[order], *ratios)


def measures_of(both: Counts, with_x: Counts, with_y: Counts, n: Counts) -> tuple[Ratios, Ratios, Ratios]:
    """Support, confidence and lift of each rule, in the order of the counts, which are as in ``association_rules``.

    Estimates are cut to their intervals, where noise has pushed a ratio out. NaN in a count makes what it enters NaN.
    """
    support = _ratios(both.values / n.values, both.lower / n.upper, both.upper / n.lower, largest=1.0)
    confidence = _ratios(
        _divided(both.values, with_x.values),
        _divided(both.lower, with_x.upper),
        _divided(both.upper, with_x.lower),
        1.0,
    )
    lift = _ratios(
        _divided(n.values * both.values, with_x.values * with_y.values),
        _divided(n.lower * both.lower, with_x.upper * with_y.upper),
        _divided(n.upper * both.upper, with_x.lower * with_y.lower),
        np.inf,
    )
    return support, confidence, lift


def _divided(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quotients; 0 / 0 is 0, and another number over 0 is infinite. NaN stays NaN."""
    nothing = denominator <= 0
    over_nothing = np.where(numerator > 0, np.inf, np.where(np.isnan(numerator), np.nan, 0.0))
    return np.where(nothing, over_nothing, numerator / np.where(nothing, 1.0, denominator))


def _ratios(
    values: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64], largest: float
) -> Ratios:
    lower, upper = np.minimum(lower, largest), np.minimum(upper, largest)
    return Ratios(np.clip(values, lower, upper), lower, upper)
