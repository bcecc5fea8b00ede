"""Supports and rules of a release of itemsets, computed again from its counts.

``itemsets.parquet`` has the counts and, as their quotients by it, the number of units. A rule of which antecedent and
consequent are listed too follows from these in full. Of the others, whose counts are not published, the support does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.estimation.itemsets.rules import Counts, Ratios, measures_of

_TOLERANCE: Final = 1e-9  # Relative: other processors may round a quotient otherwise.
_COUNT: Final = ("count", "lower", "upper")
_SUPPORT: Final = ("support", "support_lower", "support_upper")
_UNKNOWN: Final = np.full(3, np.nan)


def units_of(itemsets: pa.Table, public: int | None) -> NDArray[np.float64]:
    """The number of units by which counts were divided: estimate, lower and upper end, float64 [3].

    itemsets: The content of itemsets.parquet.
    public: The number of units if it is public.

    NaN stands for an end that no row tells, because all its supports are 0 or cut.
    """
    if public is not None:
        return np.full(3, float(public))
    (count, lower, upper), (support, least, largest) = numbers(itemsets, _COUNT), numbers(itemsets, _SUPPORT)
    told = (
        (count, support, (least < support) & (support < largest)),
        (upper, largest, largest < 1),
        (lower, least, least < 1),
    )
    return np.array([_quotient(numerator, part, known) for numerator, part, known in told])


def _quotient(numerator: NDArray[np.float64], part: NDArray[np.float64], known: NDArray[np.bool_]) -> float:
    """What most rows say; the caller compares all of them with it."""
    known = known & (numerator > 0) & (part > 0)
    return float(np.median(numerator[known] / part[known])) if known.any() else np.nan


def support_problem(itemsets: pa.Table, units: NDArray[np.float64]) -> str | None:
    """What contradicts the supports of itemsets; None if nothing does. units: As ``units_of`` returns them."""
    count, lower, upper = numbers(itemsets, _COUNT)
    value, least, largest = units[:, None]
    expected = Ratios(np.minimum(count / value, 1.0), np.minimum(lower / largest, 1.0), np.minimum(upper / least, 1.0))
    actual = numbers(itemsets, _SUPPORT)
    cut = np.clip(expected.values, actual[1], actual[2])
    for wanted, given in zip((cut, expected.lower, expected.upper), actual, strict=True):
        if not _equal(wanted, given):
            return "itemsets.parquet has supports that are not its counts over one number of units"
    return None


def rule_problem(itemsets: pa.Table, rules: pa.Table, units: NDArray[np.float64]) -> str | None:
    """What contradicts the rules: they are all rules of the listed itemsets, in order, with the measures of the counts.

    itemsets, rules: The content of the two files.
    units: As ``units_of`` returns them.
    """
    names = [frozenset(items) for items in itemsets["items"].to_pylist()]
    counts = dict(zip(names, numbers(itemsets, _COUNT).T, strict=True))
    antecedents, consequents = map(frozenset, rules["antecedent"].to_pylist()), rules["consequent"].to_pylist()
    pairs = list(zip(antecedents, consequents, strict=True))
    wanted = {(items - {item}, item) for items in names if len(items) > 1 for item in items}
    if len(pairs) != len(wanted) or set(pairs) != wanted:
        return "rules.parquet has not one rule for each item of each pair or triple that itemsets.parquet lists"
    both, with_x, with_y = (
        _counts(counts, part) for part in ([x | {y} for x, y in pairs], [x for x, _ in pairs], [{y} for _, y in pairs])
    )
    for side in (with_x, with_y):  # As in the release: a superset has no more units than its subset.
        side[0] = np.maximum(side[0], np.maximum(both[0], 1.0))
    expected = measures_of(Counts(both), Counts(with_x), Counts(with_y), Counts(units[:, None]))
    for name, ratios in zip(("support", "confidence", "lift"), expected, strict=True):
        actual = numbers(rules, (name, f"{name}_lower", f"{name}_upper"))
        actual[2] = np.nan_to_num(actual[2], nan=np.inf)
        if not all(map(_equal, (ratios.values, ratios.lower, ratios.upper), actual)):
            return f"rules.parquet has a rule of another {name} than the counts of its items give"
    lowest = numbers(rules, ("lift_lower",))[0]
    return None if (np.diff(lowest) <= 0).all() else "rules.parquet has its rules in another order"


def _counts(
    known: Mapping[frozenset[object], NDArray[np.float64]], itemsets: Sequence[Set[object]]
) -> NDArray[np.float64]:
    """Estimates and ends of the counts of itemsets, float64 [3, itemsets]; NaN for those that are not listed."""
    return np.array([known.get(frozenset(items), _UNKNOWN) for items in itemsets]).reshape(-1, 3).T.copy()


def numbers(table: pa.Table, names: tuple[str, ...]) -> NDArray[np.float64]:
    """Columns of a table, float64 [columns, rows]; NaN for null."""
    return np.array([table[name].to_numpy() for name in names], dtype=np.float64).reshape(len(names), -1)


def _equal(expected: NDArray[np.float64], actual: NDArray[np.float64]) -> bool:
    """Whether numbers are the same where they are known."""
    known = ~np.isnan(expected)
    return bool(np.allclose(expected[known], actual[known], rtol=_TOLERANCE, atol=0))
