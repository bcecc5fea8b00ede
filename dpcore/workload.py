"""What the analyst wants answered, and how much each answer matters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.queries import Conjunctions, Marginals, Parities, Products, Queries

LARGEST_CLOSURE = 100_000
LARGEST_CLIQUES = 1_000_000
_LEAST_WEIGHT = 2.0**-40


@dataclass(frozen=True, eq=False)
class Workload:
    """Queries with weights.

    queries: Marginals, conjunctions or parities, or products that count: matrices of 0 and 1, no weight but 1.
    weights: float64, one a clique (marginals), a term (products) or a query (conjunctions, parities); positive.
    """

    queries: Queries
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        if isinstance(self.queries, Products):
            _check_counting(self.queries)
        weights = np.ascontiguousarray(self.weights, dtype=np.float64)
        wanted = len(part_sizes(self.queries)) if isinstance(self.queries, Marginals | Products) else self.queries.size
        if weights.shape != (wanted,):
            raise ValueError(f"weights have shape {weights.shape}; want ({wanted},)")
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError("a workload weight is not a positive finite number; want > 0")
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)


def conjunctive(queries: Conjunctions | Parities) -> Workload:
    """Conjunctions or parities of equal weight."""
    return Workload(queries, np.ones(queries.size))


def linear(queries: Products) -> Workload:
    """Products of equal weight."""
    return Workload(queries, np.ones(len(queries.terms)))


def part_sizes(queries: Marginals | Products) -> tuple[int, ...]:
    """Answers of each part that has a weight of its own, in order: cells of a clique, answers of a term."""
    return queries.sizes if isinstance(queries, Marginals) else tuple(term.size for term in queries.terms)


def cell_weights(workload: Workload) -> NDArray[np.float64]:
    """One weight an answer, float64 [queries.size]: every cell of a marginal has the weight of its clique."""
    if isinstance(workload.queries, Marginals | Products):
        return np.repeat(workload.weights, part_sizes(workload.queries))
    return workload.weights


def relative(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Parts of the largest weight, none of them 0."""
    return np.asarray(np.maximum(weights / weights.max(), _LEAST_WEIGHT))


def added_weights(workload: Workload, power: int) -> dict[Clique, float]:
    """How much |error|^power of each marginal matters: that power of relative weights, those of one clique added."""
    assert isinstance(workload.queries, Marginals)
    weights = dict.fromkeys(workload.queries.cliques, 0.0)
    for clique, weight in zip(workload.queries.cliques, relative(workload.weights).tolist(), strict=True):
        weights[clique] += weight**power
    return weights


def explicit(domain: Domain, weights: Mapping[Clique, float]) -> Workload:
    """Named cliques with their weights; cliques that name one set of attributes add up."""
    merged: dict[Clique, float] = {}
    for clique, weight in weights.items():
        name = domain.canonical(clique)
        merged[name] = merged.get(name, 0.0) + weight
    return Workload(Marginals(domain, tuple(merged)), np.array(list(merged.values())))


def all_k_way(domain: Domain, order: int, attributes: Sequence[str] | None = None) -> Workload:
    """Every marginal of ``order`` attributes out of ``attributes`` (all when None), with weight 1."""
    names = domain.canonical(domain.names if attributes is None else attributes)
    _check_order(order, len(names))
    _check_cliques(math.comb(len(names), order), LARGEST_CLIQUES)
    return explicit(domain, dict.fromkeys(combinations(names, order), 1.0))


def target(domain: Domain, order: int, attribute: str) -> Workload:
    """Every marginal of ``order`` attributes that contains ``attribute`` (thesis, section 5.3), with weight 1."""
    _check_order(order, len(domain.names))
    _check_cliques(math.comb(len(domain.names) - 1, order - 1), LARGEST_CLIQUES)
    others = [name for name in domain.names if name != domain.names[domain.index(attribute)]]
    return explicit(domain, {(attribute, *rest): 1.0 for rest in combinations(others, order - 1)})


def skewed(domain: Domain, order: int, count: int, generator: np.random.Generator) -> Workload:
    """``count`` random marginals that favour some attributes (thesis, section 5.3).

    Attributes are drawn without replacement with chances proportional to squared exponential variables; a clique that
    is drawn again gains weight 1.
    """
    _check_order(order, len(domain.names))
    probabilities = generator.exponential(size=len(domain.names)) ** 2
    probabilities /= probabilities.sum()
    drawn: dict[Clique, float] = {}
    for _ in range(count):
        chosen = generator.choice(len(domain.names), size=order, replace=False, p=probabilities)
        clique = domain.canonical(domain.names[axis] for axis in chosen)
        drawn[clique] = drawn.get(clique, 0.0) + 1.0
    return explicit(domain, drawn)


def downward_closure(cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """Every non-empty subset of the cliques, small ones first, each once, attributes in the given order."""
    closure: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        _check_cliques(2 ** len(clique) - 1, LARGEST_CLOSURE)
        for order in range(1, len(clique) + 1):
            for subset in combinations(clique, order):
                closure.setdefault(frozenset(subset), subset)
        _check_cliques(len(closure), LARGEST_CLOSURE)
    return tuple(sorted(closure.values(), key=lambda clique: (len(clique), clique)))


def _check_counting(queries: Products) -> None:
    if queries.denominator != 1 or any(term.weight != 1 for term in queries.terms):
        raise ConfigError("a workload of products with a weight or a denominator; want 1, and weights of the workload")
    if any(((matrix != 0) & (matrix != 1)).any() for term in queries.terms for matrix in term.matrices):
        raise ConfigError("a workload of products has an entry that is neither 0 nor 1; want queries that count rows")


def _check_order(order: int, attributes: int) -> None:
    if not 1 <= order <= attributes:
        raise ValueError(f"order {order} over {attributes} attributes; want 1 .. {attributes}")


def _check_cliques(cliques: int, limit: int) -> None:
    if cliques > limit:
        raise ConfigError(f"the workload has {cliques:,} cliques or more; want at most {limit:,}: a lower order")
