"""Fits the classes of baskets to noisy counts of items and pairs. All of it is post-processing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.estimation.baskets.mixture import Classes, Nodes, Parameters, RareItems, Vector, classes_at, solved
from dpcore.estimation.baskets.mixture_loss import Comparison, Evidence, Penalty, compare, pair_facts, rare_counts

_STEP: Final = 0.08  # Of Adam, in logits; it falls to 0 over the second half of the steps.
_MOMENTUM, _SCALES = 0.9, 0.98  # Decay of Adam's means of gradients and of their squares.
_REFRESH: Final = 25  # Steps between two predictions of what clipping keeps, and of rare items.
_START: Final = 0.3  # Standard deviation of the tastes' starting values.
_COUNT_DEVIATIONS: Final = 0.75  # Fitted item counts are moved to within this many standard deviations of the noise.
_ROUNDS: Final = 30  # Of that correction.
_OWN_PROBABILITY: Final = 0.6  # Starting probability of an item in a taste that a residual suggests.
_LARGEST_TASTE: Final = 8.0
_AVOIDED: Final = 4.0  # A taste for an item without others lowers the logits of those by this much.
_RELATED: Final = 3.0  # An item joins the taste of a pair if both residuals are this many standard deviations.


@final
@dataclass(frozen=True)
class FitSettings:
    """Bounds and candidates of a fit. ``dpcore/decisions/baskets.md`` has the measurements that chose them.

    candidates: Pairs of a number of tastes and the standard deviation of their prior, the simplest first. A later one
        is used if it predicts held-out pairs better.
    candidate_errors: By how many standard errors of the difference it must do so.
    largest_error: Errors of held-out pairs count up to this many standard deviations of the noise.
    held_out: Fraction of the pairs that a trial of a candidate does not see.
    trials: Number of trials of each candidate, each with other held-out pairs.
    trial_steps, steps: Steps of Adam for a candidate, and for the fit itself before and after residuals add tastes.
    residual_tastes: Maximum number of tastes that residuals add.
    residual_deviations: Residuals above this many standard deviations of the noise add a taste: of pairs that are more
        frequent than the mixture says, and as far as there is room, of pairs that are less frequent.
    """

    candidates: tuple[tuple[int, float], ...] = ((1, 1.0), (24, 10.0))
    candidate_errors: float = 1.5
    largest_error: float = 4.0
    held_out: float = 0.2
    trials: int = 2
    trial_steps: int = 150
    steps: int = 250
    residual_tastes: int = 24
    residual_deviations: float = 3.3


@final
@dataclass(frozen=True, eq=False)
class Fitted:
    """parameters, rare: The logits of popular and of rare items. classes: The classes at the nodes of the evidence."""

    parameters: Parameters
    rare: RareItems
    classes: Classes


def fit_mixture(
    evidence: Evidence,
    rare: RareItems,
    rare_targets: Vector,
    settings: FitSettings,
    generator: Generator,
    progress: Callable[[], None] = lambda: None,
) -> Fitted:
    """Fits a mixture.

    evidence: Counts of the popular items and their pairs.
    rare: Groups of all other items, with starting values of their logits.
    rare_targets: float64 [R], positive, the clipped count of one item of each group, as a fraction of the units.
    generator: For starting values and held-out pairs.
    progress: Called after each stage.

    1. SPLIT the pairs, and fit each candidate, with tastes for its residuals, to most of them; the others choose the
       number of tastes and the prior. The error of a pair counts up to a limit; otherwise a few pairs that a wide
       prior gets very wrong would hide all others.
    2. FIT the chosen candidate to all pairs.
    3. ADD a taste for each pair, or group of pairs, whose residual is significant, and fit again.
    4. CORRECT the item counts to within their noise.
    """
    items = len(evidence.counts)
    parts = generator.random((items, items)) / settings.held_out
    held_out = [np.triu((parts >= trial) & (parts < trial + 1), 1) for trial in range(settings.trials)]
    starts = {tastes: _start(evidence, tastes, generator) for tastes, _ in settings.candidates}
    best, choice = None, None
    for tastes, prior in settings.candidates if any(map(np.any, held_out)) else settings.candidates[:1]:
        fits = [_Fit(evidence, Penalty(prior), rare, rare_targets, 1.0 - (pairs | pairs.T)) for pairs in held_out]
        trials = [fit.trial(starts[tastes], settings) for fit in fits]
        errors = np.concatenate([errors for errors, _ in trials])
        if best is None or choice is None or _is_better(errors, best, settings.candidate_errors):
            best, choice = errors, (prior, trials[0][1])
        progress()
    assert choice is not None
    prior, fitted = choice
    final = _Fit(evidence, Penalty(prior), fitted.rare, rare_targets, None)
    fitted = final.run(fitted.parameters, settings.steps)
    progress()
    enlarged = final.with_residual_tastes(fitted, settings)
    if enlarged is not None:
        fitted = _Fit(evidence, Penalty(prior), fitted.rare, rare_targets, None).run(enlarged, settings.steps)
    progress()
    return _corrected(fitted, evidence, rare_targets)


def clipped_counts(fitted: Fitted, nodes: Nodes) -> Vector:
    """The expected clipped counts of the M items, as fractions of the units, float64 [M]."""
    masses = nodes.masses[:, None] * fitted.parameters.taste_shares(nodes.logs) * nodes.count_weights[:, None]
    return np.asarray(np.einsum("jt,jti->i", masses, fitted.classes.p))


def _is_better(errors: Vector, best: Vector, standard_errors: float) -> bool:
    """Whether the mean of some errors is below that of others by some standard errors of the difference."""
    gains = best - errors
    return bool(gains.mean() > standard_errors * gains.std() / np.sqrt(gains.size))


def _start(evidence: Evidence, tastes: int, generator: Generator) -> Parameters:
    """Independent items, with small random differences between tastes."""
    items = len(evidence.counts)
    p = np.clip(evidence.counts, evidence.count_stddev / 4, 0.98)
    random = generator.normal(0.0, _START, (tastes, items)) if tastes > 1 else np.zeros((1, items))
    return Parameters(np.log(p / (1 - p)), np.zeros(items), random, np.zeros(tastes), np.zeros(tastes))


@dataclass(eq=False)
class _Fit:
    """One fit by Adam (Kingma and Ba 2015) with all data in each step.

    used: float64 [M, M], 1 for the pairs that count; None for all.
    """

    evidence: Evidence
    penalty: Penalty
    rare: RareItems
    rare_targets: Vector
    used: NDArray[np.floating] | None

    def run(self, parameters: Parameters, steps: int) -> Fitted:
        levels = solved(parameters, self.rare, self.evidence.nodes).levels
        names = [field.name for field in fields(Parameters)]
        now = {name: getattr(parameters, name).copy() for name in names}
        means = {name: np.zeros_like(now[name]) for name in names}
        squares = {name: np.zeros_like(now[name]) for name in names}
        for step in range(1, steps + 1):
            parameters = Parameters(**now)
            classes, levels = classes_at(parameters, self.rare, self.evidence.nodes, levels)
            if step % _REFRESH == 1:
                self._refresh_rare(parameters, classes)
                facts = pair_facts(classes, self.rare, self.evidence)
            gradient = compare(parameters, classes, self.evidence, facts, self.penalty, self.used).gradient
            rate = _STEP * min(1.0, 2 * (1 - step / (steps + 1)))
            for name in names:
                if name == "tastes" and len(parameters.shares) == 1:
                    continue
                slope = getattr(gradient, name)
                means[name] = _MOMENTUM * means[name] + (1 - _MOMENTUM) * slope
                squares[name] = _SCALES * squares[name] + (1 - _SCALES) * slope**2
                mean = means[name] / (1 - _MOMENTUM**step)
                now[name] = now[name] - rate * mean / (np.sqrt(squares[name] / (1 - _SCALES**step)) + 1e-12)
        parameters = Parameters(**now)
        return Fitted(parameters, self.rare, solved(parameters, self.rare, self.evidence.nodes, levels))

    def trial(self, start: Parameters, settings: FitSettings) -> tuple[Vector, Fitted]:
        """Squared errors of the pairs that are not used, with tastes for residuals, and the fit before those.

        The errors are in standard deviations of the noise, and at most ``settings.largest_error``.
        """
        fitted = self.run(start, settings.trial_steps)
        enlarged = self.with_residual_tastes(fitted, settings)
        full = fitted if enlarged is None else self.run(enlarged, settings.trial_steps)
        assert self.used is not None
        unused = np.triu(self.used == 0.0, 1)
        distances = np.abs(self.compared(full).pairs - self.evidence.pairs)[unused]
        return np.minimum(distances / self.evidence.pair_stddev, settings.largest_error) ** 2, fitted

    def _refresh_rare(self, parameters: Parameters, classes: Classes) -> None:
        if self.rare.logits.size:
            counts = rare_counts(classes, parameters, self.evidence.nodes, self.rare)
            logits = self.rare.logits + np.clip(np.log(self.rare_targets / counts), -1.0, 1.0)
            self.rare = RareItems(np.minimum(logits, _LARGEST_TASTE), self.rare.numbers)

    def compared(self, fitted: Fitted) -> Comparison:
        """The fitted mixture beside the evidence."""
        facts = pair_facts(fitted.classes, fitted.rare, self.evidence)
        return compare(fitted.parameters, fitted.classes, self.evidence, facts, self.penalty)

    def with_residual_tastes(self, fitted: Fitted, settings: FitSettings) -> Parameters | None:
        """The parameters with a taste for each group of items whose pairs the mixture misses; None if there is none."""
        evidence = self.evidence
        residuals = (evidence.pairs - self.compared(fitted).pairs) / evidence.pair_stddev
        np.fill_diagonal(residuals, 0.0)
        if self.used is not None:
            residuals *= self.used
        open_pairs = residuals.copy()
        tastes: list[Vector] = []
        shares: list[float] = []
        while len(tastes) < settings.residual_tastes:
            together = open_pairs.max() >= settings.residual_deviations
            i, j = divmod(int(open_pairs.argmax() if together else open_pairs.argmin()), len(open_pairs))
            if abs(open_pairs[i, j]) < settings.residual_deviations:
                break
            with_i, with_j = residuals[i] > _RELATED, residuals[j] > _RELATED
            members = with_i & with_j if together else with_i & ~with_j
            members[i], members[j] = True, together
            wanted = np.log(_OWN_PROBABILITY / (1 - _OWN_PROBABILITY)) - fitted.parameters.base
            taste = np.where(members, np.clip(wanted, 0.0, _LARGEST_TASTE), 0.0)
            if not together:
                without = residuals[i] < -_RELATED
                without[j] = True
                taste[without] = -_AVOIDED
                open_pairs[i, without] = open_pairs[without, i] = 0.0
            tastes.append(taste)
            shares.append(abs(float(residuals[i, j])) * evidence.pair_stddev / _OWN_PROBABILITY**2)
            open_pairs[np.ix_(members, members)] = 0.0
        if not tastes:
            return None
        return fitted.parameters.with_tastes(np.array(tastes), np.minimum(np.array(shares), 0.9 / len(shares)))


def _corrected(fitted: Fitted, evidence: Evidence, rare_targets: Vector) -> Fitted:
    """Moves the base of each item until its clipped count is near the measured one, as its noise allows."""
    parameters, rare, classes = fitted.parameters, fitted.rare, fitted.classes
    nodes, slack = evidence.nodes, _COUNT_DEVIATIONS * evidence.count_stddev
    masses = nodes.masses[:, None] * parameters.taste_shares(nodes.logs) * nodes.count_weights[:, None]
    for _ in range(_ROUNDS):
        counts = np.einsum("jt,jti->i", masses, classes.p)
        slopes = np.einsum("jt,jti->i", masses, classes.p * (1 - classes.p))
        targets = np.clip(counts, evidence.counts - slack, evidence.counts + slack)
        change = np.clip((targets - counts) / np.maximum(slopes, 1e-12), -0.5, 0.5)
        base = parameters.base + np.where(targets > 0, change, 0.0)
        parameters = Parameters(base, parameters.tilts, parameters.tastes, parameters.shares, parameters.share_tilts)
        if rare.logits.size:
            ratio = rare_targets / rare_counts(classes, parameters, nodes, rare)
            rare = RareItems(rare.logits + np.clip(np.log(ratio), -0.5, 0.5), rare.numbers)
        classes = solved(parameters, rare, nodes, classes.levels, 10)
    return Fitted(parameters, rare, classes)
