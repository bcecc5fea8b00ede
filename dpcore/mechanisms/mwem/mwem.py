"""MWEM: multiplicative weights with the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.multiplicative_weights.dense import LARGEST_CELLS, DenseModel, check_size
from dpcore.estimation.multiplicative_weights.factored import FactoredModel, FactoredWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, mean_absolute_noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.mwem.candidates import Candidates, first_candidates, largest_cells
from dpcore.mechanisms.mwem.shares import Shares, check_split, start_chances
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB
from dpcore.mechanisms.shared.totals import row_total
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

LARGEST_STEP = 4.0
LARGEST_POLISH = 10**10  # Updates of a cell, about 20 CPU seconds.
LARGEST_WORK = 10**12  # Updates of a cell in all rounds, about half a CPU hour.
WIDE_CELLS = 1 << 18  # Of one table, where one of all attributes does not fit or takes more work.


@final
@dataclass(frozen=True)
class Mwem:
    """Selects the worst answered marginal, measures it, and lets a distribution follow the measurements.

    The distribution is a product of dense tables: attributes share one as soon as measured marginals connect them.

    rounds: T, selections and measurements; None for twice the number of modelled attributes.
    distribution: "final" or, as in Fig. 1, the "average" of the rounds.
    passes: Number of times that a round follows all measurements so far; Fig. 1 is 1 pass over the newest alone.
    newest_only: A round follows the newest measurement alone, as in Fig. 1.
    polish: Passes over all measurements after the last round, fewer where the table is so large that they would take
        more than 10^10 cell updates.
    step: Length of a multiplicative step; 1/2 in Fig. 1. Steps up to 4 cannot overshoot a marginal.
    start: Where the distribution starts: "uniform" (Fig. 1), noisy counts of all "cells" (section 2.3.2), or the
        product of noisy "one_way" marginals, which wide tables need more than anything else.
    start_share: Share of the budget for the noisy counts of ``start``.
    total_share: Share of the budget for the number of rows, where it is private.
    select_share: Part of each round that selects; the rest measures.
    size_penalty: Taken off a marginal's score: its expected "noise" (cells times mean absolute noise), its number of
        "cells" (the paper, section 3.3) or "none".
    max_table_mb: Largest table, in MiB: marginals that would connect more are no candidates. None for 1,525 where one
        table of all attributes fits into that, at no more than 10^12 cell updates, so that every marginal is a
        candidate, and 2 elsewhere. The "average" and a start from "cells" need one table of all attributes.

    Source: Hardt, Ligett and McSherry (2012), Fig. 1 for whole marginals (section 3.3) with the three variations of
    section 2.3.2 and the factored distribution of section 4. Under zCDP the noise is the discrete Gaussian and the
    selection costs range^2 / 8; Gaussian DP has better measurements for dearer selections.
    """

    traits: ClassVar[Traits] = Traits(
        name="mwem",
        answers=("marginals",),
        shapes=("table",),
        rows=True,
        mostly_gaussian=False,
        recommended_for="comparison with the published mechanism",
    )

    rounds: int | None = None
    distribution: Literal["final", "average"] = "final"
    passes: int = 10
    polish: int = 100
    newest_only: bool = False
    step: float = 2.0
    start: Literal["uniform", "one_way", "cells"] = "one_way"
    start_share: float = 0.1
    total_share: float = 0.02
    select_share: float = 0.5
    size_penalty: Literal["noise", "cells", "none"] = "noise"
    max_table_mb: float | None = None

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        self._check()
        queries = _marginals(workload)
        domain = _modelled(queries)
        limit = self._limit(domain)
        if self._is_dense():
            check_size(domain, f"the dense table of mechanism mwem over {' x '.join(domain.names)}", limit)
        left = len(queries.cliques) - first_candidates(queries, domain, limit)
        rounds = self._rounds(domain)
        shares = self._shares(terms, rounds)
        scale = terms.measure_scale(queries.only(queries.cliques[:1]), shares.measure)
        steps = [
            Step("select", float(shares.select * rounds), rounds),
            Step("measure", float(shares.measure * rounds), rounds, noise_stddev(terms.noise, scale)),
        ]
        first = self._start_queries(queries)
        if first:
            stddev = noise_stddev(terms.noise, terms.measure_scale(first[0], shares.start / len(first)))
            steps.insert(0, Step(f"measure {self.start} to start from", float(shares.start), len(first), stddev))
        if shares.total:
            empty = terms.measure_scale(queries.only([()]), shares.total)
            steps.insert(0, Step("measure rows", float(shares.total), 1, noise_stddev(terms.noise, empty)))
        cells = largest_cells(domain, limit)
        memory = 8 * cells * (3 if self.distribution == "average" else 2) + 64 * queries.size
        notes = (f"{left} marginals of more than {limit:,} cells are predicted and never measured",) if left else ()
        return Plan(tuple(steps), rounds, memory, None, notes, shares.events(terms, rounds, len(first)))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        queries = _marginals(workload)
        rounds = self._rounds(_modelled(queries))
        shares = self._shares(private.terms, rounds)
        first = self._start_queries(queries)
        private.expect(queries.only([*queries.cliques, *(part.cliques[0] for part in first), ()]))
        total, total_measured = row_total(private, queries.domain, shares.total or Fraction(1))
        measured = [private.measure(part, shares.start / len(first)) for part in first]
        model = self._start(_modelled(queries), measured, total)
        candidates = Candidates(queries, workload.weights)
        penalty = self._penalty(private.terms, queries, shares)
        average = np.zeros(model.domain.size()) if self.distribution == "average" else None
        for done in range(rounds):
            if average is not None:
                average += model.whole() / rounds
            candidates.refresh(model)
            worst = private.select(candidates.queries, candidates.score(model, penalty), shares.select)  # SELECT
            chosen = queries.only([candidates.queries.cliques[worst]])
            measured.append(private.measure(chosen, shares.measure))  # MEASURE
            model.follow(_pairs(measured[-1:] if self.newest_only else measured), self.passes)  # ESTIMATE
            progress(done + 1, rounds)
        released = self._released(model, measured, average)
        return Release(workload, of_model(released.answer(queries)), released, (*total_measured, *measured))

    def _start(self, domain: Domain, measured: list[Measurement], total: float) -> FactoredWeights:
        """The product of what was measured; one table where the mechanism needs one."""
        start = [(_clique(measurement), start_chances(measurement.values)) for measurement in measured]
        model = FactoredWeights(domain, start, total, self.step, self._limit(domain))
        if self._is_dense():
            model.join(domain.names)
        return model

    def _released(
        self, model: FactoredWeights, measured: list[Measurement], average: NDArray[np.float64] | None
    ) -> DenseModel | FactoredModel:
        if average is not None:
            return DenseModel(model.domain, average)
        pairs = _pairs(measured)
        model.follow(pairs, min(self.polish, LARGEST_POLISH // max(1, model.work(pairs))))
        return model.model()

    def _penalty(self, terms: PrivacyTerms, queries: Marginals, shares: Shares) -> float:
        """Taken off a marginal's score for each of its cells, in counts."""
        if self.size_penalty == "noise":
            scale = terms.measure_scale(queries.only(queries.cliques[:1]), shares.measure)
            return mean_absolute_noise(terms.noise, scale)
        return 1.0 if self.size_penalty == "cells" else 0.0

    def _start_queries(self, queries: Marginals) -> list[Marginals]:
        """What is measured to start from, each part with one clique."""
        names = _modelled(queries).names
        cliques: dict[str, list[Clique]] = {"uniform": [], "one_way": [(name,) for name in names], "cells": [names]}
        return [queries.only([clique]) for clique in cliques[self.start]]

    def _rounds(self, domain: Domain) -> int:
        return 2 * len(domain.names) if self.rounds is None else self.rounds

    def _is_dense(self) -> bool:
        return self.distribution == "average" or self.start == "cells"

    def _limit(self, domain: Domain) -> int:
        """Cells of a table, at most."""
        if self.max_table_mb is not None:
            return min(LARGEST_CELLS, round(self.max_table_mb * CELLS_IN_MB))
        rounds = self._rounds(domain)
        followed = rounds if self.newest_only else rounds * (len(domain.names) + rounds // 2)
        fits = domain.size() <= min(LARGEST_CELLS, LARGEST_WORK // max(1, self.passes * followed))
        return LARGEST_CELLS if fits or self._is_dense() else WIDE_CELLS

    def _shares(self, terms: PrivacyTerms, rounds: int) -> Shares:
        start = 0.0 if self.start == "uniform" else self.start_share
        return Shares.of(terms, rounds, self.total_share, start, self.select_share)

    def _check(self) -> None:
        if (self.rounds is not None and self.rounds < 1) or self.passes < 1 or self.polish < 0:
            given = f"mechanism.rounds {self.rounds}, passes {self.passes}, polish {self.polish}"
            raise ConfigError(f"{given}; want rounds and passes >= 1, polish >= 0")
        if not 0 < self.step <= LARGEST_STEP:
            raise ConfigError(f"mechanism.step is {self.step}; want 0 < step <= {LARGEST_STEP:g}")
        if self.max_table_mb is not None and not 0 < self.max_table_mb <= LARGEST_CELLS / CELLS_IN_MB:
            max_mb = LARGEST_CELLS // CELLS_IN_MB
            raise ConfigError(f"mechanism.max_table_mb is {self.max_table_mb:g}; want 0 < max_table_mb <= {max_mb:,}")
        check_split(self.start_share, self.total_share, self.select_share)


def _pairs(measured: list[Measurement]) -> list[tuple[Clique, NDArray[np.float64]]]:
    return [(_clique(measurement), measurement.values) for measurement in measured]


def _clique(measurement: Measurement) -> Clique:
    """The one clique of a measurement that this mechanism asked for."""
    assert isinstance(measurement.queries, Marginals)
    return measurement.queries.cliques[0]


def _marginals(workload: Workload) -> Marginals:
    if not isinstance(workload.queries, Marginals):
        raise ConfigError(
            "mechanism mwem answers marginals of a table; want workload.marginals without prefix and ranges, or "
            "mechanism dual_query for conjunctions and parities"
        )
    return workload.queries


def _modelled(queries: Marginals) -> Domain:
    """The attributes that some clique names: the others need no place in a table."""
    used = {name for clique in queries.cliques for name in clique}
    return queries.domain.project(name for name in queries.domain.names if name in used)
