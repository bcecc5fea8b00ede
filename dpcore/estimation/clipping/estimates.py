"""Estimates of exact answers, with intervals, from noisy clipped answers and several predictions: empirical Bayes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpcore.estimation.clipping.discoveries import q_values
from dpcore.estimation.clipping.loss_curve import LossCurve, Satisfied, loss_curve
from dpcore.estimation.clipping.noise_law import NoiseLaw
from dpcore.estimation.clipping.posterior import Caps, Posterior, posterior, prior_summary
from dpcore.estimation.clipping.prior import Prior, learnt_prior
from dpcore.estimation.clipping.shrinkage import shrunk
from dpcore.estimation.clipping.support import Support

MIN_QUERIES: Final = 100
"""With fewer queries no prior is learnt, and estimates are the measured answers."""

TAIL: Final = 0.01
"""Probability of each tail of an interval under the learnt prior. It leaves 3 % for the errors of the prior."""

_LOSS_ERROR = 0.5  # Part of the expected loss that is added to both sides of an interval.
_MAX_LOSS_RATIO = 4.0  # Largest ratio of an exact to a clipped answer that the support allows for.
_ZERO_DEVIATIONS = 2.0  # An interval contains 0 if the value is below this many standard deviations of the noise.
_POPULAR = 0.25  # Predictions from this many standard deviations of the noise on are taken for popular queries.
_POPULAR_CHANGE = 2.05  # Largest change of a popular answer, in standard deviations.
_LEAST_CHANGE = 1.25  # The same for exchangeable queries, if lowering the limit so far moves them little.
_LIMIT_COST = 0.1  # Lower limits may move estimates by this part of the mean answer, at two deviations less.
_CHANGE_STEP = 0.25
_DISCOVERY_RATE = 0.01  # q-value up to which an answer counts as "not 0": so rarely has any, if all answers are 0.
_UNLIKELY_RATE = 0.5  # q-value above which most values of that size are noise.
_UNLIKELY_LIMIT = 0.5  # Largest estimate of a rare query with such a q-value, in standard deviations.
_RARE_CHANCE = 0.002  # Probability that the largest noise among all queries exceeds the largest change of a rare one.
_MIN_NOISE = 0.25  # In counts. Less noise leaves nothing to estimate.


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted clipped answers, in counts. Those of measured queries do not depend on their own noise.

    measured: float64 [m], of the measured queries; they may be negative.
    others: float64 [o], of further queries.
    """

    measured: NDArray[np.float64]
    others: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates and intervals of exact answers, in counts, >= 0.

    values: float64 [n].
    lower: float64 [n].
    upper: float64 [n].
    """

    values: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def estimated(
    values: NDArray[np.float64],
    noise: NoiseLaw,
    predictions: Sequence[Prediction],
    satisfied: Satisfied,
    caps: Caps | None,
    bound: float,
) -> tuple[Estimates, Estimates]:
    """Estimates of the exact answers of the m measured queries, and of the o others.

    values: float64 [m], clipped answers with independent noise, in counts.
    noise: Its law.
    predictions: One or more predictions of the clipped answers. Without any, the queries are taken for exchangeable.
    satisfied: Units by the number of measured queries that they satisfy, from which the loss by clipping follows.
    caps: Noisy upper bounds of the measured answers, or None.
    bound: No exact answer exceeds this number of counts.

    For each prediction a prior is learnt; the one under which the values are most likely is kept. The estimate is the
    posterior median, which minimises the mean absolute error and is 0 where 0 is more likely than not. For queries with
    a prediction of a quarter of the noise or more it is averaged with the posterior mean and with a linear estimate,
    which is less bold where a value and its prediction disagree.

    For a rare query with a q-value (``discoveries``) of at most 0.01 it is the linear estimate: among many queries, the
    largest noise looks like an answer without a warning, so the estimate lies between what the value and what the
    prediction says. A rare query with a q-value above 0.5 gets at most half a standard deviation, because most values
    of that size are noise, whatever the prior, which for few queries of a kind is learnt from hardly any.

    Estimates stay within the largest change that noise may have caused (``_limited``), which protects answers whose
    predictions are far off; for popular and discovered queries this is the noise interval.

    What intervals promise: the average coverage over the queries of a release is 0.95 or more if the learnt prior fits.
    They have the posterior tails of 0.01, both ends are moved outwards by half of the expected loss, and they reach
    down to 0 unless the value alone, at two standard deviations, excludes it. This is measured, not proven: a single
    query with an unusual answer may be covered less often, because a prior that is learnt from all queries shrinks it.

    With fewer than 100 values, or hardly any noise, an estimate is the value itself, and an interval is that of the
    noise, whose upper end is raised by one and a half times the expected loss.
    """
    if values.size < MIN_QUERIES or noise.stddev < _MIN_NOISE:
        return _unshrunk(values, noise, predictions, satisfied, bound)
    reach = _MAX_LOSS_RATIO * (float(np.maximum(values, 0).max()) + 8 * noise.stddev)
    support = Support.up_to(min(reach, max(bound, 1.0)))
    level = max(1.0, float(values.mean()))
    candidates = predictions or [Prediction(np.full(values.size, level), np.empty(0))]
    best: _Fitted | None = None
    for candidate in candidates:
        curve = loss_curve(candidate.measured, satisfied, support)
        exact = curve.counts_of(candidate.measured)
        prior = learnt_prior(values, noise, exact, curve, support, informative=bool(predictions))
        if best is None or prior.log_likelihood > best.prior.log_likelihood:
            best = _Fitted(candidate, curve, prior)
    assert best is not None
    chosen, curve = best.prediction, best.curve
    summary = posterior(values, noise, best.prior, curve.counts_of(chosen.measured), curve, caps, TAIL)
    measured = _centers(values, noise, chosen, summary, curve, exchangeable=not predictions)
    lower, upper = _interval(summary, curve)
    lower = np.where(values < _ZERO_DEVIATIONS * noise.stddev, 0.0, lower)
    unmeasured = prior_summary(best.prior, _exact_others(chosen, curve), support, TAIL)
    return (
        _within(measured, lower, upper, bound),
        _within(unmeasured.median, np.zeros(unmeasured.median.size), _interval(unmeasured, curve)[1], bound),
    )


@dataclass(frozen=True, eq=False)
class _Fitted:
    prediction: Prediction
    curve: LossCurve
    prior: Prior


def _centers(
    values: NDArray[np.float64],
    noise: NoiseLaw,
    prediction: Prediction,
    summary: Posterior,
    curve: LossCurve,
    *,
    exchangeable: bool,
) -> NDArray[np.float64]:
    """Estimates from the posterior, from linear shrinkage and from q-values, as ``estimated`` describes them."""
    q = q_values(values, noise)
    popular = prediction.measured >= _POPULAR * noise.stddev
    surprising = ~popular & (q <= _DISCOVERY_RATE)
    center = (summary.median + summary.mean) / 2
    rare = summary.median
    if not exchangeable:
        linear = shrunk(values, noise.stddev, [prediction.measured], _POPULAR_CHANGE * noise.stddev)
        exact = curve.counts_of(linear)
        center = np.where(surprising, exact, (center + exact) / 2)
        highest = float(curve.counts_of(np.array(_UNLIKELY_LIMIT * noise.stddev)))
        rare = np.where(q > _UNLIKELY_RATE, np.minimum(rare, highest), rare)
    kept = popular | surprising
    return _limited(np.where(kept, center, rare), values, noise, kept, curve, exchangeable=exchangeable)


def _exact_others(prediction: Prediction, curve: LossCurve) -> NDArray[np.float64]:
    """Predicted exact answers of the queries that were not measured: they lose the same part as all measured ones.

    The curve is not used below the measured answers, where it would have to be extrapolated.
    """
    clipped = np.maximum(prediction.measured, 0.0)
    ratio = float(curve.counts_of(clipped).sum()) / max(float(clipped.sum()), 1e-9)
    return np.maximum(prediction.others, 0.0) * max(ratio, 1.0)


def _limited(
    center: NDArray[np.float64],
    values: NDArray[np.float64],
    noise: NoiseLaw,
    kept: NDArray[np.bool_],
    curve: LossCurve,
    *,
    exchangeable: bool,
) -> NDArray[np.float64]:
    """Limited translation (Efron and Morris 1971): estimates no farther from the values than the noise may reach.

    Estimates of kept queries change by 2.05 standard deviations at most, and others by the largest noise. For
    exchangeable queries both limits are lowered, down to 1.25, as far as the estimates move by a small part of the mean
    answer, which without predictions is about the error that they have.
    """
    widest = max(_POPULAR_CHANGE, float(-ndtri(_RARE_CHANCE / values.size)))
    if noise.laplace:
        widest = float(np.log(values.size / _RARE_CHANCE)) / np.sqrt(2.0)

    def within(change: float) -> NDArray[np.float64]:
        changes = np.where(kept, min(change, _POPULAR_CHANGE), change) * noise.stddev
        return np.clip(center, curve.counts_of(values - changes), curve.counts_of(values + changes))

    freest = within(widest)
    if not exchangeable:
        return freest
    mean_error = noise.stddev / np.sqrt(values.size)
    allowed = _LIMIT_COST * max(0.0, float(values.mean()) - 2 * mean_error)
    for change in np.arange(_LEAST_CHANGE, widest, _CHANGE_STEP):
        limited = within(change)
        if np.abs(limited - freest).mean() <= allowed:
            return limited
    return freest


def _interval(summary: Posterior, curve: LossCurve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The quantiles, rounded to whole counts away from the middle, with half of the expected loss on both sides."""
    lower = summary.lower - _LOSS_ERROR * curve.loss_of(summary.lower)
    upper = summary.upper + _LOSS_ERROR * curve.loss_of(summary.upper)
    return np.floor(lower), np.ceil(upper)


def _within(
    values: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64], bound: float
) -> Estimates:
    """The estimates between 0 and the bound, each within its interval."""
    values, lower, upper = (np.clip(ends, 0.0, bound) for ends in (values, lower, upper))
    return Estimates(values, np.minimum(lower, values), np.maximum(upper, values))


def _unshrunk(
    values: NDArray[np.float64],
    noise: NoiseLaw,
    predictions: Sequence[Prediction],
    satisfied: Satisfied,
    bound: float,
) -> tuple[Estimates, Estimates]:
    """Estimates without a prior."""
    reach = _MAX_LOSS_RATIO * (float(np.maximum(values, 0).max()) + 8 * noise.stddev)
    curve = loss_curve(values, satisfied, Support.up_to(reach))
    width = (float(np.log(20.0)) / np.sqrt(2.0) if noise.laplace else -float(ndtri(0.025))) * noise.stddev
    width += noise.step / 2
    upper = values + width
    upper = upper + (1 + _LOSS_ERROR) * curve.loss_of(curve.counts_of(upper))
    others = predictions[0].others if predictions else np.empty(0)
    return (
        _within(values, values - width, upper, bound),
        _within(np.maximum(others, 0.0), np.zeros(others.size), np.full(others.size, bound), bound),
    )
