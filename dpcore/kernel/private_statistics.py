"""The verbs through which everything private passes. TRUSTED."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import CutOffError
from dpcore.exact_statistics import Statistics
from dpcore.frozen import frozen
from dpcore.kernel import bernoulli, weighted_sampler
from dpcore.kernel.arguments import check_queries, plain_fraction, plain_integer
from dpcore.kernel.blocks import Progress, silent
from dpcore.kernel.budget import Budget, Charge, Filter
from dpcore.kernel.exact_answers import ExactAnswers
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.noise import add_noise
from dpcore.kernel.noisy_maximum import noisy_argmax
from dpcore.kernel.ports import Journal, Ledger
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import GRID, SCORES, Candidates, L1Error, Score
from dpcore.kernel.sensitivity import PrivacyUnit, answer_sensitivity, marginal_l1_sensitivity
from dpcore.kernel.weighted_sampler import Scores
from dpcore.measurement import GRID_BITS, Measurement, Noise, NoisyErrors
from dpcore.queries import ClippedSums, CountingQueries, Marginals, Measurable, Products, Queries

_LARGEST_STEPS: Final = 1 << 61
SMALLEST_GAP: Final = Fraction(1, 1 << 20)  # Chances of ``retain`` stay below exp(-SMALLEST_GAP).


@final
class PrivateStatistics:
    """Exact statistics behind a privacy filter: the only way from a mechanism to the data.

    statistics: Where exact answers come from. SENSITIVE.
    unit: The privacy unit: which datasets are neighbours, and what one unit contributes.
    budget: The budget of the whole release.
    ledger: Reserves the budget before anything is asked of the data.
    journal: Stores every answer before it is returned.

    Formal guarantees, for the neighbours of ``unit``:
        * The joint law of everything returned is epsilon-DP, rho-zCDP or mu-GDP for the amount of ``budget``, whatever
          the caller does between calls, provided that the statistics keep their declared contribution.
        * The whole budget is reserved in the ledger before anything is asked of the data.
        * A call is charged before it draws. A call that is refused draws nothing, and one that fails later returns
          nothing.
        * An answer is on disk in the journal before it is returned. The same calls in the same order get the same
          answers again.

    Raises: ValueError when the statistics enforce another contribution than the unit declares; whatever the ledger
        raises when it refuses the budget.
    """

    def __init__(
        self, statistics: Statistics, *, unit: PrivacyUnit, budget: Budget, ledger: Ledger, journal: Journal
    ) -> None:
        if statistics.contribution != unit.contribution:
            raise ValueError(f"statistics enforce {statistics.contribution}; want {unit.contribution} as declared")
        self.terms = PrivacyTerms(unit, budget)
        self._filter = Filter(budget)
        self._exact = ExactAnswers(statistics)  # SENSITIVE
        self._journal = journal
        self._answers = 0
        self._at_work = Lock()
        ledger.reserve(budget)

    @property
    def remaining_share(self) -> Fraction:
        """The part of the budget that has not been spent, in [0, 1]."""
        return self._filter.remaining / self.terms.budget.amount

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What each call cost, in order, with the scale of its noise."""
        return tuple(self._filter.charges)

    def expect(self, queries: Queries) -> None:
        """Announces queries of later calls, so that one pass over the data answers all of them. It costs no budget."""
        check_queries(queries)
        self._exact.expect(queries)

    def measure(self, queries: Measurable, share: Fraction, progress: Progress = silent) -> Measurement:
        """Exact answers plus noise: discrete Laplace (pure DP), discrete Gaussian (zCDP), rounded Gaussian (GDP).

        queries: The queries.
        share: Part of the whole budget that the call costs, in (0, 1].
        progress: Called with (values done, queries.size) while noise is drawn, but not for a stored answer.

        Returns: The noisy answers with the law and scale of their noise. For products and clipped sums both are in
            units of the integer answers divided by the denominator.

        Raises: CutOffError, after the charge, where a noisy answer is so large that it may have been cut off.
        """
        check_queries(queries)
        share = plain_fraction("share", share)
        amount = self.terms.amount(share)
        scale = self.terms.measure_scale(queries, share)
        noise = self.terms.noise
        unit = queries.denominator if isinstance(queries, Products | ClippedSums) else 1
        request = _Request(("measure", queries.digest(), noise.value, scale.hex()), scale / unit)

        def draw() -> NDArray[np.int64]:
            return add_noise(self._exact.of(queries), noise, scale, progress)

        steps = self._answer(f"measure {queries.description}", request, amount, draw)
        _check_range(steps, noise)
        in_a_count = 1 << GRID_BITS if noise is Noise.ROUNDED_GAUSSIAN else 1
        return Measurement(queries, steps / (in_a_count * unit), noise, scale / unit)

    def measure_errors(
        self, candidates: Marginals, estimate: NDArray[np.float64], share: Fraction, progress: Progress = silent
    ) -> NoisyErrors:
        """The L1 distance of each exact table to a public estimate, plus noise as in ``measure``.

        candidates: The marginals. Their tables are asked for in batches of bounded size.
        estimate: The estimate in counts, float64 [candidates.size]; it is rounded to steps of 1 / GRID first.
        share: Part of the whole budget that the call costs, in (0, 1].
        progress: As for ``measure``.

        Returns: One noisy distance per marginal, in counts. The noise grows with the number of marginals, not with
            their cells (``PrivacyTerms.errors_scale``).
        """
        if type(candidates) is not Marginals:
            raise TypeError(f"errors of {type(candidates).__name__}; want Marginals")
        check_queries(candidates)
        error = L1Error(estimate, np.ones(len(candidates.cliques)), np.zeros(len(candidates.cliques)))
        error.check(candidates, self.terms.unit)
        share = plain_fraction("share", share)
        amount = self.terms.amount(share)
        scale = self.terms.errors_scale(candidates, share)
        noise = self.terms.noise
        parts = ("measure_errors", candidates.digest(), error.digest(), noise.value, scale.hex())

        def draw() -> NDArray[np.int64]:
            exact = error.distances(candidates, self._exact.tables(candidates))  # SENSITIVE
            return add_noise(exact, noise, GRID * scale, progress)

        steps = self._answer(f"measure errors of {candidates.description}", _Request(parts, scale), amount, draw)
        in_a_step = 1 << GRID_BITS if noise is Noise.ROUNDED_GAUSSIAN else 1
        return NoisyErrors(candidates, steps / (in_a_step * GRID), noise, scale)

    def select(self, candidates: Candidates, score: Score, share: Fraction) -> int:
        """Selects a candidate whose score is nearly the largest, by ``noisy_maximum``.

        candidates: The marginals, each a candidate, or the terms of products for a ``LinearL1Error``. Their tables are
            asked for in batches of bounded size.
        score: A score of the closed set ``SCORES``, whose sensitivity is proved.
        share: Part of the whole budget that the call costs, in (0, 1].

        Returns: The index of the selected candidate.
        """
        if type(score) not in SCORES:
            raise TypeError(f"score of type {type(score).__name__}; want one of the closed set, of proved sensitivity")
        check_queries(candidates)
        score.check(candidates, self.terms.unit)
        share = plain_fraction("share", share)
        amount = self.terms.amount(share)
        scale = self.terms.select_scale(candidates, score, share)
        request = _Request(("select", candidates.digest(), score.digest(), scale.hex()), scale)

        def draw() -> NDArray[np.int64]:
            scores = score.scores(candidates, self.terms.unit, self._exact.tables(candidates))  # SENSITIVE
            return np.array([noisy_argmax(scores, self.terms.budget.currency, scale)], dtype=np.int64)

        return int(self._answer(f"select from {candidates.description}", request, amount, draw)[0])

    def sample(
        self, queries: CountingQueries, slope: Fraction, tilt: LogWeights, total: int, size: int
    ) -> NDArray[np.int64]:
        """Draws queries and complements independently, with probabilities proportional to exp(slope c / total + tilt).

        queries: The m queries; each cell of a marginal is a query. c is the exact count of a query, or of the units
            that do not satisfy it (its complement), clamped so that c / total lies in [0, 1].
        slope: The slope of the log-weights.
        tilt: The public part of the log-weights, of m queries.
        total: n0, the public or already noisy number of units.
        size: Number of draws, at least 1.

        Returns: int64 [size]: i < m for query i, m + i for its complement.

        Raises: ValueError when a unit may hold several rows, because a complement then has no proof.
        """
        slope, total, size = plain_fraction("slope", slope), plain_integer("total", total), plain_integer("size", size)
        self._check_tilted("sample", queries, tilt, total)
        if size < 1:
            raise ValueError(f"{size} draws; want >= 1")
        amount = self.terms.draws_amount(slope, total, size)
        scores = Scores.up_to_a_factor(slope, tilt, total)
        request = _Request(("sample", queries.digest(), scores.slope.hex(), tilt.digest(), total, size))

        def draw() -> NDArray[np.int64]:
            return weighted_sampler.draw(scores, self._exact.counted(queries), size)  # SENSITIVE

        return self._answer(f"draw {size:,} from {queries.description}", request, amount, draw)

    def retain(
        self, queries: CountingQueries, drawn: NDArray[np.int64], slope: Fraction, tilt: LogWeights, total: int
    ) -> NDArray[np.bool_]:
        """Acceptance bits of DQRS: an exact bit for each drawn index, 1 with probability exp(slope c / total + tilt).

        queries: As for ``sample``; c is the exact count of a query or complement, clamped to [0, total].
        drawn: Public indices into queries and complements, as ``sample`` returns them, int64 [s]. Each entry gets a bit
            of its own, also where an index comes twice.
        slope: As for ``sample``.
        tilt: As for ``sample``.
        total: As for ``sample``.

        Returns: bool [s]. All s bits are charged before any is drawn, whether they accept or not. A bit costs less, the
            further its largest possible exponent lies below 0 (``PrivacyTerms.retain_amount`` has the proof).

        Raises: ValueError when the largest possible exponent of any query or complement is above -SMALLEST_GAP, or when
            a unit may hold several rows.

        Source: Vietri, Tian, Bun, Steinke and Wu (2020), Algorithm 4.
        """
        slope, total = plain_fraction("slope", slope), plain_integer("total", total)
        self._check_tilted("retain", queries, tilt, total)
        if drawn.dtype != np.int64 or drawn.ndim != 1 or not drawn.size:
            raise ValueError(f"drawn indices are {drawn.dtype} {drawn.shape}; want int64, one or more in a vector")
        drawn = frozen(drawn, np.int64)
        if drawn.min() < 0 or drawn.max() >= 2 * queries.size:
            raise ValueError(f"a drawn index is none of the queries; want 0 .. {2 * queries.size - 1}")
        scores = Scores.of(slope, tilt, total)
        amount = self.terms.retain_amount(slope, total, _gaps(slope, tilt, drawn))
        request = _Request(("retain", queries.digest(), scores.slope.hex(), tilt.digest(), total, _digest(drawn)))

        def draw() -> NDArray[np.int64]:
            exact = self._exact.counted(queries)  # SENSITIVE
            return bernoulli.bits(*weighted_sampler.split_weights(scores, exact, drawn))

        return self._answer(f"retain some of {drawn.size:,} draws", request, amount, draw).astype(np.bool_)

    def _check_tilted(self, verb: str, queries: CountingQueries, tilt: LogWeights, total: int) -> None:
        if answer_sensitivity(self.terms.unit) != 1:
            raise ValueError(f"{verb} needs units that hold one row or one basket; want max_rows_per_unit: 1")
        check_queries(queries)
        if not isinstance(queries, CountingQueries):
            raise TypeError(f"{verb} of {type(queries).__name__}; want queries that count units")
        if isinstance(queries, Marginals):
            marginal_l1_sensitivity(self.terms.unit)  # Refuses baskets.
        if type(tilt) is not LogWeights:
            raise TypeError(f"tilt of type {type(tilt).__name__}; want LogWeights")
        if tilt.size != queries.size or total < 1:
            raise ValueError(f"a tilt of {tilt.size:,} queries, total {total}; want {queries.size:,} and >= 1")

    def _answer(
        self, label: str, request: _Request, amount: Fraction, draw: Callable[[], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Charge, then replay or draw, then remember, then answer; one call at a time.

        Raises RuntimeError for a call from another thread, or from a progress callback, while one is under way: the
        order of answers, and the sum of charges, would depend on luck.
        """
        digest = hashlib.sha256(json.dumps(request.parts).encode()).hexdigest()
        if not self._at_work.acquire(blocking=False):
            raise RuntimeError(f"{label}: another call of the kernel is under way; want one at a time")
        try:
            index = self._answers
            self._filter.charge(label, amount, request.scale)
            answer = self._journal.recall(index, digest)
            if answer is None:
                answer = draw()
                self._journal.record(index, digest, answer)
            self._answers += 1
            return answer
        finally:
            self._at_work.release()


@dataclass(frozen=True)
class _Request:
    """What a call asks, public. parts: What the journal knows it by. scale: Of its noise, as its charge names it."""

    parts: tuple[str | int, ...]
    scale: float | None = None


def _gaps(slope: Fraction, tilt: LogWeights, drawn: NDArray[np.int64]) -> Counter[Fraction]:
    """How far below 0 the largest possible exponent of each drawn index lies, and how many draws share it; exact."""
    step, largest = Fraction(tilt.step), max(slope, Fraction(0)) + Fraction(tilt.constant)
    fewest = min(int(tilt.hits.min()), tilt.done - int(tilt.hits.max()))
    if -(largest + Fraction(tilt.prior_span[1]) - step * fewest) < SMALLEST_GAP:
        raise ValueError("an acceptance chance may pass exp(-2^-20); want slope + tilt below -gamma < 0")
    indices = drawn % tilt.size
    hits = tilt.hits[indices].astype(np.int64)
    hits = np.where(drawn < tilt.size, hits, tilt.done - hits)
    prior = np.zeros(drawn.size) if tilt.prior is None else tilt.prior[indices]
    times = Counter(zip(prior.tolist(), hits.tolist(), strict=True))
    gaps: Counter[Fraction] = Counter()
    for (log_weight, hit), bits in times.items():
        gaps[-(largest + Fraction(log_weight) - step * hit)] += bits
    return gaps


def _check_range(steps: NDArray[np.int64], noise: Noise) -> None:
    """Of noisy answers, which are public: what is cut off, at 2^62 answers or 2^63 steps, is at least 2^61 with noise.

    No count comes near; products of large entries about very many rows may.
    """
    if steps.size and max(int(steps.max()), -int(steps.min())) >= _LARGEST_STEPS:
        finer = "; zCDP would leave them 10 bits more" if noise is Noise.ROUNDED_GAUSSIAN else ""
        raise CutOffError(
            "a noisy answer reached 2^61 steps of its noise, where answers are cut off; want a strategy of smaller "
            f"integers, such as strategy: parts of mechanism hdmm{finer}"
        )


def _digest(*arrays: NDArray[np.generic]) -> str:
    content = hashlib.sha256()
    for array in arrays:
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()
