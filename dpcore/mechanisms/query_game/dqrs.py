"""DQRS: DualQuery that keeps drawn queries by rejection sampling instead of drawing all of them again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
from numpy.random import Generator

from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.query_game.dual_loop import (
    FOR_PLAN,
    TYPICAL_UNITS,
    Free,
    InitialMeasurements,
    OracleName,
    Play,
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
    DQRS,
    Schedule,
    acceptance_gap,
    most_rounds,
    rejection_schedule,
    slope_of_round,
)
from dpcore.oracles.objective import game_of
from dpcore.oracles.protocol import Oracle
from dpcore.queries import CountingQueries
from dpcore.workload import Workload


@final
@dataclass(frozen=True)
class Dqrs:
    """Keeps each drawn query with a chance that turns its law into the next round's; draws only what was rejected.

    Law: let P_t be the weights of round t, normalised. An element of law P_t is kept with chance
    exp(-eta (q(x^t) - q(D)) - eta - gamma), which is a constant times P_(t+1)(q) / P_t(q) and below 1. What is kept of
    draws that know nothing of x^t so has law P_(t+1) each, whatever their number, as fresh draws have: the next sample
    would be s independent draws of P_(t+1) (Lemma 8). But x^t answers that very sample, so what is kept leans towards
    what x^t satisfies, the more so the fewer samples there are; only fresh draws have the law exactly. Privacy does
    not rest on it.

    Privacy: all acceptance bits of a round are charged before any is drawn, whatever they become; fresh draws before
    they are drawn. How many bits reject is an output like any other. Whether the next call is made, and for how many
    draws, depends on such outputs, on what was charged so far, and on public settings alone, so the kernel's filter
    (budgets of adaptive calls add up) holds for all of it: a round whose bits do not fit is not begun, and where the
    rejected ones cost more than what is left, as many are drawn as it pays for, and the record for them is the last.
    A bit has range (eta / n0) / (1 - exp(-gamma)) at most, a fresh draw after t rounds range 2 eta t / n where a unit
    is replaced and eta t / n0 where one is added or removed.

    The paper's Algorithm 4 differs in three ways. It draws (2 gamma + 4 eta) s fresh queries: more than were rejected,
    and more than s for eta > 1/4. Its A must be q(x) - q(D): with the payoff of its section 2, q(D) - q(x), the weight
    of a query on which the records fall short would drop. Its output must be x^1, ..., x^T.

    eta: Step size of the multiplicative weights; None for what the budget and the number of units suggest
        (``dual_query_schedule``).
    samples: Number of queries drawn in a round; None as for ``eta``.
    rounds: Largest number of rounds; None as for ``eta``. The run ends with its budget.
    burn_in: As for ``DualQuery``, as are the settings below.

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
    burn_in: float = 0.15
    oracle: OracleName = "reductions"
    free: Free = "marginals"
    free_share: float = 0.05
    total_share: float = 0.05
    node_limit: int = 0

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = self._checked(terms, workload)
        view = view_of(queries)
        total = TYPICAL_UNITS[FOR_PLAN] if terms.unit.units is None else terms.unit.units
        shown = self._schedule(terms, self._opening.left(terms) * terms.budget.amount, total, workload)
        calls = 2 * shown.rounds - 1
        step = Step("sample queries, accept or reject", float(self._opening.left(terms)), calls)
        notes = [
            f"eta {shown.eta:g}, {shown.samples:,} samples a round, about {shown.rounds:,} rounds: chance decides what "
            "a round costs, and the run ends with its budget",
            f"answers are multiples of about 1/{math.ceil((1 - self.burn_in) * shown.rounds):,} of the units; on "
            "workloads whose answers are mostly smaller, compare with all-zeros",
        ]
        if terms.unit.units is None:
            notes.append(f"the number of units is private; shown is {total:,}, and rounds follow from a noisy value")
        memory = loop_memory(queries, shown.samples, shown.rounds, view.columns)
        return Plan((*self._opening.planned(terms, view)[0], step), shown.rounds, memory, None, tuple(notes))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        queries = self._checked(private.terms, workload)
        private.expect(queries)
        game, prior = game_of(queries), log_weights(workload)
        opened = self._opening.buy(private, game.view)
        schedule = self._schedule(private.terms, _left(private), opened.total, workload)
        eta, size, total = schedule.eta, schedule.samples, opened.total
        limit = most_rounds(eta, spread(prior), self.rounds)
        play = Play(game, self.best_response_oracle(), opened.probabilities, generator)
        start = LogWeights(eta, play.hits, 0, prior)
        drawn = private.sample(queries, Fraction(0), start, total, size)  # SAMPLE: S_1, which costs nothing
        earlier = play.hits.copy()
        play.respond(drawn)  # RESPOND: x^t
        while drawn.size == size and play.done < limit:
            gap = acceptance_gap(private.terms, play.done)
            if _bits_amount(private.terms, eta, total, gap, size) > _left(private):
                break
            # Chance of q: exp(-eta (q(x^t) - q(D)) - eta - gamma).
            bits = LogWeights(eta, play.hits - earlier, 1, None, -eta - gap)
            drawn = drawn[private.retain(queries, drawn, Fraction(eta), bits, total)]  # ACCEPT OR REJECT
            slope = slope_of_round(eta, play.done + 1)
            fresh = min(size - drawn.size, _draws(private, slope, total))
            if fresh:
                weights = LogWeights(eta, play.hits, play.done, prior)
                drawn = np.concatenate([drawn, private.sample(queries, slope, weights, total, fresh)])  # SAMPLE
            if not drawn.size:
                break
            progress(play.done, max(schedule.rounds, play.done + 1))
            np.copyto(earlier, play.hits)
            play.respond(drawn)  # RESPOND: x^t
        progress(play.done, play.done)
        return release(workload, play.model(total, self.burn_in), opened)

    def best_response_oracle(self) -> Oracle:
        """The oracle that these settings ask for."""
        return oracle_of(self.oracle, self.node_limit)

    @property
    def _opening(self) -> InitialMeasurements:
        return InitialMeasurements(self.free, self.free_share, self.total_share)

    def _schedule(self, terms: PrivacyTerms, amount: Fraction, total: int, workload: Workload) -> Schedule:
        return rejection_schedule(
            terms,
            amount,
            total,
            DQRS.of(counting_queries("dqrs", workload)),
            eta=self.eta,
            samples=self.samples,
            rounds=self.rounds,
            spread=spread(log_weights(workload)),
        )

    def _checked(self, terms: PrivacyTerms, workload: Workload) -> CountingQueries:
        """The queries. Raises ConfigError for a workload, a privacy unit or settings that there is no proof for."""
        queries = checked_queries("dqrs", terms, workload)
        view = view_of(queries)
        check_positive(eta=self.eta, samples=self.samples, rounds=self.rounds)
        check_search(self.oracle, self.node_limit, self.burn_in, view)
        self._opening.check(view)
        return queries


def _left(private: PrivateStatistics) -> Fraction:
    return private.remaining_share * private.terms.budget.amount


def _bits_amount(terms: PrivacyTerms, eta: float, total: int, gap: float, size: int) -> Fraction:
    """No less than the kernel charges for the bits: none has a larger chance than exp(-gap), up to a rounding."""
    return terms.retain_amount(Fraction(eta), total, {Fraction(gap) * (1 - Fraction(1, 1 << 30)): size})


def _draws(private: PrivateStatistics, slope: Fraction, total: int) -> int:
    """How many fresh draws the rest of the budget pays for."""
    return int(_left(private) / private.terms.draws_amount(slope, total, 1))
