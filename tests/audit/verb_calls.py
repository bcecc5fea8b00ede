"""The kernel's verbs with arguments that nobody would choose, each call chosen from the answers before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import Candidates, Generalised, L1Error, LinearL1Error, MutualInformation, RScore, Score
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, silent
from dpcore.queries import (
    ClippedSums,
    Conjunctions,
    CountingQueries,
    Marginals,
    Product,
    Products,
    SatisfactionHistogram,
    UnitCount,
)
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

Answer = NDArray[np.generic]
_CALLS = 3


@dataclass(frozen=True)
class VerbCalls:
    """A mechanism that calls one verb a few times."""

    verb: Literal[
        "measure", "measure_rows", "measure_clipped", "measure_errors", "select", "select_linear",
        "select_generalised", "select_r", "select_information", "sample", "retain",
    ]  # fmt: skip

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        return Plan((), _CALLS, 0, None)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        answers: list[Answer] = []
        measured: list[Measurement] = []
        for done in range(_CALLS):
            # What comes back decides what is asked next, as in every adaptive mechanism.
            told = int(abs(np.sum(answers[-1])) * 64) % 2**32 if answers else 0
            draw = np.random.default_rng([told, int(generator.integers(2**32))])
            answers.append(np.atleast_1d(getattr(self, f"_{self.verb}")(private, workload, draw)))
            progress(done + 1, _CALLS)
        return Release(workload, of_model(np.concatenate(answers).astype(np.float64)), None, tuple(measured))

    def _measure(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        queries = workload.queries
        asked = [queries, *([UnitCount()] if private.terms.unit.units is None else [])]
        if isinstance(queries, Marginals):
            asked += [
                queries.only([queries.cliques[0]]),
                queries.only([(), *queries.cliques]),
                _strategy(queries, draw),
            ]
        elif isinstance(queries, Conjunctions):
            asked.append(Conjunctions.single_columns(queries.view))
        return private.measure(asked[int(draw.integers(len(asked)))], Fraction(1, _CALLS)).values

    def _measure_rows(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        """Some rows of any matrix of one of the workload's attributes."""
        queries = workload.queries
        assert isinstance(queries, Marginals)
        clique = max(queries.cliques, key=len)
        matrices = tuple(_matrix(size, draw) for size in queries.domain.shape(clique))
        axis = int(draw.integers(len(clique)))
        strategy = Products(queries.domain, (Product(clique, matrices),), int(draw.choice([1, 1024])))
        first = int(draw.choice(np.flatnonzero(matrices[axis].any(axis=1))))  # Rows of zeros alone are refused.
        rows = range(first, int(draw.integers(first, len(matrices[axis]))) + 1)
        step = matrices[axis].shape[1] - 1
        return private.measure_rows(strategy, clique[axis], step, rows, Fraction(1, _CALLS)).values

    def _measure_clipped(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        """The histogram, or sums with the weights of a clip or with any others, over groups or none."""
        queries = _positive(workload, draw)
        groups = np.unique(draw.integers(0, 3, size=queries.size), return_inverse=True)[1].astype(np.int32)
        count, most = int(groups.max()) + 1, queries.size
        weights = draw.integers(0, 1 << 17, size=(count, most + 1)) + 1
        clips, norm = draw.choice([0.5, 1.0, 2.0], size=count).tolist(), int(draw.integers(1, 3))
        asked = [
            SatisfactionHistogram(queries, groups),
            SatisfactionHistogram(queries),
            SatisfactionHistogram(queries, None, np.unique([0, *draw.integers(1, most + 1, size=3)])),
            ClippedSums(queries, weights, groups),
            ClippedSums.of(queries, clips, groups, norm=norm),
        ]
        return private.measure(asked[int(draw.integers(len(asked)))], Fraction(1, _CALLS)).values

    def _measure_errors(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        queries = workload.queries
        assert isinstance(queries, Marginals)
        return private.measure_errors(queries, _estimate(queries.size, draw), Fraction(1, _CALLS)).values

    def _select(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        queries = workload.queries
        assert isinstance(queries, Marginals)
        return _selected(private, queries, L1Error(*_parts(queries.size, len(queries.cliques), draw)))

    def _select_linear(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        queries = _candidates(workload, draw)
        return _selected(private, queries, LinearL1Error(*_parts(queries.size, len(queries.terms), draw)))

    def _select_generalised(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        t, queries = float(draw.exponential()), workload.queries
        if draw.random() < 0.5:
            linear = _candidates(workload, draw)
            score = LinearL1Error(*_parts(linear.size, len(linear.terms), draw))
            return _selected(private, linear, Generalised(score, t))
        assert isinstance(queries, Marginals)
        score_of_tables = L1Error(*_parts(queries.size, len(queries.cliques), draw))
        return _selected(private, queries, Generalised(score_of_tables, t))

    def _select_r(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        candidates, children = _families(workload, draw)
        return _selected(private, candidates, RScore(children))

    def _select_information(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        candidates, children = _families(workload, draw)
        return _selected(private, candidates, MutualInformation(children))

    def _sample(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        queries, total, size = _counting(workload), _total(private, draw), int(draw.integers(1, 6))
        tilt = _tilt(queries, draw, 0.0)
        slope = _affordable(private, draw, lambda slope: private.terms.draws_amount(slope, total, size))
        return private.sample(queries, slope, tilt, total, size)

    def _retain(self, private: PrivateStatistics, workload: Workload, draw: Generator) -> Answer:
        queries, total = _counting(workload), _total(private, draw)
        drawn = draw.integers(0, 2 * queries.size, size=int(draw.integers(1, 6)))
        gap = float(draw.choice([0.01, 0.7, 5.0]))

        def cost(slope: Fraction) -> Fraction:
            # Every chance is at most exp(-gap): no bit costs more than one with that chance.
            return private.terms.retain_amount(slope, total, Counter({Fraction(gap) / 2: drawn.size}))

        slope = _affordable(private, draw, cost)
        return private.retain(queries, drawn, slope, _tilt(queries, draw, -gap - max(0.0, float(slope))), total)


def _positive(workload: Workload, draw: Generator) -> Conjunctions:
    """The conjunctions of a workload without their negations, some of them several times."""
    queries = workload.queries
    assert isinstance(queries, Conjunctions)
    columns = queries.columns[draw.integers(0, queries.size, size=queries.size + 3)]
    return Conjunctions(queries.view, columns, np.zeros_like(columns, dtype=np.bool_))


def _selected(private: PrivateStatistics, candidates: Candidates, score: Score) -> Answer:
    return np.array([private.select(candidates, score, Fraction(1, _CALLS))])


def _estimate(size: int, draw: Generator) -> NDArray[np.float64]:
    return np.asarray(draw.normal(scale=10.0, size=size) * float(draw.random() < 0.8))


def _parts(size: int, candidates: int, draw: Generator) -> tuple[NDArray[np.float64], ...]:
    """Estimate, weights and penalties of an L1 score."""
    weights = np.ones(candidates) if draw.random() < 0.5 else draw.choice([0.01, 1.0, 3.0], size=candidates)
    return _estimate(size, draw), weights, draw.normal(scale=5.0, size=candidates)


def _candidates(workload: Workload, draw: Generator) -> Products:
    """Integer matrices on every clique of the workload, and the number of rows."""
    queries = workload.queries
    assert isinstance(queries, Marginals)
    terms = [
        Product(clique, tuple(_matrix(size, draw) for size in queries.domain.shape(clique)), int(draw.integers(1, 4)))
        for clique in (*queries.cliques, ())
    ]
    return Products(queries.domain, tuple(terms), int(draw.choice([1, 1024])))


def _families(workload: Workload, draw: Generator) -> tuple[Marginals, tuple[str, ...]]:
    """Each clique of the workload and all of its attributes together, with a child drawn from each."""
    queries = workload.queries
    assert isinstance(queries, Marginals)
    candidates = queries.only([*filter(None, queries.cliques), queries.domain.names[:3]])
    return candidates, tuple(str(draw.choice(clique)) for clique in candidates.cliques)


def _strategy(queries: Marginals, draw: Generator) -> Products:
    """A few integer matrices on the workload's cliques."""
    terms = [
        Product(clique, tuple(_matrix(size, draw) for size in queries.domain.shape(clique)), int(draw.integers(1, 4)))
        for clique in queries.cliques[:2]
    ]
    return Products(queries.domain, tuple(terms), int(draw.choice([1, 1024])))


def _matrix(size: int, draw: Generator) -> NDArray[np.int64]:
    matrix = draw.integers(-3, 4, size=(int(draw.integers(1, 4)), size))
    matrix[0, 0] = 1
    return matrix


def _counting(workload: Workload) -> CountingQueries:
    assert isinstance(workload.queries, CountingQueries)
    return workload.queries


def _tilt(queries: CountingQueries, draw: Generator, highest: float) -> LogWeights:
    """Log-weights of at most ``highest``, with a prior or without."""
    done = int(draw.integers(0, 4))
    prior = -draw.exponential(3.0, size=queries.size) if draw.random() < 0.5 else None
    return LogWeights(float(draw.exponential()), draw.integers(0, done + 1, size=queries.size), done, prior, highest)


def _total(private: PrivateStatistics, draw: Generator) -> int:
    """The public number, or one that may be far from the truth: the kernel has to clamp."""
    return private.terms.unit.units or int(draw.choice([1, 4, 30]))


def _affordable(private: PrivateStatistics, draw: Generator, cost: Callable[[Fraction], Fraction]) -> Fraction:
    """A slope of either sign that takes at most half of what is left."""
    slope = Fraction(float(draw.choice([1.0, -1.0, 20.0])) * float(draw.exponential()))
    while cost(slope) > private.remaining_share * private.terms.budget.amount / 2:
        slope = slope / 2 if abs(slope) > Fraction(1, 2**20) else Fraction(0)
    return slope
