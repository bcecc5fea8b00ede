"""GSD: a genetic algorithm that edits one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Domain
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, silent
from dpcore.queries import Marginals
from dpcore.workload import Workload
from tests.benchmarks.rivals.adaptive import Adaptive, marginals, records_of

_GENERATIONS_AT_ONCE: Final = 2_000  # Random numbers of so many generations are drawn together.


@final
@dataclass(frozen=True)
class Gsd:
    """Datasets whose rows are edited by chance; those survive that are nearest to the measured marginals.

    rounds: See ``Adaptive``. rows: Of a dataset. elite: Datasets that survive a generation. edits: New datasets of a
    generation, each an elite one with one value of one row changed: every second one to any value (mutation), the
    others to that of another row of the same dataset (crossover). generations: Of a round.

    The fitness is the sum of squared distances between measured and synthetic marginals. An edit changes two cells of
    each marginal with the edited attribute, so that its fitness is known without counting.

    Source: Liu and others, "Generating private synthetic data with genetic algorithms" (2023), Algorithm 2.
    """

    traits: ClassVar[Traits] = Traits(
        name="gsd", answers=("marginals",), shapes=("table",), rows=True, mostly_gaussian=False,
        recommended_for="comparison with the published mechanism",
    )  # fmt: skip

    rounds: int | None = None
    rows: int = 2_000
    elite: int = 5
    edits: int = 50
    generations: int = 20_000

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = marginals(workload, self.traits.name)
        memory = 8 * self.elite * (self.rows * len(queries.domain.names) + queries.size)
        return Adaptive(self.rounds, self.traits.name).plan(terms, workload, memory + 64 * 10**6)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        adaptive = Adaptive(self.rounds, self.traits.name)
        self.plan(private.terms, workload)
        learner = _Population(self, marginals(workload, self.traits.name).domain, generator)
        return adaptive.run(private, workload, learner, progress)


class _Population:
    """The elite datasets, best first. Implements ``Learner``."""

    def __init__(self, settings: Gsd, domain: Domain, generator: Generator) -> None:
        self._settings, self._domain, self._generator = settings, domain, generator
        drawn = generator.random((settings.rows, len(domain.names))) * domain.sizes
        self._elite = np.repeat(drawn.astype(np.int64)[None], settings.elite, axis=0)

    def answers(self, queries: Marginals) -> NDArray[np.float64]:
        return records_of(self._domain, self._elite[0], 1.0).answer(queries)

    def learn(self, measured: Sequence[Measurement], total: float) -> None:
        cells = MeasuredCells.of(self._domain, measured, self._settings.rows / total)
        counts = np.stack([cells.counted(codes) for codes in self._elite])
        fitness = np.square(counts - cells.targets).sum(axis=1)
        sizes = np.array(self._domain.sizes)
        for start in range(0, self._settings.generations, _GENERATIONS_AT_ONCE):
            generations = min(_GENERATIONS_AT_ONCE, self._settings.generations - start)
            shape = (generations, self._settings.edits)
            rows = self._generator.integers(0, self._settings.rows, (*shape, 2))
            axes = self._generator.integers(0, len(sizes), shape)
            values = (self._generator.random(shape) * sizes[axes]).astype(np.int64)
            evolve(
                self._elite, counts, fitness, cells.targets, cells.strides, cells.starts,
                cells.first_of_axis, cells.with_axis, rows, axes, values,
            )  # fmt: skip

    def codes(self) -> NDArray[np.int64]:
        return np.asarray(self._elite[0])


@dataclass(frozen=True, eq=False)
class MeasuredCells:
    """The cells of the measured marginals, one after another.

    targets: Measured values, in rows of a synthetic dataset. strides: int64 [marginals, attributes], what a value adds
    to the index of its cell; 0 outside the clique. starts: Index of the first cell of each marginal. first_of_axis,
    with_axis: The marginals with attribute a are with_axis[first_of_axis[a] : first_of_axis[a + 1]].
    """

    targets: NDArray[np.float64]
    strides: NDArray[np.int64]
    starts: NDArray[np.int64]
    first_of_axis: NDArray[np.int64]
    with_axis: NDArray[np.int64]

    @classmethod
    def of(cls, domain: Domain, measured: Sequence[Measurement], factor: float) -> MeasuredCells:
        strides = np.zeros((len(measured), len(domain.names)), dtype=np.int64)
        has_axis = np.zeros_like(strides, dtype=np.bool_)
        for index, measurement in enumerate(measured):
            assert isinstance(measurement.queries, Marginals)
            (clique,) = measurement.queries.cliques
            for position, axis in enumerate(domain.axes(clique)):
                strides[index, axis] = domain.size(clique[position + 1 :])
                has_axis[index, axis] = True
        sizes = [measurement.values.size for measurement in measured]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        targets = factor * np.concatenate([measurement.values for measurement in measured])
        first = np.concatenate([[0], np.cumsum(has_axis.sum(axis=0))]).astype(np.int64)
        return cls(targets, strides, starts, first, np.nonzero(has_axis.T)[1].astype(np.int64))

    def counted(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The rows in each cell."""
        cells = codes @ self.strides.T + self.starts
        return np.bincount(cells.ravel(), minlength=self.targets.size).astype(np.float64)


@compiled
def evolve(
    elite: NDArray[np.int64],
    counts: NDArray[np.float64],
    fitness: NDArray[np.float64],
    targets: NDArray[np.float64],
    strides: NDArray[np.int64],
    starts: NDArray[np.int64],
    first_of_axis: NDArray[np.int64],
    with_axis: NDArray[np.int64],
    rows: NDArray[np.int64],
    axes: NDArray[np.int64],
    values: NDArray[np.int64],
) -> None:
    """Generations of edits, in place: elite [elite, rows, attributes], counts [elite, cells], fitness [elite].

    rows, axes, values: What each edit changes, [generations, edits]; of ``rows`` the second one gives the value of a
    crossover. Edit e belongs to the elite dataset e modulo their number.
    """
    members, edits = elite.shape[0], axes.shape[1]
    scores, chosen = np.empty(edits), np.empty(edits, dtype=np.int64)
    for generation in range(axes.shape[0]):
        for edit in range(edits):
            parent, axis, row = edit % members, axes[generation, edit], rows[generation, edit, 0]
            value = values[generation, edit]
            if (edit // members) % 2:
                value = elite[parent, rows[generation, edit, 1], axis]
            chosen[edit] = value
            scores[edit] = fitness[parent] + _change(
                elite[parent, row], axis, value, counts[parent], targets, strides, starts, first_of_axis, with_axis
            )
        # The worst survivor makes room for an edit as long as an edit is better, one edit of each parent at most.
        for _ in range(members):
            best, worst = int(np.argmin(scores)), int(np.argmax(fitness))
            if scores[best] >= fitness[worst]:
                break
            parent, axis, row = best % members, axes[generation, best], rows[generation, best, 0]
            score = scores[best]
            for edit in range(parent, edits, members):
                scores[edit] = np.inf
            for edit in range(worst, edits, members):
                scores[edit] = np.inf  # Their parent is gone.
            if worst != parent:
                elite[worst] = elite[parent]
                counts[worst] = counts[parent]
            _apply(elite[worst, row], axis, chosen[best], counts[worst], strides, starts, first_of_axis, with_axis)
            fitness[worst] = score
    best = int(np.argmin(fitness))
    if best:
        elite[0] = elite[best]
        counts[0] = counts[best]
        fitness[0] = fitness[best]


@compiled
def _change(
    codes: NDArray[np.int64],
    axis: int,
    value: int,
    counts: NDArray[np.float64],
    targets: NDArray[np.float64],
    strides: NDArray[np.int64],
    starts: NDArray[np.int64],
    first_of_axis: NDArray[np.int64],
    with_axis: NDArray[np.int64],
) -> float:
    """What an edit adds to the sum of squares."""
    change = 0.0
    if codes[axis] == value:
        return change
    for position in range(first_of_axis[axis], first_of_axis[axis + 1]):
        marginal = with_axis[position]
        before = starts[marginal]
        for attribute in range(codes.shape[0]):
            before += strides[marginal, attribute] * codes[attribute]
        after = before + strides[marginal, axis] * (value - codes[axis])
        change += 2 * (counts[after] - targets[after]) - 2 * (counts[before] - targets[before]) + 2
    return change


@compiled
def _apply(
    codes: NDArray[np.int64],
    axis: int,
    value: int,
    counts: NDArray[np.float64],
    strides: NDArray[np.int64],
    starts: NDArray[np.int64],
    first_of_axis: NDArray[np.int64],
    with_axis: NDArray[np.int64],
) -> None:
    """Makes an edit."""
    for position in range(first_of_axis[axis], first_of_axis[axis + 1]):
        marginal = with_axis[position]
        before = starts[marginal]
        for attribute in range(codes.shape[0]):
            before += strides[marginal, attribute] * codes[attribute]
        counts[before] -= 1
        counts[before + strides[marginal, axis] * (value - codes[axis])] += 1
    codes[axis] = value
