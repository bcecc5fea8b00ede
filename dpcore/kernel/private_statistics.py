"""The verbs of the kernel: the only calls through which a mechanism learns anything about the data. TRUSTED.

Every verb works in the same order. It checks its arguments, computes its cost from public facts, and charges the
filter. It then replays the stored answer of the journal, or reads the exact answers, draws, and stores the new answer.
Only then does it return.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.exact_statistics import Statistics
from dpcore.frozen import frozen
from dpcore.kernel import bernoulli, weighted_sampler
from dpcore.kernel.acceptance_gaps import acceptance_gaps
from dpcore.kernel.arguments import check_queries, plain_fraction, plain_integer
from dpcore.kernel.blocks import Progress, silent
from dpcore.kernel.budget import Budget, Charge, CostBasis, Filter
from dpcore.kernel.exact_answers import ExactAnswers
from dpcore.kernel.l1_scores import digest_of
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.noise import add_noise
from dpcore.kernel.noisy_answers import measurement_of
from dpcore.kernel.noisy_maximum import noisy_argmax
from dpcore.kernel.ports import Journal, Ledger
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import GRID, SCORES, Candidates, L1Error, Score
from dpcore.kernel.sensitivity import PrivacyUnit, answer_sensitivity, marginal_l1_sensitivity
from dpcore.kernel.series import series_rows
from dpcore.kernel.weighted_sampler import SlotScores
from dpcore.measurement import GRID_BITS, Measurement, Noise, NoisyErrors
from dpcore.queries import CountingQueries, Marginals, Measurable, Products, Queries


@final
class PrivateStatistics:
    """Exact statistics behind a privacy filter: the only way from a mechanism to the data.

    statistics: The source of exact answers. SENSITIVE.
    unit: The privacy unit: which datasets are neighbours, and how much one unit contributes.
    budget: The privacy budget of the whole release.
    ledger: Reserves the whole budget before any exact answer is requested.
    journal: Stores every answer before it is returned.

    Formal guarantees, for datasets that are neighbours under ``unit``:
        * All returned values together are epsilon-DP, rho-zCDP or mu-GDP for the amount of ``budget``, even when the
          caller chooses each call from earlier answers, provided that the statistics keep their declared contribution.
        * The ledger reserves the whole budget before any exact answer is requested.
        * A call is charged before it draws. A refused call draws nothing. A call that fails after its charge returns
          nothing, and the charge stands.
        * An answer is durable in the journal before it is returned. Repeating the same calls in the same order returns
          the same answers.

    Raises: ValueError when the statistics enforce another contribution than the unit declares, and the error of the
        ledger when it refuses the budget.

    Errors of every verb, raised before the charge where nothing else is said:
        * TypeError: an argument is of another type than documented, or of a subclass (``arguments`` says why).
        * ValueError: an argument is out of range or has the wrong shape.
        * ConfigError: the queries have no proved sensitivity for this privacy unit, or, after the charge, name an
          attribute or column that the data do not have.
        * BudgetExceededError: the cost exceeds what remains of the budget.
        * RuntimeError: another call is still in progress.
        * IntegrityError, after the charge: the journal holds the answer of another request at this position, or the
          statistics contradict their declared contribution.
    """

    def __init__(
        self, statistics: Statistics, *, unit: PrivacyUnit, budget: Budget, ledger: Ledger, journal: Journal
    ) -> None:
        if statistics.contribution != unit.contribution:
            raise ValueError(f"statistics enforce {statistics.contribution}; want {unit.contribution} as declared")
        self._terms = PrivacyTerms(unit, budget)
        self._filter = Filter(budget)
        self._exact = ExactAnswers(statistics)  # SENSITIVE
        self._journal = journal
        self._answers = 0
        self._in_progress = Lock()
        ledger.reserve(budget)

    @property
    def terms(self) -> PrivacyTerms:
        """The privacy unit, the budget, and what calls cost under them; public."""
        return self._terms

    @property
    def remaining_share(self) -> Fraction:
        """The fraction of the budget that has not been spent, in [0, 1]."""
        return self._filter.remaining / self.terms.budget.amount

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What each call so far has cost, and why, in the order of the calls."""
        return tuple(self._filter.charges)

    def expect(self, queries: Queries) -> None:
        """Announces queries of later calls, so that one pass over the data computes their exact answers.

        Announcing costs no budget, because the exact answers stay inside the kernel.
        """
        check_queries(queries)
        with self._only_call("expect"):
            self._exact.expect(queries)

    def measure(self, queries: Measurable, share: Fraction, progress: Progress = silent) -> Measurement:
        """Adds independent noise to exact answers.

        The noise is discrete Laplace under pure DP, discrete Gaussian under zCDP, and a rounded Gaussian under
        Gaussian DP.

        queries: The queries to answer.
        share: Fraction of the whole budget that the call costs, in (0, 1].
        progress: Called with (values done, queries.size) while noise is drawn. A replayed answer reports no progress.

        Formal guarantee: the answers are epsilon-DP, rho-zCDP or mu-GDP for the charged amount, which is ``share`` of
            the budget rounded down to a multiple of 2^-80. ``sensitivity`` proves the sensitivities that set the scale.

        Returns: The noisy answers with the law and scale of their noise, in counts. For products and clipped sums,
            values and scale are those of the integer answers divided by the denominator.

        Raises: The errors of every verb; ScaleError, before the charge, when the noise scale would exceed 2^40 counts;
            CutOffError, after the charge, when a noisy answer is so large that it may have been clipped.

        Source: ``scales.noise_scale`` names the theorem for each of the three laws.
        """
        check_queries(queries)
        share = plain_fraction("share", share)
        amount = self.terms.amount(share)
        basis = self.terms.measure_basis(queries, share)
        noise, scale = self.terms.noise, basis.scale
        request = _Request(("measure", queries.digest(), noise.value, scale.hex()), basis)

        def draw() -> NDArray[np.int64]:
            return add_noise(self._exact.of(queries), noise, scale, progress)

        steps = self._answer(f"measure {queries.description}", request, amount, draw)
        return measurement_of(queries, basis, noise, steps)

    def measure_rows(
        self, strategy: Products, attribute: str, step: int, rows: range, share: Fraction, progress: Progress = silent
    ) -> Measurement:
        """Measures some rows of a strategy with the noise of all its rows, and charges for all of them.

        Other releases may measure the other rows: ``series_rows`` proves when all of them together cost this charge.

        strategy, attribute, step, rows: Those of ``series_rows``.
        share: Fraction of the whole budget that all rows of the strategy cost, in (0, 1].
        progress: As for ``measure``.

        Formal guarantee: that of ``measure`` for the whole strategy, of whose answers these are a part.

        Returns: The noisy answers, as a measurement of products with these rows alone.

        Raises: The errors of ``measure`` and of ``series_rows``.
        """
        check_queries(strategy)
        part = series_rows(strategy, attribute, step, rows)
        share = plain_fraction("share", share)
        amount = self.terms.amount(share)
        basis = self.terms.measure_basis(strategy, share)
        noise, scale = self.terms.noise, basis.scale
        parts = ("measure_rows", strategy.digest(), attribute, rows.start, rows.stop, noise.value, scale.hex())
        request = _Request(parts, basis)

        def draw() -> NDArray[np.int64]:
            return add_noise(self._exact.of(part), noise, scale, progress)

        label = f"measure rows {rows.start} to {rows.stop - 1} of {strategy.description}"
        return measurement_of(part, basis, noise, self._answer(label, request, amount, draw))

    def measure_errors(
        self, candidates: Marginals, estimate: NDArray[np.float64], share: Fraction, progress: Progress = silent
    ) -> NoisyErrors:
        """Adds noise to the L1 distance between each exact marginal and a public estimate of it.

        candidates: The marginals. Their exact tables are requested in batches of bounded size.
        estimate: The estimated marginals in counts, float64 [candidates.size]. They are first rounded to multiples of
            1 / GRID counts.
        share: Fraction of the whole budget that the call costs, in (0, 1].
        progress: Called with (distances done, number of marginals) while noise is drawn. A replayed answer reports no
            progress.

        Formal guarantee: as for ``measure``. The noise grows with the number of marginals and not with their numbers of
            cells, because one unit moves each distance by a bounded amount (proof in ``PrivacyTerms.errors_scale``).

        Returns: One noisy distance per marginal, in counts.

        Raises: The errors of every verb; ScaleError, before the charge, when the noise scale would exceed 2^40 steps of
            1 / GRID counts.
        """
        if type(candidates) is not Marginals:
            raise TypeError(f"errors of {type(candidates).__name__}; want Marginals")
        check_queries(candidates)
        error = L1Error(estimate, np.ones(len(candidates.cliques)), np.zeros(len(candidates.cliques)))
        error.check(candidates, self.terms.unit)
        share = plain_fraction("share", share)
        amount = self.terms.amount(share)
        basis = self.terms.errors_basis(candidates, share)
        noise, scale = self.terms.noise, basis.scale / basis.denominator
        parts = ("measure_errors", candidates.digest(), error.digest(), noise.value, scale.hex())

        def draw() -> NDArray[np.int64]:
            exact = error.distances(candidates, self._exact.tables(candidates))  # SENSITIVE
            return add_noise(exact, noise, basis.scale, progress)

        steps = self._answer(f"measure errors of {candidates.description}", _Request(parts, basis), amount, draw)
        noise_steps_per_step = 1 << GRID_BITS if noise is Noise.ROUNDED_GAUSSIAN else 1
        return NoisyErrors(candidates, steps / (noise_steps_per_step * GRID), noise, scale)

    def select(self, candidates: Candidates, score: Score, share: Fraction) -> int:
        """Selects a candidate whose score is close to the largest.

        The mechanism is permute-and-flip under pure DP, and the exponential mechanism under zCDP and Gaussian DP.

        candidates: Marginals, each of which is a candidate, or for ``LinearL1Error`` products, each term of which is a
            candidate. Their exact tables are requested in batches of bounded size.
        score: A score of the closed set ``SCORES``. Each score proves its sensitivity in its docstring.
        share: Fraction of the whole budget that the call costs, in (0, 1].

        Formal guarantee: the index is epsilon-DP, rho-zCDP or mu-GDP for the charged amount, which is ``share`` of the
            budget rounded down to a multiple of 2^-80 (proofs in ``scales.selection_scale`` and ``gaussian_dp``).

        Returns: The index of the selected candidate.

        Raises: The errors of every verb.

        Source: McKenna and Sheldon (2020), Algorithm 1, for permute-and-flip; McSherry and Talwar (2007) for the
            exponential mechanism.
        """
        if type(score) not in SCORES:
            raise TypeError(f"score of type {type(score).__name__}; want one of the closed set, of proved sensitivity")
        check_queries(candidates)
        score.check(candidates, self.terms.unit)
        share = plain_fraction("share", share)
        amount = self.terms.amount(share)
        basis = self.terms.select_basis(candidates, score, share)
        request = _Request(("select", candidates.digest(), score.digest(), basis.scale.hex()), basis)

        def draw() -> NDArray[np.int64]:
            scores = score.scores(candidates, self.terms.unit, self._exact.tables(candidates))  # SENSITIVE
            return np.array([noisy_argmax(scores, self.terms.budget.currency, basis.scale)], dtype=np.int64)

        return int(self._answer(f"select from {candidates.description}", request, amount, draw)[0])

    def sample(
        self, queries: CountingQueries, slope: Fraction, log_weights: LogWeights, total: int, size: int
    ) -> NDArray[np.int64]:
        """Draws queries and complements of queries independently, each by its exponential weight.

        The probability of each is proportional to exp(slope * c / total + log-weight). Here c is the exact number of
        units that satisfy the query, or for the complement that do not satisfy it, clamped to [0, total].

        queries: The m queries. Each cell of a marginal is one query.
        slope: Factor of c / total in the exponent.
        log_weights: The public part of the exponent, for the m queries and their complements.
        total: A public or already noisy number of units, at least 1.
        size: Number of draws, at least 1.

        Formal guarantee: each draw has a bounded range of at most ``PrivacyTerms.draw_range``, where the proof is. The
            charge is the sum of the costs of all draws. With slope 0 the draws do not depend on the data and are free.

        Returns: int64 [size]; i < m stands for query i, and m + i for its complement.

        Raises: The errors of every verb; ValueError when a unit may hold several rows, because the count of a
            complement then has no such bound.

        Source: Gaboardi et al., "Dual Query" (2014), Algorithm 1, for the distribution.
        """
        slope, total, size = plain_fraction("slope", slope), plain_integer("total", total), plain_integer("size", size)
        self._check_weighted("sample", queries, log_weights, total)
        if size < 1:
            raise ValueError(f"{size} draws; want >= 1")
        amount = self.terms.draws_amount(slope, total, size)
        scores = SlotScores.up_to_a_factor(slope, log_weights, total)
        parts = ("sample", queries.digest(), scores.slope.hex(), log_weights.digest(), total, size)
        request = _Request(parts, self.terms.sample_basis(slope, total, size))

        def draw() -> NDArray[np.int64]:
            return weighted_sampler.draw(scores, self._exact.counted(queries), size)  # SENSITIVE

        return self._answer(f"draw {size:,} from {queries.description}", request, amount, draw)

    def retain(
        self, queries: CountingQueries, drawn: NDArray[np.int64], slope: Fraction, log_weights: LogWeights, total: int
    ) -> NDArray[np.bool_]:
        """Draws an acceptance bit for each drawn index, as in the rejection step of DQRS.

        The bit of an index is 1 with probability exp(slope * c / total + log-weight). Here c is the exact number of
        units that satisfy the query, or for the complement that do not satisfy it, clamped to [0, total].

        queries: The m queries. Each cell of a marginal is one query.
        drawn: Public indices of queries (i < m) and complements (m + i), int64 [s], s >= 1. Each entry gets its own
            bit, even when an index occurs twice.
        slope: Factor of c / total in the exponent.
        log_weights: The public part of the exponent, for the m queries and their complements.
        total: A public or already noisy number of units, at least 1.

        Formal guarantee: all s bits are charged before any is drawn, whether they accept or not. A bit costs less the
            further its largest possible exponent lies below 0 (proof in ``PrivacyTerms.retain_amount``).

        Returns: bool [s].

        Raises: The errors of every verb; ValueError when a unit may hold several rows, or when the largest possible
            exponent of any query or complement exceeds -SMALLEST_GAP.

        Source: Vietri, Tian, Bun, Steinke and Wu (2020), Algorithm 4.
        """
        slope, total = plain_fraction("slope", slope), plain_integer("total", total)
        self._check_weighted("retain", queries, log_weights, total)
        if drawn.dtype != np.int64 or drawn.ndim != 1 or not drawn.size:
            raise ValueError(f"drawn indices are {drawn.dtype} {drawn.shape}; want a vector of one or more int64")
        drawn = frozen(drawn, np.int64)
        if drawn.min() < 0 or drawn.max() >= 2 * queries.size:
            raise ValueError(f"a drawn index is no query or complement; want 0 .. {2 * queries.size - 1}")
        scores = SlotScores.of(slope, log_weights, total)
        gaps = acceptance_gaps(slope, log_weights, drawn)
        amount = self.terms.retain_amount(slope, total, gaps)
        parts = ("retain", queries.digest(), scores.slope.hex(), log_weights.digest(), total, digest_of(drawn))
        request = _Request(parts, self.terms.retain_basis(slope, total, gaps))

        def draw() -> NDArray[np.int64]:
            exact = self._exact.counted(queries)  # SENSITIVE
            return bernoulli.bits(*weighted_sampler.split_weights(scores, exact, drawn))

        return self._answer(f"retain some of {drawn.size:,} draws", request, amount, draw).astype(np.bool_)

    def _check_weighted(self, verb: str, queries: CountingQueries, log_weights: LogWeights, total: int) -> None:
        """Raises an error for arguments of ``sample`` or ``retain`` that have no proof or do not fit together."""
        if answer_sensitivity(self.terms.unit) != 1:
            raise ValueError(f"{verb} needs units that hold one row or one basket; want max_rows_per_unit: 1")
        check_queries(queries)
        if not isinstance(queries, CountingQueries):
            raise TypeError(f"{verb} of {type(queries).__name__}; want queries that count units")
        if isinstance(queries, Marginals):
            marginal_l1_sensitivity(self.terms.unit)  # Refuses baskets.
        if type(log_weights) is not LogWeights:
            raise TypeError(f"log-weights of type {type(log_weights).__name__}; want LogWeights")
        if log_weights.size != queries.size or total < 1:
            raise ValueError(
                f"log-weights of {log_weights.size:,} queries, total {total}; want {queries.size:,} and >= 1"
            )

    def _answer(
        self, label: str, request: _Request, amount: Fraction, draw: Callable[[], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Charges the call, then replays its stored answer, or draws and stores a new one."""
        digest = hashlib.sha256(json.dumps(request.parts).encode()).hexdigest()
        with self._only_call(label):
            index = self._answers
            self._filter.charge(label, amount, request.basis)
            answer = self._journal.recall(index, digest)
            if answer is None:
                answer = draw()
                self._journal.record(index, digest, answer)
            self._answers += 1
            return answer

    @contextmanager
    def _only_call(self, label: str) -> Iterator[None]:
        """Raises RuntimeError during another call, of any thread: the order of charges would depend on timing."""
        if not self._in_progress.acquire(blocking=False):
            raise RuntimeError(f"{label}: another call of the kernel is in progress; want one at a time")
        try:
            yield
        finally:
            self._in_progress.release()


@dataclass(frozen=True)
class _Request:
    """The public content of a call.

    parts: Everything that determines the law of the answer except the data; the journal stores their digest.
    basis: What the amount of the charge follows from.
    """

    parts: tuple[str | int, ...]
    basis: CostBasis
