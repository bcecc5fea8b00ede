"""Search for the subsets of attributes to measure and their shares of the sensitivity."""

from __future__ import annotations

from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.strategies.marginals.problem import MarginalProblem, Shares, Subsets
from dpcore.strategies.marginals.subset_sums import Vector, superset_sums

_MAX_MATRIX_ENTRIES: Final = 1 << 21  # Largest matrix of ``MarginalProblem.columns``: 16 MiB.
_GAP: Final = 1e-7  # Relative gap to the lower bound at which the convex descent (Gaussian noise) stops.
_MIN_RELATIVE_SHARE: Final = 1e-6  # Shares below this, relative to the largest, are dropped if the error hardly grows.
_OVER_RELAXATION: Final = 1.2  # Factor on the exponent of a step.
_STARTS: Final = 30  # Number of random sparse starts.
_MAX_RELATIVE_CELLS: Final = 1e4  # Largest marginal of a start, in cells relative to the workload's largest marginal.
# The search ends after this many successive perturbations without gain, or this many per candidate if that is less.
_PATIENCE: Final = 2000
_PATIENCE_PER_CANDIDATE: Final = 20
_HOPELESS: Final = 1.02  # A descent ends early if its error after 15 steps exceeds the best error by this factor.
_STEPS: Final = 100  # Maximum number of steps of one of many descents.


def best_shares(problem: MarginalProblem, effort: float, seed: int = 0) -> tuple[Shares, float]:
    """The best shares found, and a lower bound on the error of all shares of the candidates.

    problem: The error to minimise.
    effort: The number of multiplications to spend, about 2e9 per second. No clock is involved.
    seed: The seed of the random starts and perturbations under Laplace noise.

    Under Gaussian noise the problem is convex, and the error and the bound agree up to about a millionth. Under Laplace
    noise it has many local minima; the search descends from sparse random starts, then from perturbed copies of the
    best solution. The same inputs give the same shares.

    A step of a descent is w <- w (w^(k-1) g)^(1/(k+1)), scaled to sum 1, with g = -d err / d w^k. It minimises a
    majorant of err (by Jensen's inequality, with a fixed split of each lam_a among its terms), so err never grows. It
    is over-relaxed as long as err falls.
    """
    bound, sums = problem.closed_form()
    ideal = np.maximum(superset_sums(sums, -problem.alphas)[problem.candidates], 0.0)
    if problem.noise is not Noise.LAPLACE:
        return _convex_descent(problem, ideal, bound, effort)
    search = _Search(problem, effort, seed)
    search.descend_from(problem.candidates, np.sqrt(ideal))
    search.descend_from(problem.workload, problem.cells[problem.workload] ** (1 / 3))
    search.sparse_starts()
    search.perturbations()
    return search.refined(), bound


def _convex_descent(problem: MarginalProblem, start: Vector, bound: float, effort: float) -> tuple[Shares, float]:
    """Descent over all candidates under Gaussian noise.

    Because err is convex and homogeneous of degree -1, err^2 / max g is a lower bound; the descent ends when err is
    close to it.
    """
    subsets, remaining_effort = problem.candidates, effort
    min_share = 1e-3 * (float(start.max()) or 1.0)
    shares = start + min_share * np.where(np.isin(subsets, problem.workload), 1.0, 1 / problem.cells[subsets])
    shares /= shares.sum()
    error, gradient = problem.evaluated(subsets, shares, None)
    exponent = 0.95
    while remaining_effort > 0:
        remaining_effort -= problem.work(subsets)
        bound = max(bound, error**2 / float(gradient.max()))
        if error < bound * (1 + _GAP):
            break
        next_shares = shares * gradient**exponent
        next_shares /= next_shares.sum()
        next_error, next_gradient = problem.evaluated(subsets, next_shares, None)
        if next_error < error:
            shares, error, gradient = next_shares, next_error, next_gradient
        elif exponent > 0.5:
            exponent = 0.5
        else:
            break
    return _without_small_shares(problem, Shares(subsets, shares, error)), min(bound, error)


def _without_small_shares(problem: MarginalProblem, solution: Shares) -> Shares:
    """The solution without its smallest shares, as many as cost a relative error of at most 1e-6."""
    for threshold in np.geomspace(1e-2, 1e-12, 21):
        keep = solution.shares > threshold * solution.shares.max()
        subsets, shares = solution.subsets[keep], solution.shares[keep] / solution.shares[keep].sum()
        error, _ = problem.evaluated(subsets, shares, None)
        if error < solution.error * (1 + 1e-6):
            return Shares(subsets, shares, error)
    return solution


@final
class _Search:
    """The search under Laplace noise, with the best shares so far and the remaining effort."""

    def __init__(self, problem: MarginalProblem, effort: float, seed: int) -> None:
        self.problem, self.remaining_effort, self.draws = problem, effort, _Draws(seed)
        equal_shares = np.full(len(problem.workload), 1 / len(problem.workload))
        error, _ = problem.evaluated(problem.workload, equal_shares, None)
        self.best = Shares(problem.workload, equal_shares, error)
        self.matrix = self._matrix(problem.workload)

    def descend_from(self, subsets: Subsets, shares: Vector) -> None:
        """One full descent. If the subsets do not determine the workload, the workload's own subsets are added."""
        keep = shares > 0
        subsets, shares = subsets[keep], shares[keep]
        missing = np.setdiff1d(self.problem.workload, subsets)
        if not np.isfinite(self.problem.evaluated(subsets, shares, None)[0]):
            added = np.full(len(missing), 1e-4 * float(shares.max(initial=1e-9)))
            subsets, shares = np.concatenate([subsets, missing]), np.concatenate([shares, added])
        self._keep_if_better(*self._descended(subsets, shares, self._matrix(subsets)))

    def sparse_starts(self) -> None:
        """Descents from random shares of all marginals up to a size that varies from start to start."""
        problem, cells = self.problem, self.problem.cells[self.problem.candidates]
        largest = float(problem.cells[problem.workload].max())
        for start in range(_STARTS):
            if self.remaining_effort <= 0:
                return
            small = cells <= largest * _MAX_RELATIVE_CELLS ** (start % 10 / 10)
            shares = cells[small] ** (0.3 * self.draws.one()) * self.draws.many(int(small.sum()))
            self.descend_from(problem.candidates[small], shares)

    def perturbations(self) -> None:
        """Descents from perturbed copies of the best shares."""
        failures, patience = 0, min(_PATIENCE, _PATIENCE_PER_CANDIDATE * len(self.problem.candidates))
        while self.remaining_effort > 0 and failures < patience:
            subsets, shares, matrix = self._perturbed()
            better = self._keep_if_better(*self._descended(subsets, shares, matrix, _HOPELESS * self.best.error))
            failures = 0 if better else failures + 1

    def refined(self) -> Shares:
        """The best shares after a long descent from them."""
        self._keep_if_better(
            *self._descended(self.best.subsets, self.best.shares, self.matrix, steps=100 * _STEPS, min_gain=1e-13)
        )
        return _without_small_shares(self.problem, self.best)

    def _perturbed(self) -> tuple[Subsets, Vector, Vector | None]:
        """The best shares, all scattered or a few nearly removed, with neighbours of a few subsets added."""
        draws, best = self.draws, self.best
        count, attributes = len(best.subsets), len(self.problem.alphas)
        chosen = draws.integers(1 + draws.below(8), count)
        if draws.one() < 0.3:
            shares = best.shares * np.exp(6 * draws.one() * (draws.many(count) - 0.5))
        else:
            shares = best.shares.copy()
            shares[chosen] *= 0.1 * draws.one()
        near, partners = best.subsets[chosen], best.subsets[draws.integers(len(chosen), count)]
        bit_a, bit_b, bit_c = 1 << draws.integers(3 * len(chosen), attributes).reshape(3, -1)
        neighbours = [near | partners, near ^ bit_a, near ^ bit_a ^ bit_b, near | bit_c]
        new = np.unique(np.concatenate([kind for kind in neighbours if draws.one() < 0.6] or neighbours))
        new = new[np.isin(new, self.problem.candidates) & ~np.isin(new, best.subsets)]
        added = (0.2 + 2 * draws.one()) * draws.many(len(new)) / count
        matrix = None if self.matrix is None else np.hstack([self.matrix, self.problem.columns(new)])
        return np.concatenate([best.subsets, new]), np.concatenate([shares, added]), matrix

    def _descended(
        self,
        subsets: Subsets,
        shares: Vector,
        matrix: Vector | None,
        hopeless: float = np.inf,
        *,
        steps: int = _STEPS,
        min_gain: float = 1e-8,
    ) -> tuple[Shares, Vector | None]:
        """The shares at the end of a descent, and their matrix.

        hopeless: The descent ends early if the error still exceeds this after 15 steps.
        min_gain: The descent ends after the first step with a smaller relative gain.
        """
        problem, power, relaxation = self.problem, self.problem.power, _OVER_RELAXATION
        shares = shares / shares.sum()
        error, gradient = problem.evaluated(subsets, shares, matrix)
        for step in range(1, steps + 1):
            self.remaining_effort -= problem.work(subsets)
            next_shares = shares * (shares ** (power - 1) * gradient / error) ** (relaxation / (power + 1))
            next_shares /= next_shares.sum()
            next_error, next_gradient = problem.evaluated(subsets, next_shares, matrix)
            if not next_error < error:
                if relaxation == 1.0:
                    break
                relaxation = 1.0
                continue
            slow = error - next_error < min_gain * error
            shares, error, gradient = next_shares, next_error, next_gradient
            if slow or (step == 15 and error > hopeless):
                break
            if step % 10 == 0 and not (keep := shares > _MIN_RELATIVE_SHARE * shares.max()).all():
                kept, kept_shares = subsets[keep], shares[keep] / shares[keep].sum()
                columns = self._matrix(kept) if matrix is None else matrix[:, keep]
                next_error, next_gradient = problem.evaluated(kept, kept_shares, columns)
                if next_error < error * (1 + 1e-5):
                    subsets, shares, error, gradient, matrix = kept, kept_shares, next_error, next_gradient, columns
        return Shares(subsets, shares, error), matrix

    def _keep_if_better(self, solution: Shares, matrix: Vector | None) -> bool:
        """Makes the solution the best one if it is better, and returns whether it was."""
        better = solution.error < self.best.error * (1 - 1e-9)
        if better:
            self.best, self.matrix = solution, matrix
        return better

    def _matrix(self, subsets: Subsets) -> Vector | None:
        """``columns`` of the subsets, or None if sums over all 2^d subsets are faster."""
        entries, attributes = len(self.problem.needed) * len(subsets), len(self.problem.alphas)
        return self.problem.columns(subsets) if entries <= min(_MAX_MATRIX_ENTRIES, attributes << attributes) else None


@final
class _Draws:
    """Pseudo-random numbers by SplitMix64, the same on every run and for every version of numpy.

    This matters because a plan, its run and a replay must choose the same strategy.
    """

    def __init__(self, seed: int) -> None:
        self._drawn = seed % (1 << 31) << 32

    def many(self, count: int) -> Vector:
        """Uniform numbers in (0, 1), float64 [count]."""
        bits = np.arange(self._drawn + 1, self._drawn + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self._drawn += count
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = (bits ^ (bits >> np.uint64(31))) >> np.uint64(12)
        return bits.astype(np.float64) * 2.0**-52 + 2.0**-53

    def one(self) -> float:
        """A uniform number in (0, 1)."""
        return float(self.many(1)[0])

    def below(self, limit: int) -> int:
        """A uniform integer in 0 .. limit - 1."""
        return int(self.one() * limit)

    def integers(self, count: int, limit: int) -> NDArray[np.int64]:
        """Uniform integers in 0 .. limit - 1, int64 [count]."""
        return (self.many(count) * limit).astype(np.int64)
