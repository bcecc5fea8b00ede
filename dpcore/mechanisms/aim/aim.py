"""AIM: an adaptive and iterative mechanism for synthetic data.

``Aim.run`` is the pseudo-code: initial measurements, then rounds of SELECT, MEASURE and ESTIMATE.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import measured_cliques
from dpcore.estimation.graphical.fitting.prior import LARGEST_PRIOR_SCALE
from dpcore.estimation.graphical.fitting.work import UNIT, WorkMeter
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.aim.batch import Batch, design_of, select_and_measure
from dpcore.mechanisms.aim.budget import Annealing
from dpcore.mechanisms.aim.candidates import RoundCandidates, candidates_of, candidates_within
from dpcore.mechanisms.aim.expected import (
    answers_at,
    candidate_at,
    mean_error,
    mean_error_of_one,
    remaining_errors,
    shares_by_size,
)
from dpcore.mechanisms.aim.predicted import predicted_seconds, scoring_work
from dpcore.mechanisms.aim.profile import PROFILES, AimProfile
from dpcore.mechanisms.aim.rounds import KEPT_CELLS, Rounds
from dpcore.mechanisms.aim.whole import can_hold_all, can_measure_all, measure_all, measure_each
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, check_profile, silent
from dpcore.mechanisms.shared.bounded_work import DEFAULT_MAX_WORK, BoundedWork, check_max_work
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, LARGEST_PENALTY, LAST_WORK, ROUND_WORK, rows_of
from dpcore.queries import Marginals, Products
from dpcore.workload import Workload

_BYTES_PER_CELL: Final = 8
_ROUNDS: Final = (0.25, 0.4)  # Rounds end once the cells that their fits read, or all work, are this part of max_work.
_FIT: Final = 0.25  # Part of the remaining work that a fit before the last may take.
_AFTER_BATCH: Final = Fraction(3, 4)  # Fraction of max_model_mb that rounds may use after a batch.
_LOOK: Final = Fraction(1, 8)  # Fraction of the share of one-way products that they get before all may be measured.
_FEW_ROUNDS: Final = 2  # Number of rounds per attribute among which a rich budget is divided.
_ROUNDS_DONE: Final = 0.6  # Of the progress, if rounds spend the whole budget.
_FITTED: Final = 0.9  # Of the progress, if the last fit comes to its limit.
_ROUNDING: Final = Fraction(1, 1 << 30)  # A remaining share up to this is rounding error: the budget is spent.
_SMALLEST: Final = Fraction(1, 1 << 70)  # So is a remaining amount up to this: its parts could not be charged.


@final
@dataclass(frozen=True)
class Aim:
    """Selects and measures one marginal per round, after a batch of marginals that are chosen together.

    The first choice for synthetic rows and for marginals of many attributes. A run has four phases:

    1. All one-way marginals are measured, a second time if the table has few rows. Where a workload of products may
       be measured at once, they get an eighth of their share first, and the rest only if it is not.
    2. For a workload of marginals, noisy errors of all its pairs and triples choose a batch of marginals, which are
       measured together (``dpcore.mechanisms.aim.batch``). If the budget can measure the whole workload with little
       noise, the whole workload is measured instead. With little noise for the number of rows, the batch fills less of
       the model; with very little, there is no batch, and 2 d equal rounds spend the remaining budget. A workload of
       products has no batch; if the model can hold all of it, and the noise is not far above its answers, all that is
       left measures it, and there are no rounds.
    3. Each round selects the marginal on which the model errs most beyond the error that a measurement would leave,
       measures that marginal, and fits the model again.
    4. When a round no longer changes the model, or rounds come to their part of ``max_work``, the remaining budget
       re-measures the batch, or the whole workload. Without either, rounds spend the whole budget.

    max_model_mb: Largest size of the junction tree in MiB; the default is MAX-SIZE of the thesis. The batch may use the
        fraction ``batch_share`` of this size, and rounds after a batch three quarters, because answers and rows need
        memory as well. With little noise the batch may use ``rich_model_share``, and if there is none, rounds may use
        all. Otherwise a round without a batch may use as large a fraction of this size as the fraction of the budget
        that has been spent once the round is done.
    profile: "default" for our constants, or "published" for the algorithms as printed: no batch, and the printed
        annealing. ``dpcore.mechanisms.aim.profile`` describes the constants and the reasons for them.
    max_work: Limit of the work of a run, in units of 2^30 cells that are read; a unit takes about a second. The fits of
        rounds may read a quarter of it. Rounds end there, or when four tenths of all work are done: the remaining
        budget is spent at once, on the batch or on the whole workload if one of them was measured, with more error than
        further rounds might leave. The last fit ends at the limit, perhaps further from its optimum.
    rounds_per_attribute: Number of rounds per attribute, at least 1, into which the plan divides the budget of the
        rounds. The default is that of the thesis, T = 16 d. A run makes fewer rounds when their shares grow, or when
        measurements no longer change the model.

    Every marginal of the workload, measured or not, is answered with 95 % intervals, which the public record of the
    selections and measurements proves. ``Release`` explains how to compute intervals of other marginals.

    Guarantee: the budget's, by adaptive composition of the kernel's selections and measurements.

    Source: McKenna (2022), Algorithms 6 to 8. We differ in the prior of the fits, the penalty in the score, the batch,
    and the one-way marginals, whose shares depend on their sizes alone and which get more budget if rows are few.
    ``dpcore/decisions/aim.md`` reports what each difference gains.
    """

    traits: ClassVar[Traits] = Traits(
        name="aim",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        graphical=True,
        mostly_gaussian=True,
        recommended_for="marginals and ranges of many attributes, and synthetic rows of tables",
    )

    max_model_mb: float = 80.0
    profile: Literal["default", "published"] = "default"
    rounds_per_attribute: int = 16
    max_work: float = DEFAULT_MAX_WORK

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            *("batch_share", "errors_share", "min_relative_change", "least_move", "select_share", "growth", "patience"),
            *("start_share", "start_error", "most_start_share", "workload_error", "workload_share", "penalty"),
        ),
        "it is a constant of a profile; leave it out, or write mechanism.profile: published",
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        self._check()
        candidates = candidates_of(workload, terms)
        one_way, start_share = candidates.one_way(), Fraction(self._profile.start_share)
        first_share = self._first_share(workload, candidates)
        may_be_whole = first_share < start_share
        shares = shares_by_size(one_way, first_share)
        noise = [candidate_at(one_way, index).value_stddev(terms, share) or 0.0 for index, share in enumerate(shares)]
        steps = [Step("measure one-way marginals", float(first_share), len(shares), max(noise))]
        if may_be_whole:
            again = float(start_share - first_share)
            steps.append(Step("measure them again, unless all queries are measured at once", again, len(shares)))
        remaining, max_rounds, has_batch = 1 - start_share, self._max_rounds(candidates), self._has_batch(workload)
        if has_batch:
            batch_share = remaining * Fraction(self._profile.batch_share)
            errors_share = self._errors_share(batch_share)
            orders = [cliques for cliques in design_of(workload).by_order if cliques]
            steps.append(Step("measure errors of pairs and triples", float(errors_share), len(orders)))
            steps.append(Step("measure the chosen marginals", float(batch_share - errors_share), 1))
            remaining -= batch_share
        annealing = self._equal_rounds(candidates, remaining)
        # After a batch, the share of a round depends on what the batch measured.
        stddev = (
            None
            if has_batch or self._may_measure_products(workload)
            else candidates.value_stddev(terms, annealing.measure)
        )
        steps.append(Step("select", float(annealing.select * max_rounds), max_rounds))
        steps.append(Step("measure", float(annealing.measure * max_rounds), max_rounds, stddev))
        models = int(4 * _BYTES_PER_CELL * self.max_model_mb * CELLS_IN_MB) + 2 * _BYTES_PER_CELL * KEPT_CELLS
        memory = models + 5 * _BYTES_PER_CELL * (candidates.cells + workload.queries.size)
        notes: tuple[str, ...] = (
            "A round's share grows when its measurement changes the model little: there may be fewer rounds.",
        )
        if may_be_whole:
            notes += ("All queries are measured at once, without rounds, unless the noise is far above their answers.",)
        if has_batch:
            notes = (
                "When rounds stop improving the model, the remaining budget re-measures the chosen marginals.",
                "With very little noise for the number of rows, rounds spend what the one-way marginals leave.",
            )
        seconds, limited = predicted_seconds(candidates, self.max_model_mb, self.max_work, has_batch, max_rounds)
        return Plan(tuple(steps), max_rounds, memory, None, (*notes, *limited), cpu_seconds=seconds)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        candidates = candidates_of(workload, private.terms)
        private.expect(_all_queries(candidates))
        work = BoundedWork(self.max_work, progress)
        initial = self._initial_state(private, workload, candidates, work)
        measured, fit, annealing = list(initial.measured), initial.fit, initial.annealing
        batch, whole, model_share = initial.batch, initial.whole, initial.model_share
        initial_count = initial.batch_range[0]
        structure = Triangulation.of(candidates.domain, itertools.chain(*map(measured_cliques, measured)))
        error_rounds = batch.error_rounds if batch else ()
        rounds = Rounds(private.terms, candidates, initial.batch_range, error_rounds, self._max_rounds(candidates) + 1)
        del initial  # It holds the first fit: memory has room for one fit at a time.
        is_informative = batch is None or bool(error_rounds)
        can_remeasure, cells_read = batch is not None or whole is not None, 0
        while is_informative and private.remaining_share > _rounding(private.terms) and not rounds.are_over:
            meter = work.enter("rounds", f"{rounds.done:,} of at most {self._max_rounds(candidates):,} done")
            if cells_read >= _ROUNDS[0] * self.max_work * UNIT or meter.fraction >= _ROUNDS[1]:
                if can_remeasure:
                    break
                annealing = self._annealing(private.remaining_share, 1)
            annealing = annealing.limited(private.remaining_share)
            spent = 1 - private.remaining_share + annealing.round
            max_cells = float(spent if model_share is None else model_share) * self.max_model_mb * CELLS_IN_MB
            allowed = candidates_within(candidates, structure, max_cells)
            estimate = allowed.answers(fit)
            meter.spend(scoring_work(allowed, fit.tree, len(measured)))
            penalties = self._penalties(private.terms, allowed, estimate, annealing.measure)
            score = allowed.score(estimate, penalties)
            del estimate  # Vectors over all candidates are long, and the score has its own copy.
            chosen = private.select(allowed.queries, score, annealing.select)  # SELECT
            measured.append(private.measure(allowed.strategy(chosen), annealing.measure))  # MEASURE
            rounds.add(allowed, score, annealing.select, chosen, measured[-1], fit)
            answers_before, fit = answers_at(allowed, score.estimate, chosen), fit.without_tables()
            del score
            fit = self._fit(private.terms, candidates, measured, meter.part(_FIT), fit)  # ESTIMATE
            cells_read += fit.work
            structure = structure.with_clique(allowed.cliques[chosen])
            change = np.abs(candidate_at(allowed, chosen).answers(fit) - answers_before).sum()
            if batch:
                is_informative = change > self._profile.min_relative_change * penalties[chosen]
            elif change <= self._profile.patience * penalties[chosen]:
                annealing = annealing.grown()
            work.report(_ROUNDS_DONE * (1 - float(private.remaining_share)))
        if batch and private.remaining_share > _rounding(private.terms):
            measured += batch.remeasure(private)  # MEASURE
        elif whole and private.remaining_share > _rounding(private.terms):
            measured += measure_all(private, workload, whole, private.remaining_share)  # MEASURE
        fit, meter = fit.without_tables(), work.enter("last fit", until=_FITTED)
        of_all_products = bool(whole) and isinstance(workload.queries, Products)
        last_work = LAST_WORK * (2 if of_all_products else 1 if whole and not rounds.done else 0.5)
        # Without the look, fits of the same measurements are closer (``dpcore/decisions/aim.md``).
        unused = initial_count if of_all_products else 0
        model = self._fit(private.terms, candidates, measured, meter, fit, last_work, unused=unused).model  # ESTIMATE
        work.enter("answers and their intervals")
        release = rounds.release(workload, model, measured)
        work.report(1.0)
        return release

    def _initial_state(
        self, private: PrivateStatistics, workload: Workload, candidates: RoundCandidates, work: BoundedWork
    ) -> _InitialState:
        """Measures the one-way marginals (Algorithm 7), then the whole workload, a batch of marginals, or neither."""
        start_share, max_share = Fraction(self._profile.start_share), Fraction(self._profile.max_start_share)
        of_products = isinstance(workload.queries, Products)
        workload_share = Fraction(1) if of_products else Fraction(self._profile.workload_share)
        one_way, whole, max_cells = candidates.one_way(), candidates.whole(), self.max_model_mb * CELLS_IN_MB
        first_share = self._first_share(workload, candidates)
        meter = work.enter("one-way marginals")
        measured = measure_each(private, one_way, first_share)  # MEASURE
        fit = self._fit(private.terms, candidates, measured, meter.part(_FIT))
        error = mean_error(private.terms, one_way, fit, first_share, "expected")
        wanted_share = min(max_share, first_share * Fraction(error / self._profile.start_error) ** 2)
        second_share = max(start_share, wanted_share) - first_share
        annealing = self._equal_rounds(candidates, 1 - start_share)
        if (of_products or second_share <= _ROUNDING) and can_measure_all(
            self._profile, max_cells, private.terms, whole, fit, workload_share - first_share
        ):
            measured += measure_all(private, workload, whole, workload_share - first_share)  # MEASURE
            if not of_products:  # Otherwise nothing is left for rounds, and the last fit comes next.
                work.enter(f"fit of all {len(whole.cliques):,} marginals")
                fit = self._fit(private.terms, candidates, measured, meter.part(_FIT), learns_prior=True)
            batch_range = (len(one_way.cliques), len(measured))
            return _InitialState(measured, fit, annealing, batch_range, whole=whole)
        if second_share > _ROUNDING:
            measured += measure_each(private, one_way, second_share)  # MEASURE
            fit = self._fit(private.terms, candidates, measured, meter.part(_FIT))
        one_way_range = (len(measured) - len(one_way.cliques), len(measured))
        if not self._has_batch(workload):
            return _InitialState(measured, fit, annealing, one_way_range)
        noise = self._noise_of_rounds(private, whole, fit)
        if noise <= self._profile.no_batch_error:
            annealing = self._annealing(private.remaining_share, self._few_rounds(candidates))
            return _InitialState(measured, fit, annealing, one_way_range, model_share=Fraction(1))
        batch_share = private.remaining_share * Fraction(self._profile.batch_share)
        is_rich = noise <= self._profile.rich_error
        batch_mb = (self._profile.rich_model_share if is_rich else self._profile.batch_share) * self.max_model_mb
        errors_share = self._errors_share(batch_share)
        work.enter("choice of a batch of marginals")
        batch = select_and_measure(private, workload, measured, fit, batch_share, errors_share, batch_mb)
        batch_range = (len(measured), len(measured) + len(batch.measured))
        measured += batch.measured
        round_share = max(batch.mean_share, private.remaining_share / self._max_rounds(candidates))
        annealing = self._annealing(round_share, 1)
        work.enter(f"fit of a batch of {len(batch.measured):,} marginals")
        fit = self._fit(private.terms, candidates, measured, meter.part(_FIT))
        return _InitialState(measured, fit, annealing, batch_range, batch, model_share=_AFTER_BATCH)

    def _may_measure_products(self, workload: Workload) -> bool:
        """Whether products are measured at once where a model can hold them and the noise allows it."""
        return isinstance(workload.queries, Products) and self._profile.products_error > 0

    def _first_share(self, workload: Workload, candidates: RoundCandidates) -> Fraction:
        """The share of the first measurement of the one-way marginals: less where all products may follow at once."""
        share, max_cells = Fraction(self._profile.start_share), self.max_model_mb * CELLS_IN_MB
        may_be_whole = self._may_measure_products(workload) and can_hold_all(candidates.whole(), max_cells)
        return share * _LOOK if may_be_whole else share

    def _noise_of_rounds(self, private: PrivateStatistics, whole: RoundCandidates, fit: GraphicalFit) -> float:
        """Mean expected error of a marginal that one of 2 d equal rounds measures, as a fraction of the rows."""
        share = self._annealing(private.remaining_share, self._few_rounds(whole)).measure
        return mean_error_of_one(private.terms, whole, fit, share, "expected")

    def _has_batch(self, workload: Workload) -> bool:
        return self._profile.batch_share > 0 and isinstance(workload.queries, Marginals)

    def _errors_share(self, batch_share: Fraction) -> Fraction:
        """The part of the batch's share that the noisy errors spend."""
        return min(Fraction(self._profile.errors_share), batch_share / 2)

    def _equal_rounds(self, candidates: RoundCandidates, share: Fraction) -> Annealing:
        """Divides a share into as many equal rounds as a run may make."""
        return self._annealing(share, self._max_rounds(candidates))

    def _annealing(self, share: Fraction, rounds: int) -> Annealing:
        return Annealing.planned(share, rounds, Fraction(self._profile.select_share), Fraction(self._profile.growth))

    def _few_rounds(self, candidates: RoundCandidates) -> int:
        """The number of rounds among which a rich budget is divided."""
        return min(_FEW_ROUNDS, self.rounds_per_attribute) * len(candidates.domain.names)

    def _max_rounds(self, candidates: RoundCandidates) -> int:
        return self.rounds_per_attribute * len(candidates.domain.names)

    def _penalties(
        self, terms: PrivacyTerms, allowed: RoundCandidates, estimate: NDArray[np.float64], share: Fraction
    ) -> NDArray[np.float64]:
        """The error that measuring each candidate for this share would leave, float64 [candidates], in counts."""
        ends = np.cumsum(allowed.sizes)[:-1]
        stddevs = np.broadcast_to(allowed.stddevs(terms, share), estimate.shape)
        pairs = zip(np.split(estimate, ends), np.split(stddevs, ends), strict=True)
        errors = [remaining_errors(terms, answers, noise, self._profile.penalty).sum() for answers, noise in pairs]
        return np.minimum(errors, LARGEST_PENALTY)

    def _fit(
        self,
        terms: PrivacyTerms,
        candidates: RoundCandidates,
        measured: Sequence[Measurement],
        meter: WorkMeter,
        warm: GraphicalFit | None = None,
        last_work: float = 0.0,
        learns_prior: bool = False,
        unused: int = 0,
    ) -> GraphicalFit:
        """Fits a model to all measurements.

        meter: Counts the work.
        warm: The previous fit, from whose multipliers, and learnt prior scale if any, this fit starts.
        last_work: Of the last fit, the cells that it may touch; 0 for others. The last fit has a smaller tolerance, and
            its priors are learnt by empirical Bayes.
        learns_prior: Learns the prior scale from the measurements. This is sound only if the whole workload was
            measured, because selected marginals lie unusually far from the model.
        unused: Number of leading measurements that the model leaves out. They still help to estimate the rows.
        """
        total = rows_of(terms, candidates.full, measured)
        prior_scale = None if learns_prior or (warm is not None and warm.learns_prior) else LARGEST_PRIOR_SCALE
        settings = FitSettings(prior_scale, 1e-2, 300, ROUND_WORK)
        if last_work:
            calls = 2000 if isinstance(candidates.queries, Marginals) else 4000
            settings = FitSettings(prior_scale, 1e-3, calls, last_work, empirical_bayes=True, patience=10)
        return fit_model(candidates.domain, measured[unused:], total, settings, warm, meter=meter)

    @property
    def _profile(self) -> AimProfile:
        return PROFILES[self.profile]

    def _check(self) -> None:
        check_profile(self.profile, PROFILES)
        if not (0 < self.max_model_mb < float("inf") and self.rounds_per_attribute >= 1):
            given = f"mechanism.max_model_mb {self.max_model_mb}"
            raise ConfigError(
                f"{given}, rounds_per_attribute {self.rounds_per_attribute}; want both above 0 and finite"
            )
        check_max_work(self.max_work)


@dataclass(frozen=True, eq=False)
class _InitialState:
    """The state before the first round.

    measured: All measurements so far.
    fit: The model fitted to them.
    annealing: Shares of the first round.
    batch_range: (first, one after the last) of the measurements that were fixed together, as ``Rounds`` takes them.
    batch: The batch; None if there is none, and rounds spend the remaining budget.
    whole: The whole workload, if it was measured in place of a batch.
    model_share: Fraction of ``max_model_mb`` that rounds may use; None for the fraction of the budget that is spent.
    """

    measured: Sequence[Measurement]
    fit: GraphicalFit
    annealing: Annealing
    batch_range: tuple[int, int]
    batch: Batch | None = None
    whole: RoundCandidates | None = None
    model_share: Fraction | None = None


def _all_queries(candidates: RoundCandidates) -> Marginals | Products:
    """Everything that a run may ask the kernel; residuals of marginals need the number of rows as well."""
    queries = candidates.queries
    return Marginals(queries.domain, ((), *queries.cliques)) if isinstance(queries, Marginals) else queries


def _rounding(terms: PrivacyTerms) -> Fraction:
    return max(_ROUNDING, _SMALLEST / terms.budget.amount)
