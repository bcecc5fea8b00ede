"""How well a mixture of basket classes agrees with noisy item counts and noisy pair counts, and in which direction not.

Both are clipped: a heavy basket adds less than 1 to each of its items and pairs. The mixture is clipped in the same
way before it is compared, so that its own answers are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.baskets.fixed_size import pair_sums_of, pair_terms
from dpcore.estimation.baskets.mixture import Classes, Nodes, Parameters, RareItems, Vector

# Points and weights for the mean over a normal variable.
_POINTS: Final = np.linspace(-1.8, 1.8, 7)
_POINT_WEIGHTS: Final = np.exp(-(_POINTS**2) / 2) / np.exp(-(_POINTS**2) / 2).sum()


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """Noisy measurements of M items and all their pairs, as fractions of the units.

    nodes: The sizes of baskets.
    counts: float64 [M], clipped counts of the items. count_stddev: The standard deviation of their noise.
    pairs: float64 [M, M], symmetric, clipped counts of the pairs; the diagonal is ignored.
    pair_stddev: The standard deviation of their noise.
    pair_weights: float64 [pairs + 1], by the number of pairs of the M items in a basket, the fraction of each that the
        clipped counts keep.
    """

    nodes: Nodes
    counts: Vector
    count_stddev: float
    pairs: Vector
    pair_stddev: float
    pair_weights: Vector


@final
@dataclass(frozen=True, eq=False)
class Penalty:
    """Standard deviations of normal priors around 0: of tastes, of tilts, and of how shares change with size."""

    tastes: float
    tilts: float = 0.5
    share_tilts: float = 1.0


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """What the mixture predicts, with the loss and its gradient.

    loss: Half the sum of squared standardised residuals and penalties.
    gradient: The derivatives of the loss, one array for each field of ``Parameters``.
    pairs: float64 [M, M], predicted clipped pairs. counts: float64 [M], predicted clipped counts.
    """

    loss: float
    gradient: Parameters
    pairs: Vector
    counts: Vector


def kept_pairs(classes: Classes, evidence: Evidence) -> Vector:
    """The expected fraction of each pair that clipping keeps in each class, float64 [J, T].

    The number of the M items in a basket is taken as normal with the mean and variance of the class. A pair is as
    likely to be in a basket as the basket has pairs, so baskets are weighted by their number of pairs.
    """
    mean = classes.p.sum(axis=2)
    variance = (classes.p * (1 - classes.p)).sum(axis=2)
    stddev = np.sqrt(np.maximum(variance * (1 - variance / classes.spread), 0.0))
    items = np.clip(mean[..., None] + _POINTS * stddev[..., None], 0.0, classes.p.shape[2])
    pairs = items * (items - 1) / 2
    weights = _POINT_WEIGHTS * np.maximum(pairs, 1e-3)
    rows = np.clip(np.ceil(pairs), 1, len(evidence.pair_weights) - 1).astype(np.int64)
    return np.asarray((weights * evidence.pair_weights[rows]).sum(axis=2) / weights.sum(axis=2))


@final
@dataclass(frozen=True, eq=False)
class PairFacts:
    """What turns probabilities of items into expected clipped counts of pairs. A fit refreshes it now and then.

    kept: float64 [J, T], the expected fraction of each pair that clipping keeps.
    factors: float64 [J * T, M], c / v of each item (``fixed_size``), with v = p (1 - p).
    """

    kept: Vector
    factors: Vector


def pair_facts(classes: Classes, rare: RareItems, evidence: Evidence) -> PairFacts:
    """The facts of these classes."""
    p, rare_p = (part.reshape(classes.levels.size, -1) for part in (classes.p, classes.rare_p))
    numbers = np.concatenate([np.ones(p.shape[1]), rare.numbers])
    sums, dominant = pair_sums_of(np.concatenate([p, rare_p], axis=1), numbers)
    v = np.maximum(p * (1 - p), 1e-12)
    terms = pair_terms(v, sums[:, None], np.arange(p.shape[1]) == dominant[:, None])
    return PairFacts(kept_pairs(classes, evidence), terms / v)


def compare(
    parameters: Parameters,
    classes: Classes,
    evidence: Evidence,
    facts: PairFacts,
    penalty: Penalty,
    used: NDArray[np.floating] | None = None,
) -> Comparison:
    """Compares a mixture with the evidence.

    classes: The classes of the parameters, at levels that meet the sizes.
    facts: ``pair_facts`` of these classes or of earlier ones; they count as fixed in the gradient.
    used: float64 [M, M], 1 for pairs that count and 0 for others; by default all count.
    """
    nodes, logs = evidence.nodes, evidence.nodes.logs
    shape = classes.p.shape
    p = classes.p.reshape(-1, shape[2])
    v = p * (1 - p)
    c = v * facts.factors
    shares = parameters.taste_shares(logs)
    masses = nodes.masses[:, None] * shares
    pair_masses = (masses * facts.kept).ravel()
    count_masses = (masses * nodes.count_weights[:, None]).ravel()
    pairs = p.T @ (p * pair_masses[:, None]) - c.T @ (c * pair_masses[:, None])
    counts = count_masses @ p
    pair_pull = (pairs - evidence.pairs) / evidence.pair_stddev**2
    np.fill_diagonal(pair_pull, 0.0)
    if used is not None:
        pair_pull *= used
    count_pull = (counts - evidence.counts) / evidence.count_stddev**2
    loss = 0.25 * float((pair_pull * (pairs - evidence.pairs)).sum())
    loss += 0.5 * float(count_pull @ (counts - evidence.counts)) + _penalised(parameters, penalty)
    pulled, c_pulled = p @ pair_pull, c @ pair_pull
    by_p = pair_masses[:, None] * (pulled - c_pulled * facts.factors * (1 - 2 * p))
    by_p += count_masses[:, None] * count_pull
    # A logit moves all others of its class through the level that keeps the sum.
    by_logit = (v * (by_p - ((v * by_p).sum(axis=1) / classes.spread.ravel())[:, None])).reshape(shape)
    by_mass = facts.kept.ravel() * 0.5 * ((pulled * p).sum(axis=1) - (c_pulled * c).sum(axis=1))
    by_mass = by_mass.reshape(shape[:2]) + nodes.count_weights[:, None] * (p @ count_pull).reshape(shape[:2])
    by_share = masses * (by_mass - (shares * by_mass).sum(axis=1, keepdims=True))
    gradient = Parameters(
        base=by_logit.sum(axis=(0, 1)),
        tilts=logs @ by_logit.sum(axis=1) + parameters.tilts / penalty.tilts**2,
        tastes=by_logit.sum(axis=0) + parameters.tastes / penalty.tastes**2,
        shares=by_share.sum(axis=0),
        share_tilts=logs @ by_share + parameters.share_tilts / penalty.share_tilts**2,
    )
    return Comparison(loss, gradient, pairs, counts)


def _penalised(parameters: Parameters, penalty: Penalty) -> float:
    return 0.5 * float(
        (parameters.tastes**2).sum() / penalty.tastes**2
        + (parameters.tilts**2).sum() / penalty.tilts**2
        + (parameters.share_tilts**2).sum() / penalty.share_tilts**2
    )


def rare_counts(classes: Classes, parameters: Parameters, nodes: Nodes, rare: RareItems) -> Vector:
    """The clipped count of one item of each rare group, float64 [R]."""
    masses = nodes.masses[:, None] * parameters.taste_shares(nodes.logs) * nodes.count_weights[:, None]
    return np.asarray(np.einsum("jt,jtr->r", masses, classes.rare_p))
