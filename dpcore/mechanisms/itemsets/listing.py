"""The frequent itemsets and their association rules, from the supports of all stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.estimation.itemsets.rules import Counts, Rules, association_rules
from dpcore.estimation.itemsets.supports import FrequentItemsets, Supports, Units
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.clipping.marginals import OneWay
from dpcore.mechanisms.itemsets.clipped_stage import Stage
from dpcore.mechanisms.itemsets.constants import UNITS_FAILURE, FrequentItemsetsConstants
from dpcore.queries import Conjunctions
from dpcore.queries.itemsets import Itemsets, positive
from dpcore.uncertainty import Answers, half_width


def units_of(public: int | None, one_way: OneWay, stages: Sequence[Stage]) -> Units:
    """The number of units, or the mean of what all histograms say of it, weighted by their precision.

    public: The number of units if it is public.

    Each histogram has every unit in one cell. Gaussian noise is sub-Gaussian, and so is a sum of it (Canonne, Kamath
    and Steinke 2020, Corollary 17). For Laplace noise all cells of the first histogram hold by the union bound.
    """
    if public is not None:
        return Units(float(public), float(public), float(public))
    histograms = [one_way.measurements[0], *(stage.histogram for stage in stages)]
    totals = np.array([histogram.values.sum() for histogram in histograms])
    variances = np.array([histogram.values.size * histogram.stddev**2 for histogram in histograms])
    if histograms[0].noise is Noise.LAPLACE:
        value, width = float(totals[0]), _laplace_width(histograms[0])
    else:
        value = float((totals / variances).sum() / (1 / variances).sum())
        width = math.sqrt(2 * math.log(2 / UNITS_FAILURE) / float((1 / variances).sum()))
    value = max(1.0, value)
    return Units(value, max(1.0, value - width), value + width)


def _laplace_width(histogram: Measurement) -> float:
    cells = histogram.values.size
    return cells * half_width(histogram.noise, histogram.scale, 1 - UNITS_FAILURE / cells)


def supports_of(
    one_way: OneWay, stages: Sequence[Stage], units: Units, constants: FrequentItemsetsConstants
) -> list[Supports]:
    """The supports of items, pairs and so on. No upper end exceeds that of a subset: the intervals hold together.

    one_way: The items.
    stages: The larger itemsets, by size.
    """
    histogram, measured = one_way.measurements
    sizes = [stage.supports(units.upper, constants) for stage in (Stage(histogram, measured), *stages)]
    for size in range(1, len(sizes)):
        sizes[size] = _below_subsets(sizes[size], sizes[size - 1])
    return sizes


def _below_subsets(part: Supports, smaller: Supports) -> Supports:
    upper = part.upper
    for place in range(part.items.shape[1]):
        upper = np.minimum(upper, smaller.upper[_rows(smaller.items, np.delete(part.items, place, axis=1))])
    lower = np.minimum(part.lower, upper)  # If they contradict each other, some interval does not hold.
    return replace(part, values=np.clip(part.values, lower, upper), lower=lower, upper=upper)


def listed_itemsets(request: Itemsets, sizes: Sequence[Supports], units: Units) -> FrequentItemsets:
    """The most frequent itemsets of each size, and their rules; at least the most frequent item.

    sizes: The supports of all itemsets of size 1, 2 and so on that were measured.
    """
    least = 0.0 if request.min_support is None else float(request.min_support) * units.value
    rows = [part.largest_first(request.max_listed, least) for part in sizes]
    if not rows[0].size:
        rows[0] = sizes[0].largest_first(1)
    listed = tuple(part.only(chosen) for part, chosen in zip(sizes, rows, strict=True))
    return FrequentItemsets(listed, units, _rules(listed, sizes, units))


def answers_of(view: BinaryView, itemsets: FrequentItemsets) -> tuple[Conjunctions, Answers]:
    """The listed itemsets as queries, and their counts."""
    parts = [part for part in itemsets.listed if part.values.size]
    values, lower, upper = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "lower", "upper")
    )
    stddev = np.concatenate([np.full(part.values.size, part.stddev) for part in parts])
    queries = Conjunctions.joined([positive(view, part.items) for part in parts])
    return queries, Answers(values, stddev, lower, upper, measured=True)


def _rules(listed: Sequence[Supports], sizes: Sequence[Supports], units: Units) -> Rules:
    """Every rule of a listed pair or triple with one consequent."""
    width = len(listed) - 1
    antecedents, consequents = [], []
    both, with_x, with_y = [], [], []
    for size, part in enumerate(listed[1:], 2):
        for place in range(size):
            rest, last = np.delete(part.items, place, axis=1), part.items[:, place]
            padded = np.full((last.size, width), -1, dtype=np.int32)
            padded[:, : size - 1] = rest
            antecedents.append(padded)
            consequents.append(last)
            both.append(_counts(part))
            with_x.append(_counts(sizes[size - 2])[:, _rows(sizes[size - 2].items, rest)])
            with_y.append(_counts(sizes[0])[:, _rows(sizes[0].items, last[:, None])])
    together = np.concatenate(both, axis=1)
    x, y = np.concatenate(with_x, axis=1), np.concatenate(with_y, axis=1)
    for side in (x, y):  # A superset has no more units than its subset.
        side[0] = np.maximum(side[0], np.maximum(together[0], 1.0))
    n = Counts(np.array([[units.value], [units.lower], [units.upper]]))
    return association_rules(
        np.concatenate(antecedents), np.concatenate(consequents), Counts(together), Counts(x), Counts(y), n
    )


def _counts(part: Supports) -> NDArray[np.float64]:
    return np.stack([part.values, part.lower, part.upper])


def _rows(itemsets: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.int64]:
    """The row of each wanted itemset, which is one of ``itemsets``; those are in lexicographic order."""
    base = np.int64(itemsets.max()) + 1
    powers = base ** np.arange(itemsets.shape[1] - 1, -1, -1, dtype=np.int64)
    return np.asarray(np.searchsorted(itemsets @ powers, wanted @ powers))
