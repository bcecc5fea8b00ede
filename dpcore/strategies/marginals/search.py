"""Search for the subsets of attributes to measure and their shares of the sensitivity."""

from __future__ import annotations

from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.strategies.marginals.problem import MarginalProblem, Shares, Subsets
from dpcore.strategies.marginals.subset_sums import Vector, superset_sums

_LARGEST_MATRIX: Final = 1 << 21  # Entries: 16 MiB.
_GAP: Final = 1e-7  # Under the Gaussians.
_PRUNED: Final = 1e-6  # Of the largest share.
_RELAXED: Final = 1.2
_STARTS: Final = 30
_FARTHEST: Final = 1e4  # Cells of what is tried, in those of the largest marginal that is asked for.
_PATIENCE: Final = 2000  # Changes of the best, one after another, that bring nothing, or fewer:
_PATIENCE_EACH: Final = 20  # As many a candidate.
_HOPELESS: Final = 1.02  # Times the best error, after a few steps.
_STEPS: Final = 100  # Of a descent that is one of many.


def best_shares(problem: MarginalProblem, effort: float, seed: int = 0) -> tuple[Shares, float]:
    """The best shares found, and a lower bound on err for all shares of the candidates.

    effort: Multiplications to spend, about 2e9 a second; a limit that depends on no clock.

    Under the Gaussians the problem is convex and the two agree up to about a millionth. Under Laplace noise it has many
    local minima: descents from sparse starts, then from changed copies of the best. The same inputs give the same.

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
    search.descend_from(problem.asked, problem.cells[problem.asked] ** (1 / 3))
    search.sparse_starts()
    search.changes()
    return search.polished(), bound


def _convex(problem: MarginalProblem, start: Vector, bound: float, effort: float) -> tuple[Shares, float]:
    """Descent on all candidates until err^2 / max g, a lower bound as err is convex and of degree -1, is near err."""
    subsets, left = problem.candidates, effort
    least = 1e-3 * (float(start.max()) or 1.0)
    shares = start + least * np.where(np.isin(subsets, problem.asked), 1.0, 1 / problem.cells[subsets])
    shares /= shares.sum()
    error, pulls = problem.evaluated(subsets, shares, None)
    exponent = 0.95
    while left > 0:
        left -= problem.work(subsets)
        bound = max(bound, error**2 / float(pulls.max()))
        if error < bound * (1 + _GAP):
            break
        ahead = shares * pulls**exponent
        ahead /= ahead.sum()
        found, then = problem.evaluated(subsets, ahead, None)
        if found < error:
            shares, error, pulls = ahead, found, then
        elif exponent > 0.5:
            exponent = 0.5
        else:
            break
    return _trimmed(problem, Shares(subsets, shares, error)), min(bound, error)


def _trimmed(problem: MarginalProblem, found: Shares) -> Shares:
    """Without the smallest shares, as many as go without harm."""
    for least in np.geomspace(1e-2, 1e-12, 21):
        keep = found.shares > least * found.shares.max()
        subsets, shares = found.subsets[keep], found.shares[keep] / found.shares[keep].sum()
        error, _ = problem.evaluated(subsets, shares, None)
        if error < found.error * (1 + 1e-6):
            return Shares(subsets, shares, error)
    return found


@final
class _Search:
    """The best shares so far and the effort that is left."""

    def __init__(self, problem: MarginalProblem, effort: float, seed: int) -> None:
        self.problem, self.left, self.draws = problem, effort, _Draws(seed)
        even = np.full(len(problem.asked), 1 / len(problem.asked))
        self.best = Shares(problem.asked, even, problem.evaluated(problem.asked, even, None)[0])
        self.matrix = self._matrix(problem.asked)

    def descend_from(self, subsets: Subsets, shares: Vector) -> None:
        """One descent to its end; what is asked for and cannot be answered from these subsets is added."""
        keep = shares > 0
        subsets, shares = subsets[keep], shares[keep]
        missing = np.setdiff1d(self.problem.asked, subsets)
        if not np.isfinite(self.problem.evaluated(subsets, shares, None)[0]):
            added = np.full(len(missing), 1e-4 * float(shares.max(initial=1e-9)))
            subsets, shares = np.concatenate([subsets, missing]), np.concatenate([shares, added])
        self._keep(*self._descended(subsets, shares, self._matrix(subsets)))

    def sparse_starts(self) -> None:
        """Random shares of all marginals up to a size, now a small and now a large one."""
        problem, cells = self.problem, self.problem.cells[self.problem.candidates]
        largest = float(problem.cells[problem.asked].max())
        for start in range(_STARTS):
            if self.left <= 0:
                return
            small = cells <= largest * _FARTHEST ** (start % 10 / 10)
            shares = cells[small] ** (0.3 * self.draws.one()) * self.draws.many(int(small.sum()))
            self.descend_from(problem.candidates[small], shares)

    def changes(self) -> None:
        """Descents from changed copies of the best."""
        since, patience = 0, min(_PATIENCE, _PATIENCE_EACH * len(self.problem.candidates))
        while self.left > 0 and since < patience:
            subsets, shares, matrix = self._changed()
            better = self._keep(*self._descended(subsets, shares, matrix, _HOPELESS * self.best.error))
            since = 0 if better else since + 1

    def polished(self) -> Shares:
        """The best one after a long descent."""
        self._keep(*self._descended(self.best.subsets, self.best.shares, self.matrix, steps=100 * _STEPS, least=1e-13))
        return _trimmed(self.problem, self.best)

    def _changed(self) -> tuple[Subsets, Vector, Vector | None]:
        """The best one with all of its shares scattered or a few all but taken away, and neighbours of a few added."""
        draws, best = self.draws, self.best
        count, attributes = len(best.subsets), len(self.problem.alphas)
        chosen = draws.places(1 + draws.below(8), count)
        if draws.one() < 0.3:
            shares = best.shares * np.exp(6 * draws.one() * (draws.many(count) - 0.5))
        else:
            shares = best.shares.copy()
            shares[chosen] *= 0.1 * draws.one()
        near, others = best.subsets[chosen], best.subsets[draws.places(len(chosen), count)]
        one, two, three = 1 << draws.places(3 * len(chosen), attributes).reshape(3, -1)
        kinds = [near | others, near ^ one, near ^ one ^ two, near | three]
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
        least: float = 1e-8,
    ) -> tuple[Shares, Vector | None]:
        """Ends where a step gains less than this part, or after some steps with an error that is hopeless."""
        problem, power, fast = self.problem, self.problem.power, _RELAXED
        shares = shares / shares.sum()
        error, pulls = problem.evaluated(subsets, shares, matrix)
        for step in range(1, steps + 1):
            self.left -= problem.work(subsets)
            ahead = shares * (shares ** (power - 1) * pulls / error) ** (fast / (power + 1))
            ahead /= ahead.sum()
            found, then = problem.evaluated(subsets, ahead, matrix)
            if not found < error:
                if fast == 1.0:
                    break
                fast = 1.0
                continue
            slow, shares, error, pulls = error - found < least * error, ahead, found, then
            if slow or (step == 15 and error > hopeless):
                break
            if step % 10 == 0 and not (keep := shares > _PRUNED * shares.max()).all():
                fewer, rest = subsets[keep], shares[keep] / shares[keep].sum()
                columns = self._matrix(fewer) if matrix is None else matrix[:, keep]
                found, then = problem.evaluated(fewer, rest, columns)
                if found < error * (1 + 1e-5):
                    subsets, shares, error, pulls, matrix = fewer, rest, found, then, columns
        return Shares(subsets, shares, error), matrix

    def _keep(self, found: Shares, matrix: Vector | None) -> bool:
        """Whether it is better than the best, which it then is."""
        better = found.error < self.best.error * (1 - 1e-9)
        if better:
            self.best, self.matrix = found, matrix
        return better

    def _matrix(self, subsets: Subsets) -> Vector | None:
        """Where sums over all 2^d subsets would take longer."""
        entries, attributes = len(self.problem.needed) * len(subsets), len(self.problem.alphas)
        return self.problem.columns(subsets) if entries <= min(_LARGEST_MATRIX, attributes << attributes) else None


@final
class _Draws:
    """Scattered numbers by SplitMix64: the same on every run, for every version of numpy.

    A plan, its run and a replay must choose the same strategy.
    """

    def __init__(self, seed: int) -> None:
        self._drawn = seed % (1 << 31) << 32

    def many(self, count: int) -> Vector:
        """float64 [count], in (0, 1)."""
        bits = np.arange(self._drawn + 1, self._drawn + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self._drawn += count
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = (bits ^ (bits >> np.uint64(31))) >> np.uint64(12)
        return bits.astype(np.float64) * 2.0**-52 + 2.0**-53

    def one(self) -> float:
        return float(self.many(1)[0])

    def below(self, limit: int) -> int:
        return int(self.one() * limit)

    def places(self, count: int, limit: int) -> NDArray[np.int64]:
        """int64 [count], below the limit."""
        return (self.many(count) * limit).astype(np.int64)
