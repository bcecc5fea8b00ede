"""Which marginals to measure, all at once, and how precisely: from noisy errors of a model without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Final, Protocol, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpcore.domain import Clique

Vector = NDArray[np.float64]
_STEPS: Final = 1 << 40
_TRIED: Final = 8  # Candidates whose gain is computed in full, out of those that promise most.
_REFINED: Final = 20
_DEVIATIONS: Final = 1.0
_LEAST_GAIN: Final = 1e-4  # Of the error that is left.


class Structure(Protocol):
    """What a model over some cliques weighs."""

    def cells_with(self, clique: Clique) -> int: ...

    def with_clique(self, clique: Clique) -> Structure: ...


@dataclass(frozen=True)
class Chosen:
    """A clique to measure, and its part of what is there for all."""

    place: int
    share: Fraction


@final
@dataclass(frozen=True, eq=False)
class NoisyDependence:
    """What is known about candidates before any of them is measured; public.

    candidates: Pairs and larger cliques, attributes in one order throughout.
    errors: float64 [candidates], noisy L1 distances of their tables to those of the model, in counts.
    stddevs: float64 [candidates], of the noise in each error.
    targets, weights: The cliques whose errors count, and how much; float64 [targets].
    noise: Standard deviations, ascending, that measured cells may have.
    left: left(place) is the expected L1 error of a candidate that is measured with each of these, float64 [noise].
    """

    candidates: tuple[Clique, ...]
    errors: Vector
    stddevs: Vector
    targets: tuple[Clique, ...]
    weights: Vector
    noise: Vector
    left: Callable[[int], Vector]
    _curves: dict[int, Vector] = field(default_factory=dict)

    @cached_property
    def parts(self) -> tuple[NDArray[np.intp], ...]:
        """For each candidate the places of those inside it, itself the last."""
        return tuple(np.array(self._inside(clique), dtype=np.intp) for clique in self.candidates)

    @cached_property
    def energies(self) -> Vector:
        """Squared errors of interactions, float64 [candidates]: what a candidate adds to those inside it.

        Errors that point in unrelated directions of many cells add up in squares. The noise is taken off the squares,
        where it has a mean, and once more its deviation, so that noise alone is seldom taken for an interaction.
        """
        squares = self.errors * np.abs(self.errors) - self.stddevs**2
        found = np.zeros(len(squares))
        for place, inside in enumerate(self.parts):
            below = inside[:-1]
            spread = _DEVIATIONS * 2 * np.sqrt((np.maximum(squares[inside], 0.0) * self.stddevs[inside] ** 2).sum())
            found[place] = max(0.0, squares[place] - found[below].sum() - spread)
        return found

    @cached_property
    def within(self) -> csr_array:
        """Which candidates lie in which target, 0 or 1, [targets, candidates]."""
        rows = [self._inside(clique) for clique in self.targets]
        starts = np.cumsum([0, *map(len, rows)])
        columns = np.concatenate([np.array(row, dtype=np.intp) for row in rows])
        return csr_array((np.ones(starts[-1]), columns, starts), shape=(len(rows), len(self.candidates)))

    @cached_property
    def holding(self) -> csr_array:
        """``within``, transposed."""
        return self.within.T.tocsr()

    def curve(self, place: int) -> Vector:
        """``left``, computed once."""
        if place not in self._curves:
            self._curves[place] = np.maximum(self.left(place), 1e-9)
        return self._curves[place]

    @cached_property
    def _places(self) -> dict[Clique, int]:
        return {clique: place for place, clique in enumerate(self.candidates)}

    def _inside(self, clique: Clique) -> list[int]:
        orders = {len(candidate) for candidate in self.candidates}
        subsets = [subset for order in sorted(orders) for subset in combinations(clique, order)]
        return [self._places[subset] for subset in subsets if subset in self._places]


@final
@dataclass(frozen=True, eq=False)
class OneShot:
    """The noise that a share of the budget buys.

    unit: Standard deviation of a cell's noise, in counts, for all of the budget.
    power: It grows as share^-power: 1/2 for Gaussian noise, 1 for Laplace noise.
    sizes: Cells of each candidate, int64 [candidates].
    """

    unit: float
    power: float
    sizes: NDArray[np.int64]

    def stddevs(self, shares: Vector) -> Vector:
        return np.asarray(self.unit * shares**-self.power, dtype=np.float64)


def choose_cliques(known: NoisyDependence, budget: OneShot, structure: Structure, cells: float) -> tuple[Chosen, ...]:
    """The cliques to measure, and their parts of the budget, so that the expected error of the targets is least.

    structure: A model without any candidate. cells: How many it may have in the end.

    A target's squared error is the sum of the energies of its interactions: of those inside a measured clique the noise
    is left, of the others all. Cliques are added one by one, whichever lowers the sum of weighted errors most with the
    budget split anew, as long as one does; last, those go that do not pay any more.

    The split: with n_i cells and errors that move as w_i n_i sigma_i, the sum is least at shares proportional to
    (w_i n_i)^(2/3) under Gaussian noise and (w_i n_i)^(1/2) under Laplace noise. Here w_i follows from how much of a
    target's error is noise of clique i, and is brought up to date with each clique that is added.
    """
    now = _State.of(known, budget, np.empty(0, dtype=np.intp), np.empty(0))
    orders = np.array([len(candidate) for candidate in known.candidates])
    for order in sorted(set(orders.tolist())):
        now, structure = _grown(now, structure, cells, orders <= order)
    now = _pruned(now.settled(_REFINED))
    order = np.argsort(now.places)
    exact = np.floor(now.shares / now.shares.sum() * (_STEPS - len(order))).astype(np.int64) if len(order) else order
    return tuple(Chosen(int(now.places[i]), Fraction(max(1, int(exact[i])), _STEPS)) for i in order.tolist())


def _grown(
    now: _State, structure: Structure, cells: float, allowed: NDArray[np.bool_]
) -> tuple[_State, Structure]:
    """With all the candidates that pay, best ones first, out of those allowed."""
    known, allowed = now.known, allowed.copy()
    while True:
        promising = _promising(now, allowed)
        fitting = [place for place in promising if structure.cells_with(known.candidates[place]) <= cells]
        allowed[[place for place in promising if place not in fitting]] = False
        if not promising:
            return now, structure
        if not fitting:
            continue  # The next few.
        best = min((now.plus(place).settled(2) for place in fitting), key=lambda tried: tried.error)
        if best.error > (1 - _LEAST_GAIN) * now.error:
            return now, structure
        now, structure = best, structure.with_clique(known.candidates[best.places[-1]])


@final
@dataclass(frozen=True, eq=False)
class _State:
    """Some cliques with their shares, and what follows.

    error: Sum of weighted expected errors of the targets.
    pulls: - d error / d ln share x power: what more budget for a clique would bring, float64 [cliques].
    slopes: 2 d error / d energy, float64 [candidates].
    held: Candidates inside a chosen clique.
    """

    known: NoisyDependence
    budget: OneShot
    places: NDArray[np.intp]
    shares: Vector
    error: float
    pulls: Vector
    slopes: Vector
    left: Vector
    held: NDArray[np.bool_]

    @classmethod
    def of(cls, known: NoisyDependence, budget: OneShot, places: NDArray[np.intp], shares: Vector) -> _State:
        inside = [known.parts[place] for place in places]
        parts = np.concatenate([*inside, np.empty(0, dtype=np.intp)])
        owners = np.repeat(np.arange(len(places)), [len(part) for part in inside])
        # A sum of several cells has more noise.
        precisions = budget.stddevs(shares)[owners] ** -2 * budget.sizes[parts] / budget.sizes[places][owners]
        together = np.bincount(parts, precisions, minlength=len(known.candidates))
        left = known.energies.copy()
        held = together > 0
        elasticities = np.zeros(len(left))
        for place in np.flatnonzero(held).tolist():  # Small ones first: parts come before what holds them.
            noise, elasticities[place] = _interpolated(known, place, together[place] ** -0.5)
            left[place] = max(0.0, noise**2 - left[known.parts[place][:-1]].sum())
        errors = np.sqrt(np.maximum(known.within @ left, 1.0))
        slopes = known.holding @ (known.weights / errors)
        of_part = slopes[parts] * left[parts] * elasticities[parts] * precisions / together[parts]
        pulls = np.bincount(owners, of_part, minlength=len(places))
        return cls(known, budget, places, shares, float(known.weights @ errors), pulls, slopes, left, held)

    def plus(self, place: int) -> _State:
        """With one clique more, at a typical share."""
        places = np.append(self.places, place)
        typical = 1 / len(places)
        return self.of(self.known, self.budget, places, np.append(self.shares * (1 - typical), typical))

    def without(self, index: int) -> _State:
        shares = np.delete(self.shares, index)
        return self.of(self.known, self.budget, np.delete(self.places, index), shares / max(shares.sum(), 1e-300))

    def settled(self, times: int) -> _State:
        """With the shares that are best, found in a few steps; the first is the closed form."""
        state = self
        # share^(1 - b) pull^b is a constant times (w n)^b where pull = w n share^-power and b = 1 / (1 + power).
        b = 1 / (1 + self.budget.power)
        for _ in range(times if len(self.places) > 1 else 0):
            wanted = state.shares ** (1 - b) * np.maximum(state.pulls, 1e-3 * state.pulls.mean() + 1e-300) ** b
            state = self.of(self.known, self.budget, self.places, wanted / wanted.sum())
        return state


def _promising(now: _State, allowed: NDArray[np.bool_]) -> list[int]:
    """Places of the candidates that promise most at a typical share, by first-order changes of the errors."""
    typical = 1 / (len(now.places) + 1)
    gains = _gains(now, float(now.budget.stddevs(np.array([typical]))[0]))
    gains[~allowed] = 0.0
    gains[now.places] = 0.0
    order = np.argsort(-gains, kind="stable")[:_TRIED]
    return [place for place in order.tolist() if gains[place] > 0]


def _gains(now: _State, stddev: float) -> Vector:
    """How much the error falls, to first order, when a candidate is added; with no noise but where it may pay."""
    known = now.known
    gains = np.zeros(len(known.candidates))
    worth = now.slopes * np.where(now.held, 0.0, now.left) / 2
    for place, inside in enumerate(known.parts):
        gains[place] = worth[inside].sum()
    for place in np.argsort(-gains, kind="stable")[: 8 * _TRIED].tolist():
        inside = known.parts[place]
        noise, _ = _interpolated(known, place, stddev)
        fresh = inside[~now.held[inside]]
        if len(fresh):
            gains[place] -= now.slopes[fresh].max() * noise**2 / 2 * len(fresh) / len(inside)
    return gains


def _interpolated(known: NoisyDependence, place: int, stddev: float) -> tuple[float, float]:
    """The error that a candidate is left with, and its elasticity in the standard deviation."""
    grid, values = np.log(known.noise), np.log(known.curve(place))
    at = float(np.log(stddev))
    step = int(np.clip(np.searchsorted(grid, at), 1, len(grid) - 1))
    slope = (values[step] - values[step - 1]) / (grid[step] - grid[step - 1])
    return float(np.exp(values[step - 1] + slope * (at - grid[step - 1]))), float(max(slope, 0.0))


def _pruned(state: _State) -> _State:
    """Without the cliques that lower the error if they go."""
    for index in reversed(range(len(state.places))):
        fewer = state.without(index).settled(2)
        if len(state.places) > 1 and fewer.error <= state.error:
            state = fewer
    return state
