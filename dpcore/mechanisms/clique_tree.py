"""A one-shot mechanism: noisy errors of all candidates once, then the marginals that they call for, then one fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Final, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.errors import ConfigError
from dpcore.estimation.pgm.expected_error import expected_errors
from dpcore.estimation.pgm.fit import Fitting, GraphicalFit, fit_model
from dpcore.estimation.pgm.triangulation import Triangulation
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.terms import Terms
from dpcore.measurement import Measurement, Noise, NoisyErrors
from dpcore.mechanisms.aim_budget import split_by_size
from dpcore.mechanisms.api import Plan, Progress, Release, Step, silent
from dpcore.mechanisms.graphical import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    check_shares,
    clique_weights,
    modelled,
    rows_of,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.queries import Marginals
from dpcore.strategies.clique_selection import NoisyDependence, Purse, choose_cliques
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_LARGEST_CELLS: Final = 1 << 26  # Of all candidates together: half a gibibyte for each vector over them.
_LARGEST_NOISE: Final = (0.3, 0.05)  # Of the rows, in errors of pairs and triples: with more, chance would choose.
_TICKS: Final = 1000


@final
@dataclass(frozen=True)
class CliqueTree:
    """Measures one-way marginals, asks once how far all pairs and triples are from independence, and then measures, at
    once, those that lower the workload's error most; one fit makes the model.

    Nothing is asked in rounds: the data are read for the candidates once, and one model is fitted, so that thousands of
    candidates over a hundred attributes take minutes.

    max_model_mb: Largest junction tree of the chosen cliques, in MiB. Larger ones are a little more accurate and take
        more time for the fit.
    order: The largest candidates, of the workload's cliques and the cliques inside them. With 3, triples are asked for
        where the noise of their errors is below 5 % of the rows, for pairs where it is below 30 %.
    start_share: Share of the budget for the first measurement of all one-way marginals.
    start_error: They are measured once more where their expected absolute error is above this fraction of the rows,
    most_start_share: for at most this share in all.
    errors_share: Share for the noisy errors; where pairs and triples are asked, each gets half.
    strength: How far the fit leans towards independent attributes, 1 / spread of ``Fitting``.

    Source: this project; the outline, noisy errors of all candidates and a closed-form split of the budget, is that of
    SWIFT in dpsynth. ``choose_cliques`` has the choice and the split.
    """

    max_model_mb: float = 8.0
    order: Literal[2, 3] = 3
    start_share: float = 0.06
    start_error: float = 0.03
    most_start_share: float = 0.4
    errors_share: float = 0.1
    strength: float = 0.2

    def plan(self, terms: Terms, workload: Workload) -> Plan:
        design = self._design(workload)
        share = Fraction(self.start_share)
        first = max(stddev_of(terms, design.marginal(clique), share) for clique, share in design.starts(share))
        start = Step("measure one-way marginals", self.start_share, len(design.one_way), first)
        errors = Step("measure errors of pairs and triples", self.errors_share, self.order - 1)
        rest = Step("measure the cliques that they call for", 1 - self.start_share - self.errors_share, 1)
        memory = 40 * design.cells + int(COPIES * 8 * self.max_model_mb * CELLS_IN_MB)
        notes = ("how many cliques are measured follows from noisy errors", *uniform_note(design.queries))
        return Plan((start, errors, rest), 0, memory, None, notes)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        design = self._design(workload)
        private.expect(design.queries.only([*design.one_way, *design.candidates]))
        measured, fit = self._start(private, design)
        errors = self._errors(private, design, fit)
        progress(_told(private), _TICKS)
        budget = private.remaining_share
        chosen = self._chosen(private.terms, design, measured, fit, errors, budget)  # SELECT
        measured += [private.measure(queries, share) for queries, share in chosen]  # MEASURE
        model = self._fitted(private.terms, design, measured, polish=True).model  # ESTIMATE
        progress(_TICKS, _TICKS)
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _start(self, private: PrivateStatistics, design: _Design) -> tuple[list[Measurement], GraphicalFit]:
        """One-way marginals, once more where rows are few for their noise."""
        first = Fraction(self.start_share)
        measured = [private.measure(design.marginal(clique), share) for clique, share in design.starts(first)]
        fit = self._fitted(private.terms, design, measured)
        errors = [_expected(fit, clique, one.stddev) for clique, one in zip(design.one_way, measured, strict=True)]
        wanted = first * Fraction(float(np.mean(errors)) / (fit.total * self.start_error)) ** 2
        more = min(Fraction(self.most_start_share), wanted) - first
        if more > 0:
            measured += [private.measure(design.marginal(clique), share) for clique, share in design.starts(more)]
            fit = self._fitted(private.terms, design, measured)
        return measured, fit

    def _errors(self, private: PrivateStatistics, design: _Design, fit: GraphicalFit) -> list[NoisyErrors]:
        """Noisy distances of candidates to independence, as long as they are more than noise."""
        parts = [design.queries.only(group) for group in design.by_order if group]
        share = Fraction(self.errors_share) / max(1, len(parts))
        found: list[NoisyErrors] = []
        for queries, limit in zip(parts, _LARGEST_NOISE, strict=False):
            if private.terms.errors_scale(queries, share) > limit * fit.total:
                break
            estimate = fit.total * fit.calibrated.vector(queries.cliques)
            found.append(private.measure_errors(queries, estimate, share))
        return found

    def _chosen(
        self,
        terms: Terms,
        design: _Design,
        measured: Sequence[Measurement],
        fit: GraphicalFit,
        errors: Sequence[NoisyErrors],
        budget: Fraction,
    ) -> list[tuple[Marginals, Fraction]]:
        """What to measure for a share of the budget, with parts of that share."""
        cliques = [*design.one_way, *(clique for part in errors for clique in part.queries.cliques)]
        before = _precisions(cliques, measured)
        alone = len(design.one_way)
        first = [
            _expected(fit, clique, precision**-0.5)
            for clique, precision in zip(cliques[:alone], before[:alone].tolist(), strict=True)
        ]
        dependence = NoisyDependence(
            cliques,
            np.concatenate([first, *(part.values for part in errors)]),
            np.concatenate([np.zeros(alone), *(np.full(len(part.values), part.stddev) for part in errors)]),
            design.queries.cliques,
            clique_weights(design.workload, design.queries),
        )
        power = 1.0 if terms.noise is Noise.LAPLACE else 0.5
        unit = terms.measure_scale(design.marginal(cliques[0]), budget)
        purse = Purse(unit, power, design.sizes(cliques), before, _left(fit, cliques))
        structure = Triangulation.of(design.queries.domain, [])
        chosen = choose_cliques(dependence, purse, structure, self.max_model_mb * CELLS_IN_MB)
        pairs = [(cliques[one.place], budget * one.share) for one in chosen] or design.starts(budget)
        return [(design.marginal(clique), share) for clique, share in pairs]

    def _fitted(
        self, terms: Terms, design: _Design, measured: Sequence[Measurement], polish: bool = False
    ) -> GraphicalFit:
        tolerance, iterations = (1e-3, 1000) if polish else (1e-2, 300)
        fitting = Fitting(spread=1 / self.strength, tolerance=tolerance, iterations=iterations)
        domain = design.queries.domain
        return fit_model(domain, measured, rows_of(terms, domain, measured), fitting)

    def _design(self, workload: Workload) -> _Design:
        """What may be asked, from public facts alone. Raises ConfigError for settings without a meaning."""
        check_model_size(self.max_model_mb)
        check_shares([("most_start_share", self.most_start_share), ("errors_share", self.errors_share)])
        if not 0 < self.start_share <= self.most_start_share:
            asked = f"mechanism.start_share {self.start_share:g}, most_start_share {self.most_start_share:g}"
            raise ConfigError(f"{asked}; want 0 < start_share <= most_start_share")
        if self.order not in (2, 3) or not (self.start_error > 0 and self.strength > 0):
            asked = f"mechanism.order {self.order}, start_error {self.start_error:g}, strength {self.strength:g}"
            raise ConfigError(f"{asked}; want order 2 or 3, start_error > 0, strength > 0")
        return _Design(table_marginals(workload, "clique_tree"), workload, self.order)


@dataclass(frozen=True)
class _Design:
    """queries: The marginals of the workload. order: Of the largest candidates."""

    queries: Marginals
    workload: Workload
    order: int

    @cached_property
    def one_way(self) -> tuple[Clique, ...]:
        return tuple((name,) for name in modelled(self.queries))

    @cached_property
    def by_order(self) -> tuple[tuple[Clique, ...], ...]:
        """Candidates of two attributes, of three and so on: small ones as long as all of them fit in memory."""
        orders = range(2, self.order + 1)
        found = [dict.fromkeys(c for clique in self.queries.cliques for c in combinations(clique, k)) for k in orders]
        every = [clique for group in found for clique in group]
        sizes = np.array(
            [min(self.queries.domain.size(clique), 2 * _LARGEST_CELLS) for clique in every], dtype=np.int64
        )
        order = np.argsort(sizes, kind="stable")
        kept = {every[place] for place in order[np.cumsum(sizes[order]) <= _LARGEST_CELLS].tolist()}
        return tuple(tuple(clique for clique in group if clique in kept) for group in found)

    @cached_property
    def candidates(self) -> tuple[Clique, ...]:
        return tuple(clique for group in self.by_order for clique in group)

    @property
    def cells(self) -> int:
        return int(self.sizes([*self.one_way, *self.candidates]).sum())

    def starts(self, share: Fraction) -> list[tuple[Clique, Fraction]]:
        """The one-way marginals with their parts of a share."""
        shares = split_by_size(self.sizes(self.one_way), np.ones(len(self.one_way)), share)
        return list(zip(self.one_way, shares, strict=True))

    def marginal(self, clique: Clique) -> Marginals:
        return self.queries.only([clique])

    def sizes(self, cliques: Sequence[Clique]) -> NDArray[np.int64]:
        return np.array([self.queries.domain.size(clique) for clique in cliques], dtype=np.int64)


def _precisions(cliques: Sequence[Clique], measured: Sequence[Measurement]) -> NDArray[np.float64]:
    """1 / sigma^2 of all that was measured of each clique itself, float64 [cliques]."""
    place = {clique: index for index, clique in enumerate(cliques)}
    found = np.zeros(len(cliques))
    for measurement in measured:
        assert isinstance(measurement.queries, Marginals)
        found[place[measurement.queries.cliques[0]]] += measurement.stddev**-2
    return found


def _expected(fit: GraphicalFit, clique: Clique, stddev: float) -> float:
    """Expected L1 error of a marginal that is measured with this noise."""
    return float(expected_errors(fit.total * fit.calibrated.vector([clique]), stddev).sum())


def _left(fit: GraphicalFit, cliques: Sequence[Clique]) -> Callable[[int, NDArray[np.float64]], NDArray[np.float64]]:
    def left(place: int, stddevs: NDArray[np.float64]) -> NDArray[np.float64]:
        counts = fit.total * fit.calibrated.vector([cliques[place]])
        return np.array([expected_errors(counts, stddev).sum() for stddev in stddevs.tolist()])

    return left


def _told(private: PrivateStatistics) -> int:
    return int((_TICKS - 1) * (1 - private.remaining_share))
