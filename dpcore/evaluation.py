"""Errors of released answers against exact answers, and of trivial baselines. SENSITIVE: for offline use only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.estimation.independent import IndependentModel
from dpcore.exact_statistics import QueryAnswers, Statistics
from dpcore.queries import Conjunctions, CountingQueries, Marginals, Parities, Products, Queries, UnitCount
from dpcore.workload import Workload, cell_weights, part_sizes


@dataclass(frozen=True)
class Errors:
    """Absolute errors of answers, as fractions of the total number of rows or units.

    max: Largest error of an answer.
    mean: Mean error of an answer.
    rms: Root-mean-square error of an answer.
    total_variation: Mean over cliques of the total variation distance, half the L1 distance of a marginal to the exact
        one. None for queries other than marginals.
    """

    max: float
    mean: float
    rms: float
    total_variation: float | None


def exact_answers(statistics: Statistics, queries: Queries | UnitCount) -> NDArray[np.int64]:
    """Exact answers, int64 [queries.size]; for products the integers before division by the denominator. SENSITIVE."""
    match queries:
        case UnitCount():
            return statistics.aggregate(queries)
        case Products():
            marginals = queries.marginals
            tables = marginals.split(statistics.aggregate(QueryAnswers(marginals)))
            by_clique = dict(zip(marginals.cliques, (np.asarray(table, np.int64) for table in tables), strict=True))
            rows = max(int(table.sum()) for table in by_clique.values())
            return queries.of_tables([by_clique[term.clique] for term in queries.terms], rows)
        case _:
            return statistics.aggregate(QueryAnswers(queries))


def errors(queries: Queries, answers: NDArray[np.float64], exact: NDArray[np.int64], total: float) -> Errors:
    """Errors of answers against exact answers.

    answers: In counts, float64 [queries.size].
    exact: In counts, int64 [queries.size]. SENSITIVE.
    total: Number of rows or units by which the errors are divided.
    """
    difference = np.abs(answers - exact) / total
    variation = None
    if isinstance(queries, Marginals):
        variation = float(np.mean([table.sum() / 2 for table in queries.split(difference)]))
    return Errors(float(difference.max()), float(difference.mean()), float(np.sqrt((difference**2).mean())), variation)


def workload_error(workload: Workload, answers: NDArray[np.float64], exact: NDArray[np.int64], total: float) -> float:
    """Weighted error of a workload: the sum over its k parts of weight * L1 distance, divided by k * total.

    A part is a clique, a term of products, or one query of another kind. The L1 distance is not halved.

    answers: In counts, float64 [queries.size].
    exact: In counts, int64 [queries.size]. SENSITIVE.
    total: Number of rows or units.

    Source: thesis of McKenna (2022), Definition 26. For products, the matrix of the term is applied to the marginal.
    """
    distance = np.abs(answers - exact)
    return float((cell_weights(workload) * distance).sum() / (workload.weights.size * total))


def normalised_error(queries: Marginals | Products, answers: NDArray[np.float64], exact: NDArray[np.int64]) -> float:
    """Mean over cliques, or over terms of products, of L1 distance / (2 * L1 norm of the exact answers).

    answers: In counts, float64 [queries.size].
    exact: In counts, int64 [queries.size]. A norm of 0 is replaced by 1. SENSITIVE.

    Source: thesis of McKenna (2022), section 4.6.1, Error(mu, mu hat).
    """
    starts = np.concatenate([[0], np.cumsum(part_sizes(queries))[:-1]])
    distances = np.add.reduceat(np.abs(answers - exact), starts)
    norms = np.maximum(1, np.add.reduceat(np.abs(exact), starts))
    return float((distances / (2 * norms)).mean())


def baselines(queries: Queries, statistics: Statistics, total: float) -> dict[str, NDArray[np.float64]]:
    """Answers of three baselines without a mechanism, in counts, float64 [queries.size] each. SENSITIVE.

    zeros: 0 for every query.
    uniform: Records with uniformly distributed, independent attributes or items.
    product: Records with independent attributes or items, whose distributions are the exact one-way marginals.

    total: Number of rows or units.
    """
    view, domain = _columns(queries)
    uniform = _uniform(view)
    one_way = exact_answers(statistics, _one_way(queries))
    probabilities = np.clip(one_way / total, 0.0, 1.0)
    return {
        "zeros": np.zeros(queries.size),
        "uniform": IndependentModel(view, uniform, total, domain).answer(queries),
        "product": IndependentModel(view, probabilities, total, domain).answer(queries),
    }


def _columns(queries: Queries) -> tuple[BinaryView, Domain | None]:
    """The binary view of the queries, and their domain if they have attributes."""
    if isinstance(queries, Conjunctions | Parities):
        return queries.view, None
    return BinaryView.one_hot(queries.domain), queries.domain


def _one_way(queries: Queries) -> CountingQueries:
    """The one-way marginals, or the single columns of a binary view."""
    if isinstance(queries, Conjunctions | Parities):
        return Conjunctions.single_columns(queries.view)
    return Marginals(queries.domain, tuple((name,) for name in queries.domain.names))


def _uniform(view: BinaryView) -> NDArray[np.float64]:
    """Probability of a 1 in each column for uniform attributes or items, float64 [columns]."""
    if not view.groups:
        return np.full(view.columns, 0.5)
    return np.concatenate([np.full(stop - start, 1 / (stop - start)) for start, stop in view.groups])
