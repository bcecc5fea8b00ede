"""Priors: how far the component of a marginal is expected to lie from what smaller marginals imply.

The prior variance of an answer that independent attributes expect to be e is scale e^1.5. The scale is given, or learnt
from noisy values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.learnt_probabilities import learnt_probabilities, posteriors
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement

Vector = NDArray[np.float64]
MIN_EXPECTED: Final = 0.01  # In counts: smaller expected counts are raised to this.
LARGEST_PRIOR_SCALE: Final = 5.0
_SMALLEST_PRIOR_SCALE: Final = 1e-3
_TRIED_SCALES: Final = 2.0 ** np.arange(-4, 8, 0.25)
_LOG_DEVIATION: Final = 1.5  # Prior standard deviation of the logarithm of a scale.
_OWN_RANGE: Final = (3.0, 30.0)  # Smallest and largest scale of a single component that was selected.
_MIXED_SCALES: Final[Vector] = 2.0 ** np.arange(-10.0, 5.0)  # Scales of a single component that was not selected.
_LEAST_OF_ORDER: Final = 0.25  # No component has less than this part of its order's scale.
_PSEUDO_COMPONENTS: Final = 1.0  # Number of components of unknown scale that are added.
_STEPS: Final = 200  # Steps of expectation-maximisation.


def prior_variances(counts: Vector, scale: float | Vector) -> Vector:
    """Prior variances of answers, float64 like ``counts``: scale e^1.5 where independent attributes expect e.

    The power 1.5 lies between 1, for the sampling variance of independent rows, and 2, for deviations in proportion to
    the count.

    counts: Expected counts e.
    scale: One number, or one for each count.
    """
    return np.asarray(scale * np.maximum(counts, MIN_EXPECTED) ** 1.5)


def learn_prior_scale(
    domain: Domain,
    components: Sequence[LinearMeasurement],
    deviations: Sequence[Vector],
    counts: Sequence[Vector],
) -> float:
    """Learns the scale of ``prior_variances`` that explains how far measured components lie from a model.

    domain: Attributes and their sizes.
    components: Centred measurements to which the model was not fitted.
    deviations: For each component, its values less the model's answers, float64 [cells].
    counts: For each component, what independent attributes expect of its marginal, uncentred; float64 [cells].

    It is an estimate by moments: E |deviation|^2 = dof (1 / precision + mean prior variance), summed over components
    with the weights ``precision``. The estimate is shrunk towards the largest scale, which has as much weight as one
    standard deviation of the noise in the sum. No scale above that is returned, because large marginals with strong
    signals would otherwise set the scale for small marginals without any.
    """
    signal = prior = freedom = 0.0
    for component, deviation, expected in zip(components, deviations, counts, strict=True):
        dof = math.prod(size - 1 for size in domain.shape(component.clique))
        signal += component.precision * float(deviation @ deviation) - dof
        prior += component.precision * dof * float(prior_variances(expected, 1.0).mean())
        freedom += dof
    trust = math.sqrt(2 * freedom)
    if prior + trust <= 0:
        return LARGEST_PRIOR_SCALE
    learnt = (max(signal, 0.0) + trust * LARGEST_PRIOR_SCALE) / (prior + trust)
    return min(LARGEST_PRIOR_SCALE, max(_SMALLEST_PRIOR_SCALE, learnt))


def mixed_prior_scales(
    domain: Domain,
    components: Sequence[LinearMeasurement],
    deviations: Sequence[Vector],
    counts: Sequence[Vector],
    of_order: float,
) -> Vector:
    """Learns a scale for each component of one order, float64 [components], at most 16.

    Sound only for components that were not selected. The arguments are those of ``learn_prior_scale``, and

    of_order: What ``learn_prior_scale`` returns.

    How common each scale of a grid is, is learnt from all components, by maximum likelihood, with one component of
    unknown scale added. Each component gets the scale that shrinks its cells as much, on average, as the posterior of
    its scale does. No scale is below a quarter of ``of_order``: the prior belongs to the potentials of a model, which
    may be large where a deviation is small, as in functions of several attributes.
    """
    if not components:
        return np.empty(0)
    log_likelihoods = np.stack(
        [
            _log_likelihoods(domain, *values, _MIXED_SCALES)
            for values in zip(components, deviations, counts, strict=True)
        ]
    )
    of_components = posteriors(log_likelihoods, learnt_probabilities(log_likelihoods, _PSEUDO_COMPONENTS, _STEPS))
    scales = [_equal_scale(*values) for values in zip(components, counts, of_components, strict=True)]
    return np.maximum(scales, _LEAST_OF_ORDER * of_order)


def _equal_scale(component: LinearMeasurement, expected: Vector, posterior: Vector) -> float:
    """The scale that shrinks a component as much as a distribution over ``_MIXED_SCALES`` does."""
    priors = prior_variances(expected, 1.0)
    kept = [float((scale * priors / (scale * priors + 1 / component.precision)).mean()) for scale in _MIXED_SCALES]
    return float(np.exp(np.interp(posterior @ kept, kept, np.log(_MIXED_SCALES))))


def own_prior_scales(
    domain: Domain,
    components: Sequence[LinearMeasurement],
    deviations: Sequence[Vector],
    counts: Sequence[Vector],
) -> Vector:
    """Learns a scale for each component, float64 [components], between 3 and 30.

    The arguments are those of ``learn_prior_scale``. Each scale is the most probable one. Its prior is log-normal
    around a scale common to all components; the prior of the common scale is log-normal around
    ``LARGEST_PRIOR_SCALE``. A component with d degrees of freedom on c cells counts as d / c independent values per
    cell. The range is limited for two reasons: the many small cells of a large marginal, which hardly deviate, say
    little about the few large ones; and a fit with a weak prior takes long.
    """
    log_likelihoods = [
        _log_likelihoods(domain, *values, _TRIED_SCALES) for values in zip(components, deviations, counts, strict=True)
    ]
    common = LARGEST_PRIOR_SCALE
    if log_likelihoods:
        common = _most_probable(np.sum(log_likelihoods, axis=0), LARGEST_PRIOR_SCALE)
    return np.clip([_most_probable(log_likelihood, common) for log_likelihood in log_likelihoods], *_OWN_RANGE)


def _log_likelihoods(
    domain: Domain, component: LinearMeasurement, deviation: Vector, expected: Vector, tried: Vector
) -> Vector:
    """The log-likelihood of each tried scale, up to a constant."""
    share = math.prod(size - 1 for size in domain.shape(component.clique)) / deviation.size
    prior = prior_variances(expected, 1.0)
    log_likelihoods = np.empty(tried.size)
    for index, scale in enumerate(tried.tolist()):
        variances = scale * prior + 1 / component.precision
        log_likelihoods[index] = -(share * np.log(variances).sum() + (deviation**2 / variances).sum()) / 2
    return log_likelihoods


def _most_probable(log_likelihoods: Vector, centre: float) -> float:
    """The tried scale with the largest posterior probability under a log-normal prior around ``centre``."""
    penalties = (np.log(_TRIED_SCALES / centre) / _LOG_DEVIATION) ** 2 / 2
    return float(_TRIED_SCALES[np.argmax(log_likelihoods - penalties)])
