"""Workloads: the queries that an analyst wants answered, with a weight for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.queries import Conjunctions, Itemsets, Marginals, Parities, Products, Queries

LARGEST_CLOSURE = 100_000  # Maximum number of cliques in a downward closure.
LARGEST_CLIQUES = 1_000_000  # Maximum number of cliques in a generated workload.
_DRAWN_AT_ONCE = 1 << 20  # Random numbers of one batch of marginals.
_LEAST_WEIGHT = 2.0**-40  # Smallest relative weight.


@dataclass(frozen=True, eq=False)
class Workload:
    """Queries with weights.

    requested: Marginals, conjunctions, parities, or products that count rows: their matrices have entries 0 and 1, and
        their term weights and denominator are 1. Or a request for itemsets, whose queries a mechanism chooses.
    weights: Positive weights, float64, one per clique of marginals, per term of products, or per other query; one for a
        request for itemsets.

    Raises ValueError for weights of another shape or that are not positive and finite, and ConfigError for products
    that do not count rows.
    """

    requested: Queries | Itemsets
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        if isinstance(self.requested, Products):
            _check_counting(self.requested)
        weights = np.ascontiguousarray(self.weights, dtype=np.float64)
        parts = _parts(self.requested)
        if weights.shape != (parts,):
            raise ValueError(f"weights have shape {weights.shape}; want ({parts},)")
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError("a workload weight is not a positive finite number; want > 0")
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)

    @property
    def queries(self) -> Queries:
        """The queries that are answered.

        Raises: ConfigError for a request for itemsets, whose queries are not known before a mechanism has found them.
        """
        if isinstance(self.requested, Itemsets):
            raise ConfigError("the workload asks for frequent itemsets; want mechanism: frequent_itemsets")
        return self.requested


def _parts(queries: Queries | Itemsets) -> int:
    """The number of weights of a workload."""
    if isinstance(queries, Itemsets):
        return 1
    return len(part_sizes(queries)) if isinstance(queries, Marginals | Products) else queries.size


def frequent(queries: Itemsets) -> Workload:
    """A workload of frequent itemsets."""
    return Workload(queries, np.ones(1))


def conjunctive(queries: Conjunctions | Parities) -> Workload:
    """A workload of conjunctions or parities with equal weights."""
    return Workload(queries, np.ones(queries.size))


def linear(queries: Products) -> Workload:
    """A workload of products with equal weights."""
    return Workload(queries, np.ones(len(queries.terms)))


def part_sizes(queries: Marginals | Products) -> tuple[int, ...]:
    """Number of answers of each part with its own weight, in order: cells of a clique, or answers of a term."""
    return queries.sizes if isinstance(queries, Marginals) else tuple(term.size for term in queries.terms)


def cell_weights(workload: Workload) -> NDArray[np.float64]:
    """The weight of each answer, float64 [queries.size]. Every cell of a marginal has the weight of its clique."""
    if isinstance(workload.queries, Marginals | Products):
        return np.repeat(workload.weights, part_sizes(workload.queries))
    return workload.weights


def relative(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights divided by the largest weight, and at least 2^-40, so that none becomes 0."""
    return np.asarray(np.maximum(weights / weights.max(), _LEAST_WEIGHT))


def added_weights(workload: Workload, power: int) -> dict[Clique, float]:
    """Sum over the workload's marginals of each clique of (relative weight)^power: the weight of |error|^power."""
    assert isinstance(workload.queries, Marginals)
    weights = dict.fromkeys(workload.queries.cliques, 0.0)
    for clique, weight in zip(workload.queries.cliques, relative(workload.weights).tolist(), strict=True):
        weights[clique] += weight**power
    return weights


def explicit(domain: Domain, weights: Mapping[Clique, float]) -> Workload:
    """A workload of marginals given by their cliques and weights. Weights of the same set of attributes are added."""
    merged: dict[Clique, float] = {}
    for clique, weight in weights.items():
        name = domain.canonical(clique)
        merged[name] = merged.get(name, 0.0) + weight
    return Workload(Marginals(domain, tuple(merged)), np.array(list(merged.values())))


def all_k_way(domain: Domain, order: int, attributes: Sequence[str] | None = None) -> Workload:
    """All marginals of ``order`` of the ``attributes`` (by default of all attributes), each with weight 1."""
    names = domain.canonical(domain.names if attributes is None else attributes)
    _check_order(order, len(names))
    _check_cliques(math.comb(len(names), order), LARGEST_CLIQUES)
    return explicit(domain, dict.fromkeys(combinations(names, order), 1.0))


def target(domain: Domain, order: int, attribute: str) -> Workload:
    """All marginals of ``order`` attributes that contain ``attribute``, each with weight 1.

    Source: thesis of McKenna (2022), section 5.6.1.
    """
    _check_order(order, len(domain.names))
    _check_cliques(math.comb(len(domain.names) - 1, order - 1), LARGEST_CLIQUES)
    others = [name for name in domain.names if name != domain.names[domain.index(attribute)]]
    return explicit(domain, {(attribute, *rest): 1.0 for rest in combinations(others, order - 1)})


def skewed(domain: Domain, order: int, count: int, generator: np.random.Generator) -> Workload:
    """``count`` random marginals of ``order`` attributes, in which some attributes are more frequent than others.

    The attributes of a marginal are drawn without replacement, with probabilities proportional to squares of
    exponential random variables. Each draw adds 1 to the weight of its clique.

    Source: thesis of McKenna (2022), section 5.6.1.
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


def random_k_way(domain: Domain, order: int, count: int, generator: np.random.Generator, names: Clique) -> Workload:
    """``count`` different marginals of ``order`` of the attributes ``names``, each with weight 1.

    All sets of so many marginals are equally probable. The cliques are sorted.
    """
    names = domain.canonical(names)
    _check_order(order, len(names))
    exist = math.comb(len(names), order)
    if count > exist:
        raise ValueError(
            f"count is {count:,}, but only {exist:,} marginals of {order} of {len(names)} attributes exist; want at "
            f"most {exist:,}"
        )
    _check_cliques(count, LARGEST_CLIQUES)
    if 2 * count > exist:  # The chance of drawing a marginal again is too large to wait for a new one.
        every = list(combinations(range(len(names)), order))
        chosen = {every[index] for index in generator.choice(exist, size=count, replace=False).tolist()}
    else:
        chosen = _different_sets(len(names), order, count, generator)
    return explicit(domain, {tuple(names[index] for index in axes): 1.0 for axes in sorted(chosen)})


def _different_sets(size: int, order: int, count: int, generator: np.random.Generator) -> set[tuple[int, ...]]:
    """The first ``count`` different sets of ``order`` of the numbers below ``size`` in a sequence of uniform ones."""
    chosen: dict[tuple[int, ...], None] = {}
    batch = max(1, min(count, _DRAWN_AT_ONCE // size))
    while len(chosen) < count:
        keys = generator.random((batch, size))
        drawn = np.sort(np.argpartition(keys, order - 1, axis=1)[:, :order], axis=1)
        for axes in drawn.tolist():
            if len(chosen) < count:
                chosen[tuple(axes)] = None
    return set(chosen)


def downward_closure(cliques: Iterable[Clique], limit: int = LARGEST_CLOSURE) -> tuple[Clique, ...]:
    """All non-empty subsets of the cliques, each once, smaller subsets first.

    Attributes keep the order that they have in their clique. Raises ConfigError for more than ``limit`` subsets.
    """
    closure: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        _check_cliques(2 ** len(clique) - 1, limit)
        for order in range(1, len(clique) + 1):
            for subset in combinations(clique, order):
                closure.setdefault(frozenset(subset), subset)
        _check_cliques(len(closure), limit)
    return tuple(sorted(closure.values(), key=lambda clique: (len(clique), clique)))


def _check_counting(queries: Products) -> None:
    """Raises ConfigError unless the products count rows."""
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
