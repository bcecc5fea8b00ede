"""Which marginals to measure in one batch, and how precisely, given noisy errors of a model without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Final, Protocol, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpcore.domain import Clique
from dpcore.strategies.allocation import exact_shares

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
_EXACT_GAINS: Final = 8  # Number of candidates per step whose gain is computed in full.
_APPROXIMATE_GAINS: Final = 8 * _EXACT_GAINS  # Number of candidates per step whose approximate gain includes noise.
_FIRST_STEPS: Final = 5  # Fixed-point steps for the shares of the single attributes.
_FINAL_STEPS: Final = 20  # Fixed-point steps for the final shares.
_MIN_GAIN: Final = 1e-4  # A clique is added only if it lowers the error by this relative amount.
_MIN_RELATIVE_PULL: Final = 1e-3  # Smallest pull relative to the mean pull, so that no share becomes 0.
_NOISE_PART: Final = 0.5  # Part of the standard deviation of a noisy squared error that counts as noise.
_MIN_PULLS: Final = 1e-3  # Below this part of the error, per clique, the noise of a clique does not matter.
_MIN_ERROR: Final = 1e-9  # Smallest error in counts, so that its logarithm exists.


class Structure(Protocol):
    """The structure of a graphical model over some cliques, which determines the size of the model."""

    def cells_with(self, clique: Clique, /) -> int:
        """The number of cells of the model with one more clique."""
        ...

    def with_clique(self, clique: Clique, /) -> Structure:
        """The structure with one more clique."""
        ...


@dataclass(frozen=True)
class SelectedClique:
    """A clique to measure.

    candidate_index: Its index among the candidates.
    share: Its share of the batch's budget, in (0, 1].
    """

    candidate_index: int
    share: Fraction


@final
class NoisyDependence:
    """Noisy errors of a model on the candidate marginals, before any of these is measured; public.

    candidates: The candidate cliques, small ones first. Attributes have the same order in all of them.
    errors: float64 [candidates], noisy L1 distances between the candidates' tables and those of the model, in counts.
        For single attributes these are the errors that remain after their own first measurement.
    stddevs: float64 [candidates], the standard deviation of the noise in each error, in counts.
    targets: The workload's cliques, whose errors are to be minimised.
    weights: float64 [targets], the weight of each target's error.
    """

    def __init__(
        self,
        candidates: Sequence[Clique],
        errors: Vector,
        stddevs: Vector,
        targets: Sequence[Clique],
        weights: Vector,
    ) -> None:
        self.candidates, self.errors, self.stddevs = tuple(candidates), errors, stddevs
        self.weights = weights
        self.orders = np.array([len(clique) for clique in self.candidates])
        self._index_of_candidate = {clique: index for index, clique in enumerate(self.candidates)}
        self.parts = [np.array(self._candidates_inside(clique), dtype=np.intp) for clique in self.candidates]
        self.parts_of_candidates = self._incidence(self.parts)
        parts_of_targets = [np.array(self._candidates_inside(clique), dtype=np.intp) for clique in targets]
        self.parts_of_targets = self._incidence(parts_of_targets)
        self.targets_with = self.parts_of_targets.T.tocsr()

    @cached_property
    def energies(self) -> Vector:
        """The energy of each interaction, float64 [candidates]: a candidate's squared error minus those inside it.

        Errors in unrelated directions of many cells add up in squares. The expected square of the noise is subtracted,
        and then a part of its standard deviation too, so that noise is seldom mistaken for an interaction.
        """
        squares = self.errors * np.abs(self.errors) - self.stddevs**2
        energies = np.zeros(len(squares))
        for index, inside in enumerate(self.parts):
            noise_stddev = 2 * np.sqrt((np.maximum(squares[inside], 0.0) * self.stddevs[inside] ** 2).sum())
            energies[index] = max(0.0, squares[index] - energies[inside[:-1]].sum() - _NOISE_PART * noise_stddev)
        return energies

    @property
    def distances(self) -> Vector:
        """The L1 distances of the candidates from the model without the noise, float64 [candidates], in counts.

        A squared distance is the sum of the energies of all interactions inside the candidate.
        """
        return np.asarray(np.sqrt(self.parts_of_candidates @ self.energies))

    def _candidates_inside(self, clique: Clique) -> list[int]:
        """Indices of the candidates that are subsets of a clique, small ones first; a candidate is its own last one."""
        orders = sorted(set(self.orders.tolist()))
        subsets = (subset for order in orders for subset in combinations(clique, order))
        return [self._index_of_candidate[subset] for subset in subsets if subset in self._index_of_candidate]

    def _incidence(self, rows: Sequence[Indices]) -> csr_array:
        """The 0/1 matrix [rows, candidates] with ones at the given indices of each row."""
        starts = np.cumsum([0, *map(len, rows)])
        columns = np.concatenate([*rows, np.empty(0, dtype=np.intp)])
        return csr_array((np.ones(starts[-1]), columns, starts), shape=(len(rows), len(self.candidates)))


@final
class ShareToNoise:
    """The noise and the remaining error of a marginal that is measured with a given share of the budget.

    unit: The standard deviation of a cell's noise, in counts, if one marginal gets the whole budget.
    power: The standard deviation is unit * share^-power; the power is 1/2 for Gaussian and 1 for Laplace noise.
    sizes: int64 [candidates], the number of cells of each candidate.
    before: float64 [candidates], the precision 1 / sigma^2 of earlier measurements of each candidate, in 1 / counts^2.
    remaining_errors: A function of a candidate's index and an array of standard deviations in counts. It returns the
        expected L1 errors of the candidate, in counts, if measured with each of them; float64 of the same shape.
    """

    def __init__(
        self,
        unit: float,
        power: float,
        sizes: NDArray[np.int64],
        before: Vector,
        remaining_errors: Callable[[int, Vector], Vector],
    ) -> None:
        self.unit, self.power, self.sizes, self.before = unit, power, sizes, before
        self._remaining_errors = remaining_errors
        self._grid = np.log(unit) + np.log(2.0) * np.arange(-4, 15)
        self._curves = np.full((len(sizes), len(self._grid)), np.nan)

    def stddevs(self, shares: Vector) -> Vector:
        """The standard deviations of the noise, in counts, at given shares of the budget; float64 like ``shares``."""
        return np.asarray(self.unit * shares**-self.power, dtype=np.float64)

    def errors(self, indices: Indices, stddevs: Vector) -> tuple[Vector, Vector]:
        """The expected L1 errors of measured candidates, and their elasticities in the standard deviations.

        indices: The indices of the candidates, intp [k].
        stddevs: float64 [k], the standard deviation with which each of them is measured, in counts.

        Returns the errors in counts, float64 [k], and d ln error / d ln stddev, float64 [k]. Both are interpolated
        linearly in ln stddev.
        """
        for index in indices[np.isnan(self._curves[indices, 0])].tolist():
            errors = self._remaining_errors(index, np.exp(self._grid))
            self._curves[index] = np.log(np.maximum(errors, _MIN_ERROR))
        log_stddevs = np.log(stddevs)
        step = np.clip(np.searchsorted(self._grid, log_stddevs), 1, len(self._grid) - 1)
        left, right = self._curves[indices, step - 1], self._curves[indices, step]
        slopes = (right - left) / (self._grid[step] - self._grid[step - 1])
        return np.exp(left + slopes * (log_stddevs - self._grid[step - 1])), np.maximum(slopes, 0.0)


def choose_cliques(
    dependence: NoisyDependence, share_to_noise: ShareToNoise, structure: Structure, cells: float
) -> tuple[SelectedClique, ...]:
    """The cliques to measure, and their shares of the budget, chosen for a small expected error of the targets.

    dependence: The candidates, their noisy errors, and the targets.
    share_to_noise: The noise at each share of the budget.
    structure: The structure of a model without any candidate.
    cells: The largest number of cells that the final model may have.

    The squared error of a target is modelled as the sum of the energies of its interactions; inside a measured clique
    only the noise remains. The choice starts with all single attributes, because each of them alone gains little: most
    targets hold others as well. Cliques are added greedily. Each step adds the clique that, with the budget split anew,
    lowers the sum of weighted errors most; the steps end when no clique lowers it. At first only pairs are candidates,
    because large cliques use up the allowed cells although their errors are less certain. Larger cliques become
    candidates afterwards, one order at a time. Finally, cliques whose removal lowers the error are removed.

    Split of the budget: an error of the form sum of w_i n_i sigma_i is least for shares proportional to (w_i n_i)^(2/3)
    under Gaussian noise and (w_i n_i)^(1/2) under Laplace noise. Here w_i measures how much of the targets' errors is
    noise of clique i; it is updated whenever a clique is added.

    Returns the selected cliques in the order of the candidates; their shares sum to at most 1. There is at least one if
    there are single attributes among the candidates.
    """
    singles = np.flatnonzero(dependence.orders == 1)
    shares = np.full(len(singles), 1 / max(1, len(singles)))
    state = _State.of(dependence, share_to_noise, singles, shares).with_best_shares(_FIRST_STEPS)
    orders = sorted(set(dependence.orders.tolist()))
    for order in [order for order in orders if order > 1] or orders:
        state, structure = _with_helpful_cliques(state, structure, cells, dependence.orders <= order)
    state = _without_useless_cliques(state.with_best_shares(_FINAL_STEPS))
    ordered = np.argsort(state.indices)
    pairs = zip(state.indices[ordered].tolist(), exact_shares(state.shares[ordered]), strict=True)
    return tuple(SelectedClique(index, share) for index, share in pairs)


def expected_error(
    dependence: NoisyDependence, share_to_noise: ShareToNoise, selected: Sequence[SelectedClique]
) -> float:
    """The weighted sum of the targets' expected errors, in counts, if these cliques are measured with these shares."""
    indices = np.array([clique.candidate_index for clique in selected], dtype=np.intp)
    shares = np.array([float(clique.share) for clique in selected])
    return _State.of(dependence, share_to_noise, indices, shares).error


@final
@dataclass(frozen=True, eq=False)
class _State:
    """A set of chosen cliques with their shares of the budget, and the expected errors that follow.

    dependence: The candidates, their noisy errors, and the targets.
    share_to_noise: The noise at each share of the budget.
    indices: The indices of the chosen cliques among the candidates, intp [cliques].
    shares: float64 [cliques], with sum 1.
    error: The weighted sum of the targets' expected errors, in counts.
    energies: float64 [candidates], the energy of each interaction; for covered ones, the squared error due to noise.
    covered: bool [candidates], whether a candidate is a subset of a chosen clique.
    slopes: float64 [candidates], 2 d error / d energies.
    pulls: float64 [cliques], d error / d ln sigma of each chosen clique.
    """

    dependence: NoisyDependence
    share_to_noise: ShareToNoise
    indices: Indices
    shares: Vector
    error: float
    energies: Vector
    covered: NDArray[np.bool_]
    slopes: Vector
    pulls: Vector

    @classmethod
    def of(cls, dependence: NoisyDependence, share_to_noise: ShareToNoise, indices: Indices, shares: Vector) -> _State:
        """The state of the cliques with these indices among the candidates, at shares of sum 1."""
        inside = [dependence.parts[index] for index in indices.tolist()]
        parts = np.concatenate([*inside, np.empty(0, dtype=np.intp)])
        owners = np.repeat(np.arange(len(indices)), [len(part) for part in inside])
        # A cell that is the sum of several measured cells carries the sum of their noise.
        sizes = share_to_noise.sizes
        precisions = share_to_noise.stddevs(shares)[owners] ** -2.0 * sizes[parts] / sizes[indices][owners]
        precision = np.bincount(parts, precisions, minlength=len(dependence.candidates)).astype(np.float64)
        covered = np.flatnonzero(precision)
        precision[covered] += share_to_noise.before[covered]
        noise, elasticities = share_to_noise.errors(covered, precision[covered] ** -0.5)
        energies = dependence.energies.copy()
        energies[covered] = noise**2
        for index in covered.tolist():  # Candidates come after their subsets.
            energies[index] = max(0.0, energies[index] - energies[dependence.parts[index][:-1]].sum())
        errors = np.sqrt(np.maximum(dependence.parts_of_targets @ energies, _MIN_ERROR))
        slopes = dependence.targets_with @ (dependence.weights / errors)
        pulls_per_precision = np.zeros(len(energies))
        pulls_per_precision[covered] = slopes[covered] * energies[covered] * elasticities / precision[covered]
        pulls = np.bincount(owners, pulls_per_precision[parts] * precisions, minlength=len(indices)).astype(np.float64)
        error = float(dependence.weights @ errors)
        return cls(dependence, share_to_noise, indices, shares, error, energies, precision > 0, slopes, pulls)

    @property
    def next_share(self) -> float:
        """The initial share of one more clique: as much as others have on average whose noise matters."""
        if len(self.indices) == 0:
            return 1.0
        matter = int((self.pulls * len(self.pulls) > _MIN_PULLS * self.error).sum())
        return 1 / (max(1, matter) + 1)

    def with_clique(self, index: int) -> _State:
        """The state with one more clique."""
        shares = np.append(self.shares * (1 - self.next_share), self.next_share)
        indices = np.append(self.indices, index)
        return self.of(self.dependence, self.share_to_noise, indices, shares).with_best_shares(2)

    def without_clique(self, index: int) -> _State:
        """The state without the clique at one position of ``indices``."""
        shares = np.delete(self.shares, index)
        indices = np.delete(self.indices, index)
        return self.of(self.dependence, self.share_to_noise, indices, shares / shares.sum()).with_best_shares(2)

    def with_best_shares(self, steps: int) -> _State:
        """The state with its shares improved by a few fixed-point steps.

        Let b = 1 / (1 + power). If pull = w n share^-power, then share^(1 - b) pull^b = (w n)^b, so that one step gives
        the closed form of the best shares.
        """
        state, b = self, 1 / (1 + self.share_to_noise.power)
        for _ in range(steps if len(self.indices) > 1 else 0):
            shares = state.shares ** (1 - b) * np.maximum(state.pulls, _MIN_RELATIVE_PULL * state.pulls.mean()) ** b
            if not shares.sum() > 0:
                break
            state = self.of(self.dependence, self.share_to_noise, self.indices, shares / shares.sum())
        return state


def _with_helpful_cliques(
    state: _State, structure: Structure, cells: float, allowed: NDArray[np.bool_]
) -> tuple[_State, Structure]:
    """The state after greedily adding the allowed candidates that lower the error, and its structure."""
    dependence, allowed = state.dependence, allowed.copy()
    while promising := _promising_candidates(state, allowed):
        fitting = [index for index in promising if structure.cells_with(dependence.candidates[index]) <= cells]
        allowed[[index for index in promising if index not in fitting]] = False
        if fitting:
            best = min((state.with_clique(index) for index in fitting), key=lambda candidate: candidate.error)
            if best.error > (1 - _MIN_GAIN) * state.error:
                break
            state, structure = best, structure.with_clique(dependence.candidates[best.indices[-1]])
    return state, structure


def _promising_candidates(state: _State, allowed: NDArray[np.bool_]) -> list[int]:
    """The candidates with the largest first-order gains, if measured with the initial share of one more clique."""
    dependence = state.dependence
    gains = dependence.parts_of_candidates @ np.where(state.covered, 0.0, state.slopes * state.energies / 2)
    gains[~allowed] = 0.0
    leading = np.argsort(-gains, kind="stable")[:_APPROXIMATE_GAINS]
    stddevs = np.repeat(state.share_to_noise.stddevs(np.array([state.next_share])), len(leading))
    noise, _ = state.share_to_noise.errors(leading, stddevs)
    for index, squared in zip(leading.tolist(), (noise**2).tolist(), strict=True):
        inside = dependence.parts[index]
        uncovered = inside[~state.covered[inside]]
        gains[index] -= state.slopes[uncovered].max(initial=0.0) * squared / 2 * len(uncovered) / len(inside)
    best = leading[np.argsort(-gains[leading], kind="stable")][:_EXACT_GAINS]
    return [index for index in best.tolist() if gains[index] > 0]


def _without_useless_cliques(state: _State) -> _State:
    """The state without the cliques whose removal does not increase the error."""
    for index in reversed(range(len(state.indices))):
        if len(state.indices) > 1 and (fewer := state.without_clique(index)).error <= state.error:
            state = fewer
    return state
