"""Search for the subsets of attributes to measure and their shares of the sensitivity."""

from __future__ import annotations

from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.strategies.marginals.problem import MarginalProblem, Shares, Subsets
from dpcore.strategies.marginals.subset_sums import Vector, superset_sums

_MAX_MATRIX_ENTRIES: Final = 1 << 21  # 16 MiB.
_GAP: Final = 1e-7  # Relative gap to the lower bound at which the convex descent (Gaussians) stops.
_MIN_RELATIVE_SHARE: Final = 1e-6  # Shares below this part of the largest are dropped where that costs nothing.
_OVER_RELAXATION: Final = 1.2
_STARTS: Final = 30
_MAX_RELATIVE_CELLS: Final = 1e4  # Cells of a start's marginals, relative to the workload's largest marginal.
_PATIENCE: Final = 2000  # The search ends after this many perturbations in a row without gain,
_PATIENCE_PER_CANDIDATE: Final = 20  # or after this many per candidate, whichever is less.
_HOPELESS: Final = 1.02  # A descent ends early where its error is still this many times the best after 15 steps.
_STEPS: Final = 100  # Steps of a descent that is one of many.


def best_shares(problem: MarginalProblem, effort: float, seed: int = 0) -> tuple[Shares, float]:
    """The best shares found, and a lower bound on err for all shares of the candidates.

    problem: The error to minimise.
    effort: The number of multiplications to spend, about 2e9 per second; it depends on no clock.
    seed: Of the random starts and perturbations under Laplace noise.

    Under the Gaussians the problem is convex, and error and bound agree up to about a millionth. Under Laplace noise it
    has many local minima, and the search descends from sparse random starts, then from perturbed copies of the best.
    The same inputs give the same shares.

    A step of a descent is w <- w (w^(k-1) g)^(1/(k+1)), scaled to sum 1, with g = -d err / d w^k: it minimises a
    majorant of err (by Jensen's inequality, at a fixed split of each lam_a among its terms), so that err never grows.
    It is over-relaxed as long as err falls.
    """
    bound, sums = problem.closed_form()
    ideal = np.maximum(superset_sums(sums, -problem.alphas)[problem.candidates], 0.0)
    if problem.noise is not Noise.LAPLACE:
        return _convex(problem, ideal, bound, effort)
    search = _Search(problem, effort, seed)
    search.descend_from(problem.candidates, np.sqrt(ideal))
    search.descend_from(problem.workload, problem.cells[problem.workload] ** (1 / 3))
    search.sparse_starts()
    search.perturbations()
    return search.refined(), bound


def _convex(problem: MarginalProblem, start: Vector, bound: float, effort: float) -> tuple[Shares, float]:
    """Descent on all candidates, for the Gaussians.

    It ends when err^2 / max g is near err: that is a lower bound, because err is convex and homogeneous of degree -1.
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
    return _trimmed(problem, Shares(subsets, shares, error)), min(bound, error)


def _trimmed(problem: MarginalProblem, solution: Shares) -> Shares:
    """The solution without its smallest shares, as many as can go for a relative error of 1e-6."""
    for threshold in np.geomspace(1e-2, 1e-12, 21):
        keep = solution.shares > threshold * solution.shares.max()
        subsets, shares = solution.subsets[keep], solution.shares[keep] / solution.shares[keep].sum()
        error, _ = problem.evaluated(subsets, shares, None)
        if error < solution.error * (1 + 1e-6):
            return Shares(subsets, shares, error)
    return solution


@final
class _Search:
    """A search under Laplace noise: the best shares so far and the remaining effort."""

    def __init__(self, problem: MarginalProblem, effort: float, seed: int) -> None:
        self.problem, self.remaining_effort, self.draws = problem, effort, _Draws(seed)
        even = np.full(len(problem.workload), 1 / len(problem.workload))
        self.best = Shares(problem.workload, even, problem.evaluated(problem.workload, even, None)[0])
        self.matrix = self._matrix(problem.workload)

    def descend_from(self, subsets: Subsets, shares: Vector) -> None:
        """One descent to its end. Where the subsets do not determine the workload, its own subsets are added."""
        keep = shares > 0
        subsets, shares = subsets[keep], shares[keep]
        missing = np.setdiff1d(self.problem.workload, subsets)
        if not np.isfinite(self.problem.evaluated(subsets, shares, None)[0]):
            added = np.full(len(missing), 1e-4 * float(shares.max(initial=1e-9)))
            subsets, shares = np.concatenate([subsets, missing]), np.concatenate([shares, added])
        self._keep(*self._descended(subsets, shares, self._matrix(subsets)))

    def sparse_starts(self) -> None:
        """Descents from random shares of all marginals up to a size, which varies from start to start."""
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
            better = self._keep(*self._descended(subsets, shares, matrix, _HOPELESS * self.best.error))
            failures = 0 if better else failures + 1

    def refined(self) -> Shares:
        """The best shares after a long descent from them."""
        self._keep(
            *self._descended(self.best.subsets, self.best.shares, self.matrix, steps=100 * _STEPS, min_gain=1e-13)
        )
        return _trimmed(self.problem, self.best)

    def _perturbed(self) -> tuple[Subsets, Vector, Vector | None]:
        """The best shares, all of them scattered or a few nearly removed, with neighbours of a few subsets added."""
        draws, best = self.draws, self.best
        count, attributes = len(best.subsets), len(self.problem.alphas)
        chosen = draws.places(1 + draws.below(8), count)
        if draws.one() < 0.3:
            shares = best.shares * np.exp(6 * draws.one() * (draws.many(count) - 0.5))
        else:
            shares = best.shares.copy()
            shares[chosen] *= 0.1 * draws.one()
        near, partners = best.subsets[chosen], best.subsets[draws.places(len(chosen), count)]
        first, second, third = 1 << draws.places(3 * len(chosen), attributes).reshape(3, -1)
        kinds = [near | partners, near ^ first, near ^ first ^ second, near | third]
        new = np.unique(np.concatenate([kind for kind in kinds if draws.one() < 0.6] or kinds))
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
        """The shares that a descent ends in, and their matrix.

        hopeless: The descent ends where the error is still above this after 15 steps.
        min_gain: The descent ends with the first step whose relative gain is smaller.
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
                fewer, rest = subsets[keep], shares[keep] / shares[keep].sum()
                columns = self._matrix(fewer) if matrix is None else matrix[:, keep]
                next_error, next_gradient = problem.evaluated(fewer, rest, columns)
                if next_error < error * (1 + 1e-5):
                    subsets, shares, error, gradient, matrix = fewer, rest, next_error, next_gradient, columns
        return Shares(subsets, shares, error), matrix

    def _keep(self, solution: Shares, matrix: Vector | None) -> bool:
        """Makes the solution the best one if it is better; returns whether it is."""
        better = solution.error < self.best.error * (1 - 1e-9)
        if better:
            self.best, self.matrix = solution, matrix
        return better

    def _matrix(self, subsets: Subsets) -> Vector | None:
        """``columns`` of the subsets; None where sums over all 2^d subsets are faster."""
        entries, attributes = len(self.problem.needed) * len(subsets), len(self.problem.alphas)
        return self.problem.columns(subsets) if entries <= min(_MAX_MATRIX_ENTRIES, attributes << attributes) else None


@final
class _Draws:
    """Pseudo-random numbers by SplitMix64: the same on every run and for every version of numpy.

    A plan, its run and a replay must choose the same strategy.
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

    def places(self, count: int, limit: int) -> NDArray[np.int64]:
        """Uniform integers in 0 .. limit - 1, int64 [count]."""
        return (self.many(count) * limit).astype(np.int64)
