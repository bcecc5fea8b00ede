"""DualQuery: multiplicative weights over queries, answered by whole records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError, UnprovedError
from dpcore.kernel.events import Event
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.query_game.dual_loop import (
    FOR_PLAN,
    TOLERANCE,
    TYPICAL_UNITS,
    Free,
    InitialEstimates,
    InitialMeasurements,
    OracleName,
    Play,
    by_units,
    check_positive,
    check_search,
    checked_queries,
    counting_queries,
    log_weights,
    loop_memory,
    oracle_of,
    release,
    spread,
    view_of,
)
from dpcore.mechanisms.query_game.dual_query_schedule import (
    DUAL_QUERY,
    Schedule,
    guaranteed_schedule,
    schedule_for,
    slope_of_round,
)
from dpcore.oracles.objective import game_of
from dpcore.oracles.protocol import BestResponse, Oracle
from dpcore.queries import CountingQueries
from dpcore.workload import Workload

Observer = Callable[[Fraction, LogWeights, NDArray[np.int64]], None]


@final
@dataclass(frozen=True)
class DualQuery:
    """Draws queries on which the synthetic data fall short, and adds a record that satisfies many of them.

    Formal guarantees: a draw of round t has bounded range 2 eta (t - 1) / n where a unit is replaced and
    eta (t - 1) / n0 where one is added or removed. Ranges add up under pure DP (Theorem 4.2); under zCDP a draw costs
    range^2 / 8, under Gaussian DP about pi/2 times as much of its budget. The total and the marginals below are charged
    beside them. With ``alpha`` and ``beta``, and only then: with probability at least 1 - beta every answer is within
    alpha of the truth, as fractions of the units (Theorem 4.6).

    A workload's weights are the weights of the first round: important queries start with more attention. Each cell of a
    marginal is a query.

    eta: Step size of the multiplicative weights; None for what the budget and the number of units suggest
        (``dual_query_schedule``).
    samples: Number of queries drawn in a round; None as for ``eta``.
    rounds: Largest number of rounds; None as for ``eta``. No more are run than the budget pays for.
    alpha: Largest error of an answer, as a fraction of the units, that the run is to guarantee, with the parameters of
        Algorithm 2; it is refused where they do not fit the budget. It needs a public number of units and queries of
        equal weight, and keeps every record. A response that is not proved to be within alpha / 4 of the samples ends
        the run. None for no such guarantee.
    beta: Probability that the guarantee of ``alpha`` fails; both are given or neither is.
    burn_in: Fraction of the records, the first ones, that play but are not released. Weights correct only what many
        records got wrong, so what the first ones got wrong stays in most answers.
    oracle: "reductions", "anneal", or "enumerate" for at most 2^20 possible records.
    free: What the columns become that no sampled query decides. "marginals": near noisy one-way marginals, measured for
        ``free_share``; "clipped": the same from clipped baskets, which is better where the declared largest basket is
        far above usual ones; "zeros": 0 (baskets only, a table has no zero), which is a little better where nearly
        every item is rare; "uniform": any value alike. It matters more than the quality of responses.
    total_share: Share of the budget for the number of units where it is private. Rounds grow with the fourth root of
        the budget, so 5 % costs about 1 % of them.
    node_limit: Branch-and-bound nodes of a best response that "reductions" leaves more than 1 % from its bound.

    Source: Gaboardi, Gallego Arias, Hsu, Roth and Wu, "Dual Query: Practical Private Query Release for High Dimensional
    Data" (full version), Algorithm 2.
    """

    traits: ClassVar[Traits] = Traits(
        name="dual_query",
        answers=("marginals", "conjunctions", "parities"),
        shapes=("table", "baskets"),
        rows=True,
        mostly_gaussian=False,
        several_rows=False,
        recommended_for="comparison with the published mechanism",
    )

    eta: float | None = None
    samples: int | None = None
    rounds: int | None = None
    alpha: float | None = None
    beta: float | None = None
    burn_in: float = 0.15
    oracle: OracleName = "reductions"
    free: Free = "marginals"
    free_share: float = 0.05
    total_share: float = 0.05
    node_limit: int = 0

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = self._checked(terms, workload)
        view = view_of(queries)
        left = self._opening.left(terms)
        totals = TYPICAL_UNITS if terms.unit.units is None else (terms.unit.units,)
        schedules = [self._schedule(terms, total, workload) for total in totals]
        shown = schedules[min(FOR_PLAN, len(schedules) - 1)]
        measured_first, known = self._opening.planned(terms, view)
        steps = (*measured_first, Step("sample queries", float(left), shown.rounds))
        notes = self._notes(queries, shown) + by_units(
            terms, [f"{schedule.rounds:,} rounds of {schedule.samples:,} samples" for schedule in schedules]
        )
        events = (*known, *self._draws(terms, shown)) if terms.unit.units is not None else ()
        memory = loop_memory(queries, shown.samples, shown.rounds, view.columns)
        return Plan(steps, shown.rounds, memory, None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        play, opened = self.play(private, workload, generator, progress)
        return release(workload, play.model(opened.total, 0.0 if self.alpha else self.burn_in), opened)

    def play(
        self,
        private: PrivateStatistics,
        workload: Workload,
        generator: Generator,
        progress: Progress = silent,
        observer: Observer | None = None,
    ) -> tuple[Play, InitialEstimates]:
        """Plays all rounds, without a release.

        observer: Called after each round with its slope, log-weights and draws, all of them public.
        """
        queries = self._checked(private.terms, workload)
        private.expect(queries)
        game, prior = game_of(queries), log_weights(workload)
        opened = self._opening.buy(private, game.view)
        schedule = self._schedule(private.terms, opened.total, workload)
        play = Play(game, self.best_response_oracle(), opened.probabilities, generator)
        for t in range(1, schedule.rounds + 1):
            # Weight of q: exp(eta * sum over i < t of q(D) - q(x^i)); of its complement alike.
            tilt = LogWeights(schedule.eta, play.hits, t - 1, prior)
            slope = slope_of_round(schedule.eta, t)
            drawn = private.sample(queries, slope, tilt, opened.total, schedule.size(t))  # SAMPLE
            if observer is not None:
                observer(slope, tilt, drawn)
            self._check_gap(play.respond(drawn), schedule, t)  # RESPOND
            progress(t, schedule.rounds)
        return play, opened

    def best_response_oracle(self) -> Oracle:
        """The oracle that these settings ask for."""
        return oracle_of(self.oracle, self.node_limit, TOLERANCE if self.alpha is None else self.alpha / 4)

    @property
    def _opening(self) -> InitialMeasurements:
        return InitialMeasurements(self.free, self.free_share, self.total_share)

    def _schedule(self, terms: PrivacyTerms, total: int, workload: Workload) -> Schedule:
        amount = self._opening.left(terms) * terms.budget.amount
        queries = counting_queries("dual_query", workload)
        if self.alpha is not None and self.beta is not None:
            universe = _log_universe(view_of(queries))
            return guaranteed_schedule(terms, amount, total, self.alpha, self.beta, queries.size, universe)
        return schedule_for(
            terms,
            amount,
            total,
            DUAL_QUERY.of(queries),
            eta=self.eta,
            samples=self.samples,
            rounds=self.rounds,
            spread=spread(log_weights(workload)),
        )

    def _draws(self, terms: PrivacyTerms, schedule: Schedule) -> list[Event]:
        """The draws of all rounds, where the number of units is public."""
        return [
            terms.drawn(slope_of_round(schedule.eta, t), terms.unit.units or 1, schedule.size(t))
            for t in range(1, schedule.rounds + 1)
        ]

    def _check_gap(self, response: BestResponse, schedule: Schedule, t: int) -> None:
        """Algorithm 2 wants a response within alpha / 4 of the best to the average drawn query; all of it is public."""
        if self.alpha is not None and response.bound - response.value > self.alpha / 4 * schedule.samples:
            raise UnprovedError(
                f"the best response of round {t} is not proved to be within alpha / 4, so Theorem 4.6 does not hold; "
                "want a larger mechanism.node_limit, oracle: enumerate for few columns, or no alpha"
            )

    def _checked(self, terms: PrivacyTerms, workload: Workload) -> CountingQueries:
        """The queries. Raises ConfigError for a workload, a privacy unit or settings that there is no proof for."""
        queries = checked_queries("dual_query", terms, workload)
        view = view_of(queries)
        check_positive(eta=self.eta, samples=self.samples, rounds=self.rounds, alpha=self.alpha, beta=self.beta)
        check_search(self.oracle, self.node_limit, self.burn_in, view)
        self._opening.check(view)
        if (self.alpha is None) != (self.beta is None):
            raise ConfigError("mechanism.alpha and beta belong together; want both or neither")
        if self.alpha is not None and self.beta is not None:
            if not (self.alpha < 1 and self.beta < 1):
                raise ConfigError(f"mechanism.alpha {self.alpha} and beta {self.beta}; want both < 1")
            if (self.eta, self.samples, self.rounds) != (None, None, None):
                raise ConfigError("mechanism.alpha sets eta, samples and rounds; want none of them beside it")
            if self.oracle == "anneal":
                raise ConfigError("mechanism.alpha wants proved gaps, which annealing has not; want oracle: reductions")
            if terms.unit.units is None:
                raise ConfigError("mechanism.alpha has its guarantee for a public number of units; want privacy.units")
            if log_weights(workload) is not None:
                raise ConfigError("mechanism.alpha has its guarantee for queries of one weight; want weights: uniform")
            self._schedule(terms, terms.unit.units, workload)  # Refuses a guarantee that the budget does not pay for.
        return queries

    def _notes(self, queries: CountingQueries, schedule: Schedule) -> tuple[str, ...]:
        bound = 4 * math.sqrt(math.log(2 * queries.size) / schedule.rounds)
        promised = f"{bound:.2g} of the units" if bound < 1 else "nothing"
        kept = schedule.rounds - int(self.burn_in * schedule.rounds) if self.alpha is None else schedule.rounds
        return (
            f"eta {schedule.eta:g}, {schedule.samples:,} samples a round, {schedule.rounds:,} rounds",
            f"answers are multiples of 1/{kept:,} of the units; on workloads whose answers are mostly smaller, compare "
            "with all-zeros",
            f"the worst-case bound (Theorem 4.6) with so many rounds promises {promised} at best: it is no prediction"
            if self.alpha is None
            else f"with probability at least {1 - (self.beta or 0):g} over the draws every answer is within "
            f"{self.alpha:g} of the units (Theorem 4.6); a response that is not proved to be good enough ends the run",
        )


def _log_universe(view: BinaryView) -> float:
    """Natural logarithm of the number of possible records."""
    if not view.groups:
        return view.columns * math.log(2.0)
    return float(np.log([stop - start for start, stop in view.groups]).sum())
