"""DualQuery: multiplicative weights over queries, answered by whole records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.estimation.independent import to_simplex
from dpcore.estimation.record_model import RecordModel
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.renyi import Event
from dpcore.kernel.sensitivity import answer_sensitivity
from dpcore.kernel.terms import Terms
from dpcore.kernel.tilt import Tilt
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, silent
from dpcore.mechanisms.dual_query_schedule import Schedule, defaults_for, schedule_for, slope_of_round
from dpcore.oracles import fill
from dpcore.oracles.clauses import signed_clauses
from dpcore.oracles.enumerate import Enumeration
from dpcore.oracles.mip import Highs
from dpcore.oracles.protocol import Oracle
from dpcore.queries import Conjunctions, UnitCount
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_EXACT_COLUMNS = 16
_TOLERANCE = 0.01  # Gap of a best response, as a fraction of the samples: alpha / 4 of Algorithm 2 for alpha = 0.04.
_TYPICAL_UNITS = (1_000, 10_000, 100_000, 1_000_000)
_FOR_PLAN = 2  # Index of the number that a plan shows where the number of units is private.


@final
@dataclass(frozen=True)
class DualQuery:
    """Draws queries on which the synthetic data fall short, and adds a record that satisfies many of them.

    Formal guarantees: a draw of round t has bounded range 2 eta (t - 1) / n where a unit is replaced and
    eta (t - 1) / n0 where one is added or removed. Ranges add up under pure DP (Theorem 4.2); under zCDP a draw costs
    range^2 / 8, under Gaussian DP about pi/2 times as much of its budget. The total and the marginals below are charged
    beside them.

    A workload's weights are the weights of the first round: important queries start with more attention.

    eta, samples, rounds: Of Algorithm 2; None for what the budget and the number of units suggest
        (``dual_query_schedule``). Rounds is an upper bound: no more are run than the budget pays for.
    oracle: "highs", or "enumerate" for at most 2^20 possible records.
    free: What the columns become that no sampled query decides. "marginals": drawn from noisy one-way marginals, bought
        for ``free_share``; "zeros": 0 (baskets only, a table has no zero), which is a little better where nearly every
        item is rare; "uniform": any value alike. It matters more than the quality of the best responses.
    total_share: Share of the budget for the number of units where it is private. Rounds grow with the fourth root of
        the budget, so 5 % costs about 1 % of them.
    node_limit: Branch-and-bound nodes of a best response that rounding leaves more than 1 % from its bound. 0 by
        default: one node took 10 times as long on tables and left the largest error alone (the mean error fell by an
        eighth on NLTCS and rose by as much on Adult). Responses over at most 16 columns are exact all the same.

    Source: Gaboardi, Gallego Arias, Hsu, Roth and Wu, "Dual Query: Practical Private Query Release for High Dimensional
    Data" (full version), Algorithm 2.
    """

    eta: float | None = None
    samples: int | None = None
    rounds: int | None = None
    oracle: Literal["highs", "enumerate"] = "highs"
    free: Literal["marginals", "zeros", "uniform"] = "marginals"
    free_share: float = 0.05
    total_share: float = 0.05
    node_limit: int = 0

    def plan(self, terms: Terms, workload: Workload) -> Plan:
        queries = self._checked(terms, workload)
        for_total, for_free = self._shares(terms)
        steps = []
        if for_total:
            scale = terms.measure_scale(UnitCount(), for_total)
            steps.append(Step("measure units", float(for_total), 1, noise_stddev(terms.noise, scale)))
        if for_free:
            scale = terms.measure_scale(Conjunctions.single_columns(queries.view), for_free)
            stddev = noise_stddev(terms.noise, scale)
            steps.append(Step("measure one-way marginals", float(for_free), 1, stddev))
        left = 1 - for_total - for_free
        totals = _TYPICAL_UNITS if terms.unit.units is None else (terms.unit.units,)
        prior = _log_weights(workload)
        schedules = [self._schedule(terms, left, total, queries, prior) for total in totals]
        shown = schedules[min(_FOR_PLAN, len(schedules) - 1)]
        steps.append(Step("sample queries", float(left), shown.rounds))
        notes = _notes(queries, shown) + (_by_units(schedules) if terms.unit.units is None else ())
        events = self._events(terms, shown) if terms.unit.units is not None else ()
        return Plan(tuple(steps), shown.rounds, _memory(queries, shown), None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        queries = self._checked(private.terms, workload)
        private.expect(queries)
        total, chances, measured = self._measure(private, queries.view)
        prior = _log_weights(workload)
        for_draws = 1 - sum(self._shares(private.terms), Fraction(0))
        schedule = self._schedule(private.terms, for_draws, total, queries, prior)
        oracle = self.best_response_oracle()
        hits = np.zeros(queries.size, dtype=np.int64)  # Earlier records that satisfy each query.
        records = np.empty((schedule.rounds, -(-queries.view.columns // 8)), dtype=np.uint8)
        for t in range(1, schedule.rounds + 1):
            # Weight of q: exp(eta * sum over i < t of q(D) - q(x^i)); of its complement alike.
            tilt = Tilt(schedule.eta, hits, t - 1, prior)
            slope = slope_of_round(schedule.eta, t)
            drawn = private.sample(queries, slope, tilt, total, schedule.samples)  # SAMPLE
            preferences = fill.draw_preferences(queries.view, chances, generator)
            best = oracle.respond(signed_clauses(queries, drawn), preferences)  # RESPOND
            _add_satisfied(hits, queries.columns, queries.negated, best.record)  # UPDATE
            records[t - 1] = np.packbits(best.record)
            progress(t, schedule.rounds)
        model = RecordModel(queries.view, records, float(total))
        answers = hits.astype(np.float64) * (total / schedule.rounds)
        return Release(workload, of_model(answers), model, measured)

    def best_response_oracle(self) -> Oracle:
        """The oracle that these settings ask for."""
        if self.oracle == "enumerate":
            return Enumeration()
        return Highs(self.node_limit, _TOLERANCE, _EXACT_COLUMNS)

    def _measure(
        self, private: PrivateStatistics, view: BinaryView
    ) -> tuple[int, NDArray[np.float64], tuple[Measurement, ...]]:
        """The number of units, the chance of a 1 in each free column, and what was measured for them."""
        for_total, for_free = self._shares(private.terms)
        measured = []
        total = private.terms.unit.units
        if total is None:
            measured.append(private.measure(UnitCount(), for_total))
            total = max(1, int(measured[-1].values[0]))
        match self.free:
            case "marginals":
                measured.append(private.measure(Conjunctions.single_columns(view), for_free))
                chances = _frequencies(measured[-1], view, total)
            case "uniform":
                chances = fill.uniform(view)
            case _:
                chances = np.zeros(view.columns)
        return total, chances, tuple(measured)

    def _schedule(
        self, terms: Terms, share: Fraction, total: int, queries: Conjunctions, prior: NDArray[np.float64]
    ) -> Schedule:
        return schedule_for(
            terms,
            share * terms.budget.amount,
            total,
            defaults_for(queries),
            eta=self.eta,
            samples=self.samples,
            rounds=self.rounds,
            spread=float(np.ptp(prior)),
        )

    def _events(self, terms: Terms, schedule: Schedule) -> tuple[Event, ...]:
        """All kernel calls, where the number of units is public."""
        slopes = [slope_of_round(schedule.eta, t) for t in range(1, schedule.rounds + 1)]
        drawn = [terms.drawn(slope, terms.unit.units or 1, schedule.samples) for slope in slopes]
        for_free = self._shares(terms)[1]
        return (*([terms.measured(for_free)] if for_free else []), *drawn)

    def _shares(self, terms: Terms) -> tuple[Fraction, Fraction]:
        """For the number of units, and for the one-way marginals."""
        for_total = Fraction(self.total_share) if terms.unit.units is None else Fraction(0)
        return for_total, Fraction(self.free_share) if self.free == "marginals" else Fraction(0)

    def _checked(self, terms: Terms, workload: Workload) -> Conjunctions:
        """The queries. Raises ConfigError for a workload, a privacy unit or settings that there is no proof for."""
        queries = workload.queries
        if not isinstance(queries, Conjunctions):
            raise ConfigError(
                "mechanism dual_query answers conjunctions; want workload.conjunctions, or mechanism gaussian, laplace "
                "or mwem for marginals"
            )
        if answer_sensitivity(terms.unit) != 1:
            raise ConfigError(
                "mechanism dual_query has a proof for units of one row or one basket; want dataset.max_rows_per_unit: 1"
            )
        for name, value in (("eta", self.eta), ("samples", self.samples), ("rounds", self.rounds)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"mechanism.{name} is {value}; want > 0")
        if self.node_limit < 0:
            raise ConfigError(f"mechanism.node_limit is {self.node_limit}; want >= 0")
        if not (self.total_share > 0 and self.free_share > 0 and self.total_share + self.free_share < 1):
            raise ConfigError("mechanism.total_share and free_share; want both > 0 and a sum < 1")
        if self.free == "zeros" and queries.view.groups:
            raise ConfigError("mechanism.free: zeros on a table, where every attribute has a value; want marginals")
        if self.oracle == "enumerate":
            Enumeration().check(queries.view)
        return queries


def _log_weights(workload: Workload) -> NDArray[np.float64]:
    """Log-weights of the first round, float64 [m]: a query and its complement weigh the same."""
    return np.log(workload.weights)


def _frequencies(measured: Measurement, view: BinaryView, total: int) -> NDArray[np.float64]:
    """One-way marginals as chances, float64 [view.columns].

    In a group: the distribution nearest to the noisy frequencies. Outside: the noisy frequency, and 0 below
    sqrt(2 ln d) standard deviations, which is what the largest of d pure noises reaches (Donoho and Johnstone 1994):
    otherwise the noise of many rare items would fill every basket.
    """
    frequencies = measured.values / total
    if view.groups:
        return np.concatenate([to_simplex(frequencies[start:stop]) for start, stop in view.groups])
    threshold = math.sqrt(2.0 * math.log(max(2, view.columns))) * measured.stddev
    return np.where(measured.values > threshold, np.minimum(frequencies, 1.0), 0.0)


@compiled
def _add_satisfied(
    hits: NDArray[np.int64], columns: NDArray[np.int32], negated: NDArray[np.bool_], record: NDArray[np.bool_]
) -> None:
    """Adds 1 where the record satisfies all literals of a query."""
    for query in range(columns.shape[0]):
        holds = 1
        for literal in range(columns.shape[1]):
            if record[columns[query, literal]] == negated[query, literal]:
                holds = 0
                break
        hits[query] += holds


def _notes(queries: Conjunctions, schedule: Schedule) -> tuple[str, ...]:
    bound = 4 * math.sqrt(math.log(2 * queries.size) / schedule.rounds)
    promised = f"{bound:.2g} of the units" if bound < 1 else "nothing"
    return (
        f"eta {schedule.eta:g}, {schedule.samples:,} samples a round, {schedule.rounds:,} rounds",
        f"answers are multiples of 1/{schedule.rounds:,} of the units; on workloads whose answers are mostly smaller, "
        "compare with all-zeros",
        f"the worst-case bound (Theorem 4.6) with so many rounds promises {promised} at best: it is no prediction",
    )


def _by_units(schedules: list[Schedule]) -> tuple[str, ...]:
    options = ", ".join(
        f"{units:,} units: {schedule.rounds:,} rounds of {schedule.samples:,} samples"
        for units, schedule in zip(_TYPICAL_UNITS, schedules, strict=True)
    )
    shown = _TYPICAL_UNITS[_FOR_PLAN]
    return (f"the number of units is private, so rounds follow from its noisy value; shown is {shown:,}. {options}",)


def _memory(queries: Conjunctions, schedule: Schedule) -> int:
    """Peak of queries and hits, weights and counts (about ten vectors of two slots a query), records and the solver."""
    per_query = 5 * queries.order + 8 + 10 * 16
    solver = 1000 * min(schedule.samples, 2 * queries.size) * queries.order
    return per_query * queries.size + 2 * schedule.rounds * queries.view.columns + 64 * queries.view.columns + solver
