"""Errors of a release against exact answers, beside what trivial answers would give. SENSITIVE, offline only."""

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
    """Absolute errors of answers, as fractions of the total.

    total_variation: Mean over cliques of half the L1 distance of a marginal; None for other queries.
    """

    max: float
    mean: float
    rms: float
    total_variation: float | None


def exact_answers(statistics: Statistics, queries: Queries | UnitCount) -> NDArray[np.int64]:
    """Exact int64 answers [queries.size]; of products the integers before their denominator. SENSITIVE."""
    match queries:
        case UnitCount():
            return statistics.aggregate(queries)
        case Products():
            marginals = queries.marginals
            tables = marginals.split(statistics.aggregate(QueryAnswers(marginals)))
            by_clique = dict(zip(marginals.cliques, (np.asarray(table, np.int64) for table in tables), strict=True))
            largest = max(int(table.sum()) for table in by_clique.values())
            return queries.of_tables([by_clique[term.clique] for term in queries.terms], largest)
        case _:
            return statistics.aggregate(QueryAnswers(queries))


def errors(queries: Queries, answers: NDArray[np.float64], exact: NDArray[np.int64], total: float) -> Errors:
    """Errors of ``answers`` in counts against ``exact``, both [queries.size], divided by ``total`` rows or units."""
    difference = np.abs(answers - exact) / total
    variation = None
    if isinstance(queries, Marginals):
        variation = float(np.mean([table.sum() / 2 for table in queries.split(difference)]))
    return Errors(float(difference.max()), float(difference.mean()), float(np.sqrt((difference**2).mean())), variation)


def workload_error(workload: Workload, answers: NDArray[np.float64], exact: NDArray[np.int64], total: float) -> float:
    """The weighted error of a workload: (1 / (k total)) sum over its k parts of weight * L1 distance, with no half.

    answers: The answers to compare, in counts, float64 [queries.size].
    exact: The exact answers, in counts, [queries.size]. A part is a clique, a term of products, or one other query.

    Source: thesis of McKenna (2022), Definition 26; for products M_r is followed by the term's matrix.
    """
    distance = np.abs(answers - exact)
    return float((cell_weights(workload) * distance).sum() / (workload.weights.size * total))


def normalised_error(queries: Marginals | Products, answers: NDArray[np.float64], exact: NDArray[np.int64]) -> float:
    """Mean over terms (or cliques) of L1 distance / (2 * L1 norm of the exact answers).

    answers: The answers to compare, in counts, float64 [queries.size].
    exact: The exact answers, in counts, [queries.size]. A norm of 0 is taken as 1.

    Source: thesis of McKenna (2022), section 4.6.1, Error(mu, mu hat).
    """
    starts = np.concatenate([[0], np.cumsum(part_sizes(queries))[:-1]])
    distances = np.add.reduceat(np.abs(answers - exact), starts)
    norms = np.maximum(1, np.add.reduceat(np.abs(exact), starts))
    return float((distances / (2 * norms)).mean())


def baselines(queries: Queries, statistics: Statistics, total: float) -> dict[str, NDArray[np.float64]]:
    """Answers in counts that need no mechanism: all zeros, uniform records, product of exact one-way marginals."""
    view, domain = _columns(queries)
    uniform = _uniform(view)
    one_way = exact_answers(statistics, _one_way(queries))
    probabilities = np.clip(one_way / total, 0.0, 1.0)
    return {
        "zeros": np.zeros(queries.size),
        "uniform": IndependentModel(view, uniform, total, domain).answer(queries),
        "product": IndependentModel(view, probabilities, total, domain).answer(queries),
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


def _columns(queries: Queries) -> tuple[BinaryView, Domain | None]:
    if isinstance(queries, Conjunctions | Parities):
        return queries.view, None
    return BinaryView.one_hot(queries.domain), queries.domain


def _one_way(queries: Queries) -> CountingQueries:
    if isinstance(queries, Conjunctions | Parities):
        return Conjunctions.single_columns(queries.view)
    return Marginals(queries.domain, tuple((name,) for name in queries.domain.names))


def _uniform(view: BinaryView) -> NDArray[np.float64]:
    if not view.groups:
        return np.full(view.columns, 0.5)
    return np.concatenate([np.full(stop - start, 1 / (stop - start)) for start, stop in view.groups])
