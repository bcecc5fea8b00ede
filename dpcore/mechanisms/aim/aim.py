"""AIM: an adaptive and iterative mechanism for synthetic data."""

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
from dpcore.mechanisms.aim.candidates import Candidates, candidates_of, within
from dpcore.mechanisms.aim.profile import PROFILES, AimProfile, ExpectedRemainder
from dpcore.mechanisms.aim.rounds import KEPT_CELLS, Rounds
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, LARGEST_PENALTY, LAST_WORK, ROUND_WORK, rows_of
from dpcore.queries import Marginals, Products
from dpcore.strategies.allocation import split_by_size
from dpcore.workload import Workload, added_weights

_BYTES: Final = 8
_AFTER_BATCH: Final = Fraction(3, 4)  # Of the largest junction tree.
_TICKS: Final = 1000
_ROUNDING: Final = Fraction(1, 1 << 30)  # The share that rounding leaves of a budget that is spent.
_Vector = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Aim:
    """Measures, round by round, the marginals whose measurement promises most, after a batch chosen by noisy errors.

    The mechanism to try first for synthetic rows and for marginals of many attributes. One-way marginals are measured
    first. For a workload of marginals a batch follows: noisy errors of all pairs and triples, asked once, choose
    marginals that are measured together (``dpcore.mechanisms.aim.batch``). Then each round selects the marginal whose
    measurement promises most, measures it and fits the model anew, as long as measurements change the model; the
    remaining budget measures the batch once more. Where the budget is rich enough, the whole workload is measured at
    once in place of a batch.

    max_model_mb: Largest size of the junction tree in MiB, MAX-SIZE in the thesis, whose default this is. The batch may
        use the ``batch_share`` of it, and rounds after the batch three quarters: answers and rows take room as well.
        Rounds without a batch may use the part that they and what came before have spent of the budget.
    profile: "default", or "published" for the algorithms as printed: rounds alone, with the printed annealing.
    rounds_per_attribute: The number of rounds, at least 1, that the plan allows for each attribute (T = 16 d in the
        thesis). There are fewer when the rounds' share grows, or when measurements no longer change the model.

    Every answer of a marginal has an interval at 95 %, measured or not, from what selections and measurements prove;
    ``Release`` says how to get others. What the profiles leave to choose, and why, is in
    ``dpcore.mechanisms.aim.profile``.

    Guarantee: the budget's, by adaptive composition of the kernel's selections and measurements.

    Source: McKenna (2022), Algorithms 6 to 8. ``dpcore/decisions/aim.md`` has the measurements of what differs: the
    penalised fits, the penalty, the batch, and one-way marginals, which share their budget by size and get more of it
    where rows are few.
    """

    traits: ClassVar[Traits] = Traits(
        name="aim",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
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
        single = candidates.one_way()
        starts = _split(single, Fraction(self._profile.start_share))
        noise = [_only(single, index).value_stddev(terms, part) or 0.0 for index, part in enumerate(starts)]
        steps = [Step("measure one-way marginals", self._profile.start_share, len(starts), max(noise))]
        remaining, rounds = 1 - Fraction(self._profile.start_share), self._rounds(candidates)
        if self._has_batch(workload):
            batch = remaining * Fraction(self._profile.batch_share)
            errors = self._for_errors(batch)
            orders = [group for group in design_of(workload).by_order if group]
            steps.append(Step("measure errors of pairs and triples", float(errors), len(orders)))
            steps.append(Step("measure the marginals that they choose", float(batch - errors), 1))
            remaining -= batch
        annealing = self._planned(candidates, remaining)
        known = not self._has_batch(workload)  # Else a round's share follows from what the batch measured.
        measured = candidates.value_stddev(terms, annealing.measure) if known else None
        steps.append(Step("select", float(annealing.select * rounds), rounds))
        steps.append(Step("measure", float(annealing.measure * rounds), rounds, measured))
        models = int(4 * _BYTES * self.max_model_mb * CELLS_IN_MB) + 2 * _BYTES * KEPT_CELLS
        memory = models + 5 * _BYTES * (candidates.cells + workload.queries.size)
        notes = ("A round's share grows when its measurement changes the model little: there may be fewer rounds.",)
        if self._has_batch(workload):
            notes = ("When rounds stop improving the model, the remaining budget re-measures the chosen marginals.",)
        return Plan(tuple(steps), rounds, memory, None, notes)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        candidates = candidates_of(workload, private.terms)
        private.expect(_announced(candidates))
        start = self._start(private, workload, candidates)
        measured, fit, annealing = list(start.measured), start.fit, start.annealing
        structure = Triangulation.of(candidates.domain, itertools.chain(*map(measured_cliques, measured)))
        batch = start.batch
        error_rounds = batch.error_rounds if batch else ()
        rounds = Rounds(private.terms, candidates, start.together, error_rounds, self._rounds(candidates) + 1)
        del start  # A fit holds a model: one at a time.
        is_informative = batch is None or bool(error_rounds)
        while is_informative and private.remaining_share > _ROUNDING and not rounds.are_over:
            annealing = annealing.limited(private.remaining_share)
            spent = 1 - private.remaining_share + annealing.round
            allowed = self._allowed(candidates, structure, _AFTER_BATCH if batch else spent)
            estimate = allowed.answers(fit)
            remainders = self._penalties(private.terms, allowed, estimate, annealing)
            score = allowed.score(estimate, remainders)
            del estimate  # Vectors over all candidates are long: the score has its own.
            chosen = private.select(allowed.queries, score, annealing.select)  # SELECT
            measured.append(private.measure(allowed.strategy(chosen), annealing.measure))  # MEASURE
            rounds.add(allowed, score, annealing.select, chosen, measured[-1], fit)
            before, fit = _part(allowed, score.estimate, chosen), fit.without_tables()
            del score
            fit = self._fit(private.terms, candidates, measured, fit)  # ESTIMATE
            structure = structure.with_clique(allowed.cliques[chosen])
            change = np.abs(_only(allowed, chosen).answers(fit) - before).sum()
            if batch:
                is_informative = change > self._profile.min_relative_change * remainders[chosen]
            elif change <= self._profile.patience * remainders[chosen]:
                annealing = annealing.grown()
            progress(round((_TICKS - 1) * (1 - private.remaining_share)), _TICKS)
        if batch and private.remaining_share > _ROUNDING:
            measured += batch.remeasure(private)  # MEASURE
        fit = fit.without_tables()
        model = self._fit(private.terms, candidates, measured, fit, polish=True).model
        progress(_TICKS, _TICKS)
        return rounds.release(workload, model, measured)

    def _start(self, private: PrivateStatistics, workload: Workload, candidates: Candidates) -> _Start:
        """Measures the one-way marginals (Algorithm 7), and again where rows are few; then the whole workload where its
        cells are few, or else a batch of marginals.
        """
        first, max_share, whole = map(
            Fraction, (self._profile.start_share, self._profile.max_start_share, self._profile.workload_share)
        )
        single, asked = candidates.one_way(), candidates.only(candidates.asked)
        measured = _measure_each(private, single, first)
        fit = self._fit(private.terms, candidates, measured)
        error = _mean_error(private.terms, single, fit, first, "expected")
        more = min(max_share, first * Fraction(error / self._profile.start_error) ** 2) - first
        annealing = self._planned(candidates, 1 - first)
        if more > _ROUNDING:
            measured += _measure_each(private, single, more)
            fit = self._fit(private.terms, candidates, measured)
        elif whole > first and self._is_cheap(private.terms, asked, fit, whole - first):
            measured += self._whole(private, workload, asked, whole - first)
            learnt = self._fit(private.terms, candidates, measured, learns=True)
            return _Start(measured, learnt, annealing, (len(single.cliques), len(measured)))
        if not self._has_batch(workload):
            return _Start(measured, fit, annealing, (len(measured) - len(single.cliques), len(measured)))
        budget = private.remaining_share * Fraction(self._profile.batch_share)
        errors, capacity = self._for_errors(budget), float(self._profile.batch_share) * self.max_model_mb
        batch = select_and_measure(private, workload, measured, fit, budget, errors, capacity)
        together = (len(measured), len(measured) + len(batch.measured))
        measured += batch.measured
        typical = max(batch.mean_share, private.remaining_share / self._rounds(candidates))
        annealing = Annealing.planned(typical, 1, Fraction(self._profile.select_share), Fraction(self._profile.growth))
        return _Start(measured, self._fit(private.terms, candidates, measured), annealing, together, batch)

    def _is_cheap(self, terms: PrivacyTerms, asked: Candidates, fit: GraphicalFit, share: Fraction) -> bool:
        """Whether the whole workload fits a model and can be measured at once with little noise for its rows."""
        if not asked.cliques:  # All of them are too large to be candidates.
            return False
        if JunctionTree.of(asked.domain, asked.cliques).cells > self.max_model_mb * CELLS_IN_MB:
            return False
        return _mean_error(terms, asked, fit, share, "noise") <= self._profile.workload_error

    def _whole(
        self, private: PrivateStatistics, workload: Workload, asked: Candidates, share: Fraction
    ) -> list[Measurement]:
        """The whole workload at once: by residuals where those of its marginals can be measured."""
        if isinstance(workload.queries, Marginals) and isinstance(asked.queries, Marginals):
            weights = added_weights(workload, 1)
            kept = Workload(asked.queries, np.array([weights[clique] for clique in asked.queries.cliques]))
            residuals = MeasuredResiduals.of(private.terms, kept, error="absolute")
            if residuals is not None:
                return [private.measure(residuals.queries, share)]
        return _measure_each(private, asked, share)

    def _has_batch(self, workload: Workload) -> bool:
        return self._profile.batch_share > 0 and isinstance(workload.queries, Marginals)

    def _for_errors(self, batch: Fraction) -> Fraction:
        """Share of the noisy errors, out of that of the batch."""
        return min(Fraction(self._profile.errors_share), batch / 2)

    def _planned(self, candidates: Candidates, share: Fraction) -> Annealing:
        rounds = self._rounds(candidates)
        return Annealing.planned(share, rounds, Fraction(self._profile.select_share), Fraction(self._profile.growth))

    def _rounds(self, candidates: Candidates) -> int:
        return self.rounds_per_attribute * len(candidates.domain.names)

    def _allowed(self, candidates: Candidates, structure: Triangulation, part: Fraction) -> Candidates:
        """C_t: those that keep the junction tree below the part of its limit that this round may use."""
        return within(candidates, structure, float(part) * self.max_model_mb * CELLS_IN_MB)

    def _penalties(
        self, terms: PrivacyTerms, allowed: Candidates, estimate: NDArray[np.float64], annealing: Annealing
    ) -> NDArray[np.float64]:
        """The error that each candidate's measurement is expected to leave, float64 [candidates], in counts."""
        cuts = np.cumsum(allowed.sizes)[:-1]
        stddevs = np.broadcast_to(allowed.stddevs(terms, annealing.measure), estimate.shape)
        pairs = zip(np.split(estimate, cuts), np.split(stddevs, cuts), strict=True)
        errors = [_expected_remainder(terms, answers, noise, self._profile.penalty).sum() for answers, noise in pairs]
        return np.minimum(errors, LARGEST_PENALTY)

    def _fit(
        self,
        terms: PrivacyTerms,
        candidates: Candidates,
        measured: Sequence[Measurement],
        warm: GraphicalFit | None = None,
        polish: bool = False,
        learns: bool = False,
    ) -> GraphicalFit:
        """Fits a model to what was measured.

        polish: The last fit is closer, replaces one-way counts by their posterior medians, and gives each pair of
            attributes its own prior scale, unless the scale was learnt.
        learns: Learns the scale of the prior from the measurements, as is sound where the whole workload was measured
            at once, whatever it looks like; fits from ``warm`` keep the learnt scale.
        """
        total = rows_of(terms, candidates.full, measured)
        prior_scale = None if learns or (warm is not None and warm.learns_prior) else LARGEST_PRIOR_SCALE
        rough, last = (
            FitSettings(prior_scale, 1e-2, 300, ROUND_WORK),
            FitSettings(prior_scale, 1e-3, 2000, LAST_WORK, empirical_bayes=True),
        )
        return fit_model(candidates.domain, measured, total, last if polish else rough, warm)

    @property
    def _profile(self) -> AimProfile:
        return PROFILES[self.profile]

    def _check(self) -> None:
        if self.profile not in PROFILES:
            raise ConfigError(f"mechanism.profile is {self.profile!r}; want default or published")
        if not (0 < self.max_model_mb < float("inf") and self.rounds_per_attribute >= 1):
            given = f"mechanism.max_model_mb {self.max_model_mb}"
            raise ConfigError(
                f"{given}, rounds_per_attribute {self.rounds_per_attribute}; want both above 0 and finite"
            )


@dataclass(frozen=True, eq=False)
class _Start:
    """What is measured before the first round.

    measured: All measurements so far.
    fit: The model fitted to them.
    annealing: Budget of the first round.
    together: First and last of the measurements that were chosen at once, as ``Rounds`` takes them.
    batch: The batch, or None where rounds spend all that remains.
    """

    measured: Sequence[Measurement]
    fit: GraphicalFit
    annealing: Annealing
    together: tuple[int, int]
    batch: Batch | None = None


def _split(candidates: Candidates, share: Fraction) -> tuple[Fraction, ...]:
    """Parts of a share for measuring each candidate once."""
    return split_by_size(candidates.noisiness, candidates.weights, share)


def _announced(candidates: Candidates) -> Marginals | Products:
    """All that may be asked, in one pass: of marginals the number of rows too, which residuals need."""
    queries = candidates.queries
    return Marginals(queries.domain, ((), *queries.cliques)) if isinstance(queries, Marginals) else queries


def _only(candidates: Candidates, index: int) -> Candidates:
    return candidates.only(np.arange(len(candidates.cliques)) == index)


def _measure_each(private: PrivateStatistics, wanted: Candidates, share: Fraction) -> list[Measurement]:
    """Each of the candidates measured once."""
    return [private.measure(wanted.strategy(index), part) for index, part in enumerate(_split(wanted, share))]


def _expected_remainder(
    terms: PrivacyTerms, answers: NDArray[np.float64], stddevs: NDArray[np.float64], penalty: ExpectedRemainder
) -> _Vector:
    """Absolute error that measuring answers with this noise leaves: by the fit, or all the noise."""
    if penalty == "noise":
        return np.broadcast_to(mean_absolute_part(terms.noise) * stddevs, answers.shape)
    return expected_errors(answers, stddevs)


def _mean_error(
    terms: PrivacyTerms, wanted: Candidates, fit: GraphicalFit, share: Fraction, penalty: ExpectedRemainder
) -> float:
    """Mean L1 error of the candidates, each measured once with the others for a share, as a part of its answers."""
    errors = []
    for index, part in enumerate(_split(wanted, share)):
        candidate = _only(wanted, index)
        answers = candidate.answers(fit)
        remainder = _expected_remainder(terms, answers, candidate.stddevs(terms, part), penalty).sum()
        errors.append(float(remainder / max(fit.total, answers.sum())))
    return float(np.mean(errors))


def _part(candidates: Candidates, values: _Vector, index: int) -> _Vector:
    """A copy of the values of one candidate's answers."""
    begin = int(candidates.sizes[:index].sum())
    return values[begin : begin + int(candidates.sizes[index])].copy()
