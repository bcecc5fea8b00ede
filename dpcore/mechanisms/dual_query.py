"""DualQuery: multiplicative weights over queries, answered by whole records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.estimation.independent import to_simplex
from dpcore.estimation.record_model import RecordModel
from dpcore.exact_statistics import Shape
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.terms import Terms
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, silent
from dpcore.mechanisms.dual_query_schedule import Schedule, schedule_for
from dpcore.oracles import fill
from dpcore.oracles.clauses import signed_clauses
from dpcore.oracles.enumerate import Enumeration
from dpcore.oracles.mip import Highs
from dpcore.oracles.protocol import Oracle
from dpcore.queries import Conjunctions, UnitCount
from dpcore.uncertainty import of_model
from dpcore.workload import Workload


@final
@dataclass(frozen=True)
class DualQuery:
    eta: float | None = None
    samples: int | None = None
    rounds: int | None = None
    oracle: Literal["highs", "enumerate"] = "highs"
    free: Literal["marginals", "zeros", "uniform"] | None = None
    free_share: float = 0.05
    total_share: float = 0.05
    node_limit: int = 20

    def run(
        self,
        private: PrivateStatistics,
        workload: Workload,
        *,
        generator: np.random.Generator,
        progress: Progress = silent,
    ) -> Release:
        queries = workload.queries
        private.expect(queries)
        total, bought = self._total(private)
        chances, measured = self._chances(private, queries.view, total)
        schedule = schedule_for(
            private.terms, private.remaining_share, total, eta=self.eta, samples=self.samples, rounds=self.rounds
        )
        oracle = self._oracle()
        hits = np.zeros(queries.size, dtype=np.int64)
        records = np.empty((schedule.rounds, -(-queries.view.columns // 8)), dtype=np.uint8)
        prior = np.log(np.tile(workload.weights, 2))
        for t in range(1, schedule.rounds + 1):
            offsets = prior - schedule.eta * np.concatenate([hits, t - 1 - hits])
            slope = Fraction(schedule.eta) * (t - 1)
            drawn = private.sample(queries, slope, offsets, total, schedule.samples)  # SAMPLE
            preferences = fill.draw_preferences(queries.view, chances, generator)
            response = oracle.respond(signed_clauses(queries, drawn), preferences)  # RESPOND
            _count_satisfied(queries.columns, queries.negated, response.record, hits)  # UPDATE
            records[t - 1] = np.packbits(response.record)
            progress(t, schedule.rounds)
        model = RecordModel(queries.view, records, float(total))
        answers = hits * (total / schedule.rounds)
        return Release(workload, of_model(answers), model, (*bought, *measured))

    def _oracle(self) -> Oracle:
        return Enumeration() if self.oracle == "enumerate" else Highs(self.node_limit)

    def _total(self, private):
        units = private.terms.unit.units
        if units is not None:
            return units, []
        measured = private.measure(UnitCount(), Fraction(self.total_share))
        return max(1, int(measured.values[0])), [measured]

    def _chances(self, private, view, total):
        policy = self.free or ("marginals" if view.groups else "zeros")
        if policy == "zeros":
            return np.zeros(view.columns), []
        if policy == "uniform":
            return fill.uniform(view), []
        measured = private.measure(Conjunctions.single_columns(view), Fraction(self.free_share))
        return _frequencies(measured, view, total), [measured]


def _frequencies(measured, view, total):
    noisy = measured.values / total
    if view.groups:
        return np.concatenate([to_simplex(noisy[start:stop]) for start, stop in view.groups])
    threshold = math.sqrt(2.0 * math.log(view.columns)) * measured.stddev
    return np.where(measured.values > threshold, np.minimum(noisy, 1.0), 0.0)


@compiled
def _count_satisfied(columns, negated, record, hits):
    for query in range(columns.shape[0]):
        holds = True
        for literal in range(columns.shape[1]):
            holds = holds and record[columns[query, literal]] != negated[query, literal]
        hits[query] += holds
