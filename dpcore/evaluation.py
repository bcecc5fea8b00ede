"""Errors of a release against exact answers, beside what trivial answers would give. SENSITIVE, offline only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.estimation.independent import IndependentModel
from dpcore.exact_statistics import QueryAnswers, Statistics
from dpcore.queries import Conjunctions, CountingQueries, Marginals, UnitCount


@dataclass(frozen=True)
class Errors:
    """Absolute errors of answers, as fractions of the total.

    total_variation: Mean over cliques of half the L1 distance of a marginal; None for conjunctions.
    """

    max: float
    mean: float
    rms: float
    total_variation: float | None


def exact_answers(statistics: Statistics, queries: CountingQueries | UnitCount) -> NDArray[np.int64]:
    """Exact int64 answers [queries.size]. SENSITIVE."""
    return statistics.aggregate(queries if isinstance(queries, UnitCount) else QueryAnswers(queries))


def errors(queries: CountingQueries, answers: NDArray[np.float64], exact: NDArray[np.int64], total: float) -> Errors:
    """Errors of ``answers`` in counts against ``exact``, both [queries.size], divided by ``total`` rows or units."""
    difference = np.abs(answers - exact) / total
    variation = None
    if isinstance(queries, Marginals):
        variation = float(np.mean([table.sum() / 2 for table in queries.split(difference)]))
    return Errors(float(difference.max()), float(difference.mean()), float(np.sqrt((difference**2).mean())), variation)


def baselines(queries: CountingQueries, statistics: Statistics, total: float) -> dict[str, NDArray[np.float64]]:
    """Answers in counts that need no mechanism: all zeros, uniform records, product of exact one-way marginals."""
    view, domain = _columns(queries)
    uniform = _uniform(view)
    one_way = exact_answers(statistics, _one_way(queries))
    chances = np.clip(one_way / total, 0.0, 1.0)
    return {
        "zeros": np.zeros(queries.size),
        "uniform": IndependentModel(view, uniform, total, domain).answer(queries),
        "product": IndependentModel(view, chances, total, domain).answer(queries),
    }


def relative_entropy(exact: NDArray[np.int64], model: NDArray[np.float64]) -> float:
    """RE(B || A) = sum of B log(B / A) / n over the cells of B, in nats; both scaled to sum 1.

    Source: Hardt, Ligett and McSherry (2012), section 3.2.
    """
    present = exact > 0
    b = exact[present] / exact.sum()
    a = model[present] / model.sum()
    with np.errstate(divide="ignore"):  # Infinite where the model excludes what exists.
        return float((b * np.log(b / a)).sum())


def _columns(queries: CountingQueries) -> tuple[BinaryView, Domain | None]:
    if isinstance(queries, Marginals):
        return BinaryView.one_hot(queries.domain), queries.domain
    return queries.view, None


def _one_way(queries: CountingQueries) -> CountingQueries:
    if isinstance(queries, Marginals):
        return queries.only([(name,) for name in queries.domain.names])
    return Conjunctions.single_columns(queries.view)


def _uniform(view: BinaryView) -> NDArray[np.float64]:
    if not view.groups:
        return np.full(view.columns, 0.5)
    return np.concatenate([np.full(stop - start, 1 / (stop - start)) for start, stop in view.groups])
