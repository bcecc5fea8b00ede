"""Measures a workload of marginals by its residuals in two calls; the first one tells where the second is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Final, Literal, NamedTuple, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.reconstruction.bounded_model import bounded_model
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.sample_posterior import DISPERSIONS, is_possible
from dpcore.estimation.reconstruction.scale_mixture import SIZES
from dpcore.estimation.reconstruction.shrunken import LARGEST_CLOSURE, residual_sizes, shrunken_answers
from dpcore.estimation.reconstruction.weighted_mean import weighted_mean
from dpcore.kernel.budget import Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.adaptive.constants import AdaptiveConstants
from dpcore.mechanisms.adaptive.predicted import (
    Cost,
    bytes_of_estimates,
    cost_of_estimates,
    with_mean,
    with_rows,
)
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.aim.marginals import MANY_CANDIDATES
from dpcore.mechanisms.api import Mechanism, Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.shared.bounded_work import DEFAULT_MAX_WORK, BoundedWork, check_max_work
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    check_model_size,
    check_names_attribute,
    clique_weights,
    modelled_domain,
    table_marginals,
)
from dpcore.mechanisms.shared.predicted_seconds import small_tree
from dpcore.mechanisms.shared.totals import public_total, row_total, total_share
from dpcore.queries import Marginals, Products
from dpcore.strategies.residual_planning.remaining_error import PossibleSizes
from dpcore.uncertainty import Answers
from dpcore.workload import Workload, downward_closure

_MAX_CANDIDATES: Final = MANY_CANDIDATES  # Of AIM, where noise would prevail.
# Of the progress: counted, measured, estimated, measured again, estimated again, averaged, model of rows fitted.
_COUNTED, _MEASURED, _ESTIMATED, _AGAIN, _SHRUNK, _ANSWERED, _FITTED = 0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95


class _AveragedModel(NamedTuple):
    """A graphical model whose answers are averaged with the estimates.

    noise: From which noise on.
    cells: Maximum number of cells of its junction tree; infinite if it holds all marginals.
    """

    noise: float
    cells: float


@final
@dataclass(frozen=True)
class AdaptiveResiduals:
    """Measures the residuals of all marginals, then once more where it helps, and estimates by empirical Bayes.

    Choose it for answers of marginals, and with ``model: graphical`` for rows of marginals with few cells. The residual
    of a set of attributes is what its marginal adds to smaller marginals. A first call measures all of them. Each is
    then shrunk towards the table of maximum entropy that smaller marginals imply; how far is learnt from all residuals
    with as many attributes. The second call spends the rest of the budget, a quarter or a half, where it lowers the
    expected error of these estimates the most: residuals that are surely small get nothing, those far above their noise
    get much. The answers are consistent and non-negative. No junction tree limits which marginals can be answered.

    Other estimates are made from the same values: the nearest non-negative answers; if the noise is at least .1 % of
    the rows and one small graphical model holds all marginals, those of this model; if it is at least 1 % and the
    marginals have few cells, those of a graphical model of bounded size; and if it is at least .1 %, those of two
    latent-class models. For few small marginals these are there from .03 % on. Up to 3 % they and a forest of pairs
    are corrected for the sampling variation of the rows. The answers are a weighted mean of all of them.
    Which weights leave the least error is learnt from the noisy values.

    model: With "graphical", a graphical model is fitted to the estimates, and there are synthetic rows. It holds as
        many of the marginals as its size allows, so that rows may be further from the data than the answers, which
        stay as they are. With "none", there is no model.
    max_model_mb: Maximum size of the tables of that model's junction tree, in MiB; not of the models of ``aim`` and
        ``clique_tree``, which have their defaults, nor of a model that is averaged with the estimates.
    max_work: Limit of the work of all fits, or of ``aim`` where noise would prevail, in units of 2^30 cells that are
        read; a unit takes about a second.

    If the noisy number of rows shows that noise would prevail, ``aim`` selects marginals in place of measuring all of
    them, or ``clique_tree`` if there are too many.

    Intervals are those of the least-squares answers from both calls, extended to the estimate where it lies outside.
    What the second call measures depends on the noise of the first; this is not in the intervals, which therefore hold
    approximately (``dpcore/decisions/shrinkage.md`` has their coverage).

    Guarantee: the budget's, by adaptive composition of the kernel's measurements; the rest is post-processing.

    Source: Xiao, He, Zhang and Kifer (2023) for residuals; this project for the estimates
    (``dpcore.estimation.reconstruction.shrunken``, ``latent_classes``, ``sample_posterior``, ``weighted_mean``), and
    for the second call (``dpcore.strategies.residual_planning.remaining_error``).
    """

    traits: ClassVar[Traits] = Traits(
        name="adaptive_residuals",
        answers=("marginals",),
        shapes=("table",),
        currencies=(Currency.ZCDP, Currency.GDP),
        rows=True,
        no_rows_where=("model", "none"),
        own_answers=True,
        mostly_gaussian=True,
        recommended_for="answers of marginals, and rows of marginals with few cells",
    )

    model: Literal["none", "graphical"] = "none"
    max_model_mb: float = 8.0
    max_work: float = DEFAULT_MAX_WORK
    constants: AdaptiveConstants = field(default=AdaptiveConstants(), init=False, repr=False)

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        design, memory_of_estimates = self._design(terms, workload)
        rows, (selection, chosen) = public_total(terms), self._selection(terms, workload)
        name = selection.traits.name
        limit = f"{self._max_noise(workload):.0%} of the rows"
        noise = None if rows is None else self._noise(terms, design, rows)
        if noise is not None and noise > self._max_noise(workload):
            return replace(chosen, notes=(*chosen.notes, f"the noise of a marginal exceeds {limit}: {name} answers"))
        plan, costs = design.release_plan(terms), self._possible_costs(workload, noise)
        notes: tuple[str, ...] = (
            f"unbiased answers of the same budget have an expected error of {plan.predicted_error:,.3g} counts; "
            "shrinking lowers it by as much as the data let it",
            *costs[-1].notes,
            *costs[-1].limit_notes(self.max_work),
        )
        shares = self._shares(terms, design)
        for queries, share in ((self._first_queries(design), shares[1]), (design.queries, shares[2])):
            terms.measure_scale(queries, share)  # Raises ScaleError before anything is charged.
        steps = [
            replace(design.step(terms), share=float(shares[1]), stddev=None),
            Step("measure again where it lowers the expected error the most", float(shares[2]), 1, weighted_sums=True),
        ]
        memory = plan.memory_bytes + memory_of_estimates + max(cost.bytes for cost in costs)
        seconds = [cost.of_run(self.max_work) for cost in costs]
        if rows is None:
            steps.insert(0, Step("measure the number of rows", float(shares[0]), 1))
            notes = (*notes, f"if the noise of a marginal exceeds {limit}, {name} answers with the remaining budget")
            seconds.append(max(1.0, chosen.cpu_seconds or 1.0))
            memory = max(memory, chosen.memory_bytes)
        between = math.sqrt(min(seconds) * max(seconds))  # Noise decides which of them it is.
        return Plan(tuple(steps), 0, memory, None, notes, cpu_seconds=between)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        terms, queries, (design, _) = private.terms, workload.queries, self._design(private.terms, workload)
        assert isinstance(queries, Marginals)
        private.expect(design.queries)
        total, shares = public_total(terms), self._shares(terms, design)
        rows, counted = row_total(private, queries.domain, shares[0])  # MEASURE
        noise = self._noise(terms, design, rows)
        if noise > self._max_noise(workload):
            return self._selected(private, workload, counted, generator, progress)
        work = BoundedWork(self.max_work, progress)
        work.report(_COUNTED)
        first = private.measure(self._first_queries(design), shares[1])  # MEASURE
        work.report(_MEASURED)
        residuals = Residuals([first])
        sizes = PossibleSizes(SIZES, residual_sizes(residuals, queries, total))  # ESTIMATE
        work.report(_ESTIMATED)
        second = private.measure(  # MEASURE
            design.next_queries(terms, residuals, sizes, private.remaining_share), private.remaining_share
        )
        work.report(_AGAIN)
        residuals = Residuals([first, second])
        values = shrunken_answers(residuals, queries, total)  # ESTIMATE
        work.report(_SHRUNK)
        max_cells = self._max_model_cells(workload, noise)
        if max_cells is not None:
            meter = work.enter("other estimates, and their weights", until=_ANSWERED)
            meter = meter.part(1 if self.model == "none" else self.constants.mean_work)
            values = weighted_mean(  # ESTIMATE
                values, (first, second), queries, _weights(workload), total=total, max_cells=max_cells,
                classes=self._classes(workload, noise), dispersions=self._dispersions(workload, noise),
                generator=generator, meter=meter,
            )  # fmt: skip
        work.report(_ANSWERED)
        model = self._model_of_rows(residuals, workload, values, work)  # ESTIMATE
        work.report(1.0)
        answers = _with_intervals(values, residuals.answers(queries))
        return Release(workload, answers, model, (*counted, first, second))

    def _model_of_rows(
        self, residuals: Residuals, workload: Workload, values: NDArray[np.float64], work: BoundedWork
    ) -> GraphicalModel | None:
        """The model of the rows; None if none are wanted."""
        if self.model == "none":
            return None
        meter = work.enter("fit of the model of the rows", until=_FITTED)
        assert isinstance(workload.queries, Marginals)
        max_cells = self.max_model_mb * CELLS_IN_MB
        return bounded_model(residuals, workload.queries, values, _weights(workload), max_cells, meter)

    def _selection(self, terms: PrivacyTerms, workload: Workload) -> tuple[Mechanism, Plan]:
        """The mechanism that answers where noise would prevail, with its plan."""
        queries = table_marginals(workload, "adaptive_residuals")
        aim, clique_tree = Aim(max_work=self.max_work), CliqueTree(max_work=self.max_work)
        if len(downward_closure(queries.cliques, LARGEST_CLOSURE)) <= _MAX_CANDIDATES:
            try:
                return aim, aim.plan(terms, workload)
            except ConfigError:  # Too many cells for its rounds.
                pass
        return clique_tree, clique_tree.plan(terms, workload)

    def _selected(
        self,
        private: PrivateStatistics,
        workload: Workload,
        counted: Sequence[Measurement],
        generator: Generator,
        progress: Progress,
    ) -> Release:
        """The release of the mechanism that selects, with what remains of the budget."""
        selection, _ = self._selection(private.terms, workload)
        release = selection.run(private, workload, generator=generator, progress=progress)
        if self.model == "none":
            release = replace(release, answers=replace(release.answers, measured=True), model=None)
        measurements = (*counted, *release.measurements)  # Rounds and batch count from the first of the selection.
        return replace(release, measurements=measurements, rounds=(), horizon=None, batch=None)

    def _possible_costs(self, workload: Workload, noise: float | None) -> list[Cost]:
        """The costs of the estimates and their models, one for each way that the noise may decide, the largest last.

        noise: None where it is not known yet, because the number of rows is private.
        """
        queries = table_marginals(workload, "adaptive_residuals")
        cost = cost_of_estimates(queries)
        if self.model == "graphical":
            cost = with_rows(cost, queries, self.max_model_mb)
        if noise is not None:
            return [self._with_mean(cost, workload, noise)]
        limits = {0.0, self._averaged_model(workload).noise, self._class_noise(workload)} - {math.inf}
        *others, largest = sorted(limits)
        condition = f"if the noise of a marginal is at least {largest:.1%} of the rows, " if others else ""
        return [
            *(self._with_mean(cost, workload, noise) for noise in others),
            self._with_mean(cost, workload, largest, condition),
        ]

    def _with_mean(self, cost: Cost, workload: Workload, noise: float, condition: str = "") -> Cost:
        queries, dispersions = table_marginals(workload, "adaptive_residuals"), self._dispersions(workload, noise)
        max_cells, classes = self._max_model_cells(workload, noise), self._classes(workload, noise)
        return with_mean(cost, queries, max_cells, classes, dispersions, condition)

    def _classes(self, workload: Workload, noise: float) -> tuple[int, ...]:
        """The numbers of classes of the latent-class models in the weighted mean."""
        return self.constants.classes if noise >= self._class_noise(workload) else ()

    def _class_noise(self, workload: Workload) -> float:
        """From which noise on latent-class models are in the weighted mean.

        Infinite for too many answers, for a large marginal, whose cells take memory for each class, and for marginals
        of one attribute each, whose model has independent attributes.
        """
        queries, constants = table_marginals(workload, "adaptive_residuals"), self.constants
        is_large = queries.size > constants.mean_answers or max(queries.sizes) > constants.class_cells
        if is_large or max(map(len, queries.cliques)) < 2:
            return math.inf
        return constants.corrected_noise[0] if self._may_correct(workload) else constants.class_noise

    def _may_correct(self, workload: Workload) -> bool:
        """Whether covariances are small enough to correct latent-class models."""
        queries = table_marginals(workload, "adaptive_residuals")
        return is_possible(queries, max(self.constants.classes, default=0))

    def _dispersions(self, workload: Workload, noise: float) -> tuple[float, ...]:
        """Those of the corrections of latent-class models and a forest; empty where there are none."""
        least, largest = self.constants.corrected_noise
        return DISPERSIONS if least <= noise <= largest and self._may_correct(workload) else ()

    def _has_small(self, workload: Workload) -> bool:
        queries = table_marginals(workload, "adaptive_residuals")
        return queries.size <= self.constants.small_marginal * len(queries.cliques)

    def _max_model_cells(self, workload: Workload, noise: float) -> float | None:
        """The largest graphical model in the weighted mean, in cells: 0 for none, None for no mean at all."""
        queries, model = table_marginals(workload, "adaptive_residuals"), self._averaged_model(workload)
        if noise >= model.noise:
            return model.cells
        return 0.0 if queries.size <= self.constants.mean_answers else None

    def _averaged_model(self, workload: Workload) -> _AveragedModel:
        """The model that is averaged with the estimates: none for large marginals that no small one holds."""
        queries, constants = table_marginals(workload, "adaptive_residuals"), self.constants
        if small_tree(modelled_domain(queries), queries.cliques, constants.model_cells) is not None:
            return _AveragedModel(constants.model_noise, math.inf)
        if self._has_small(workload):
            return _AveragedModel(constants.part_noise, constants.part_cells)
        return _AveragedModel(math.inf, 0.0)

    def _shares(self, terms: PrivacyTerms, design: MeasuredResiduals) -> tuple[Fraction, Fraction, Fraction]:
        """Of the number of rows, 0 where it is public, and of the two calls."""
        constants = self.constants
        rows = total_share(terms, Fraction(constants.total_share))
        part = constants.first_share_of_few if self._has_few(design) else constants.first_share
        first = (1 - rows) * Fraction(part)
        return rows, first, 1 - rows - first

    def _first_queries(self, design: MeasuredResiduals) -> Products:
        """The residuals as the first call measures them."""
        return design.queries if self._has_few(design) else design.favouring_small(self.constants.decay)

    def _has_few(self, design: MeasuredResiduals) -> bool:
        return len(design.plan.residuals) < self.constants.few_residuals

    def _max_noise(self, workload: Workload) -> float:
        """Up to which noise everything is measured."""
        queries, constants = table_marginals(workload, "adaptive_residuals"), self.constants
        if len(queries.cliques) <= constants.few_marginals:
            return constants.max_noise_of_few
        large = queries.size > constants.large_marginal * len(queries.cliques)
        return constants.max_noise_of_large if large else constants.max_noise

    def _noise(self, terms: PrivacyTerms, design: MeasuredResiduals, rows: float) -> float:
        """Expected L1 error of an unbiased marginal, as a part of the rows."""
        queries = design.workload.queries
        assert isinstance(queries, Marginals)
        return design.absolute_error(terms) * queries.size / len(queries.cliques) / rows

    def _design(self, terms: PrivacyTerms, workload: Workload) -> tuple[MeasuredResiduals, int]:
        """The residuals to measure, and the memory of the estimates in bytes, from public facts alone.

        Raises ConfigError for other queries than marginals and for pure DP, and DomainTooLargeError.
        """
        if not isinstance(workload.queries, Marginals):
            raise ConfigError(
                "mechanism adaptive_residuals answers marginals of a table; want workload.marginals, or mechanism hdmm "
                "for products"
            )
        check_model_size(self.max_model_mb)
        check_max_work(self.max_work)
        queries = table_marginals(workload, "adaptive_residuals")
        check_names_attribute(queries.cliques, "adaptive_residuals")
        if terms.noise is Noise.LAPLACE:
            raise ConfigError(
                "mechanism adaptive_residuals adds Gaussian noise, and privacy.delta is 0; want delta such as 1e-6, or "
                "mechanism hdmm"
            )
        memory_of_estimates = bytes_of_estimates(queries)
        weighted = Workload(queries, clique_weights(workload, queries))
        design = MeasuredResiduals.of(terms, weighted, error="absolute")
        try:
            if design is not None:
                self._first_queries(design)
                return design, memory_of_estimates
        except ValueError:  # The weights of the marginals differ too much.
            pass
        raise ConfigError(
            "mechanism adaptive_residuals cannot measure an attribute of so many values, or with such different "
            "weights; want mechanism aim, or weights that are alike"
        )


def _weights(workload: Workload) -> dict[Clique, float]:
    """The weight of each marginal in the error."""
    queries = table_marginals(workload, "adaptive_residuals")
    return dict(zip(queries.cliques, clique_weights(workload, queries).tolist(), strict=True))


def _with_intervals(values: NDArray[np.float64], unbiased: Answers) -> Answers:
    """The estimates with the intervals of the unbiased answers, extended to them."""
    lower = np.minimum(np.maximum(unbiased.lower, 0.0), values)
    return Answers(values, np.full(len(values), np.nan), lower, np.maximum(unbiased.upper, values), measured=True)
