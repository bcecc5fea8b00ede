"""Empirical Bayes for a prior with one of a few values: how common each is, learnt from many noisy observations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def learnt_probabilities(log_likelihoods: NDArray[np.float64], pseudo: float, steps: int) -> Vector:
    """The likeliest probability of each value, by expectation-maximisation, float64 [values].

    log_likelihoods: Of each observation under each value, up to a constant of the observation, float64
        [observations, values].
    pseudo: Number of observations that are added, each of which says nothing.
    steps: Of expectation-maximisation.
    """
    likelihoods = normalised(np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True)))
    probabilities = even = normalised(np.ones(log_likelihoods.shape[1]))
    for _ in range(steps):
        probabilities = normalised(normalised(likelihoods * probabilities).sum(axis=0) + pseudo * even)
    return probabilities


def posteriors(log_likelihoods: NDArray[np.float64], probabilities: Vector) -> NDArray[np.float64]:
    """The probability of each value given an observation, float64 like ``log_likelihoods``.

    log_likelihoods: Up to a constant of the observation, float64 [..., values].
    probabilities: Of each value before, float64 [values].
    """
    return normalised(probabilities * np.exp(log_likelihoods - log_likelihoods.max(axis=-1, keepdims=True)))


def normalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights divided by their sum along the last axis."""
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
