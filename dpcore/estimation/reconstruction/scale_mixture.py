"""Empirical Bayes for many noisy tables: how far each lies from what was expected, with a prior learnt from all.

A table's deviation d from its expectation has, in each cell, the prior N(0, g e^1.5), where e is the expected count of
the cell. The power 1.5 lies between 1, for sampling from independent rows, and 2, for deviations in proportion to the
count. The scale g belongs to the table as a whole. Its prior is a distribution over a grid of scales, 0 among them,
which is learnt from all tables by maximum likelihood: if most tables do what was expected, most scales are near 0, and
their noise is shrunk away; tables far beyond their noise keep what was measured.

Source: normal scale mixtures as in Stephens (2017), "False discovery rates: a new deal", for tables in place of
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Real = NDArray[np.float64]
_SCALES: Final = np.concatenate([[0.0], 4.0 ** np.arange(-12, 6, 0.5)])  # The grid of g, in units of e^0.5.
_RATIO: Final = 4.0
SIZES: Final = np.concatenate([[0.0], _RATIO ** np.arange(-6.0, 26.0)])
"""The prior variances that a cell may have, in counts^2."""
_PARTS: Final = 8  # Parts of a table's cells, from small to large, that are told apart by their sizes.
_MIN_EXPECTED: Final = 0.01  # Smaller expected counts are raised to this.
_STEPS: Final = 200  # Steps of expectation-maximisation.


@final
@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Tables of one shape with their noise.

    deviations: float64 [tables, *shape], noisy tables less what was expected. They sum to 0 along every axis.
    expected: float64 [tables, *shape], the expected counts, positive.
    variances: float64 [tables], v: a table's noise is N(0, v P), with the projection P onto the tables that sum to 0
        along every axis.
    """

    deviations: Real
    expected: Real
    variances: Real

    @property
    def freedom(self) -> float:
        """The trace of P over the number of cells: the part of a cell's noise that the projection leaves."""
        return float(math.prod(1 - 1 / size for size in self.deviations.shape[1:]))

    @property
    def unit_variances(self) -> Real:
        """Prior variance of each cell at scale 1, float64 [tables, cells]."""
        return np.asarray(np.maximum(self.expected.reshape(len(self.expected), -1), _MIN_EXPECTED) ** 1.5)


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of the deviations of groups of tables.

    means: The posterior means of the deviations, like ``deviations`` of each group.
    log_likelihood: Of all tables, under the learnt prior.
    sizes: For each group float64 [tables, levels]: the chances that a cell has each variance of ``SIZES``.
    """

    means: list[Real]
    log_likelihood: float
    sizes: list[Real]


def posterior_deviations(groups: Iterable[NoisyTables], pseudo_tables: float = 1.0) -> Posterior:
    """The posterior of the deviations.

    pseudo_tables: Number of tables of scale 0 that are added, so that noise alone is not taken for signal.

    One prior serves all groups. The posterior mean of a cell at scale g is g e^1.5 / (g e^1.5 + v) times its deviation;
    it is averaged over the posterior of g, and the table is centred along every axis again. The log likelihood compares
    different expectations of the same tables. For the sizes, a table counts half as all tables together do, because its
    own measurement may mislead.
    """
    groups = list(groups)
    if not groups:
        return Posterior([], 0.0, [])
    likelihoods = [_log_likelihoods(group) for group in groups]
    together = np.concatenate(likelihoods)
    prior = _learnt(together, pseudo_tables)
    with np.errstate(divide="ignore"):
        log_likelihood = float(logsumexp(together + np.log(prior), axis=1).sum())
    posteriors = [_responsibilities(part, prior) for part in likelihoods]
    together = np.concatenate(posteriors).mean(axis=0)
    means = [_means(group, part) for group, part in zip(groups, posteriors, strict=True)]
    sizes = [_sizes(group, (part + together) / 2) for group, part in zip(groups, posteriors, strict=True)]
    return Posterior(means, log_likelihood, sizes)


def _log_likelihoods(group: NoisyTables) -> Real:
    """Log likelihood of each scale, up to a constant of each table, float64 [tables, scales].

    The cells are treated as independent, and the number of them is corrected for the directions that P removes.
    """
    squares, units = group.deviations.reshape(len(group.deviations), -1) ** 2, group.unit_variances
    columns = [
        -0.5 * ((squares / variances).sum(axis=1) + group.freedom * np.log(variances).sum(axis=1))
        for variances in _cell_variances(group, units)
    ]
    return np.stack(columns, axis=1)


def _learnt(log_likelihoods: Real, pseudo_tables: float) -> Real:
    """The distribution over the scales with the largest likelihood, by expectation-maximisation, float64 [scales]."""
    prior = np.full(len(_SCALES), 1 / len(_SCALES))
    for _ in range(_STEPS):
        sums = _responsibilities(log_likelihoods, prior).sum(axis=0)
        sums[0] += pseudo_tables
        prior = sums / sums.sum()
    return prior


def _responsibilities(log_likelihoods: Real, prior: Real) -> Real:
    """The posterior of the scales of each table, float64 [tables, scales]."""
    with np.errstate(divide="ignore"):
        logs = log_likelihoods + np.log(prior)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _means(group: NoisyTables, responsibilities: Real) -> Real:
    units = group.unit_variances
    factors = np.zeros_like(units)
    for weights, scale in zip(responsibilities.T, _SCALES.tolist(), strict=True):
        factors += weights[:, None] * (scale * units / (scale * units + group.variances[:, None]))
    means = group.deviations * factors.reshape(group.deviations.shape)
    return centred(means)


def _sizes(group: NoisyTables, responsibilities: Real) -> Real:
    """The chances that a cell of each table has each variance of ``SIZES``, float64 [tables, levels]."""
    units = np.sort(group.unit_variances, axis=1)
    units = np.stack([part.mean(axis=1) for part in np.array_split(units, min(_PARTS, units.shape[1]), axis=1)], axis=1)
    chances, tables = np.zeros((len(units), len(SIZES))), np.arange(len(units))
    chances[:, 0] = responsibilities[:, 0]
    for weights, scale in zip(responsibilities.T[1:], _SCALES[1:].tolist(), strict=True):
        for unit in units.T:
            levels = np.clip(np.rint(np.log(scale * unit / SIZES[1]) / math.log(_RATIO)) + 1, 1, len(SIZES) - 1)
            chances[tables, levels.astype(np.intp)] += weights / units.shape[1]
    return chances


def _cell_variances(group: NoisyTables, units: Real) -> Iterator[Real]:
    """Prior variance and noise of each cell, for one scale after another; float64 [tables, cells]."""
    for scale in _SCALES.tolist():
        yield scale * units + group.variances[:, None]


def centred(tables: Real) -> Real:
    """Tables less their means along every axis but the first."""
    for axis in range(1, tables.ndim):
        tables = tables - tables.mean(axis=axis, keepdims=True)
    return tables
