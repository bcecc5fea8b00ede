"""What FEM and sepFEM share: Algorithm 1 of Vietri et al. (2020), for any law of the perturbation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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
from dpcore.mechanisms.api import Plan, Progress, Release, Step, check_profile
from dpcore.mechanisms.query_game.dual_loop import (
    SHOWN_IN_PLAN,
    TYPICAL_UNITS,
    InitialEstimates,
    InitialMeasurements,
    basket_rows_note,
    check_positive,
    checked_queries,
    prior_log_weights,
    private_units_note,
    spread_of,
    view_of,
)
from dpcore.mechanisms.query_game.fem_schedule import FemParameters, fem_parameters
from dpcore.mechanisms.query_game.profiles import FEM_PROFILES, FemProfile
from dpcore.oracles.annealing.anneal import Annealing
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.objective import game_of
from dpcore.oracles.perturbation import GRID
from dpcore.queries import CountingQueries
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

Offsets = Callable[[BinaryView, NDArray[np.float64]], NDArray[np.float64]]
Perturb = Callable[[NDArray[np.float64], float, int, Generator], NDArray[np.int64]]

_FLOOR: Final = 0.1  # Added to noisy frequencies, in their standard deviations, so that noise rules out no column.


@dataclass(frozen=True)
class PerturbationLaw:
    """The law of the perturbation with which the data player follows the perturbed leader.

    perturb: Draws perturbations around offsets at a scale; see ``dpcore.oracles.perturbation``.
    offsets: The centres for which unperturbed records follow given one-way marginals.
    scale: The scale over sqrt(T) in a profile, in weights of one query.
    """

    perturb: Perturb
    offsets: Offsets
    scale: Callable[[FemProfile], float]


@dataclass(frozen=True)
class PrimalLoop:
    """Algorithm 1 with its settings.

    name: The name of the mechanism.
    law: The law of the perturbation.
    rounds: See ``Fem``.
    records: See ``Fem``.
    profile: See ``Fem``.
    """

    name: str
    law: PerturbationLaw
    rounds: int | None
    records: int | None
    profile: str

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = self._checked(terms, workload)
        totals = TYPICAL_UNITS if terms.unit.units is None else (terms.unit.units,)
        by_units = [self._parameters(terms, total, workload) for total in totals]
        shown = by_units[min(SHOWN_IN_PLAN, len(by_units) - 1)]
        select = Step("select queries", float(self._initial.remaining_share(terms)), shown.rounds - 1)
        notes = (
            f"{shown.rounds:,} rounds of {shown.records:,} records, {shown.rounds * shown.records:,} oracle calls",
            *basket_rows_note(view_of(queries)),
            *private_units_note(terms, [f"{each.rounds:,} rounds of {each.records:,} records" for each in by_units]),
        )
        initial_steps, initial_events = self._initial.plan(terms, view_of(queries))
        events: tuple[Event, ...] = ()
        if terms.unit.units is not None:
            selections = (terms.drawn(shown.slope, terms.unit.units, 1),) * (shown.rounds - 1)
            events = (*initial_events, *selections)
        return Plan((*initial_steps, select), shown.rounds, _memory(queries, shown), None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress
    ) -> Release:
        queries = self._checked(private.terms, workload)
        private.expect(queries)
        game, prior, oracle = game_of(queries), prior_log_weights(workload), Annealing(self._constants.sweeps)
        initial = self._initial.measure(private, game.view)
        offsets = self._offsets(initial, game.view)
        parameters = self._parameters(private.terms, initial.total, workload)
        burn_in = int(self._constants.burn_in * parameters.rounds)
        compares_all = self._constants.compared == "all"
        selected = [int(generator.integers(2 * queries.size))]  # q_0
        released: list[NDArray[np.uint8]] = []
        hits, released_hits = np.zeros(queries.size, dtype=np.int64), np.zeros(queries.size, dtype=np.int64)
        for t in range(1, parameters.rounds + 1):
            objective = _scaled_to_grid(game.objective(np.array(selected, dtype=np.int64)))
            perturbations = self.law.perturb(offsets, parameters.scale, parameters.records, generator)
            rows = oracle.respond_many(objective, perturbations, int(generator.integers(1 << 62)))  # DATA PLAYER
            records = RecordModel.of_rows(game.view, rows, float(len(rows)))
            round_hits = np.rint(records.answer(queries)).astype(np.int64)
            if t > burn_in:
                released.append(records.records)
                released_hits += round_hits
            hits = hits + round_hits if compares_all else round_hits
            done = parameters.records * (t if compares_all else 1)
            if t < parameters.rounds:  # No record would answer a query selected in the last round.
                weights = LogWeights(float(parameters.slope) / done, hits, done, prior)
                drawn = private.sample(queries, parameters.slope, weights, initial.total, 1)  # QUERY PLAYER
                selected += drawn.tolist()
            progress(t, parameters.rounds)
        model = RecordModel(game.view, np.concatenate(released), float(initial.total))
        answers = released_hits.astype(np.float64) * (initial.total / len(model.records))
        return Release(workload, of_model(answers), model, initial.measured)

    @property
    def _constants(self) -> FemProfile:
        return FEM_PROFILES[self.profile]

    @property
    def _initial(self) -> InitialMeasurements:
        constants = self._constants
        return InitialMeasurements(constants.start, constants.marginals_share, constants.units_share)

    def _offsets(self, initial: InitialEstimates, view: BinaryView) -> NDArray[np.float64]:
        """The centres of the perturbations, float64 [view.columns]: 0 for a uniform start, as in the paper."""
        if self._constants.start == "uniform":
            return np.zeros(view.columns)
        probabilities = initial.probabilities
        if view.groups:
            floor = _FLOOR * initial.measured[-1].stddev / initial.total
            sizes = [stop - start for start, stop in view.groups]
            starts = [start for start, _ in view.groups]
            probabilities = probabilities + floor
            probabilities = probabilities / np.repeat(np.add.reduceat(probabilities, starts), sizes)
        return self.law.offsets(view, probabilities)

    def _parameters(self, terms: PrivacyTerms, total: int, workload: Workload) -> FemParameters:
        return fem_parameters(
            terms,
            self._initial.remaining_share(terms) * terms.budget.amount,
            total,
            workload.queries.size,
            self.law.scale(self._constants),
            rounds=self.rounds,
            records=self.records,
            prior_spread=spread_of(prior_log_weights(workload)),
        )

    def _checked(self, terms: PrivacyTerms, workload: Workload) -> CountingQueries:
        """The queries. Raises ConfigError for a workload, privacy unit or setting that no proof covers."""
        check_profile(self.profile, FEM_PROFILES)
        queries = checked_queries(self.name, terms, workload)
        check_positive(rounds=self.rounds, records=self.records)
        if self.rounds == 1:
            raise ConfigError("mechanism.rounds is 1, which selects no query; want >= 2")
        return queries


def _scaled_to_grid(objective: SignedClauses) -> SignedClauses:
    """The objective in the integer unit of the perturbations."""
    return dataclasses.replace(
        objective,
        weights=objective.weights * GRID,
        gains=objective.gains * GRID,
        constant=objective.constant * GRID,
    )


def _memory(queries: CountingQueries, parameters: FemParameters) -> int:
    """Peak memory in bytes.

    It holds hits, weights and counts (about 14 vectors of two slots per query), the records and their perturbations.
    """
    columns, records = view_of(queries).columns, parameters.records
    return queries.size * 14 * 16 + records * columns * 40 + parameters.rounds * records * columns // 4
