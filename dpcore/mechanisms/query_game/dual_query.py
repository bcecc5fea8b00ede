"""DualQuery: multiplicative weights over queries, answered by whole records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError, UnprovedError
from dpcore.kernel.events import Event
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, check_profile, silent
from dpcore.mechanisms.query_game.dual_loop import (
    SHOWN_IN_PLAN,
    TOLERANCE,
    TYPICAL_UNITS,
    DataPlayer,
    Free,
    InitialEstimates,
    InitialMeasurements,
    OracleName,
    basket_rows_note,
    check_data_player,
    check_positive,
    checked_queries,
    counting_queries,
    loop_memory,
    oracle_of,
    prior_log_weights,
    private_units_note,
    record_release,
    spread_of,
    view_of,
)
from dpcore.mechanisms.query_game.dual_query_schedule import (
    DUAL_QUERY,
    DualQueryParameters,
    dual_query_parameters,
    guaranteed_parameters,
    slope_of_round,
)
from dpcore.mechanisms.query_game.profiles import DUAL_QUERY_PROFILES, RETIRED_FROM_DUAL_QUERY, DualQueryProfile
from dpcore.oracles.objective import game_of
from dpcore.oracles.protocol import BestResponse, Oracle
from dpcore.queries import CountingQueries
from dpcore.workload import Workload

Observer = Callable[[Fraction, LogWeights, NDArray[np.int64]], None]


@final
@dataclass(frozen=True)
class DualQuery:
    """Draws queries on which the synthetic data fall short, and adds a record that satisfies many of them.

    A workload's weights are the weights of the first round, so important queries start with more attention. Each cell
    of a marginal is a query.

    Formal guarantees: a draw of round t has bounded range 2 eta (t - 1) / n where a unit is replaced, and
    eta (t - 1) / n0 where one is added or removed. Ranges add up under pure DP (Theorem 4.2). A draw costs range^2 / 8
    under zCDP, and about pi/2 times as much of the budget under Gaussian DP. The number of units and the one-way
    marginals are charged in addition. With ``alpha`` and ``beta``, and only with them, every answer is within alpha of
    the truth, as a fraction of the units, with probability at least 1 - beta (Theorem 4.6).

    eta: Step size of the multiplicative weights, above 0. By default it is 0.7, or 2 for positive conjunctions of items
        (see ``dual_query_schedule``).
    samples: Number of queries drawn per round. By default it is derived from the budget and the number of units.
    rounds: Maximum number of rounds. By default the budget is the only limit; more rounds than it pays for are never
        run.
    alpha: The largest error of an answer that the run guarantees, as a fraction of the units, between 0 and 1. It
        replaces ``eta``, ``samples`` and ``rounds`` by the parameters of Algorithm 2 and releases every record. A
        budget that does not pay for them is refused, and a response that is not proved to be within alpha / 4 of the
        samples ends the run. It requires a public number of units and queries of equal weight. By default there is no
        such guarantee, because it needs far more budget than small errors do in practice.
    beta: The probability that the guarantee of ``alpha`` fails, between 0 and 1; required with ``alpha``.
    oracle: How best responses are found. "reductions" simplifies the problem exactly and searches what remains;
        "branch_and_bound" also spends up to 1,000 nodes on a response that is not proved to be good enough; "anneal" is
        annealing alone; "enumerate" tries all records, of which there may be at most 2^20. The default suffices: the
        error depends more on ``free`` than on the quality of responses.
    free: How a record fills the columns that no sampled query decides. "marginals" follows noisy one-way marginals, and
        is the default because this lowered the mean errors. "clipped" follows one-way marginals of clipped baskets, and
        is better where the declared largest basket is far larger than usual ones. "zeros" fills in 0, for baskets only,
        and is a little better where nearly every item is rare. "uniform" gives all values the same frequency.
    profile: "default" leaves the first 15 % of the records out of the release, because they make the mistakes that the
        later ones correct; "published" releases every record, as in Algorithm 2.

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
    oracle: OracleName = "reductions"
    free: Free = "marginals"
    profile: Literal["default", "published"] = "default"

    retired: ClassVar[Mapping[str, str]] = RETIRED_FROM_DUAL_QUERY

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = self._checked(terms, workload)
        view = view_of(queries)
        totals = TYPICAL_UNITS if terms.unit.units is None else (terms.unit.units,)
        by_units = [self._parameters(terms, total, workload) for total in totals]
        shown = by_units[min(SHOWN_IN_PLAN, len(by_units) - 1)]
        initial_steps, initial_events = self._initial.plan(terms, view)
        sample = Step("sample queries", float(self._initial.remaining_share(terms)), shown.rounds)
        notes = (
            self._notes(queries, shown)
            + basket_rows_note(view_of(queries))
            + private_units_note(
                terms, [f"{parameters.rounds:,} rounds of {parameters.samples:,} samples" for parameters in by_units]
            )
        )
        events = (*initial_events, *self._draws(terms, shown)) if terms.unit.units is not None else ()
        memory = loop_memory(queries, shown.samples, shown.rounds, view.columns)
        return Plan((*initial_steps, sample), shown.rounds, memory, None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        player, initial = self.play(private, workload, generator, progress)
        return record_release(workload, player.model(initial.total, self._burn_in), initial)

    def play(
        self,
        private: PrivateStatistics,
        workload: Workload,
        generator: Generator,
        progress: Progress = silent,
        observer: Observer | None = None,
    ) -> tuple[DataPlayer, InitialEstimates]:
        """Plays all rounds, without a release.

        private: The kernel.
        workload: The queries and their weights.
        generator: Randomness of post-processing.
        progress: Called after each round with the number of rounds that are done, and of all rounds.
        observer: Called in each round with the slope, log-weights and indices of its draws, all of them public.
        """
        queries = self._checked(private.terms, workload)
        private.expect(queries)
        game, prior = game_of(queries), prior_log_weights(workload)
        initial = self._initial.measure(private, game.view)
        parameters = self._parameters(private.terms, initial.total, workload)
        player = DataPlayer(game, self.best_response_oracle(), initial.probabilities, generator)
        for t in range(1, parameters.rounds + 1):
            # Weight of q, query or complement: exp(eta * sum over i < t of q(D) - q(x^i)).
            log_weights = LogWeights(parameters.eta, player.hits, t - 1, prior)
            slope = slope_of_round(parameters.eta, t)
            drawn = private.sample(queries, slope, log_weights, initial.total, parameters.size(t))  # SAMPLE
            if observer is not None:
                observer(slope, log_weights, drawn)
            self._check_gap(player.respond(drawn), parameters, t)  # RESPOND
            progress(t, parameters.rounds)
        return player, initial

    def best_response_oracle(self) -> Oracle:
        """The oracle that the settings name."""
        return oracle_of(self.oracle, TOLERANCE if self.alpha is None else self.alpha / 4)

    @property
    def _constants(self) -> DualQueryProfile:
        return DUAL_QUERY_PROFILES[self.profile]

    @property
    def _burn_in(self) -> float:
        """The fraction of the records that is not released; the guarantee of ``alpha`` is for all records."""
        return self._constants.burn_in if self.alpha is None else 0.0

    @property
    def _initial(self) -> InitialMeasurements:
        return InitialMeasurements(self.free, self._constants.marginals_share, self._constants.units_share)

    def _parameters(self, terms: PrivacyTerms, total: int, workload: Workload) -> DualQueryParameters:
        amount = self._initial.remaining_share(terms) * terms.budget.amount
        queries = counting_queries("dual_query", workload)
        if self.alpha is not None and self.beta is not None:
            log_universe = _log_universe(view_of(queries))
            return guaranteed_parameters(terms, amount, total, self.alpha, self.beta, queries.size, log_universe)
        return dual_query_parameters(
            terms,
            amount,
            total,
            DUAL_QUERY.of(queries),
            eta=self.eta,
            samples=self.samples,
            rounds=self.rounds,
            prior_spread=spread_of(prior_log_weights(workload)),
        )

    def _draws(self, terms: PrivacyTerms, parameters: DualQueryParameters) -> list[Event]:
        """The draws of all rounds, where the number of units is public."""
        return [
            terms.drawn(slope_of_round(parameters.eta, t), terms.unit.units or 1, parameters.size(t))
            for t in range(1, parameters.rounds + 1)
        ]

    def _check_gap(self, response: BestResponse, parameters: DualQueryParameters, t: int) -> None:
        """Raises UnprovedError unless the response is proved to be within alpha / 4 of the best one (Algorithm 2).

        Responses are compared by the fraction of the drawn queries that they satisfy, which is public.
        """
        if self.alpha is not None and response.bound - response.value > self.alpha / 4 * parameters.samples:
            raise UnprovedError(
                f"the best response of round {t} is not proved to be within alpha / 4, so Theorem 4.6 does not hold; "
                "want oracle: branch_and_bound, oracle: enumerate for few columns, or no alpha"
            )

    def _checked(self, terms: PrivacyTerms, workload: Workload) -> CountingQueries:
        """The queries. Raises ConfigError for a workload, privacy unit or setting that no proof covers."""
        check_profile(self.profile, DUAL_QUERY_PROFILES)
        queries = checked_queries("dual_query", terms, workload)
        check_positive(eta=self.eta, samples=self.samples, rounds=self.rounds, alpha=self.alpha, beta=self.beta)
        check_data_player(self.oracle, self.free, view_of(queries))
        if (self.alpha is None) != (self.beta is None):
            raise ConfigError("mechanism.alpha and beta belong together; want both or neither")
        if self.alpha is not None and self.beta is not None:
            if not (self.alpha < 1 and self.beta < 1):
                raise ConfigError(f"mechanism.alpha {self.alpha} and beta {self.beta}; want both < 1")
            if (self.eta, self.samples, self.rounds) != (None, None, None):
                raise ConfigError("mechanism.alpha sets eta, samples and rounds; want none of them beside it")
            if self.oracle == "anneal":
                raise ConfigError(
                    "mechanism.alpha needs proved gaps, and annealing proves none; "
                    "want oracle: branch_and_bound or reductions"
                )
            if terms.unit.units is None:
                raise ConfigError("mechanism.alpha has its guarantee for a public number of units; want privacy.units")
            if prior_log_weights(workload) is not None:
                raise ConfigError("mechanism.alpha has its guarantee for queries of one weight; want weights: uniform")
            self._parameters(terms, terms.unit.units, workload)  # Raises ConfigError if the budget is too small.
        return queries

    def _notes(self, queries: CountingQueries, parameters: DualQueryParameters) -> tuple[str, ...]:
        bound = 4 * math.sqrt(math.log(2 * queries.size) / parameters.rounds)
        promised = f"{bound:.2g} of the units" if bound < 1 else "nothing"
        kept = parameters.rounds - int(self._burn_in * parameters.rounds)
        return (
            f"eta {parameters.eta:g}, {parameters.samples:,} samples per round, {parameters.rounds:,} rounds",
            f"answers are multiples of 1/{kept:,} of the units; on workloads whose answers are mostly smaller, compare "
            "with all-zeros",
            f"for this number of rounds the worst-case bound (Theorem 4.6) promises {promised} at best; it does not "
            "predict the error"
            if self.alpha is None
            else f"with probability at least {1 - (self.beta or 0):g} over the draws every answer is within "
            f"{self.alpha:g} of the units (Theorem 4.6); a response that is not proved to be good enough ends the run",
        )


def _log_universe(view: BinaryView) -> float:
    """Natural logarithm of the number of possible records."""
    if not view.groups:
        return view.columns * math.log(2.0)
    return float(np.log([stop - start for start, stop in view.groups]).sum())
