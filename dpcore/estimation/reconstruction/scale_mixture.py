"""Empirical Bayes for many noisy tables: how far each lies from what was expected, with a prior learnt from all.

A table's deviation d from its expectation has, in each cell, the prior N(0, g e^1.5), where e is the expected count of
the cell. The power 1.5 lies between 1, for sampling from independent rows, and 2, for deviations in proportion to the
count. Or it has the prior N(0, g m) with the mean m of the expected counts: cells that were expected to be empty may
then hold much. The scale g belongs to the table as a whole. Which prior it has is a distribution over two grids of
scales, 0 among them, which is learnt from all tables by maximum likelihood: if most tables do what was expected, most
scales are near 0, and their noise is shrunk away; tables far beyond their noise keep what was measured.

Source: normal scale mixtures as in Stephens (2017), "False discovery rates: a new deal", for tables in place of
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Real = NDArray[np.float64]
_SCALES: Final = np.concatenate([[0.0], 4.0 ** np.arange(-12, 6, 0.5)])  # The grid of g for N(0, g e^1.5).
_EVEN_SCALES: Final = 4.0 ** np.arange(-4.0, 9.0)  # The grid of g for N(0, g m).
# For the sizes: the chance that a table is like none of the others is that of 3 tables among all, at most 0.1.
_OPEN_TABLES, _MAX_OPEN = 3.0, 0.1
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

    def units(self) -> Iterator[tuple[Real, Real]]:
        """Each grid of scales, and the prior variance of each cell at the scale 1, float64 [tables, cells]."""
        expected = np.maximum(self.expected.reshape(len(self.expected), -1), _MIN_EXPECTED)
        yield _SCALES, expected**1.5
        yield _EVEN_SCALES, np.repeat(expected.mean(axis=1, keepdims=True), expected.shape[1], axis=1)

    def priors(self) -> Iterator[Real]:
        """The prior variance of each cell, float64 [tables, cells], for one prior after another; the first is 0."""
        yield from (scale * units for scales, units in self.units() for scale in scales.tolist())


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of the deviations of groups of tables.

    groups: The tables.
    log_likelihoods: Of each prior, for each group float64 [tables, priors], up to a constant of each table.
    prior: The chances of the priors, float64 [priors].
    """

    groups: list[NoisyTables]
    log_likelihoods: list[Real]
    prior: Real

    def means(self) -> Iterator[Real]:
        """The posterior means of the deviations, like ``deviations`` of each group."""
        for group, log_likelihoods in zip(self.groups, self.log_likelihoods, strict=True):
            yield _means(group, _responsibilities(log_likelihoods, self.prior))

    def log_likelihood(self) -> float:
        """Of all tables, under the learnt prior."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.prior)
        return sum(float(logsumexp(part + logs, axis=1).sum()) for part in self.log_likelihoods)

    def sizes(self) -> Iterator[Real]:
        """For each group float64 [tables, levels]: the chances that a cell has each variance of ``SIZES``.

        Each table has, with a small chance, a prior that is spread evenly over the grid: the sizes decide what is
        measured next, and overlooking a signal costs more than measuring noise. The more tables there are, the surer
        is what was learnt from all of them, and the smaller is this chance.
        """
        tables = sum(len(group.deviations) for group in self.groups)
        open_share = min(_MAX_OPEN, _OPEN_TABLES / max(1, tables))
        wider = (1 - open_share) * self.prior + open_share / len(self.prior)
        for group, log_likelihoods in zip(self.groups, self.log_likelihoods, strict=True):
            yield _sizes(group, _responsibilities(log_likelihoods, wider))


def posterior_deviations(groups: Iterable[NoisyTables], pseudo_tables: float = 1.0) -> Posterior:
    """The posterior of the deviations.

    pseudo_tables: Number of tables of scale 0 that are added, so that noise alone is not taken for signal.

    One distribution over the priors serves all groups. With the prior variance t, the posterior mean of a cell is
    t / (t + v) times its deviation; it is averaged over the posterior of the prior, and the table is centred along
    every axis again. The log likelihood compares different expectations of the same tables.
    """
    groups = list(groups)
    log_likelihoods = [_log_likelihoods(group) for group in groups]
    return Posterior(groups, log_likelihoods, _learnt(log_likelihoods, pseudo_tables))


def _log_likelihoods(group: NoisyTables) -> Real:
    """Log likelihood of each prior, up to a constant of each table, float64 [tables, priors].

    The cells are treated as independent, and the number of them is corrected for the directions that P removes.
    """
    squares, noise = group.deviations.reshape(len(group.deviations), -1) ** 2, group.variances[:, None]
    columns = [
        -0.5 * ((squares / variances).sum(axis=1) + group.freedom * np.log(variances).sum(axis=1))
        for variances in (prior + noise for prior in group.priors())
    ]
    return np.stack(columns, axis=1)


def _learnt(log_likelihoods: Sequence[Real], pseudo_tables: float) -> Real:
    """The distribution over the priors with the largest likelihood, by expectation-maximisation, float64 [priors]."""
    count = len(_SCALES) + len(_EVEN_SCALES)
    together = np.concatenate([np.empty((0, count)), *log_likelihoods])
    prior = np.full(count, 1 / count)
    for _ in range(_STEPS):
        sums = _responsibilities(together, prior).sum(axis=0)
        sums[0] += pseudo_tables
        prior = sums / sums.sum()
    return prior


def _responsibilities(log_likelihoods: Real, prior: Real) -> Real:
    """The posterior of the prior of each table, float64 [tables, priors]."""
    with np.errstate(divide="ignore"):
        logs = log_likelihoods + np.log(prior)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _means(group: NoisyTables, responsibilities: Real) -> Real:
    factors = np.zeros((len(group.deviations), group.deviations[0].size))
    for weights, prior in zip(responsibilities.T, group.priors(), strict=True):
        factors += weights[:, None] * (prior / (prior + group.variances[:, None]))
    return centred(group.deviations * factors.reshape(group.deviations.shape))


def _sizes(group: NoisyTables, responsibilities: Real) -> Real:
    """The chances that a cell of each table has each variance of ``SIZES``, float64 [tables, levels]."""
    count, levels = len(group.deviations), len(SIZES)
    weights = np.split(responsibilities, [len(_SCALES)], axis=1)
    chances = np.zeros(count * levels)
    for (scales, units), of_scales in zip(group.units(), weights, strict=True):
        parts = np.array_split(np.sort(units, axis=1), min(_PARTS, units.shape[1]), axis=1)
        means = np.stack([part.mean(axis=1) for part in parts])  # [parts, tables]
        for scale, of_scale in zip(scales.tolist(), of_scales.T, strict=True):
            variances = np.maximum(scale * means, SIZES[1] / _RATIO)
            level = np.clip(np.rint(np.log(variances / SIZES[1]) / math.log(_RATIO)) + 1, 0, levels - 1)
            cells = level.astype(np.intp) + levels * np.arange(count)
            of_parts = np.broadcast_to(of_scale / len(parts), cells.shape)
            chances += np.bincount(cells.ravel(), of_parts.ravel(), minlength=chances.size)
    return chances.reshape(count, levels)


def centred(tables: Real) -> Real:
    """Tables less their means along every axis but the first."""
    for axis in range(1, tables.ndim):
        tables = tables - tables.mean(axis=axis, keepdims=True)
    return tables
