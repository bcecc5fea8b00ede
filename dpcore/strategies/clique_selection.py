"""Which marginals to measure in one batch, and how precisely, from noisy errors of a model without them."""

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
Places = NDArray[np.intp]
_EXACT_GAINS: Final = 8  # Candidates whose gain is computed in full, those with the largest approximate gains.
_APPROXIMATE_GAINS: Final = 8 * _EXACT_GAINS  # Candidates whose gain is approximated with the noise of a measurement.
_FINAL_STEPS: Final = 20  # Fixed-point steps of the final shares.
_MIN_GAIN: Final = 1e-4  # Relative decrease of the error for which a clique is added.
_MIN_RELATIVE_PULL: Final = 1e-3  # Of the mean pull: no share falls to 0.
_MIN_ERROR: Final = 1e-9  # Counts: smaller errors would have no logarithm.


class Structure(Protocol):
    """The structure of a model over some cliques, which bounds its size."""

    def cells_with(self, clique: Clique, /) -> int:
        """The number of cells that the model would have with one clique more."""
        ...

    def with_clique(self, clique: Clique, /) -> Structure:
        """The structure with one clique more."""
        ...


@dataclass(frozen=True)
class SelectedClique:
    """A clique to measure.

    place: Its position among the candidates.
    share: Its share of the budget that all selected cliques have together, in (0, 1].
    """

    place: int
    share: Fraction


@final
class NoisyDependence:
    """Noisy errors of a model on the candidates, before any of them is measured; public.

    candidates: Cliques, small ones first, attributes in one order throughout.
    errors: float64 [candidates], noisy L1 distances of their tables to those of the model, in counts. For single
        attributes these are the errors that remain after their own first measurement.
    stddevs: float64 [candidates], standard deviations of the noise in each error, in counts.
    targets: The cliques whose errors are to be small.
    weights: float64 [targets], the weights of their errors.
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
        self._places = {clique: index for index, clique in enumerate(self.candidates)}
        self.parts = [np.array(self._inside(clique), dtype=np.intp) for clique in self.candidates]
        self.parts_of_candidates = self._incidence(self.parts)
        self.parts_of_targets = self._incidence([np.array(self._inside(clique), dtype=np.intp) for clique in targets])
        self.targets_with = self.parts_of_targets.T.tocsr()

    @cached_property
    def energies(self) -> Vector:
        """Squared errors of interactions, float64 [candidates]: a candidate's squared error beyond those inside it.

        Errors in unrelated directions of many cells add up in squares. The mean of the squared noise is subtracted, and
        once more its standard deviation, so that noise is seldom taken for an interaction.
        """
        squares = self.errors * np.abs(self.errors) - self.stddevs**2
        energies = np.zeros(len(squares))
        for index, inside in enumerate(self.parts):
            noise_stddev = 2 * np.sqrt((np.maximum(squares[inside], 0.0) * self.stddevs[inside] ** 2).sum())
            energies[index] = max(0.0, squares[index] - energies[inside[:-1]].sum() - noise_stddev)
        return energies

    def _inside(self, clique: Clique) -> list[int]:
        """Places of the candidates inside a clique, small ones first; a candidate is the last one inside itself."""
        orders = sorted(set(self.orders.tolist()))
        subsets = (subset for order in orders for subset in combinations(clique, order))
        return [self._places[subset] for subset in subsets if subset in self._places]

    def _incidence(self, rows: Sequence[Places]) -> csr_array:
        """The 0/1 matrix [rows, candidates] with ones at the places of each row."""
        starts = np.cumsum([0, *map(len, rows)])
        columns = np.concatenate([*rows, np.empty(0, dtype=np.intp)])
        return csr_array((np.ones(starts[-1]), columns, starts), shape=(len(rows), len(self.candidates)))


@final
class ShareToNoise:
    """The noise, and the remaining error, of a marginal that is measured with a share of the budget.

    unit: Standard deviation of a measured cell's noise, in counts, for the whole budget.
    power: The standard deviation grows as share^-power: 1/2 for Gaussian noise, 1 for Laplace noise.
    sizes: int64 [candidates], the number of cells of each candidate.
    before: float64 [candidates], 1 / sigma^2 of earlier measurements of each candidate, in 1 / counts^2.
    remaining_errors: remaining_errors(place, stddevs) is the expected L1 error of a candidate that is measured with
        each of these standard deviations, in counts; float64 like stddevs.
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
        """Standard deviations of the noise, in counts, that shares of the budget pay for; float64 like shares."""
        return np.asarray(self.unit * shares**-self.power, dtype=np.float64)

    def errors(self, indices: Places, stddevs: Vector) -> tuple[Vector, Vector]:
        """Expected L1 errors of measured candidates, and their elasticities in the standard deviations.

        indices: The candidates, intp [k].
        stddevs: float64 [k], the standard deviation that each of them is measured with, in counts.

        Returns the errors in counts, float64 [k], and d ln error / d ln stddev, float64 [k], interpolated in ln stddev.
        """
        for index in indices[np.isnan(self._curves[indices, 0])].tolist():
            errors = self._remaining_errors(index, np.exp(self._grid))
            self._curves[index] = np.log(np.maximum(errors, _MIN_ERROR))
        log_stddevs = np.log(stddevs)
        step = np.clip(np.searchsorted(self._grid, log_stddevs), 1, len(self._grid) - 1)
        begin, end = self._curves[indices, step - 1], self._curves[indices, step]
        slopes = (end - begin) / (self._grid[step] - self._grid[step - 1])
        return np.exp(begin + slopes * (log_stddevs - self._grid[step - 1])), np.maximum(slopes, 0.0)


def choose_cliques(
    dependence: NoisyDependence, share_to_noise: ShareToNoise, structure: Structure, cells: float
) -> tuple[SelectedClique, ...]:
    """The cliques to measure, and their shares of the budget, for a small expected error of the targets.

    dependence: The candidates, their noisy errors, and the targets.
    share_to_noise: The noise that a share of the budget pays for.
    structure: The structure of a model without any candidate.
    cells: The largest number of cells that the final model may have.

    The squared error of a target is the sum of its interactions' energies; inside a measured clique only the noise
    remains of them. Cliques are added one by one, each the one that lowers the sum of weighted errors most with the
    budget split anew, as long as one lowers it. First only single attributes and pairs are candidates, because a large
    clique fills the structure on the strength of a less certain error; then larger ones are as well. Last, cliques are
    removed whose removal lowers the error.

    The split: where errors change as the sum of w_i n_i sigma_i, the minimum is at shares proportional to
    (w_i n_i)^(2/3) under Gaussian noise and (w_i n_i)^(1/2) under Laplace noise. Here w_i is the part of the targets'
    errors that is noise of clique i; it is updated with each clique that is added.

    Returns the selected cliques in the order of the candidates; their shares sum to at most 1.
    """
    state = _State.of(dependence, share_to_noise, np.empty(0, dtype=np.intp), np.empty(0))
    orders = sorted(set(dependence.orders.tolist()))
    for order in [order for order in orders if order > 1] or orders:
        state, structure = _grown(state, structure, cells, dependence.orders <= order)
    state = _pruned(state.with_best_shares(_FINAL_STEPS))
    ordered = np.argsort(state.places)
    pairs = zip(state.places[ordered].tolist(), exact_shares(state.shares[ordered]), strict=True)
    return tuple(SelectedClique(index, share) for index, share in pairs)


@final
@dataclass(frozen=True, eq=False)
class _State:
    """Some cliques with their shares, and the expected errors that follow.

    dependence: The candidates, their noisy errors, and the targets.
    share_to_noise: The noise that a share of the budget pays for.
    places: Positions of the chosen cliques among the candidates, intp [cliques].
    shares: float64 [cliques], with sum 1.
    error: The sum of weighted expected errors of the targets, in counts.
    energies: float64 [candidates], squared errors of interactions; of covered ones the squared error from the noise.
    covered: bool [candidates], whether a candidate is inside a chosen clique.
    slopes: float64 [candidates], 2 d error / d energies.
    pulls: float64 [cliques], d error / d ln sigma of each chosen clique.
    """

    dependence: NoisyDependence
    share_to_noise: ShareToNoise
    places: Places
    shares: Vector
    error: float
    energies: Vector
    covered: NDArray[np.bool_]
    slopes: Vector
    pulls: Vector

    @classmethod
    def of(cls, dependence: NoisyDependence, share_to_noise: ShareToNoise, indices: Places, shares: Vector) -> _State:
        """The state of cliques, by their places among the candidates, with shares of sum 1."""
        inside = [dependence.parts[index] for index in indices.tolist()]
        parts = np.concatenate([*inside, np.empty(0, dtype=np.intp)])
        owners = np.repeat(np.arange(len(indices)), [len(part) for part in inside])
        # A cell that is the sum of several measured cells has their noise.
        sizes = share_to_noise.sizes
        precisions = share_to_noise.stddevs(shares)[owners] ** -2.0 * sizes[parts] / sizes[indices][owners]
        precision = np.bincount(parts, precisions, minlength=len(dependence.candidates)).astype(np.float64)
        covered = np.flatnonzero(precision)
        precision[covered] += share_to_noise.before[covered]
        noise, elasticities = share_to_noise.errors(covered, precision[covered] ** -0.5)
        energies = dependence.energies.copy()
        energies[covered] = noise**2
        for index in covered.tolist():  # Parts come before wholes.
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
        """The share that one more clique starts with."""
        return 1 / (len(self.places) + 1)

    def plus(self, index: int) -> _State:
        """The state with one more clique."""
        shares = np.append(self.shares * (1 - self.next_share), self.next_share)
        indices = np.append(self.places, index)
        return self.of(self.dependence, self.share_to_noise, indices, shares).with_best_shares(2)

    def without(self, index: int) -> _State:
        """The state without one of its cliques."""
        shares = np.delete(self.shares, index)
        indices = np.delete(self.places, index)
        return self.of(self.dependence, self.share_to_noise, indices, shares / shares.sum()).with_best_shares(2)

    def with_best_shares(self, steps: int) -> _State:
        """The state with its shares improved by a few fixed-point steps.

        With b = 1 / (1 + power), share^(1 - b) pull^b is a constant times (w n)^b where pull = w n share^-power: one
        step then gives the closed form.
        """
        state, b = self, 1 / (1 + self.share_to_noise.power)
        for _ in range(steps if len(self.places) > 1 else 0):
            shares = state.shares ** (1 - b) * np.maximum(state.pulls, _MIN_RELATIVE_PULL * state.pulls.mean()) ** b
            if not shares.sum() > 0:
                break
            state = self.of(self.dependence, self.share_to_noise, self.places, shares / shares.sum())
        return state


def _grown(state: _State, structure: Structure, cells: float, allowed: NDArray[np.bool_]) -> tuple[_State, Structure]:
    """The state with every allowed candidate that lowers the error, best ones first, and its structure."""
    dependence, allowed = state.dependence, allowed.copy()
    while promising := _promising(state, allowed):
        fitting = [index for index in promising if structure.cells_with(dependence.candidates[index]) <= cells]
        allowed[[index for index in promising if index not in fitting]] = False
        if fitting:
            best = min((state.plus(index) for index in fitting), key=lambda candidate: candidate.error)
            if best.error > (1 - _MIN_GAIN) * state.error:
                break
            state, structure = best, structure.with_clique(dependence.candidates[best.places[-1]])
    return state, structure


def _promising(state: _State, allowed: NDArray[np.bool_]) -> list[int]:
    """The candidates that lower the error most, to first order, at the share of one more clique."""
    dependence = state.dependence
    gains = dependence.parts_of_candidates @ np.where(state.covered, 0.0, state.slopes * state.energies / 2)
    gains[~allowed] = 0.0
    first = np.argsort(-gains, kind="stable")[:_APPROXIMATE_GAINS]
    stddevs = np.repeat(state.share_to_noise.stddevs(np.array([state.next_share])), len(first))
    noise, _ = state.share_to_noise.errors(first, stddevs)
    for index, squared in zip(first.tolist(), (noise**2).tolist(), strict=True):
        inside = dependence.parts[index]
        uncovered = inside[~state.covered[inside]]
        gains[index] -= state.slopes[uncovered].max(initial=0.0) * squared / 2 * len(uncovered) / len(inside)
    best = first[np.argsort(-gains[first], kind="stable")][:_EXACT_GAINS]
    return [index for index in best.tolist() if gains[index] > 0]


def _pruned(state: _State) -> _State:
    """The state without the cliques whose removal lowers the error."""
    for index in reversed(range(len(state.places))):
        if len(state.places) > 1 and (fewer := state.without(index)).error <= state.error:
            state = fewer
    return state
