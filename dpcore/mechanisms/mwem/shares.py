"""How the MWEM mechanisms divide their budget, and the distribution that noisy counts start them from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.independent import to_simplex
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.api import Step
from dpcore.mechanisms.mwem.profile import MwemPgmProfile, MwemProfile, MwemQueriesProfile
from dpcore.mechanisms.shared.totals import total_share
from dpcore.queries import Marginals, Queries

_UNIFORM_PART: Final = 0.001  # Part of a starting distribution that is uniform.
_START_LABELS: Final = {"one_way": "measure one-way marginals", "cells": "measure all cells"}


@final
@dataclass(frozen=True)
class Shares:
    """How a budget is divided. Shares are parts of the whole budget.

    rounds: Number of rounds.
    total: Share of the number of rows; 0 where that number is public.
    start: Share of all measurements that the start needs together; 0 for a uniform start.
    select: Share of each selection.
    measure: Share of the measurement of each round.
    """

    rounds: int
    total: Fraction
    start: Fraction
    select: Fraction
    measure: Fraction

    @classmethod
    def of(cls, terms: PrivacyTerms, rounds: int, profile: MwemProfile | MwemQueriesProfile | MwemPgmProfile) -> Shares:
        """Rounds share equally what the number of rows and the start leave."""
        total = total_share(terms, Fraction(profile.total_share))
        start = Fraction(0) if profile.start == "uniform" else Fraction(profile.start_share)
        per_round = (1 - total - start) / rounds
        select = per_round * Fraction(profile.select_share)
        return cls(rounds, total, start, select, per_round - select)

    def events(self, terms: PrivacyTerms, start_calls: int) -> tuple[Event, ...]:
        """All kernel calls, which are known in advance: answers decide only which query a round measures.

        start_calls: Number of measurements that the start needs.
        """
        events = [terms.selected(self.select, self.rounds), terms.measured(self.measure, self.rounds)]
        if start_calls:
            events.append(terms.measured(self.start / start_calls, start_calls))
        if self.total:
            events.append(terms.measured(self.total))
        return tuple(events)

    def steps(
        self, terms: PrivacyTerms, domain: Domain, start: str, start_queries: Sequence[Marginals], candidate: Queries
    ) -> tuple[Step, ...]:
        """The steps of a plan.

        start: The ``start`` of the profile.
        start_queries: What the start measures, one marginal each.
        candidate: One query that a round may measure.
        """
        steps = []
        if self.total:
            steps.append(
                Step("measure rows", float(self.total), 1, _stddev(terms, Marginals(domain, ((),)), self.total))
            )
        if start_queries:
            stddev = _stddev(terms, start_queries[0], self.start / len(start_queries))
            steps.append(Step(_START_LABELS[start], float(self.start), len(start_queries), stddev))
        stddev = _stddev(terms, candidate, self.measure)
        return (
            *steps,
            Step("select", float(self.select * self.rounds), self.rounds),
            Step("measure", float(self.measure * self.rounds), self.rounds, stddev),
        )


def starting_distribution(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noisy counts as probabilities, float64 [cells].

    They are mixed with a thousandth of the uniform distribution, because a cell of probability 0 could never grow.
    """
    return (1 - _UNIFORM_PART) * to_simplex(counts / max(1.0, counts.sum())) + _UNIFORM_PART / counts.size


def _stddev(terms: PrivacyTerms, queries: Queries, share: Fraction) -> float:
    """The standard deviation of the noise in each value of a measurement, in counts."""
    return noise_stddev(terms.noise, terms.measure_scale(queries, share))
