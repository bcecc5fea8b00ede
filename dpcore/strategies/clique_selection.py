"""Which marginals to measure, all at once, and how precisely: from noisy errors of a model without them."""

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
_TRIED: Final = 8  # Candidates whose gain is computed in full, out of those that promise most.
_LOOKED_AT: Final = 8 * _TRIED
_REFINED: Final = 20
_LEAST_GAIN: Final = 1e-4  # Of the error that is left.
_LEAST_PULL: Final = 1e-3  # Of the mean.
_LEAST_ERROR: Final = 1e-9


class Structure(Protocol):
    """What a model over some cliques weighs."""

    def cells_with(self, clique: Clique, /) -> int: ...

    def with_clique(self, clique: Clique, /) -> Structure: ...


@dataclass(frozen=True)
class Chosen:
    """A clique to measure, by its place among the candidates, and its part of what is there for all."""

    place: int
    share: Fraction


@final
class NoisyDependence:
    """What is known about candidates before any of them is measured; public.

    candidates: Cliques, small ones first, attributes in one order throughout.
    errors: float64 [candidates], noisy L1 distances of their tables to those of the model, in counts.
        For single attributes the errors that their own first measurement leaves.
    stddevs: float64 [candidates], of the noise in each error.
    targets, weights: The cliques whose errors count, and how much; float64 [targets].
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
        self._places = {clique: place for place, clique in enumerate(self.candidates)}
        self.parts = [np.array(self._inside(clique), dtype=np.intp) for clique in self.candidates]
        self.parts_of_candidates = self._incidence(self.parts)
        self.parts_of_targets = self._incidence([np.array(self._inside(clique), dtype=np.intp) for clique in targets])
        self.targets_with = self.parts_of_targets.T.tocsr()

    @cached_property
    def energies(self) -> Vector:
        """Squared errors of interactions, float64 [candidates]: what a candidate adds to those inside it.

        Errors in unrelated directions of many cells add up in squares. The noise is taken off the squares, where it has
        a mean, and once more its deviation, so that it is seldom taken for an interaction.
        """
        squares = self.errors * np.abs(self.errors) - self.stddevs**2
        found = np.zeros(len(squares))
        for place, inside in enumerate(self.parts):
            spread = 2 * np.sqrt((np.maximum(squares[inside], 0.0) * self.stddevs[inside] ** 2).sum())
            found[place] = max(0.0, squares[place] - found[inside[:-1]].sum() - spread)
        return found

    def _inside(self, clique: Clique) -> list[int]:
        """The candidates inside a clique, small ones first: a candidate is the last one inside itself."""
        orders = sorted(set(self.orders.tolist()))
        subsets = (subset for order in orders for subset in combinations(clique, order))
        return [self._places[subset] for subset in subsets if subset in self._places]

    def _incidence(self, rows: Sequence[Places]) -> csr_array:
        """0 or 1, [rows, candidates]."""
        starts = np.cumsum([0, *map(len, rows)])
        columns = np.concatenate([*rows, np.empty(0, dtype=np.intp)])
        return csr_array((np.ones(starts[-1]), columns, starts), shape=(len(rows), len(self.candidates)))


@final
class ShareToNoise:
    """What shares of the budget buy.

    unit: Standard deviation of a measured cell's noise, in counts, for all of the budget.
    power: It grows as share^-power: 1/2 for Gaussian noise, 1 for Laplace noise.
    sizes: Cells of each candidate, int64 [candidates].
    before: 1 / sigma^2 of what was measured of each candidate before, float64 [candidates].
    left: left(place, stddevs) is the expected L1 error that a candidate keeps when it is measured with each of these
        standard deviations, float64 like stddevs.
    """

    def __init__(
        self,
        unit: float,
        power: float,
        sizes: NDArray[np.int64],
        before: Vector,
        left: Callable[[int, Vector], Vector],
    ) -> None:
        self.unit, self.power, self.sizes, self.before = unit, power, sizes, before
        self._left = left
        self._grid = np.log(unit) + np.log(2.0) * np.arange(-4, 15)
        self._curves = np.full((len(sizes), len(self._grid)), np.nan)

    def stddevs(self, shares: Vector) -> Vector:
        """Of the noise that shares buy."""
        return np.asarray(self.unit * shares**-self.power, dtype=np.float64)

    def errors(self, places: Places, stddevs: Vector) -> tuple[Vector, Vector]:
        """The L1 errors that candidates are left with, and their elasticities in the standard deviations."""
        for place in places[np.isnan(self._curves[places, 0])].tolist():
            found = self._left(place, np.exp(self._grid))
            self._curves[place] = np.log(np.maximum(found, _LEAST_ERROR))
        at = np.log(stddevs)
        step = np.clip(np.searchsorted(self._grid, at), 1, len(self._grid) - 1)
        begin, end = self._curves[places, step - 1], self._curves[places, step]
        slopes = (end - begin) / (self._grid[step] - self._grid[step - 1])
        return np.exp(begin + slopes * (at - self._grid[step - 1])), np.maximum(slopes, 0.0)


def choose_cliques(
    known: NoisyDependence, purse: ShareToNoise, structure: Structure, cells: float
) -> tuple[Chosen, ...]:
    """The cliques to measure, and their parts of the budget, so that the expected error of the targets is small.

    structure: A model without any candidate. cells: How many it may have in the end.

    The squared error of a target is the sum of its interactions' energies; of those inside a measured clique only the
    noise is left. Cliques are added one by one, whichever lowers the sum of weighted errors most with the budget split
    anew, as long as one does: first single attributes and pairs alone, since a large clique fills the structure on the
    strength of a less certain error, then larger ones as well. Last, those go that do not pay any more.

    The split: where errors move as sum of w_i n_i sigma_i, the least is at shares proportional to (w_i n_i)^(2/3) under
    Gaussian noise and (w_i n_i)^(1/2) under Laplace noise. Here w_i is how much of the targets' errors is noise of
    clique i, brought up to date with each clique that is added.
    """
    now = _State.of(known, purse, np.empty(0, dtype=np.intp), np.empty(0))
    orders = sorted(set(known.orders.tolist()))
    for order in [order for order in orders if order > 1] or orders:
        now, structure = _grown(now, structure, cells, known.orders <= order)
    now = _pruned(now.settled(_REFINED))
    ordered = np.argsort(now.places)
    pairs = zip(now.places[ordered].tolist(), exact_shares(now.shares[ordered]), strict=True)
    return tuple(Chosen(place, share) for place, share in pairs)


@final
@dataclass(frozen=True, eq=False)
class _State:
    """Some cliques with their shares, which sum to 1, and what follows.

    error: Sum of weighted expected errors of the targets.
    left: Energies, and what noise is left of those that are held; float64 [candidates].
    held: Candidates inside a chosen clique, bool [candidates].
    slopes: 2 d error / d left, float64 [candidates].
    pulls: d error / d ln sigma: what more budget for a clique would bring, float64 [cliques].
    """

    known: NoisyDependence
    purse: ShareToNoise
    places: Places
    shares: Vector
    error: float
    left: Vector
    held: NDArray[np.bool_]
    slopes: Vector
    pulls: Vector

    @classmethod
    def of(cls, known: NoisyDependence, purse: ShareToNoise, places: Places, shares: Vector) -> _State:
        inside = [known.parts[place] for place in places.tolist()]
        parts = np.concatenate([*inside, np.empty(0, dtype=np.intp)])
        owners = np.repeat(np.arange(len(places)), [len(part) for part in inside])
        # A cell that sums up several cells of what is measured has their noise.
        precisions = purse.stddevs(shares)[owners] ** -2.0 * purse.sizes[parts] / purse.sizes[places][owners]
        together = np.bincount(parts, precisions, minlength=len(known.candidates)).astype(np.float64)
        held = np.flatnonzero(together)
        together[held] += purse.before[held]
        noise, elasticities = purse.errors(held, together[held] ** -0.5)
        left = known.energies.copy()
        left[held] = noise**2
        for place in held.tolist():  # Parts come before wholes.
            left[place] = max(0.0, left[place] - left[known.parts[place][:-1]].sum())
        errors = np.sqrt(np.maximum(known.parts_of_targets @ left, _LEAST_ERROR))
        slopes = known.targets_with @ (known.weights / errors)
        moves = np.zeros(len(left))
        moves[held] = slopes[held] * left[held] * elasticities / together[held]
        pulls = np.bincount(owners, moves[parts] * precisions, minlength=len(places)).astype(np.float64)
        return cls(known, purse, places, shares, float(known.weights @ errors), left, together > 0, slopes, pulls)

    @property
    def typical(self) -> float:
        """The share of one clique more."""
        return 1 / (len(self.places) + 1)

    def plus(self, place: int) -> _State:
        """With one clique more, at a typical share."""
        shares = np.append(self.shares * (1 - self.typical), self.typical)
        return self.of(self.known, self.purse, np.append(self.places, place), shares).settled(2)

    def without(self, index: int) -> _State:
        shares = np.delete(self.shares, index)
        return self.of(self.known, self.purse, np.delete(self.places, index), shares / shares.sum()).settled(2)

    def settled(self, times: int) -> _State:
        """With the best shares, found in a few steps.

        With b = 1 / (1 + power), share^(1 - b) pull^b is a constant times (w n)^b where pull = w n share^-power: one
        step then gives the closed form.
        """
        state, b = self, 1 / (1 + self.purse.power)
        for _ in range(times if len(self.places) > 1 else 0):
            wanted = state.shares ** (1 - b) * np.maximum(state.pulls, _LEAST_PULL * state.pulls.mean()) ** b
            if not wanted.sum() > 0:
                break
            state = self.of(self.known, self.purse, self.places, wanted / wanted.sum())
        return state


def _grown(now: _State, structure: Structure, cells: float, allowed: NDArray[np.bool_]) -> tuple[_State, Structure]:
    """With all the candidates that pay, best ones first, out of those allowed."""
    known, allowed = now.known, allowed.copy()
    while promising := _promising(now, allowed):
        fitting = [place for place in promising if structure.cells_with(known.candidates[place]) <= cells]
        allowed[[place for place in promising if place not in fitting]] = False
        if fitting:
            best = min((now.plus(place) for place in fitting), key=lambda tried: tried.error)
            if best.error > (1 - _LEAST_GAIN) * now.error:
                break
            now, structure = best, structure.with_clique(known.candidates[best.places[-1]])
    return now, structure


def _promising(now: _State, allowed: NDArray[np.bool_]) -> list[int]:
    """The candidates that lower the error most at a typical share, to first order."""
    known = now.known
    gains = known.parts_of_candidates @ np.where(now.held, 0.0, now.slopes * now.left / 2)
    gains[~allowed] = 0.0
    first = np.argsort(-gains, kind="stable")[:_LOOKED_AT]
    stddevs = np.repeat(now.purse.stddevs(np.array([now.typical])), len(first))
    noise, _ = now.purse.errors(first, stddevs)
    for place, squared in zip(first.tolist(), (noise**2).tolist(), strict=True):
        inside = known.parts[place]
        fresh = inside[~now.held[inside]]
        gains[place] -= now.slopes[fresh].max(initial=0.0) * squared / 2 * len(fresh) / len(inside)
    best = first[np.argsort(-gains[first], kind="stable")][:_TRIED]
    return [place for place in best.tolist() if gains[place] > 0]


def _pruned(state: _State) -> _State:
    """Without the cliques whose going lowers the error."""
    for index in reversed(range(len(state.places))):
        if len(state.places) > 1 and (fewer := state.without(index)).error <= state.error:
            state = fewer
    return state
