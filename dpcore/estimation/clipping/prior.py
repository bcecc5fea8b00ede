"""The prior of exact answers given their predictions: a mixture over ratios, learnt from noisy answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dpcore.compiled import compiled
from dpcore.estimation.clipping.loss_curve import LossCurve
from dpcore.estimation.clipping.noise_law import NoiseLaw
from dpcore.estimation.clipping.support import Support, position

MIN_PREDICTION: Final = 0.02  # In counts. Smaller predictions are all alike: the answer is nearly always 0.
_BINS_PER_OCTAVE = 8
_BANDWIDTH = 1.0  # In octaves of the prediction: queries that are nearer to each other share their mixtures.
_VALUE_CELLS = 4  # Cells per scale of the noise, to which values are rounded while mixtures are learnt.
_MAX_LEARNT = 100_000  # Mixtures are learnt from at most this many queries, evenly chosen by prediction.

_ZERO_WEIGHT = 0.1  # Weight of "the answer is 0" before anything is learnt.
_NARROW_WEIGHT = 0.3  # Relative weight of a narrow component.
_RISE = 1.5  # Per octave above the prediction, weights before learning fall by this exponent; below it, by 1.
_PSEUDO_QUERIES = 5.0  # The weights before learning count as this many queries.
_ITERATIONS = 20
_SMOOTHING = 0.2  # Part of a component's weight that each neighbour gets in an iteration, before normalisation.
_FAR_RATIO = 4.0  # A component is far if its mean exceeds this multiple of the prediction, ...
_FAR_SCALES = 1.5  # ... and this multiple of the noise.
_FAR_QUERIES = 1.5  # So many queries of each neighbourhood are not believed to be far.


@dataclass(frozen=True, eq=False)
class Components:
    """The components of the mixtures: "0", and negative binomial laws with a mean in proportion to the prediction.

    log_ratios: float64 [j], log2 of the ratio of each component's mean to the prediction; -inf for "0".
    widths: float64 [j], the coefficient of variation of each component's rate; 0 for "0".
    """

    log_ratios: NDArray[np.float64]
    widths: NDArray[np.float64]

    @classmethod
    def of(cls, max_log_ratio: float, *, narrow: bool) -> Components:
        """Components for ratios up to a bound.

        max_log_ratio: log2 of the largest ratio.
        narrow: Whether predictions are informative, so that narrow components around them are worthwhile.
        """
        parts = [np.array([-np.inf])]
        widths = [np.zeros(1)]
        low = -7.5 if narrow else -11.5
        families = [
            (np.arange(-7, 8) / 4, 0.15),
            (np.concatenate([np.arange(-2.5, low - 0.5, -1.0), np.arange(2.5, max_log_ratio + 0.75, 0.75)]), 0.5),
        ]
        if narrow:
            families.insert(0, (np.arange(-3, 4) / 8, 0.06))
        for ratios, width in families:
            parts.append(np.sort(ratios))
            widths.append(np.full(ratios.size, width))
        return cls(np.concatenate(parts), np.concatenate(widths))

    @property
    def start(self) -> NDArray[np.float64]:
        """Weights before anything is learnt, float64 [j]: "0" has a tenth, and others fall with their distance."""
        weights = np.exp(np.where(self.log_ratios > 0, -_RISE, 1.0) * self.log_ratios)
        weights[self.widths == self.widths[1]] *= _NARROW_WEIGHT if self.widths[1] < 0.1 else 1.0
        weights[0] = 0.0
        weights *= (1 - _ZERO_WEIGHT) / weights.sum()
        weights[0] = _ZERO_WEIGHT
        return np.asarray(weights)

    def smoothing(self) -> NDArray[np.float64]:
        """A stochastic matrix, float64 [j, j], that gives part of each weight to neighbours of the same width."""
        matrix = np.eye(self.widths.size)
        for width in np.unique(self.widths[1:]):
            members = np.flatnonzero(self.widths == width)
            matrix[members[:-1], members[1:]] += _SMOOTHING
            matrix[members[1:], members[:-1]] += _SMOOTHING
        return np.asarray(matrix / matrix.sum(axis=0))

    def means(self, prediction: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of each component for each prediction, float64 [predictions, j]."""
        return np.asarray(prediction[:, None] * 2.0**self.log_ratios)

    def densities(self, prediction: float, support: Support) -> NDArray[np.float64]:
        """The density of each component, per count, at the points of the support, float64 [j, s]."""
        densities = np.zeros((self.widths.size, support.points.size))
        densities[0, 0] = 1.0
        means = (prediction * 2.0 ** self.log_ratios[1:])[:, None]
        shapes = (self.widths[1:] ** -2.0)[:, None]
        counts = support.points
        densities[1:] = np.exp(
            gammaln(counts + shapes)
            - gammaln(shapes)
            - gammaln(counts + 1)
            - shapes * np.log1p(means / shapes)
            + counts * np.log(means / (shapes + means))
        )
        return densities


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior densities of exact answers by prediction.

    components: The components of the mixtures.
    weights: float64 [b, j], their weights in each bin of predictions.
    predictions: float64 [b], the mean prediction of each bin, ascending, in counts.
    densities: float64 [b, s], for each bin, the density per count at the points of the support.
    log_likelihood: Log-likelihood of the values under the prior, in nats, up to a constant that depends on the values
        alone.
    """

    components: Components
    weights: NDArray[np.float64]
    predictions: NDArray[np.float64]
    densities: NDArray[np.float64]
    log_likelihood: float

    def bins(self, predictions: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bin of each prediction: the nearest one in the logarithm."""
        edges = np.sqrt(self.predictions[1:] * self.predictions[:-1])
        return np.searchsorted(edges, np.maximum(predictions, MIN_PREDICTION))

    def extended(self, predictions: NDArray[np.float64], support: Support) -> Prior:
        """The prior in bins of other predictions, with the weights of the nearest bins."""
        _, means = binned(np.maximum(predictions, MIN_PREDICTION))
        weights = self.weights[self.bins(means)]
        densities = _mixed(self.components, weights, means, support)
        return Prior(self.components, weights, means, densities, self.log_likelihood)


def learnt_prior(
    values: NDArray[np.float64],
    noise: NoiseLaw,
    predictions: NDArray[np.float64],
    curve: LossCurve,
    support: Support,
    *,
    informative: bool = True,
) -> Prior:
    """The prior of exact answers given their predictions, learnt from noisy clipped answers.

    values: float64 [m], clipped answers with independent noise, in counts.
    noise: Its law.
    predictions: float64 [m], a prediction of each exact answer that does not depend on the answer's own noise.
    curve: Expected clipped answers by exact answers.
    support: The points of the densities and of the curve.
    informative: Whether the predictions differ between the queries.

    In the model, an answer is 0, or a Poisson count whose rate is the prediction times a random ratio. The distribution
    of the ratio is a mixture on a fine logarithmic grid, from far below the prediction to the largest value: answers
    that follow their prediction, answers that are 0 although it is not, and a slab of larger ones. The weights are
    fitted by expectation maximisation with smoothing: after each step, every weight is averaged with those of
    neighbouring ratios and of queries whose predictions are within an octave. A nonparametric maximum-likelihood fit
    without smoothing would consist of a few atoms, which the noise cannot tell apart, and would be far too sure.
    One and a half queries per octave are not believed to be far above their prediction, because among many noisy
    values the largest always look so.

    Source: Robbins (1956), empirical Bayes; Silverman, Jones, Wilson and Nychka (1990), the EMS algorithm.
    """
    values, predictions = _subset(values, np.maximum(predictions, MIN_PREDICTION))
    bin_of_value, means = binned(predictions)
    components = Components.of(float(np.log2(support.points[-1] / means.min())), narrow=informative)
    densities = np.stack([components.densities(float(mean), support) for mean in means])
    cells, cell_bins, counts = _cells(values, bin_of_value, noise.scale)
    likelihoods = np.zeros((cells.size, components.widths.size))
    _likelihoods(
        cells, cell_bins, densities, curve.counts, curve.clipped, noise.scale, noise.reach, noise.laplace, likelihoods
    )
    scale = likelihoods.max(axis=1, keepdims=True) + 1e-300
    likelihoods = likelihoods / scale + 1e-12
    weights = _smoothed_weights(likelihoods, cell_bins, counts, means, components, curve, noise)
    mixed = (likelihoods * weights[cell_bins]).sum(axis=1)
    log_likelihood = float(counts @ (np.log(mixed) + np.log(scale[:, 0])))
    return Prior(components, weights, means, np.einsum("bj,bjs->bs", weights, densities), log_likelihood)


def _subset(
    values: NDArray[np.float64], predictions: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if values.size <= _MAX_LEARNT:
        return values, predictions
    order = np.argsort(predictions, kind="stable")
    chosen = order[np.linspace(0, values.size - 1, _MAX_LEARNT).astype(np.int64)]
    return values[chosen], predictions[chosen]


def _mixed(
    components: Components, weights: NDArray[np.float64], means: NDArray[np.float64], support: Support
) -> NDArray[np.float64]:
    """The density of each bin's mixture at the points of the support, float64 [b, s]."""
    rows = [row @ components.densities(float(mean), support) for row, mean in zip(weights, means, strict=True)]
    return np.stack(rows)


def binned(predictions: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The bin of each prediction, numbered by size, and the mean prediction of each bin."""
    octaves = np.floor(_BINS_PER_OCTAVE * np.log2(predictions)).astype(np.int64)
    _, bins, counts = np.unique(octaves, return_inverse=True, return_counts=True)
    return bins, np.bincount(bins, weights=predictions) / counts


def _cells(
    values: NDArray[np.float64], bins: NDArray[np.int64], scale: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct pairs of bin and rounded value: the mean value, the bin and the number of queries of each."""
    rounded = np.rint(values * (_VALUE_CELLS / scale)).astype(np.int64)
    order = np.lexsort((rounded, bins))
    fresh = np.ones(order.size, dtype=np.bool_)
    fresh[1:] = (np.diff(rounded[order]) != 0) | (np.diff(bins[order]) != 0)
    starts = np.flatnonzero(fresh)
    counts = np.diff(np.append(starts, order.size))
    return np.add.reduceat(values[order], starts) / counts, bins[order][starts], counts


def _smoothed_weights(
    likelihoods: NDArray[np.float64],
    bins: NDArray[np.int64],
    counts: NDArray[np.int64],
    means: NDArray[np.float64],
    components: Components,
    curve: LossCurve,
    noise: NoiseLaw,
) -> NDArray[np.float64]:
    """The weights of the components for each bin of predictions, float64 [b, j]."""
    start, smoothing = components.start, components.smoothing()
    octaves = np.log2(means)
    near = np.maximum(0.0, 1.0 - np.abs(octaves[:, None] - octaves) / _BANDWIDTH)
    far = curve.clipped_of(components.means(means)) >= _FAR_SCALES * noise.stddev
    far &= components.log_ratios >= np.log2(_FAR_RATIO)
    edges = np.flatnonzero(np.diff(bins, prepend=-1))
    weights = np.tile(start, (means.size, 1))
    for _ in range(_ITERATIONS):
        shares = likelihoods * weights[bins]
        shares *= (counts / shares.sum(axis=1))[:, None]
        queries = near @ np.add.reduceat(shares, edges, axis=0) @ smoothing.T
        far_queries = np.where(far, queries, 0.0)
        total = np.maximum(far_queries.sum(axis=1, keepdims=True), 1e-12)
        queries -= far_queries * np.minimum(1.0, _FAR_QUERIES / total)
        weights = queries + _PSEUDO_QUERIES * start
        weights /= weights.sum(axis=1, keepdims=True)
    return weights


@compiled
def evaluation_points(
    value: float, counts: NDArray[np.float64], clipped: NDArray[np.float64], reach: float, step: float
) -> NDArray[np.float64]:
    """The counts whose expected clipped answers are within ``reach`` of a value.

    They are all whole counts up to 64, and beyond that they have the distance ``step``.
    """
    low = max(0.0, np.floor(np.interp(value - reach, clipped, counts)))
    high = max(3.0, np.interp(value + reach, clipped, counts))
    high = min(high, counts[-1] - 1e-6 * counts[-1])
    low = min(low, np.floor(high))
    whole = 0
    if low <= 64.0:
        whole = int(min(high, 64.0) - low) + 1
    first = low + whole
    rest = 0
    if high >= first:
        rest = int((high - first) / step) + 1
    points = np.empty(whole + rest)
    for index in range(whole):
        points[index] = low + index
    for index in range(rest):
        points[whole + index] = first + index * step
    return points


@compiled
def _likelihoods(
    values: NDArray[np.float64],
    bins: NDArray[np.int64],
    densities: NDArray[np.float64],
    counts: NDArray[np.float64],
    clipped: NDArray[np.float64],
    scale: float,
    reach: float,
    laplace: bool,
    likelihoods: NDArray[np.float64],
) -> None:
    """Adds to each row the likelihood of a value under every component of its bin, up to a common factor."""
    step = max(1.0, np.floor(scale / 5))
    for row in range(values.size):
        for count in evaluation_points(values[row], counts, clipped, reach, step):
            at = position(count)
            index = int(at)
            part = at - index
            distance = abs(values[row] - (1 - part) * clipped[index] - part * clipped[index + 1]) / scale
            weight = np.exp(-distance) if laplace else np.exp(-0.5 * distance * distance)
            if count > 64.0:
                weight *= step
            for component in range(likelihoods.shape[1]):
                low, high = densities[bins[row], component, index], densities[bins[row], component, index + 1]
                likelihoods[row, component] += weight * ((1 - part) * low + part * high)
