"""What FEM and sepFEM share: Algorithm 1, with the data player's perturbation left open."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.estimation.record_model import RecordModel
from dpcore.kernel.events import Event
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.mechanisms.query_game.dual_loop import (
    FOR_PLAN,
    TYPICAL_UNITS,
    InitialEstimates,
    InitialMeasurements,
    by_units,
    check_positive,
    checked_queries,
    log_weights,
    spread,
    view_of,
)
from dpcore.mechanisms.query_game.fem_schedule import Schedule, schedule_for
from dpcore.oracles.annealing.anneal import Annealing
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.objective import game_of
from dpcore.oracles.perturbation import GRID
from dpcore.queries import CountingQueries
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

Start = Literal["marginals", "uniform"]
Against = Literal["round", "all"]
Offsets = Callable[[BinaryView, NDArray[np.float64]], NDArray[np.float64]]
Perturb = Callable[[NDArray[np.float64], float, int, Generator], NDArray[np.int64]]

_FLOOR = 0.1  # In standard deviations of a noisy frequency: no column is ruled out by noise.


@dataclass(frozen=True)
class DataPlayer:
    """Follow the perturbed leader: the law of the perturbation, and its scale over sqrt(T) where none is given."""

    perturb: Perturb
    offsets: Offsets
    noise: float


@dataclass(frozen=True)
class PrimalLoop:
    """Algorithm 1 with its settings; see ``Fem`` for what they mean."""

    name: str
    player: DataPlayer
    rounds: int | None
    records: int | None
    noise: float | None
    burn_in: float
    start: Start
    start_share: float
    total_share: float
    against: Against
    sweeps: int

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = self._checked(terms, workload)
        totals = TYPICAL_UNITS if terms.unit.units is None else (terms.unit.units,)
        schedules = [self._schedule(terms, total, workload) for total in totals]
        shown = schedules[min(FOR_PLAN, len(schedules) - 1)]
        select = Step("select queries", float(self._opening.left(terms)), shown.rounds - 1)
        notes = (
            f"{shown.rounds:,} rounds of {shown.records:,} records, {shown.rounds * shown.records:,} oracle calls",
            *by_units(terms, [f"{each.rounds:,} rounds of {each.records:,} records" for each in schedules]),
        )
        measured_first, known = self._opening.planned(terms, view_of(queries))
        events: tuple[Event, ...] = ()
        if terms.unit.units is not None:
            drawn = (terms.drawn(shown.slope, terms.unit.units, 1),) * (shown.rounds - 1)
            events = (*known, *drawn)
        memory = _memory(queries, shown)
        steps = (*measured_first, select)
        return Plan(steps, shown.rounds, memory, None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress
    ) -> Release:
        queries = self._checked(private.terms, workload)
        private.expect(queries)
        game, prior, oracle = game_of(queries), log_weights(workload), Annealing(self.sweeps)
        opened = self._opening.buy(private, game.view)
        offsets = self._offsets(opened, game.view)
        schedule = self._schedule(private.terms, opened.total, workload)
        dropped = int(self.burn_in * schedule.rounds)
        selected = [int(generator.integers(2 * queries.size))]  # q_0
        kept: list[NDArray[np.uint8]] = []
        hits, kept_hits = np.zeros(queries.size, dtype=np.int64), np.zeros(queries.size, dtype=np.int64)
        for t in range(1, schedule.rounds + 1):
            objective = _in_steps_of_the_grid(game.objective(np.array(selected, dtype=np.int64)))
            perturbations = self.player.perturb(offsets, schedule.scale, schedule.records, generator)
            rows = oracle.respond_many(objective, perturbations, int(generator.integers(1 << 62)))  # DATA PLAYER
            play = RecordModel.of_rows(game.view, rows, float(len(rows)))
            of_round = np.rint(play.answer(queries)).astype(np.int64)
            if t > dropped:
                kept.append(play.records)
                kept_hits += of_round
            hits = hits + of_round if self.against == "all" else of_round
            done = schedule.records * (t if self.against == "all" else 1)
            if t < schedule.rounds:  # No record would answer a query selected in the last round.
                tilt = LogWeights(float(schedule.slope) / done, hits, done, prior)
                selected += private.sample(queries, schedule.slope, tilt, opened.total, 1).tolist()  # QUERY PLAYER
            progress(t, schedule.rounds)
        model = RecordModel(game.view, np.concatenate(kept), float(opened.total))
        answers = kept_hits.astype(np.float64) * (opened.total / len(model.records))
        return Release(workload, of_model(answers), model, opened.measured)

    @property
    def _opening(self) -> InitialMeasurements:
        return InitialMeasurements(self.start, self.start_share, self.total_share)

    def _offsets(self, opened: InitialEstimates, view: BinaryView) -> NDArray[np.float64]:
        """What the perturbations are centred on: 0, as in the paper, without marginals."""
        if self.start == "uniform":
            return np.zeros(view.columns)
        probabilities = opened.probabilities
        if view.groups:
            floor = _FLOOR * opened.measured[-1].stddev / opened.total
            sizes = [stop - start for start, stop in view.groups]
            starts = [start for start, _ in view.groups]
            probabilities = probabilities + floor
            probabilities = probabilities / np.repeat(np.add.reduceat(probabilities, starts), sizes)
        return self.player.offsets(view, probabilities)

    def _schedule(self, terms: PrivacyTerms, total: int, workload: Workload) -> Schedule:
        return schedule_for(
            terms,
            self._opening.left(terms) * terms.budget.amount,
            total,
            workload.queries.size,
            self.player.noise if self.noise is None else self.noise,
            rounds=self.rounds,
            records=self.records,
            spread=spread(log_weights(workload)),
        )

    def _checked(self, terms: PrivacyTerms, workload: Workload) -> CountingQueries:
        """The queries. Raises ConfigError for a workload, a privacy unit or settings that there is no proof for."""
        queries = checked_queries(self.name, terms, workload)
        check_positive(rounds=self.rounds, records=self.records, noise=self.noise, sweeps=self.sweeps)
        if self.rounds == 1:
            raise ConfigError("mechanism.rounds is 1, which selects no query; want >= 2")
        if not 0 <= self.burn_in < 1:
            raise ConfigError(f"mechanism.burn_in is {self.burn_in}; want 0 <= burn_in < 1")
        if not (self.start_share > 0 and self.total_share > 0 and self.start_share + self.total_share < 1):
            raise ConfigError("mechanism.start_share and total_share; want both > 0 and a sum < 1")
        return queries


def _in_steps_of_the_grid(objective: SignedClauses) -> SignedClauses:
    """The same objective in steps of a perturbation."""
    return dataclasses.replace(
        objective,
        weights=objective.weights * GRID,
        gains=objective.gains * GRID,
        constant=objective.constant * GRID,
    )


def _memory(queries: CountingQueries, schedule: Schedule) -> int:
    """Peak of hits, weights and counts (about 14 vectors of two slots a query), records and their perturbations."""
    columns = view_of(queries).columns
    return queries.size * 14 * 16 + schedule.records * columns * 40 + schedule.rounds * schedule.records * columns // 4
