"""DQRS: DualQuery that keeps drawn queries by rejection sampling instead of drawing all of them again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator

from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, check_profile, silent
from dpcore.mechanisms.query_game.dual_loop import (
    SHOWN_IN_PLAN,
    TYPICAL_UNITS,
    DataPlayer,
    Free,
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
    record_release,
    spread_of,
    view_of,
)
from dpcore.mechanisms.query_game.dual_query_schedule import (
    DQRS,
    DualQueryParameters,
    acceptance_gap,
    dqrs_parameters,
    max_rounds,
    slope_of_round,
)
from dpcore.mechanisms.query_game.profiles import DUAL_QUERY_PROFILES, RETIRED_FROM_DUAL_QUERY, DualQueryProfile
from dpcore.oracles.objective import game_of
from dpcore.oracles.protocol import Oracle
from dpcore.queries import CountingQueries
from dpcore.workload import Workload

_ROUNDING: Final = 1 - Fraction(1, 1 << 30)  # Rounding of doubles lowers a gap by less than this factor.


@final
@dataclass(frozen=True)
class Dqrs:
    """Keeps each drawn query with a probability that turns its law into that of the next round, and redraws the rest.

    Law: let P_t be the normalised weights of round t. A query drawn from P_t is kept with probability
    exp(-eta (q(x^t) - q(D)) - eta - gamma), which is proportional to P_(t+1)(q) / P_t(q) and below 1. If the draws were
    independent of x^t, each kept query would therefore have law P_(t+1), whatever the number of kept queries, and the
    next sample would be s independent draws from P_(t+1) (Lemma 8). However, x^t is the answer to that very sample, so
    the kept queries lean towards those that x^t satisfies, and the more so the fewer samples there are. Only the fresh
    draws have exactly the law P_(t+1). Privacy does not depend on the law.

    Formal guarantees: all acceptance bits of a round are charged before any of them is drawn, whatever they become, and
    fresh draws are charged before they are drawn. The number of rejected queries is an output like any other. Whether
    the next call is made, and for how many draws, depends only on such outputs, on earlier charges and on public
    settings, so the kernel's filter covers the whole run by adaptive composition. A round whose bits do not fit the
    budget is not begun. Where the fresh draws cost more than the remaining budget, as many are drawn as it pays for,
    and the record for them is the last. A bit has range at most (eta / n0) / (1 - exp(-gamma)). A fresh draw after t
    rounds has range 2 eta t / n where a unit is replaced, and eta t / n0 where one is added or removed.

    The paper's Algorithm 4 differs in three ways. It draws (2 gamma + 4 eta) s fresh queries: more than were rejected,
    and more than s for eta > 1/4. Its payoff A has to be q(x) - q(D): with the payoff of its section 2, q(D) - q(x),
    the weight of a query on which the records fall short would drop. Its output has to be x^1, ..., x^T.

    eta: Step size of the multiplicative weights, above 0. By default it is 0.2, or 0.5 for positive conjunctions of
        items (see ``dual_query_schedule``).
    samples: Number of queries drawn per round. By default it is derived from the budget and the number of units.
    rounds: Maximum number of rounds. By default the run ends when its budget is spent.
    oracle: How best responses are found; see ``DualQuery``.
    free: How a record fills the columns that no sampled query decides; see ``DualQuery``.
    profile: "default" leaves the first 15 % of the records out of the release; "published" releases every record.

    Source: Vietri, Tian, Bun, Steinke and Wu (2020), "New Oracle-Efficient Algorithms for Private Synthetic Data
    Release", Algorithm 4.
    """

    traits: ClassVar[Traits] = Traits(
        name="dqrs",
        answers=("marginals", "conjunctions", "parities"),
        shapes=("table", "baskets"),
        rows=True,
        mostly_gaussian=False,
        several_rows=False,
        recommended_for="many conjunctions with negations, dense tables, and synthetic rows of baskets",
    )

    eta: float | None = None
    samples: int | None = None
    rounds: int | None = None
    oracle: OracleName = "reductions"
    free: Free = "marginals"
    profile: Literal["default", "published"] = "default"

    retired: ClassVar[Mapping[str, str]] = RETIRED_FROM_DUAL_QUERY

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = self._checked(terms, workload)
        view = view_of(queries)
        total = TYPICAL_UNITS[SHOWN_IN_PLAN] if terms.unit.units is None else terms.unit.units
        share = self._initial.remaining_share(terms)
        parameters = self._parameters(terms, share * terms.budget.amount, total, workload)
        rounds, samples = parameters.rounds, parameters.samples
        step = Step("sample queries, accept or reject", float(share), 2 * rounds - 1)
        notes = [
            f"eta {parameters.eta:g}, {samples:,} samples per round, about {rounds:,} rounds: the cost of a round is "
            "random, and the run ends when its budget is spent",
            f"answers are multiples of about 1/{math.ceil((1 - self._constants.burn_in) * rounds):,} of the units; on "
            "workloads whose answers are mostly smaller, compare with all-zeros",
        ]
        notes += basket_rows_note(view)
        if terms.unit.units is None:
            notes.append(f"the number of units is private; shown is {total:,}, and rounds follow from a noisy value")
        memory = loop_memory(queries, samples, rounds, view.columns)
        return Plan((*self._initial.plan(terms, view)[0], step), rounds, memory, None, tuple(notes))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        queries = self._checked(private.terms, workload)
        private.expect(queries)
        game, prior = game_of(queries), prior_log_weights(workload)
        initial = self._initial.measure(private, game.view)
        parameters = self._parameters(private.terms, _remaining_amount(private), initial.total, workload)
        eta, size, total = parameters.eta, parameters.samples, initial.total
        limit = max_rounds(eta, spread_of(prior), self.rounds)
        player = DataPlayer(game, self.best_response_oracle(), initial.probabilities, generator)
        uniform = LogWeights(eta, player.hits, 0, prior)
        drawn = private.sample(queries, Fraction(0), uniform, total, size)  # SAMPLE: S_1, which costs nothing
        earlier_hits = player.hits.copy()
        player.respond(drawn)  # RESPOND: x^1
        while drawn.size == size and player.done < limit:
            gap = acceptance_gap(private.terms, player.done)
            if _bits_amount(private.terms, eta, total, gap, size) > _remaining_amount(private):
                break
            # Probability of keeping q: exp(-eta (q(x^t) - q(D)) - eta - gamma).
            acceptance = LogWeights(eta, player.hits - earlier_hits, 1, None, -eta - gap)
            kept = private.retain(queries, drawn, Fraction(eta), acceptance, total)  # ACCEPT OR REJECT
            drawn = drawn[kept]
            slope = slope_of_round(eta, player.done + 1)
            fresh = min(size - drawn.size, _affordable_draws(private, slope, total))
            if fresh:
                weights = LogWeights(eta, player.hits, player.done, prior)
                drawn = np.concatenate([drawn, private.sample(queries, slope, weights, total, fresh)])  # SAMPLE
            if not drawn.size:
                break
            progress(player.done, max(parameters.rounds, player.done + 1))
            np.copyto(earlier_hits, player.hits)
            player.respond(drawn)  # RESPOND: x^(t+1)
        progress(player.done, player.done)
        return record_release(workload, player.model(total, self._constants.burn_in), initial)

    def best_response_oracle(self) -> Oracle:
        """The oracle that the settings name."""
        return oracle_of(self.oracle)

    @property
    def _constants(self) -> DualQueryProfile:
        return DUAL_QUERY_PROFILES[self.profile]

    @property
    def _initial(self) -> InitialMeasurements:
        return InitialMeasurements(self.free, self._constants.marginals_share, self._constants.units_share)

    def _parameters(self, terms: PrivacyTerms, amount: Fraction, total: int, workload: Workload) -> DualQueryParameters:
        return dqrs_parameters(
            terms,
            amount,
            total,
            DQRS.of(counting_queries("dqrs", workload)),
            eta=self.eta,
            samples=self.samples,
            rounds=self.rounds,
            prior_spread=spread_of(prior_log_weights(workload)),
        )

    def _checked(self, terms: PrivacyTerms, workload: Workload) -> CountingQueries:
        """The queries. Raises ConfigError for a workload, privacy unit or setting that no proof covers."""
        check_profile(self.profile, DUAL_QUERY_PROFILES)
        queries = checked_queries("dqrs", terms, workload)
        check_positive(eta=self.eta, samples=self.samples, rounds=self.rounds)
        check_data_player(self.oracle, self.free, view_of(queries))
        return queries


def _remaining_amount(private: PrivateStatistics) -> Fraction:
    return private.remaining_share * private.terms.budget.amount


def _bits_amount(terms: PrivacyTerms, eta: float, total: int, gap: float, size: int) -> Fraction:
    """An upper bound on the charge for the bits: no bit accepts with probability above exp(-gap), up to rounding."""
    return terms.retain_amount(Fraction(eta), total, {Fraction(gap) * _ROUNDING: size})


def _affordable_draws(private: PrivateStatistics, slope: Fraction, total: int) -> int:
    """The number of fresh draws that the remaining budget pays for."""
    return int(_remaining_amount(private) / private.terms.draws_amount(slope, total, 1))
