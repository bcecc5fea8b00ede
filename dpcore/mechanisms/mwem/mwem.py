"""MWEM: multiplicative weights with the exponential mechanism, for whole marginals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.multiplicative_weights.dense import LARGEST_CELLS, DenseModel, check_size
from dpcore.estimation.multiplicative_weights.factored import FactoredModel, FactoredWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, mean_absolute_noise
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, check_profile, silent
from dpcore.mechanisms.mwem.candidates import RemainingCandidates, count_candidates, max_total_cells
from dpcore.mechanisms.mwem.profile import MWEM, MwemProfile
from dpcore.mechanisms.mwem.shares import Shares, starting_distribution
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, check_names_attribute, modelled_domain
from dpcore.mechanisms.shared.totals import row_total
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

MAX_FINAL_UPDATES: Final = 10**10  # Cell updates of all final passes together: about 20 CPU-seconds.
MAX_ROUND_UPDATES: Final = 10**12  # Cell updates of all rounds together: about half a CPU-hour.
WIDE_CELLS: Final = 1 << 18  # Limit of each table where one table of all attributes is too large or too slow.


@final
@dataclass(frozen=True)
class Mwem:
    """Selects the marginal that the model answers worst, measures it, and updates the model towards its measurements.

    The model is a product of dense tables over disjoint groups of attributes. Every attribute starts in a group of its
    own, and a measured marginal joins the groups of its attributes into one table.

    rounds: T in the paper, the number of selections and measurements, at least 1. By default it is twice the number of
        attributes that the workload names, which was chosen on six datasets.
    max_table_mb: Size limit of each table in MiB, above 0 and at most 1,525. A marginal that would join a larger table
        is never selected. By default the limit is 1,525 if one table of all attributes fits into it and takes at most
        10^12 cell updates in all rounds, so that every marginal may be selected; otherwise it is 2.
    profile: "default", or "published" for Fig. 1 of the paper: a uniform start, one pass over the newest measurement
        with step 1/2, and the average of the rounds. "published" needs one dense table of all attributes.

    Guarantee: the budget's, by adaptive composition of the kernel's selections and measurements.

    Source: Hardt, Ligett and McSherry (2012), Fig. 1 for whole marginals (section 3.3). The default profile adds the
    variations of section 2.3.2; the factored model is that of section 4. Under zCDP the noise is the discrete Gaussian
    and a selection costs range^2 / 8. Gaussian DP makes measurements cheaper and selections dearer than zCDP does.
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
    max_table_mb: float | None = None
    profile: Literal["default", "published"] = "default"

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            *("distribution", "passes", "polish", "newest_only", "step"),
            *("start", "start_share", "total_share", "select_share", "size_penalty"),
        ),
        "it is a constant of a profile; leave it out, or write mechanism.profile: published",
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        self._check()
        queries = _marginals(workload)
        domain = modelled_domain(queries)
        max_cells = self._max_cells(domain)
        if self._needs_dense_table():
            check_size(domain, f"the dense table of mechanism mwem over {' x '.join(domain.names)}", max_cells)
        excluded = len(queries.cliques) - count_candidates(queries, domain, max_cells)
        shares = Shares.of(terms, self._rounds(domain), self._profile)
        start_queries = self._start_queries(queries)
        candidate = queries.only(queries.cliques[:1])
        steps = shares.steps(terms, queries.domain, self._profile.start, start_queries, candidate)
        copies = 3 if self._profile.distribution == "average" else 2
        memory = 8 * copies * max_total_cells(domain, max_cells) + 64 * queries.size
        note = f"{excluded} marginals of more than {max_cells:,} cells are never measured, only predicted by the model"
        notes = (note,) if excluded else ()
        return Plan(steps, shares.rounds, memory, None, notes, shares.events(terms, len(start_queries)))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        profile, queries = self._profile, _marginals(workload)
        domain = modelled_domain(queries)
        shares = Shares.of(private.terms, self._rounds(domain), profile)
        start_queries = self._start_queries(queries)
        private.expect(queries.only([*queries.cliques, *(part.cliques[0] for part in start_queries), ()]))
        total, total_measured = row_total(private, queries.domain, shares.total or Fraction(1))
        measured = [private.measure(part, shares.start / len(start_queries)) for part in start_queries]
        model = self._start(domain, measured, total)
        candidates = RemainingCandidates(queries, workload.weights)
        penalty = self._penalty_per_cell(private.terms, queries, shares)
        average = np.zeros(domain.size()) if profile.distribution == "average" else None
        for done in range(shares.rounds):
            if average is not None:
                average += model.whole() / shares.rounds
            candidates.refresh(model)
            worst = private.select(candidates.queries, candidates.score(model, penalty), shares.select)  # SELECT
            selected = queries.only([candidates.queries.cliques[worst]])
            measured.append(private.measure(selected, shares.measure))  # MEASURE
            model.follow(_pairs(measured[-1:] if profile.newest_only else measured), profile.passes)  # ESTIMATE
            progress(done + 1, shares.rounds)
        released = DenseModel(domain, average) if average is not None else self._final_model(model, measured)
        return Release(workload, of_model(released.answer(queries)), released, (*total_measured, *measured))

    def _start(self, domain: Domain, measured: list[Measurement], total: float) -> FactoredWeights:
        """The product of the measured distributions, in one table if the profile needs one."""
        start = [(_clique(measurement), starting_distribution(measurement.values)) for measurement in measured]
        model = FactoredWeights(domain, start, total, self._profile.step, self._max_cells(domain))
        if self._needs_dense_table():
            model.join(domain.names)
        return model

    def _final_model(self, model: FactoredWeights, measured: list[Measurement]) -> DenseModel | FactoredModel:
        """The model after its final passes, of which a large table gets fewer."""
        pairs = _pairs(measured)
        affordable_passes = MAX_FINAL_UPDATES // max(1, model.work(pairs))
        model.follow(pairs, min(self._profile.final_passes, affordable_passes))
        return model.model()

    def _penalty_per_cell(self, terms: PrivacyTerms, queries: Marginals, shares: Shares) -> float:
        """What the score of a marginal subtracts for each of its cells, in counts."""
        if self._profile.size_penalty == "noise":
            scale = terms.measure_scale(queries.only(queries.cliques[:1]), shares.measure)
            return mean_absolute_noise(terms.noise, scale)
        return 1.0 if self._profile.size_penalty == "cells" else 0.0

    def _start_queries(self, queries: Marginals) -> list[Marginals]:
        """What the start measures, one marginal each."""
        names = modelled_domain(queries).names
        cliques: dict[str, list[Clique]] = {"uniform": [], "one_way": [(name,) for name in names], "cells": [names]}
        return [queries.only([clique]) for clique in cliques[self._profile.start]]

    def _rounds(self, domain: Domain) -> int:
        return 2 * len(domain.names) if self.rounds is None else self.rounds

    def _needs_dense_table(self) -> bool:
        return self._profile.distribution == "average" or self._profile.start == "cells"

    def _max_cells(self, domain: Domain) -> int:
        """Size limit of a table in cells."""
        if self.max_table_mb is not None:
            return min(LARGEST_CELLS, round(self.max_table_mb * CELLS_IN_MB))
        rounds = self._rounds(domain)
        followed = rounds if self._profile.newest_only else rounds * (len(domain.names) + rounds // 2)
        affordable_cells = MAX_ROUND_UPDATES // max(1, self._profile.passes * followed)
        fits = domain.size() <= min(LARGEST_CELLS, affordable_cells)
        return LARGEST_CELLS if fits or self._needs_dense_table() else WIDE_CELLS

    @property
    def _profile(self) -> MwemProfile:
        return MWEM[self.profile]

    def _check(self) -> None:
        check_profile(self.profile, MWEM)
        if self.rounds is not None and self.rounds < 1:
            raise ConfigError(f"mechanism.rounds is {self.rounds}; want rounds >= 1")
        if self.max_table_mb is not None and not 0 < self.max_table_mb <= LARGEST_CELLS / CELLS_IN_MB:
            max_mb = LARGEST_CELLS // CELLS_IN_MB
            raise ConfigError(f"mechanism.max_table_mb is {self.max_table_mb:g}; want 0 < max_table_mb <= {max_mb:,}")


def _pairs(measured: list[Measurement]) -> list[tuple[Clique, NDArray[np.float64]]]:
    return [(_clique(measurement), measurement.values) for measurement in measured]


def _clique(measurement: Measurement) -> Clique:
    """The clique of a measurement, each of which has one here."""
    assert isinstance(measurement.queries, Marginals)
    return measurement.queries.cliques[0]


def _marginals(workload: Workload) -> Marginals:
    if not isinstance(workload.queries, Marginals):
        raise ConfigError(
            "mechanism mwem answers marginals of a table; want workload.marginals without prefix and ranges, or "
            "mechanism dual_query for conjunctions and parities"
        )
    check_names_attribute(workload.queries.cliques, "mwem")
    return workload.queries
