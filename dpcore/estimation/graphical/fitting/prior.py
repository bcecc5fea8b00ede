"""How far a component of a marginal is expected to lie from what smaller marginals tell: learnt from noisy values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement

Vector = NDArray[np.float64]
LEAST_EXPECTED: Final = 0.01
LARGEST_PRIOR_SCALE: Final = 5.0
_SMALLEST_SPREAD: Final = 1e-3
_TRIED: Final = 2.0 ** np.arange(-4, 8, 0.25)
_APART: Final = 1.5  # Standard deviation of the logarithms of spreads, of one marginal's and of one order's.
_OWN: Final = (3.0, 30.0)


def prior_variances(counts: Vector, spread: float | Vector) -> Vector:
    """Prior variance of answers that a base expects to be e: spread e^1.5.

    Between e, that of independent rows, and e^2, that of deviations in proportion.
    """
    return np.asarray(spread * np.maximum(counts, LEAST_EXPECTED) ** 1.5)


def learn_prior_scale(
    domain: Domain, terms: Sequence[LinearMeasurement], away: Sequence[Vector], counts: Sequence[Vector]
) -> float:
    """The spread of ``prior_variances`` that explains how far measured components lie from a model.

    terms: Centred terms that the model was not fitted to. away: Their values less the model's answers.
    counts: What the base expects of their marginals, uncentred.

    By moments: E |away|^2 = dof (1 / precision + mean prior variance), summed with the weights ``precision``. The
    largest spread, which holds without evidence, counts as much as one standard deviation of the noise in the sum. It
    is never passed: large marginals of strong signals would speak for small ones of none.
    """
    signal = prior = freedom = 0.0
    for term, distance, expected in zip(terms, away, counts, strict=True):
        dof = math.prod(size - 1 for size in domain.shape(term.clique))
        signal += term.precision * float(distance @ distance) - dof
        prior += term.precision * dof * float(prior_variances(expected, 1.0).mean())
        freedom += dof
    trust = math.sqrt(2 * freedom)
    if prior + trust <= 0:
        return LARGEST_PRIOR_SCALE
    learnt = (max(signal, 0.0) + trust * LARGEST_PRIOR_SCALE) / (prior + trust)
    return min(LARGEST_PRIOR_SCALE, max(_SMALLEST_SPREAD, learnt))


def own_prior_scales(
    domain: Domain, terms: Sequence[LinearMeasurement], away: Sequence[Vector], counts: Sequence[Vector]
) -> Vector:
    """A spread for each component, float64 [terms], between 3 and 30; arguments as of ``learn_prior_scale``.

    The most probable one where the logarithm of a marginal's spread is normal around that of all of them together, and
    this one around that of ``LARGEST_PRIOR_SCALE``. A component of d degrees of freedom on c cells counts as d / c of
    independent cells. The ends: the many small cells of a large marginal, which hardly move, say little about the few
    large ones, and with a weak prior a fit takes long.
    """
    likely = [_log_likelihoods(domain, *one) for one in zip(terms, away, counts, strict=True)]
    together = _most_probable(np.sum(likely, axis=0), LARGEST_PRIOR_SCALE) if likely else LARGEST_PRIOR_SCALE
    return np.clip([_most_probable(one, together) for one in likely], *_OWN)


def _log_likelihoods(domain: Domain, term: LinearMeasurement, away: Vector, expected: Vector) -> Vector:
    """Of each of the tried spreads, but for a constant."""
    part = math.prod(size - 1 for size in domain.shape(term.clique)) / away.size
    prior = prior_variances(expected, 1.0)
    found = np.empty(len(_TRIED))
    for place, spread in enumerate(_TRIED.tolist()):
        variances = spread * prior + 1 / term.precision
        found[place] = -(part * np.log(variances).sum() + (away**2 / variances).sum()) / 2
    return found


def _most_probable(likely: Vector, around: float) -> float:
    return float(_TRIED[np.argmax(likely - (np.log(_TRIED / around) / _APART) ** 2 / 2)])
