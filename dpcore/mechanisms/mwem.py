"""MWEM: multiplicative weights with the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.dense import DenseModel, MultiplicativeWeights, check_size, tables_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.kernel.terms import Terms
from dpcore.measurement import Measurement, mean_absolute_noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, silent
from dpcore.mechanisms.totals import row_total, total_share
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload


@final
@dataclass(frozen=True)
class Mwem:
    """Selects the worst answered marginal, measures it, and lets a dense distribution follow the measurements.

    rounds: T, selections and measurements.
    distribution: "final" or, as in Fig. 1, the "average" of the rounds.
    passes: How often a round follows all measurements so far; 1 pass over only the newest is Fig. 1.
    newest_only: Follows the newest measurement alone, as in Fig. 1.
    start_share: Share of the budget for a noisy count of every cell to start from; 0 starts uniform.
    total_share: Share for the number of rows where it is private.
    select_share: Part of each round that selects; the rest measures.
    size_penalty: Taken off a marginal's score: its expected "noise" (cells times mean absolute noise), its number of
        "cells" (the paper, section 3.3) or "none".

    Source: Hardt, Ligett and McSherry (2012), Fig. 1 for whole marginals (section 3.3) with the three variations of
    section 2.3.2. Under zCDP the noise is the discrete Gaussian and the selection costs range^2 / 8.
    """

    rounds: int = 10
    distribution: Literal["final", "average"] = "final"
    passes: int = 10
    newest_only: bool = False
    start_share: float = 0.0
    total_share: float = 0.02
    select_share: float = 0.5
    size_penalty: Literal["noise", "cells", "none"] = "noise"

    def plan(self, terms: Terms, workload: Workload) -> Plan:
        self._check()
        queries = _marginals(workload)
        domain = _modelled(queries)
        check_size(domain, f"the dense table of mechanism mwem over {' x '.join(domain.names)}")
        shares = self._shares(terms)
        scale = terms.measure_scale(queries.only(queries.cliques[:1]), shares.measure)
        steps = [
            Step("select", float(shares.select * self.rounds), self.rounds),
            Step("measure", float(shares.measure * self.rounds), self.rounds, noise_stddev(terms.noise, scale)),
        ]
        if shares.start:
            whole = queries.only([domain.names])
            stddev = noise_stddev(terms.noise, terms.measure_scale(whole, shares.start))
            steps.insert(0, Step("measure every cell", float(shares.start), 1, stddev))
        if shares.total:
            empty = terms.measure_scale(queries.only([()]), shares.total)
            steps.insert(0, Step("measure rows", float(shares.total), 1, noise_stddev(terms.noise, empty)))
        memory = 8 * domain.size() * (3 if self.distribution == "average" else 2) + 24 * queries.size
        return Plan(tuple(steps), self.rounds, memory, None)

    def run(
        self,
        private: PrivateStatistics,
        workload: Workload,
        *,
        generator: np.random.Generator,
        progress: Progress = silent,
    ) -> Release:
        self.plan(private.terms, workload)
        queries, shares = _marginals(workload), self._shares(private.terms)
        private.expect(queries)
        total, bought = row_total(private, queries.domain, shares.total or Fraction(1))
        start, initial = self._start(private, queries, shares)
        weights = MultiplicativeWeights(_modelled(queries), start, total)
        average = np.zeros_like(weights.table) if self.distribution == "average" else None
        measured: list[Measurement] = []
        for done in range(self.rounds):
            if average is not None:
                average += weights.table / self.rounds
            score = self._score(private.terms, workload, weights, shares)
            worst = private.select(queries, score, shares.select)  # SELECT
            chosen = queries.only([queries.cliques[worst]])
            measured.append(private.measure(chosen, shares.measure))  # MEASURE
            weights.follow(self._followed(measured), self.passes)  # ESTIMATE
            progress(done + 1, self.rounds)
        model = DenseModel(weights.domain, weights.table if average is None else average)
        return Release(workload, of_model(model.answer(queries)), model, (*bought, *initial, *measured))

    def _score(self, terms: Terms, workload: Workload, weights: MultiplicativeWeights, shares: _Shares) -> L1Error:
        queries = _marginals(workload)
        estimate = tables_of(weights.table, weights.domain, queries)
        cells = np.array(queries.sizes, dtype=np.float64)
        match self.size_penalty:
            case "noise":
                scale = terms.measure_scale(queries.only(queries.cliques[:1]), shares.measure)
                penalties = cells * mean_absolute_noise(terms.noise, scale)
            case "cells":
                penalties = cells
            case "none":
                penalties = np.zeros_like(cells)
        return L1Error(estimate, workload.weights, penalties)

    def _followed(self, measured: list[Measurement]) -> list[tuple[Clique, NDArray[np.int64]]]:
        chosen = measured[-1:] if self.newest_only else measured
        return [(m.queries.cliques[0], m.values) for m in chosen if isinstance(m.queries, Marginals)]

    def _start(
        self, private: PrivateStatistics, queries: Marginals, shares: _Shares
    ) -> tuple[NDArray[np.float64], list[Measurement]]:
        """The uniform table, or noisy counts of every cell mixed with it, so that no cell starts at 0."""
        domain = _modelled(queries)
        uniform = np.ones(domain.size())
        if not shares.start:
            return uniform, []
        measured = private.measure(queries.only([domain.names]), shares.start)
        noisy = np.maximum(measured.values, 0).astype(np.float64)
        return noisy / max(1.0, noisy.sum()) + 0.1 * uniform / uniform.size, [measured]

    def _shares(self, terms: Terms) -> _Shares:
        total = total_share(terms, Fraction(self.total_share))
        start = Fraction(self.start_share)
        a_round = (1 - total - start) / self.rounds
        select = a_round * Fraction(self.select_share)
        return _Shares(total, start, select, a_round - select)

    def _check(self) -> None:
        if self.rounds < 1 or self.passes < 1:
            raise ConfigError(f"mechanism.rounds {self.rounds}, passes {self.passes}; want both >= 1")
        if not 0 < self.select_share < 1:
            raise ConfigError(f"mechanism.select_share is {self.select_share}; want 0 < select_share < 1")
        if self.start_share < 0 or not 0 < self.total_share < 1 or self.start_share + self.total_share >= 1:
            raise ConfigError("mechanism.start_share and total_share; want start_share >= 0, total_share > 0, sum < 1")


@dataclass(frozen=True)
class _Shares:
    """Shares of the whole budget for each kernel call."""

    total: Fraction
    start: Fraction
    select: Fraction
    measure: Fraction


def _marginals(workload: Workload) -> Marginals:
    if not isinstance(workload.queries, Marginals):
        raise ConfigError(
            "mechanism mwem answers marginals of a table; want workload.marginals, or mechanism dual_query"
        )
    return workload.queries


def _modelled(queries: Marginals) -> Domain:
    """The attributes that some clique names: the others need no place in the dense table."""
    used = {name for clique in queries.cliques for name in clique}
    return queries.domain.project(name for name in queries.domain.names if name in used)
