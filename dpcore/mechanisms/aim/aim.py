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
from dpcore.estimation.graphical.fitting.expected_error import expected_errors
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import measured_cliques
from dpcore.estimation.graphical.fitting.prior import LARGEST_PRIOR_SCALE
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, mean_absolute_part
from dpcore.mechanisms.aim.batch import Batch, design_of, select_and_measure
from dpcore.mechanisms.aim.budget import Annealing
from dpcore.mechanisms.aim.candidates import RoundCandidates, candidates_of, candidates_within
from dpcore.mechanisms.aim.profile import PROFILES, AimProfile, Penalty
from dpcore.mechanisms.aim.rounds import KEPT_CELLS, Rounds
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, check_profile, silent
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, LARGEST_PENALTY, LAST_WORK, ROUND_WORK, rows_of
from dpcore.queries import Marginals, Products
from dpcore.strategies.allocation import split_by_size
from dpcore.workload import Workload, added_weights

_BYTES_PER_CELL: Final = 8
_AFTER_BATCH: Final = Fraction(3, 4)  # Fraction of max_model_mb that rounds may use after a batch.
_TICKS: Final = 1000
_ROUNDING: Final = Fraction(1, 1 << 30)  # A remaining share up to this is rounding error: the budget is spent.
_Vector = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Aim:
    """Selects and measures one marginal per round, after a batch of marginals that are chosen together.

    The first choice for synthetic rows and for marginals of many attributes. A run has four phases:

    1. All one-way marginals are measured, a second time if the table has few rows.
    2. For a workload of marginals, noisy errors of all its pairs and triples choose a batch of marginals, which are
       measured together (``dpcore.mechanisms.aim.batch``). If the budget can measure the whole workload with little
       noise, the whole workload is measured instead.
    3. Each round selects the marginal on which the model errs most beyond the error that a measurement would leave,
       measures that marginal, and fits the model again.
    4. When a round no longer changes the model, the remaining budget re-measures the batch. Without a batch, rounds
       spend the whole budget.

    max_model_mb: Largest size of the junction tree in MiB; the default is MAX-SIZE of the thesis. The batch may use the
        fraction ``batch_share`` of this size, and rounds after a batch three quarters, because answers and rows need
        memory as well. Without a batch, a round may use as large a fraction of this size as the fraction of the budget
        that has been spent once the round is done.
    profile: "default" for our constants, or "published" for the algorithms as printed: no batch, and the printed
        annealing. ``dpcore.mechanisms.aim.profile`` describes the constants and the reasons for them.
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
        shares = _shares_by_size(one_way, start_share)
        noise = [_candidate_at(one_way, index).value_stddev(terms, share) or 0.0 for index, share in enumerate(shares)]
        steps = [Step("measure one-way marginals", self._profile.start_share, len(shares), max(noise))]
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
        stddev = None if has_batch else candidates.value_stddev(terms, annealing.measure)
        steps.append(Step("select", float(annealing.select * max_rounds), max_rounds))
        steps.append(Step("measure", float(annealing.measure * max_rounds), max_rounds, stddev))
        models = int(4 * _BYTES_PER_CELL * self.max_model_mb * CELLS_IN_MB) + 2 * _BYTES_PER_CELL * KEPT_CELLS
        memory = models + 5 * _BYTES_PER_CELL * (candidates.cells + workload.queries.size)
        notes = ("A round's share grows when its measurement changes the model little: there may be fewer rounds.",)
        if has_batch:
            notes = ("When rounds stop improving the model, the remaining budget re-measures the chosen marginals.",)
        return Plan(tuple(steps), max_rounds, memory, None, notes)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        candidates = candidates_of(workload, private.terms)
        private.expect(_all_queries(candidates))
        initial = self._initial_state(private, workload, candidates)
        measured, fit, annealing, batch = list(initial.measured), initial.fit, initial.annealing, initial.batch
        structure = Triangulation.of(candidates.domain, itertools.chain(*map(measured_cliques, measured)))
        error_rounds = batch.error_rounds if batch else ()
        rounds = Rounds(private.terms, candidates, initial.batch_range, error_rounds, self._max_rounds(candidates) + 1)
        del initial  # It holds the first fit: memory has room for one fit at a time.
        is_informative = batch is None or bool(error_rounds)
        while is_informative and private.remaining_share > _ROUNDING and not rounds.are_over:
            annealing = annealing.limited(private.remaining_share)
            spent = 1 - private.remaining_share + annealing.round
            max_cells = float(_AFTER_BATCH if batch else spent) * self.max_model_mb * CELLS_IN_MB
            allowed = candidates_within(candidates, structure, max_cells)
            estimate = allowed.answers(fit)
            penalties = self._penalties(private.terms, allowed, estimate, annealing.measure)
            score = allowed.score(estimate, penalties)
            del estimate  # Vectors over all candidates are long, and the score has its own copy.
            chosen = private.select(allowed.queries, score, annealing.select)  # SELECT
            measured.append(private.measure(allowed.strategy(chosen), annealing.measure))  # MEASURE
            rounds.add(allowed, score, annealing.select, chosen, measured[-1], fit)
            answers_before, fit = _answers_at(allowed, score.estimate, chosen), fit.without_tables()
            del score
            fit = self._fit(private.terms, candidates, measured, fit)  # ESTIMATE
            structure = structure.with_clique(allowed.cliques[chosen])
            change = np.abs(_candidate_at(allowed, chosen).answers(fit) - answers_before).sum()
            if batch:
                is_informative = change > self._profile.min_relative_change * penalties[chosen]
            elif change <= self._profile.patience * penalties[chosen]:
                annealing = annealing.grown()
            progress(round((_TICKS - 1) * (1 - private.remaining_share)), _TICKS)
        if batch and private.remaining_share > _ROUNDING:
            measured += batch.remeasure(private)  # MEASURE
        fit = fit.without_tables()
        model = self._fit(private.terms, candidates, measured, fit, is_last=True).model  # ESTIMATE
        progress(_TICKS, _TICKS)
        return rounds.release(workload, model, measured)

    def _initial_state(
        self, private: PrivateStatistics, workload: Workload, candidates: RoundCandidates
    ) -> _InitialState:
        """Measures the one-way marginals (Algorithm 7), then the whole workload, a batch of marginals, or neither."""
        first_share, max_share, workload_share = map(
            Fraction, (self._profile.start_share, self._profile.max_start_share, self._profile.workload_share)
        )
        one_way, requested = candidates.one_way(), candidates.only(candidates.requested)
        measured = _measure_each(private, one_way, first_share)  # MEASURE
        fit = self._fit(private.terms, candidates, measured)
        error = _mean_error(private.terms, one_way, fit, first_share, "expected")
        second_share = min(max_share, first_share * Fraction(error / self._profile.start_error) ** 2) - first_share
        annealing = self._equal_rounds(candidates, 1 - first_share)
        if second_share > _ROUNDING:
            measured += _measure_each(private, one_way, second_share)  # MEASURE
            fit = self._fit(private.terms, candidates, measured)
        elif workload_share > first_share and self._can_measure_all(
            private.terms, requested, fit, workload_share - first_share
        ):
            measured += self._measure_all(private, workload, requested, workload_share - first_share)  # MEASURE
            fit = self._fit(private.terms, candidates, measured, learns_prior=True)
            return _InitialState(measured, fit, annealing, (len(one_way.cliques), len(measured)))
        if not self._has_batch(workload):
            batch_range = (len(measured) - len(one_way.cliques), len(measured))
            return _InitialState(measured, fit, annealing, batch_range)
        batch_share = private.remaining_share * Fraction(self._profile.batch_share)
        batch_mb = float(self._profile.batch_share) * self.max_model_mb
        errors_share = self._errors_share(batch_share)
        batch = select_and_measure(private, workload, measured, fit, batch_share, errors_share, batch_mb)
        batch_range = (len(measured), len(measured) + len(batch.measured))
        measured += batch.measured
        round_share = max(batch.mean_share, private.remaining_share / self._max_rounds(candidates))
        annealing = self._annealing(round_share, 1)
        return _InitialState(measured, self._fit(private.terms, candidates, measured), annealing, batch_range, batch)

    def _can_measure_all(
        self, terms: PrivacyTerms, requested: RoundCandidates, fit: GraphicalFit, share: Fraction
    ) -> bool:
        """Whether the model can hold the whole workload and this share measures it with little noise for its rows."""
        if not requested.cliques:  # Every clique of the workload is too large to be a candidate.
            return False
        if JunctionTree.of(requested.domain, requested.cliques).cells > self.max_model_mb * CELLS_IN_MB:
            return False
        return _mean_error(terms, requested, fit, share, "noise") <= self._profile.workload_error

    def _measure_all(
        self, private: PrivateStatistics, workload: Workload, requested: RoundCandidates, share: Fraction
    ) -> list[Measurement]:
        """Measures the whole workload at once, by residuals if possible (``MeasuredResiduals.of``)."""
        if isinstance(workload.queries, Marginals) and isinstance(requested.queries, Marginals):
            weights = added_weights(workload, 1)
            measurable = Workload(
                requested.queries, np.array([weights[clique] for clique in requested.queries.cliques])
            )
            residuals = MeasuredResiduals.of(private.terms, measurable, error="absolute")
            if residuals is not None:
                return [private.measure(residuals.queries, share)]
        return _measure_each(private, requested, share)

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

    def _max_rounds(self, candidates: RoundCandidates) -> int:
        return self.rounds_per_attribute * len(candidates.domain.names)

    def _penalties(
        self, terms: PrivacyTerms, allowed: RoundCandidates, estimate: NDArray[np.float64], share: Fraction
    ) -> NDArray[np.float64]:
        """The error that measuring each candidate for this share would leave, float64 [candidates], in counts."""
        ends = np.cumsum(allowed.sizes)[:-1]
        stddevs = np.broadcast_to(allowed.stddevs(terms, share), estimate.shape)
        pairs = zip(np.split(estimate, ends), np.split(stddevs, ends), strict=True)
        errors = [_remaining_errors(terms, answers, noise, self._profile.penalty).sum() for answers, noise in pairs]
        return np.minimum(errors, LARGEST_PENALTY)

    def _fit(
        self,
        terms: PrivacyTerms,
        candidates: RoundCandidates,
        measured: Sequence[Measurement],
        warm: GraphicalFit | None = None,
        is_last: bool = False,
        learns_prior: bool = False,
    ) -> GraphicalFit:
        """Fits a model to all measurements.

        warm: The previous fit, from whose multipliers, and learnt prior scale if any, this fit starts.
        is_last: Fits to a smaller tolerance, replaces one-way counts by their posterior medians, and gives each pair of
            attributes its own prior scale unless the scale was learnt.
        learns_prior: Learns the prior scale from the measurements. This is sound only if the whole workload was
            measured, because selected marginals lie unusually far from the model.
        """
        total = rows_of(terms, candidates.full, measured)
        prior_scale = None if learns_prior or (warm is not None and warm.learns_prior) else LARGEST_PRIOR_SCALE
        between_rounds, last = (
            FitSettings(prior_scale, 1e-2, 300, ROUND_WORK),
            FitSettings(prior_scale, 1e-3, 2000, LAST_WORK, empirical_bayes=True),
        )
        return fit_model(candidates.domain, measured, total, last if is_last else between_rounds, warm)

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


@dataclass(frozen=True, eq=False)
class _InitialState:
    """The state before the first round.

    measured: All measurements so far.
    fit: The model fitted to them.
    annealing: Shares of the first round.
    batch_range: (first, one after the last) of the measurements that were fixed together, as ``Rounds`` takes them.
    batch: The batch; None if there is none, and rounds spend the remaining budget.
    """

    measured: Sequence[Measurement]
    fit: GraphicalFit
    annealing: Annealing
    batch_range: tuple[int, int]
    batch: Batch | None = None


def _shares_by_size(candidates: RoundCandidates, share: Fraction) -> tuple[Fraction, ...]:
    """Splits a share of the budget between the candidates, each of which is measured once."""
    return split_by_size(candidates.total_noise, candidates.weights, share)


def _all_queries(candidates: RoundCandidates) -> Marginals | Products:
    """Everything that a run may ask the kernel; residuals of marginals need the number of rows as well."""
    queries = candidates.queries
    return Marginals(queries.domain, ((), *queries.cliques)) if isinstance(queries, Marginals) else queries


def _candidate_at(candidates: RoundCandidates, index: int) -> RoundCandidates:
    """One of the candidates, alone."""
    return candidates.only(np.arange(len(candidates.cliques)) == index)


def _measure_each(private: PrivateStatistics, candidates: RoundCandidates, share: Fraction) -> list[Measurement]:
    """Measures each of the candidates once."""
    shares = _shares_by_size(candidates, share)
    return [private.measure(candidates.strategy(index), part) for index, part in enumerate(shares)]


def _remaining_errors(
    terms: PrivacyTerms, answers: NDArray[np.float64], stddevs: NDArray[np.float64], penalty: Penalty
) -> _Vector:
    """Expected absolute error of each answer after a measurement with this noise, in counts."""
    if penalty == "noise":
        return np.broadcast_to(mean_absolute_part(terms.noise) * stddevs, answers.shape)
    return expected_errors(answers, stddevs)


def _mean_error(
    terms: PrivacyTerms, candidates: RoundCandidates, fit: GraphicalFit, share: Fraction, penalty: Penalty
) -> float:
    """Mean expected L1 error of the candidates if a share measures all of them, as a fraction of the answers' sum."""
    errors = []
    for index, part in enumerate(_shares_by_size(candidates, share)):
        candidate = _candidate_at(candidates, index)
        answers = candidate.answers(fit)
        error = _remaining_errors(terms, answers, candidate.stddevs(terms, part), penalty).sum()
        errors.append(float(error / max(fit.total, answers.sum())))
    return float(np.mean(errors))


def _answers_at(candidates: RoundCandidates, values: _Vector, index: int) -> _Vector:
    """A copy of the values of one candidate's answers."""
    begin = int(candidates.sizes[:index].sum())
    return values[begin : begin + int(candidates.sizes[index])].copy()
