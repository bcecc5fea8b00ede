"""AIM: an adaptive and iterative mechanism for synthetic data."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, final

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
from dpcore.mechanisms.aim.rounds import KEPT_CELLS, Rounds
from dpcore.mechanisms.api import Plan, Progress, Release, Step, silent
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, LARGEST_PENALTY, LAST_WORK, ROUND_WORK, rows_of
from dpcore.queries import Marginals, Products
from dpcore.strategies.allocation import split_by_size
from dpcore.workload import Workload, added_weights

_BYTES: Final = 8
_AFTER_BATCH: Final = Fraction(3, 4)  # Of the largest junction tree.
_TICKS: Final = 1000
_CRUMB: Final = Fraction(1, 1 << 30)  # What is left of a budget that rounded shares have spent.
_Penalty = Literal["expected", "noise"]
_Vector = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Aim:
    """Measures the marginals that noisy errors call for, then, round by round, those that promise most.

    Of a workload of marginals a batch comes first: noisy errors of all pairs and triples, asked once, choose marginals
    that are measured together (``one_shot``). Rounds as printed follow: each selects the marginal whose measurement
    promises most, measures it and fits the model anew. They go on as long as they teach; what they leave measures the
    batch once more.

    max_model_mb: MAX-SIZE, the largest junction tree in MiB. The batch may use ``batch_share`` of it, and rounds after
        it three quarters: answers and rows take room as well. Rounds without a batch may use the part that their share
        of the budget, and what was spent before, allow.
    batch_share: Part of what one-way marginals leave that goes into the batch at first; without one all is spent in
        rounds, as printed. A round then gets the share that a marginal of the batch got, or more where rounds are few.
    errors_share: Share of the budget for the noisy errors, at most half of the batch's.
    min_relative_change: After a batch, rounds stop with the first whose measurement changed the marginal by no more
        than this many times its expected remaining error. Without noisy errors there are no rounds.
    rounds_per_attribute: Rounds without a batch are planned as if there were so many for each attribute (T = 16 d);
        annealing makes them fewer. There are never more.
    select_share: Part of a round that selects, 1 - alpha.
    growth: Without a batch, factor of a round's share when its measurement moved the model by less than ``patience``
        times the error that it was expected to leave,
    patience: which is 1, with a growth of 4, as printed.
    start_share: Share of the budget for the first measurement of all one-way marginals.
    start_error: They are measured once more where their expected absolute error is above this fraction of the rows,
    most_start_share: for at most this share in all. Where they are not,
    workload_error: and all marginals of the workload, measured at once, have expected noise below this fraction of the
        rows, they are measured before the rounds, in place of a batch,
    workload_share: for this share, one-way marginals included; under Gaussian noise by their residuals.
    penalty: What a measurement is expected to leave of a marginal's error: "expected", by the fit, or all the "noise",
        as printed.

    Answers of marginals have intervals at 95 %, measured or not, from what selections and measurements prove
    (``aim_rounds``); ``Release`` says how to ask for more.

    Source: McKenna (2022), Algorithms 6 to 8. ``dpcore/decisions/aim.md`` has the measurements of what differs: the
    penalised fits, the penalty, the batch, and one-way marginals, which share their budget by size and get more of it
    where rows are few.
    """

    max_model_mb: float = 80.0
    batch_share: float = 0.6
    errors_share: float = 0.1
    min_relative_change: float = 1.0
    rounds_per_attribute: int = 16
    select_share: float = 0.2
    growth: float = 2.0
    patience: float = 0.25
    start_share: float = 0.06
    start_error: float = 0.03
    most_start_share: float = 0.4
    workload_error: float = 0.1
    workload_share: float = 0.5
    penalty: _Penalty = "expected"

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        self._check()
        candidates = candidates_of(workload, terms)
        single = candidates.one_way()
        starts = _split(single, Fraction(self.start_share))
        noise = [_only(single, place).value_stddev(terms, part) or 0.0 for place, part in enumerate(starts)]
        steps = [Step("measure one-way marginals", self.start_share, len(starts), max(noise))]
        left, rounds = 1 - Fraction(self.start_share), self._rounds(candidates)
        if self._has_batch(workload):
            batch = left * Fraction(self.batch_share)
            errors = self._for_errors(batch)
            orders = [group for group in design_of(workload).by_order if group]
            steps.append(Step("measure errors of pairs and triples", float(errors), len(orders)))
            steps.append(Step("measure the marginals that they call for", float(batch - errors), 1))
            left -= batch
        annealing = self._planned(candidates, left)
        known = not self._has_batch(workload)  # Else a round's share follows from what the batch measured.
        measured = candidates.value_stddev(terms, annealing.measure) if known else None
        steps.append(Step("select", float(annealing.select * rounds), rounds))
        steps.append(Step("measure", float(annealing.measure * rounds), rounds, measured))
        models = int(4 * _BYTES * self.max_model_mb * CELLS_IN_MB) + 2 * _BYTES * KEPT_CELLS
        memory = models + 5 * _BYTES * (candidates.cells + workload.queries.size)
        notes = ("fewer rounds than planned: a round's budget grows whenever measurements teach little",)
        if self._has_batch(workload):
            notes = ("fewer rounds than planned: once they teach little, the rest measures the chosen marginals again",)
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
        told = batch.told if batch else ()
        rounds = Rounds(private.terms, candidates, start.together, told, self._rounds(candidates) + 1)
        del start  # A fit holds a model: one at a time.
        is_informative = batch is None or bool(told)
        while is_informative and private.remaining_share > _CRUMB and not rounds.are_over:
            annealing = annealing.limited(private.remaining_share)
            spent = 1 - private.remaining_share + annealing.round
            allowed = self._allowed(candidates, structure, _AFTER_BATCH if batch else spent)
            estimate = allowed.answers(fit)
            left = self._penalties(private.terms, allowed, estimate, annealing)
            score = allowed.score(estimate, left)
            del estimate  # Vectors over all candidates are long: the score has its own.
            chosen = private.select(allowed.queries, score, annealing.select)  # SELECT
            measured.append(private.measure(allowed.strategy(chosen), annealing.measure))  # MEASURE
            rounds.add(allowed, score, annealing.select, chosen, measured[-1], fit)
            before, fit = _part(allowed, score.estimate, chosen), fit.without_tables()
            del score
            fit = self._fitted(private.terms, candidates, measured, fit)  # ESTIMATE
            structure = structure.with_clique(allowed.cliques[chosen])
            moved = np.abs(_only(allowed, chosen).answers(fit) - before).sum()
            if batch:
                is_informative = moved > self.min_relative_change * left[chosen]
            elif moved <= self.patience * left[chosen]:
                annealing = annealing.grown()
            progress(round((_TICKS - 1) * (1 - private.remaining_share)), _TICKS)
        if batch and private.remaining_share > _CRUMB:
            measured += batch.remeasure(private)  # MEASURE
        fit = fit.without_tables()
        model = self._fitted(private.terms, candidates, measured, fit, polish=True).model
        progress(_TICKS, _TICKS)
        return rounds.release(workload, model, measured)

    def _start(self, private: PrivateStatistics, workload: Workload, candidates: Candidates) -> _Start:
        """One-way marginals (Algorithm 7), once more where rows are few; then the whole workload where its cells are
        few, or else a batch of marginals.
        """
        first, most, whole = map(Fraction, (self.start_share, self.most_start_share, self.workload_share))
        single, asked = candidates.one_way(), candidates.only(candidates.asked)
        measured = _measure_each(private, single, first)
        fit = self._fitted(private.terms, candidates, measured)
        error = _mean_error(private.terms, single, fit, first, "expected")
        more = min(most, first * Fraction(error / self.start_error) ** 2) - first
        annealing = self._planned(candidates, 1 - first)
        if more > _CRUMB:
            measured += _measure_each(private, single, more)
            fit = self._fitted(private.terms, candidates, measured)
        elif whole > first and self._is_cheap(private.terms, asked, fit, whole - first):
            measured += self._whole(private, workload, asked, whole - first)
            learnt = self._fitted(private.terms, candidates, measured, learns=True)
            return _Start(measured, learnt, annealing, (len(single.cliques), len(measured)))
        if not self._has_batch(workload):
            return _Start(measured, fit, annealing, (len(measured) - len(single.cliques), len(measured)))
        budget = private.remaining_share * Fraction(self.batch_share)
        errors, capacity = self._for_errors(budget), float(self.batch_share) * self.max_model_mb
        batch = select_and_measure(private, workload, measured, fit, budget, errors, capacity)
        together = (len(measured), len(measured) + len(batch.measured))
        measured += batch.measured
        typical = max(batch.typical, private.remaining_share / self._rounds(candidates))
        annealing = Annealing.planned(typical, 1, Fraction(self.select_share), Fraction(self.growth))
        return _Start(measured, self._fitted(private.terms, candidates, measured), annealing, together, batch)

    def _is_cheap(self, terms: PrivacyTerms, asked: Candidates, fit: GraphicalFit, share: Fraction) -> bool:
        """Whether the whole workload fits a model and can be measured at once with little noise for its rows."""
        if not asked.cliques:  # All of them are too large to be candidates.
            return False
        if JunctionTree.of(asked.domain, asked.cliques).cells > self.max_model_mb * CELLS_IN_MB:
            return False
        return _mean_error(terms, asked, fit, share, "noise") <= self.workload_error

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
        return self.batch_share > 0 and isinstance(workload.queries, Marginals)

    def _for_errors(self, batch: Fraction) -> Fraction:
        """Share of the noisy errors, out of that of the batch."""
        return min(Fraction(self.errors_share), batch / 2)

    def _planned(self, candidates: Candidates, share: Fraction) -> Annealing:
        rounds = self._rounds(candidates)
        return Annealing.planned(share, rounds, Fraction(self.select_share), Fraction(self.growth))

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
        errors = [_left(terms, answers, noise, self.penalty).sum() for answers, noise in pairs]
        return np.minimum(errors, LARGEST_PENALTY)

    def _fitted(
        self,
        terms: PrivacyTerms,
        candidates: Candidates,
        measured: Sequence[Measurement],
        warm: GraphicalFit | None = None,
        polish: bool = False,
        learns: bool = False,
    ) -> GraphicalFit:
        """A fit; where the whole workload was measured at once, no matter how it looks, the prior is learnt from it.
        The last one (``polish``) has single attributes' counts as they probably are and priors of their own for pairs,
        but where the prior was learnt.
        """
        total = rows_of(terms, candidates.full, measured)
        prior_scale = None if learns or (warm is not None and warm.learns_prior) else LARGEST_PRIOR_SCALE
        rough, last = (
            FitSettings(prior_scale, 1e-2, 300, ROUND_WORK),
            FitSettings(prior_scale, 1e-3, 2000, LAST_WORK, empirical_bayes=True),
        )
        return fit_model(candidates.domain, measured, total, last if polish else rough, warm)

    def _check(self) -> None:
        if not (0 < self.max_model_mb < float("inf") and self.rounds_per_attribute >= 1):
            asked = f"mechanism.max_model_mb {self.max_model_mb}"
            raise ConfigError(f"{asked}, rounds_per_attribute {self.rounds_per_attribute}; want all above 0 and finite")
        if not (1 < self.growth < float("inf") and self.patience > 0):
            raise ConfigError(
                f"mechanism.growth {self.growth}, patience {self.patience}; want growth > 1 and finite, patience > 0"
            )
        if not self.workload_error >= 0:
            raise ConfigError(f"mechanism.workload_error is {self.workload_error}; want >= 0")
        if not (0 < self.errors_share < 1 and self.min_relative_change > 0):
            asked = f"mechanism.errors_share {self.errors_share}, min_relative_change {self.min_relative_change}"
            raise ConfigError(f"{asked}; want 0 < errors_share < 1, min_relative_change > 0")
        if not (0 < self.select_share < 1 and 0 <= self.batch_share < 1):
            asked = f"mechanism.select_share {self.select_share}, batch_share {self.batch_share}"
            raise ConfigError(f"{asked}; want 0 < select_share < 1, 0 <= batch_share < 1")
        if not self.start_share <= self.workload_share < 1:
            asked = f"mechanism.start_share {self.start_share}, workload_share {self.workload_share}"
            raise ConfigError(f"{asked}; want start_share <= workload_share < 1")
        if not (0 < self.start_share <= self.most_start_share < 1 and self.start_error > 0):
            asked = f"mechanism.start_share {self.start_share}, most_start_share {self.most_start_share}"
            raise ConfigError(f"{asked}, start_error {self.start_error}; want 0 < start <= most < 1 and an error > 0")


@dataclass(frozen=True, eq=False)
class _Start:
    """What there is before the first round.

    annealing: Of the first round. together: As of ``Rounds``. batch: None where rounds are to spend all.
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


def _only(candidates: Candidates, place: int) -> Candidates:
    return candidates.only(np.arange(len(candidates.cliques)) == place)


def _measure_each(private: PrivateStatistics, wanted: Candidates, share: Fraction) -> list[Measurement]:
    """Each of the candidates measured once."""
    return [private.measure(wanted.strategy(place), part) for place, part in enumerate(_split(wanted, share))]


def _left(
    terms: PrivacyTerms, answers: NDArray[np.float64], stddevs: NDArray[np.float64], penalty: _Penalty
) -> _Vector:
    """Absolute error that measuring answers with this noise leaves: by the fit, or all the noise."""
    if penalty == "noise":
        return np.broadcast_to(mean_absolute_part(terms.noise) * stddevs, answers.shape)
    return expected_errors(answers, stddevs)


def _mean_error(
    terms: PrivacyTerms, wanted: Candidates, fit: GraphicalFit, share: Fraction, penalty: _Penalty
) -> float:
    """Mean L1 error of the candidates, each measured once with the others for a share, as a part of its answers."""
    found = []
    for place, part in enumerate(_split(wanted, share)):
        one = _only(wanted, place)
        answers = one.answers(fit)
        left = _left(terms, answers, one.stddevs(terms, part), penalty).sum()
        found.append(float(left / max(fit.total, answers.sum())))
    return float(np.mean(found))


def _part(candidates: Candidates, values: _Vector, place: int) -> _Vector:
    """A copy of the values of one candidate's answers."""
    begin = int(candidates.sizes[:place].sum())
    return values[begin : begin + int(candidates.sizes[place])].copy()
