"""The verbs through which everything private passes. TRUSTED."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.exact_statistics import Statistics
from dpcore.kernel import weighted_sampler
from dpcore.kernel.budget import Budget, Charge, Filter
from dpcore.kernel.exact_answers import ExactAnswers
from dpcore.kernel.noise import add_noise, noisy_argmax
from dpcore.kernel.ports import Journal, Ledger
from dpcore.kernel.scores import L1Error
from dpcore.kernel.sensitivity import PrivacyUnit, answer_sensitivity
from dpcore.kernel.terms import Terms
from dpcore.measurement import Measurement
from dpcore.queries import Conjunctions, Marginals, Queries, UnitCount


@final
class PrivateStatistics:
    """Exact statistics behind a privacy filter.

    Formal guarantees, for the neighbours of ``unit``:
        * The joint law of everything returned is epsilon-DP or rho-zCDP for the amount of ``budget``, whatever the
          caller does between calls, provided that the statistics keep their declared contribution.
        * The whole budget is reserved in the ledger before anything is asked of the data.
        * A call is charged before it draws; a call that is refused draws nothing, one that fails later returns nothing.
        * An answer is durable in the journal before it is returned; asked again in the same order, it is the same.
    """

    def __init__(
        self, statistics: Statistics, *, unit: PrivacyUnit, budget: Budget, ledger: Ledger, journal: Journal
    ) -> None:
        if statistics.contribution != unit.contribution:
            raise ValueError(f"statistics enforce {statistics.contribution}; want {unit.contribution} as declared")
        self.terms = Terms(unit, budget)
        self._filter = Filter(budget)
        self._exact = ExactAnswers(statistics)  # SENSITIVE
        self._journal = journal
        self._answers = 0
        ledger.reserve(budget)

    @property
    def remaining_share(self) -> Fraction:
        """What is left of the budget, as a fraction of all of it."""
        return self._filter.remaining / self.terms.budget.amount

    @property
    def charges(self) -> tuple[Charge, ...]:
        return tuple(self._filter.charges)

    def expect(self, queries: Queries) -> None:
        """Announces queries that later calls will ask, so that one pass over the data answers them all. Free."""
        self._exact.expect(queries)

    def measure(self, queries: Queries | UnitCount, share: Fraction) -> Measurement:
        """Answers plus exact noise: discrete Laplace under pure DP, discrete Gaussian under zCDP."""
        amount = self.terms.amount(share)
        scale = self.terms.measure_scale(queries, share)
        noise = self.terms.noise
        request = ["measure", queries.digest(), noise.value, scale.hex()]
        label = f"measure {queries.description}"
        values = self._answer(label, request, amount, lambda: add_noise(self._exact.of(queries), noise, scale))
        return Measurement(queries, values, noise, scale)

    def select(self, candidates: Marginals, score: L1Error, share: Fraction) -> int:
        """Index of a clique whose score is nearly the largest: the exponential mechanism by exact noisy maximum."""
        if type(score) is not L1Error:
            raise TypeError(f"score of type {type(score).__name__}; want L1Error, whose sensitivity is proved")
        score.check(candidates)
        amount = self.terms.amount(share)
        scale = self.terms.select_scale(score, share)
        request = ["select", candidates.digest(), _digest(*score.public_parts()), scale.hex()]

        def draw() -> NDArray[np.int64]:
            scores = score.scores(candidates, self._exact.of(candidates))  # SENSITIVE
            return np.array([noisy_argmax(scores, self.terms.budget.currency, scale)], dtype=np.int64)

        return int(self._answer(f"select from {candidates.description}", request, amount, draw)[0])

    def sample(
        self, queries: Conjunctions, slope: Fraction, offsets: NDArray[np.float64], total: int, size: int
    ) -> NDArray[np.int64]:
        """Independent draws of queries and complements with chances exp(slope * c / total + offset).

        queries: m conjunctions; c is the exact count of one, or of units that do not satisfy it (its complement),
            clamped so that c / total is in [0, 1].
        offsets: float64 [2 m], public; first of the queries, then of the complements.
        total: n0, the public or already noisy number of units.
        size: Number of draws.

        Returns int64 [size]: i < m for query i, m + i for its complement.

        Raises ValueError when a unit may hold several rows: then a complement has no proof.
        """
        if answer_sensitivity(self.terms.unit) != 1:
            raise ValueError("sample needs units that hold one row or one basket; want max_rows_per_unit: 1")
        if offsets.shape != (2 * queries.size,) or total < 1 or size < 1:
            raise ValueError(f"offsets {offsets.shape}, total {total}, size {size}; want ({2 * queries.size},), >= 1")
        amount = self.terms.draws_amount(slope, total, size)
        per_count = float(slope) / math.log(2.0) / total
        powers = np.asarray(offsets, dtype=np.float64) / math.log(2.0)
        powers -= powers.max()
        weighted_sampler.check_scores(per_count, total, powers)
        request: list[str | int] = ["sample", queries.digest(), per_count.hex(), _digest(powers), total, size]

        def draw() -> NDArray[np.int64]:
            counts = self._exact.with_complements(queries, total)  # SENSITIVE
            return weighted_sampler.draw(per_count, counts, powers, size)

        return self._answer(f"draw {size:,} from {queries.description}", request, amount, draw)

    def _answer(
        self, label: str, request: Sequence[str | int], amount: Fraction, draw: Callable[[], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Charge, then replay or draw, then remember, then answer."""
        digest = hashlib.sha256(json.dumps(request).encode()).hexdigest()
        index = self._answers
        self._filter.charge(label, amount)
        answer = self._journal.recall(index, digest)
        if answer is None:
            answer = draw()
            self._journal.record(index, digest, answer)
        self._answers += 1
        return answer


def _digest(*arrays: NDArray[np.generic]) -> str:
    content = hashlib.sha256()
    for array in arrays:
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()
