"""Which queries ``clipped_gaussian`` measures: one of some nested sets of popular queries, with its clip norm."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.measurement import Measurement
from dpcore.mechanisms.clipping.clip_choice import choose_clip, mean_satisfied, significant
from dpcore.mechanisms.clipping.constants import ClippedGaussianConstants
from dpcore.mechanisms.clipping.marginals import OneWay, norm_of, unit_stddev
from dpcore.queries import Conjunctions, SatisfactionHistogram

QuerySet = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class ChosenSet:
    """The queries to measure.

    members: Their indices, int64 [members], ascending.
    cells: Noisy numbers of units by how many of them a unit satisfies, float64 [cells].
    clip: The norm to which each unit's answers are clipped.
    """

    members: QuerySet
    cells: NDArray[np.float64]
    clip: float


def nested_sets(
    terms: PrivacyTerms,
    queries: Conjunctions,
    one_way: OneWay | None,
    histogram_share: Fraction,
    constants: ClippedGaussianConstants,
) -> tuple[QuerySet, ...]:
    """Nested sets of queries that may be measured, from all queries down to the most popular ones.

    The popular queries are those with the largest products of one-way frequencies. Each set is a group of the
    histogram, whose noise grows with the square root of the number of groups (linearly for Laplace noise). On small
    data, and without one-way marginals, the only set is that of all queries.
    """
    everything = np.arange(queries.size)
    if one_way is None:
        return (everything,)
    noise = len(constants.set_fractions) ** (1 / norm_of(terms)) * unit_stddev(terms, histogram_share)
    sizes = [round(fraction * queries.size) for fraction in constants.set_fractions]
    if noise > constants.max_set_noise * one_way.units or sizes[-1] < 1:
        return (everything,)
    popular_first = np.argsort(-independent_products(queries, one_way), kind="stable")
    return (everything, *(np.sort(popular_first[:size]) for size in sizes[1:]))


def histogram_of(queries: Conjunctions, sets: tuple[QuerySet, ...]) -> SatisfactionHistogram:
    """The histogram of how many queries of each set a unit satisfies."""
    if len(sets) == 1:
        return SatisfactionHistogram(queries, None)
    rows = np.concatenate(sets)
    groups = np.repeat(np.arange(len(sets), dtype=np.int32), [members.size for members in sets])
    return SatisfactionHistogram(Conjunctions(queries.view, queries.columns[rows], queries.negated[rows]), groups)


def choose_set(
    terms: PrivacyTerms,
    queries: Conjunctions,
    sets: tuple[QuerySet, ...],
    histogram: Measurement,
    one_way: OneWay | None,
    sums_share: Fraction,
    constants: ClippedGaussianConstants,
) -> ChosenSet:
    """The set, and its clip norm, with the smallest predicted largest error.

    The error of a set is the larger of two: the predicted error of its measured queries, and the predicted largest
    answer of the queries outside it. The latter is ``max_to_mean`` times the mean answer, by the histogram, of the
    slice between this set and the next larger one.
    """
    cells = histogram.values.reshape(len(sets), -1)
    cleaned = [significant(set_cells, histogram.stddev) for set_cells in cells]
    stddev = unit_stddev(terms, sums_share)
    noise_factor = constants.noise_factor if one_way is None else constants.shrunk_noise_factor
    products = None if one_way is None else independent_products(queries, one_way)
    best: ChosenSet | None = None
    best_error = np.inf
    for index, members in enumerate(sets):
        top_part = 1.0 if products is None else float(products[members].max() / products[members].sum())
        choice = choose_clip(
            cleaned[index],
            members.size,
            stddev,
            noise_factor,
            top_part,
            norm_of(terms),
            completed=one_way is not None,
        )
        error = choice.error
        if index:
            larger = sets[index - 1].size
            slice_sum = mean_satisfied(cleaned[index - 1], larger) * larger
            slice_sum -= mean_satisfied(cleaned[index], members.size) * members.size
            error = max(error, constants.max_to_mean * slice_sum / (larger - members.size))
        if best is None or error < best_error:
            best, best_error = ChosenSet(members, cells[index], choice.clip), error
    assert best is not None
    return best


def column_frequencies(queries: Conjunctions, one_way: OneWay) -> NDArray[np.float64]:
    """Noisy frequencies of all columns, float64 [columns of the view].

    Each is at least one standard deviation of the noise, so that no product of frequencies is 0 or negative.
    """
    lowest = min(1.0, one_way.stddev / one_way.units)
    frequencies = np.full(queries.view.columns, lowest)
    frequencies[one_way.columns] = np.clip(one_way.values / one_way.units, lowest, 1.0)
    return frequencies


def independent_products(queries: Conjunctions, one_way: OneWay) -> NDArray[np.float64]:
    """The frequency of each conjunction if its columns were independent, float64 [queries], > 0."""
    return np.asarray(column_frequencies(queries, one_way)[queries.columns].prod(axis=1))
