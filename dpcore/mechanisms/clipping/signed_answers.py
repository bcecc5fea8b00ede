"""Answers of ``clipped_gaussian`` for queries with negations or of several orders, from a measured lattice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.estimation.clipping.column_factors import cross_predicted
from dpcore.estimation.clipping.expected_loss import expected_loss
from dpcore.estimation.clipping.item_mixture import NO_COLUMN, mixture_predicted
from dpcore.estimation.clipping.lattice_projection import projected
from dpcore.estimation.clipping.pair_factors import with_pair_factors
from dpcore.estimation.clipping.shrinkage import shrunk
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.clipping.clip_choice import loss_bound_of, points_of_cells, significant
from dpcore.mechanisms.clipping.constants import BOUND_CONFIDENCE, NOISE_CONFIDENCE
from dpcore.mechanisms.clipping.lattice_groups import GroupedSums
from dpcore.mechanisms.clipping.marginals import OneWay
from dpcore.mechanisms.clipping.query_sets import column_frequencies
from dpcore.queries.lattice import Lattice
from dpcore.uncertainty import Answers, half_width

_MIN_FREQUENCY = 1e-3  # Of a column at the start of the fit of the mixture.
_MIN_DEVIATION = 1e-6
_MIN_BIN = 30  # Answers that share one strength of shrinkage; dense data have few single columns.


@final
@dataclass(frozen=True, eq=False)
class MeasuredLattice:
    """Everything that was measured.

    grouped: The clipped sums that were asked.
    histogram: The noisy histogram from which they were chosen.
    sums: Their noisy values.
    one_way: One-way marginals, or None if they were not measured; then no answer is shrunk or completed.
    units: The number of units if it is public.
    unit_count: The noisy number of units, if it is private and a term of a query.
    """

    grouped: GroupedSums
    histogram: Measurement
    sums: Measurement
    one_way: OneWay | None
    units: int | None
    unit_count: Measurement | None

    @property
    def lattice(self) -> Lattice:
        """The lattice."""
        return self.grouped.groups.lattice

    @property
    def noisy(self) -> NDArray[np.float64]:
        """The noisy answers of the members, the number of units, and 0; in counts, float64 [members + 2]."""
        full = self.grouped.full_weights[self.grouped.groups.of_member]
        return np.concatenate([self.sums.values / full, [self.total, 0.0]])

    @property
    def total(self) -> float:
        """The number of units, public or noisy, at least 1; 1 if it is not known and not needed."""
        if self.units is not None:
            return float(max(1, self.units))
        if self.unit_count is not None:
            return max(1.0, float(self.unit_count.values[0]))
        return 1.0 if self.one_way is None else self.one_way.units

    def by_group(self, of_sums: float, of_units: float) -> NDArray[np.float64]:
        """A figure of the noise per member, of the number of units, and of 0; float64 [members + 2].

        of_sums: The figure of the measured sums, which the factor of each group divides.
        of_units: The figure of the measured number of units; 0 is used if it is public.
        """
        full = self.grouped.full_weights[self.grouped.groups.of_member]
        return np.concatenate([of_sums / full, [0.0 if self.unit_count is None else of_units, 0.0]])


def signed_answers(measured: MeasuredLattice, loss_deviations: float, generator: Generator) -> Answers:
    """Values and intervals of all queries.

    measured: The measurements.
    loss_deviations: Histogram cells below this many standard deviations do not count towards the expected loss.
    generator: For the folds and starting values of the predictions.

    1. Single columns are combined with the one-way marginals, which were measured before.
    2. Each answer is predicted from the noisy ones of all orders (``item_mixture``, ``pair_factors``), and from those
       of its own order (``column_factors``).
    3. Each order is estimated from its noisy answers and from these predictions, lowest order first.
    4. All estimates are moved to the nearest ones that some data could have (``lattice_projection``).
    5. The answers are signed sums of these.
    """
    lattice, noisy = measured.lattice, measured.noisy
    unit_stddev = 0.0 if measured.unit_count is None else measured.unit_count.stddev
    stddevs = measured.by_group(measured.sums.stddev, unit_stddev)
    combined, deviations = _with_one_way(measured, noisy, stddevs)
    estimates = _estimates(measured, combined, deviations, loss_deviations, generator)
    values = lattice.signed_sums(projected(lattice, estimates, deviations**2))
    lower, upper = _intervals(measured, noisy)
    stddev = np.sqrt(lattice.plain_sums(stddevs**2))
    return Answers(np.clip(values, lower, upper), stddev, lower, upper, measured=True)


def _with_one_way(
    measured: MeasuredLattice, noisy: NDArray[np.float64], stddevs: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The noisy answers and their noise, single columns combined with the one-way marginals by inverse variance."""
    one_way, members = measured.one_way, measured.lattice.members
    single = np.flatnonzero(members.orders == 1)
    if one_way is None or not single.size:
        return noisy, stddevs
    values, deviations = noisy.copy(), stddevs.copy()
    before = one_way.values[np.searchsorted(one_way.columns, members.columns[single, 0])]
    squares = stddevs[single] ** 2
    weight = squares / (squares + max(one_way.stddev, _MIN_DEVIATION) ** 2)
    values[single] += weight * (before - noisy[single])
    deviations[single] = stddevs[single] * np.sqrt(1.0 - weight)
    return values, deviations


def _estimates(
    measured: MeasuredLattice,
    noisy: NDArray[np.float64],
    stddevs: NDArray[np.float64],
    loss_deviations: float,
    generator: Generator,
) -> NDArray[np.float64]:
    """Estimates of the members, the number of units, and 0; in counts, float64 [members + 2]."""
    groups, one_way = measured.grouped.groups, measured.one_way
    values = noisy.copy()
    if one_way is None:
        return values
    frequencies = column_frequencies(groups.lattice.members, one_way)
    joint = _joint_predictions(measured, noisy, stddevs, frequencies, generator)
    for group, order in enumerate(groups.orders.tolist()):
        members = np.flatnonzero(groups.of_member == group)
        stddev = float(stddevs[members[0]])
        if members.size >= _MIN_BIN:
            scale = measured.sums.scale / measured.grouped.full_weights[group]
            steps = measured.sums.denominator
            width = half_width(measured.sums.noise, scale * steps, NOISE_CONFIDENCE) / steps
            predictions = [joint[members]]
            if order > 1:
                predictions = [_predictions(measured, members, order, stddev, frequencies, generator), *predictions]
            values[members] = shrunk(noisy[members], stddev, predictions, width, _MIN_BIN)
        cells = significant(measured.grouped.cells[group], measured.histogram.stddev, loss_deviations)
        values[members] += _expected_loss(cells, measured.grouped.lost[group], members.size, values[members])
        if order == 1:
            lowest = min(1.0, stddev / measured.total)
            columns = groups.lattice.members.columns[members, 0]
            frequencies[columns] = np.clip(values[members] / measured.total, lowest, 1.0)
    return values


def _joint_predictions(
    measured: MeasuredLattice,
    noisy: NDArray[np.float64],
    stddevs: NDArray[np.float64],
    frequencies: NDArray[np.float64],
    generator: Generator,
) -> NDArray[np.float64]:
    """Predicted counts of all members, from the noisy answers of all orders, float64 [members]."""
    members, total = measured.lattice.members, measured.total
    columns = np.where(members.counted, members.columns, NO_COLUMN).astype(np.int32)
    values, deviations = noisy[:-2] / total, stddevs[:-2] / total
    start, single = frequencies.copy(), members.orders == 1
    start[columns[single, 0]] = np.clip(values[single], _MIN_FREQUENCY, 1.0 - _MIN_FREQUENCY)
    predicted = mixture_predicted(columns, values, deviations, start, stddevs[-2] / total, generator)
    return with_pair_factors(columns, values, predicted, np.maximum(deviations, _MIN_DEVIATION)) * total


def _predictions(
    measured: MeasuredLattice,
    members: NDArray[np.int64],
    order: int,
    stddev: float,
    frequencies: NDArray[np.float64],
    generator: Generator,
) -> NDArray[np.float64]:
    """Predicted counts of the members of one order from each other."""
    columns, total = measured.lattice.members.columns[members, :order], measured.total
    none = np.empty((0, order), dtype=np.int32)
    noisy = measured.noisy[members] / total
    return cross_predicted(columns, noisy, stddev / total, frequencies, none, generator).values * total


def _expected_loss(
    cells: NDArray[np.float64], lost: NDArray[np.float64], members: int, answers: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The counts that each answer of a group is expected to lack, from the cleaned cells of its histogram."""
    satisfied = np.minimum(points_of_cells(len(cells)), members)
    units = np.broadcast_to(cells[1:, None] / satisfied.shape[1], satisfied.shape)
    lost_there = lost[satisfied.astype(np.int64)]
    return expected_loss(answers, satisfied.ravel(), units.ravel(), lost_there.ravel())


def _intervals(
    measured: MeasuredLattice, noisy: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper ends: the interval of the signed sum's noise, and bounds on the loss of its terms."""
    grouped, lattice = measured.grouped, measured.lattice
    confidence = 1 - (1 - BOUND_CONFIDENCE) / grouped.groups.count
    sizes = np.bincount(grouped.groups.of_member)
    bounds = np.array(
        [
            loss_bound_of(measured.histogram, cells, lost, int(size), confidence)
            for cells, lost, size in zip(grouped.cells, grouped.lost, sizes, strict=True)
        ]
    )
    losses = np.concatenate([bounds[grouped.groups.of_member], [0.0, 0.0]])
    centre, width = lattice.signed_sums(noisy), noise_widths(measured, NOISE_CONFIDENCE)
    highest = np.inf if measured.units is None else float(measured.units)
    lower = centre - width - lattice.sums_of_sign(losses, -1)
    upper = np.minimum(centre + width + lattice.sums_of_sign(losses, 1), highest)
    # The truth is between 0 and the number of units. An interval that lies outside is moved to the nearer end.
    return np.clip(lower, 0.0, highest), np.maximum(upper, 0.0)


def noise_widths(measured: MeasuredLattice, confidence: float) -> NDArray[np.float64]:
    """Half widths of intervals for the noise of each signed sum, in counts, float64 [m].

    The noise of the terms is independent. A sum of Gaussians, rounded or discrete, is a Gaussian up to half a step for
    each term. For Laplace noise the intervals of all terms hold together: P(|Z| > b ln(t / tail) + step) <= tail / t.
    """
    lattice = measured.lattice
    unit_scale = 0.0 if measured.unit_count is None else measured.unit_count.scale
    scales = measured.by_group(measured.sums.scale, unit_scale)
    steps = measured.by_group(1.0 / measured.sums.denominator, 1.0)
    added_steps = lattice.plain_sums(steps)
    if measured.sums.noise is not Noise.LAPLACE:
        deviations = np.sqrt(lattice.plain_sums(scales**2))
        return np.asarray(half_width(Noise.ROUNDED_GAUSSIAN, 1.0, confidence) * deviations + added_steps / 2)
    counts = np.diff(lattice.starts)
    tails = np.log(counts / (1 - confidence))
    return np.asarray(tails * lattice.plain_sums(scales) + added_steps)
