"""OPT_M: marginals to measure for a workload of marginals, or of ranges over a few attributes each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.measurement import Noise
from dpcore.strategies.marginals.attribute_algebra import AttributeAlgebra, Matrix
from dpcore.strategies.marginals.problem import MarginalProblem
from dpcore.strategies.marginals.search import best_shares
from dpcore.strategies.marginals.subset_sums import Vector, subset_index, subset_places, subset_products, superset_sums

MOST_ATTRIBUTES: Final = 16  # With 2^16 marginals to choose from.
MOST_CELLS: Final = 1 << 24  # Of a marginal that nobody asked for.
EFFORT: Final = 2e10  # Multiplications: ten seconds or so.


@dataclass(frozen=True, eq=False)
class MarginalsStrategy:
    """Marginals to measure all at once, whose joint least squares answers the workload.

    Measured are weights_j (x)_{i in clique j} A_i x, stacked: a strategy of sensitivity 1.

    cliques: In the order of the workload's domain, small ones first.
    weights: float64 [cliques], positive: with sum 1 for Laplace noise, with sum of squares 1 for the Gaussians.
    matrices: A_i of attributes that are not measured by their codes.
    error: Sum of the weighted variances of all answers together where each measured value has noise of variance 1.
    bound: No weights of any marginals, for the same A_i, have a smaller error: the closed form. Where all attributes
        are asked for their codes and measured by them, it is the SVD bound, and no strategy at all has a smaller error.
    certified: No weights of marginals of at most so many cells have a smaller error: under the Gaussians a few
        millionths below ``error``, from convexity; for Laplace noise the same as ``bound``.
    """

    cliques: tuple[Clique, ...]
    weights: NDArray[np.float64]
    matrices: Mapping[str, Matrix]
    error: float
    bound: float
    certified: float

    def factors(self, clique: Clique) -> tuple[Matrix | None, ...]:
        """A_i for each attribute of a clique, None for its codes."""
        return tuple(self.matrices.get(name) for name in clique)


def marginals_strategy(
    domain: Domain,
    asked: Mapping[Clique, float],
    noise: Noise,
    attributes: Mapping[str, AttributeAlgebra] | None = None,
    *,
    most_cells: int = MOST_CELLS,
    effort: float = EFFORT,
    seed: int = 0,
) -> MarginalsStrategy:
    """The best marginals and weights found for a workload of marginals, in O(d 2^d) or less a step.

    asked: How much the squared errors of each clique's answers count, positive.
    attributes: Attributes that are asked, or measured, through other queries than their codes. They are measured
        through the same ones in each marginal.
    most_cells: Largest marginal to measure besides those that are asked for.
    effort: Multiplications to spend on the search; it depends on no clock.
    seed: Of the starts that are tried under Laplace noise.

    The choice depends on the arguments alone: a plan and its run make the same.

    Source: McKenna (2022), section 3.7, Definition 24 and Theorems 8 to 11; the eigenvalues by sums over subsets, the
    joint least squares of other queries than codes, and the search are this project's.

    Raises ValueError for no clique, a weight that is not positive, more attributes in all cliques together than
    MOST_ATTRIBUTES, or an algebra of another size than its attribute.
    """
    weights = _weights(domain, asked)
    names = tuple(name for name in domain.names if any(name in clique for clique in weights))
    algebras = _algebras(domain, names, attributes or {})
    problem = _problem(names, weights, algebras, noise, float(most_cells))
    found, certified = best_shares(problem, effort, seed)
    chosen = [tuple(names[place] for place in subset_places(b, len(names))) for b in found.subsets.tolist()]
    of_clique = dict(zip(chosen, found.shares.tolist(), strict=True))
    cliques = tuple(_ordered(domain, chosen))
    shares = np.array([of_clique[clique] for clique in cliques])
    matrices = {name: one.matrix for name, one in zip(names, algebras, strict=True) if one.matrix is not None}
    bound, _ = problem.closed_form()
    return MarginalsStrategy(
        cliques,
        shares if noise is Noise.LAPLACE else np.sqrt(shares),
        matrices,
        found.error,
        bound,
        certified,
    )


def marginals_error(
    domain: Domain,
    asked: Mapping[Clique, float],
    noise: Noise,
    measured: Mapping[Clique, float],
    attributes: Mapping[str, AttributeAlgebra] | None = None,
) -> float:
    """What ``MarginalsStrategy.error`` is for these weights, brought to sensitivity 1; inf where they tell too little.

    measured: Weight of each clique.

    Raises ValueError as ``marginals_strategy`` does.
    """
    weights, strategy = _weights(domain, asked), _weights(domain, measured)
    names = tuple(name for name in domain.names if any(name in clique for clique in [*weights, *strategy]))
    algebras = _algebras(domain, names, attributes or {})
    problem = _problem(names, weights, algebras, noise, math.inf)
    squares = np.array([weight**2 for weight in strategy.values()])
    shares = np.sqrt(squares) if noise is Noise.LAPLACE else squares
    subsets = _subsets(names, strategy)
    return problem.evaluated(subsets, shares / shares.sum(), None)[0]


def _weights(domain: Domain, given: Mapping[Clique, float]) -> dict[Clique, float]:
    weights: dict[Clique, float] = {}
    for clique, weight in given.items():
        if not (weight > 0 and math.isfinite(weight)):
            raise ValueError(f"weight {weight:g} of clique {clique}; want a positive number")
        canonical = domain.canonical(clique)
        if canonical in weights:
            raise ValueError(f"clique {canonical} twice; want each once")
        weights[canonical] = float(weight)
    if not weights:
        raise ValueError("no clique; want at least one")
    return {clique: weights[clique] for clique in _ordered(domain, weights)}


def _ordered(domain: Domain, cliques: Iterable[Clique]) -> list[Clique]:
    return sorted(cliques, key=lambda clique: (len(clique), domain.axes(clique)))


def _algebras(
    domain: Domain, names: tuple[str, ...], attributes: Mapping[str, AttributeAlgebra]
) -> list[AttributeAlgebra]:
    if len(names) > MOST_ATTRIBUTES:
        raise ValueError(f"cliques over {len(names)} attributes; want at most {MOST_ATTRIBUTES}")
    found = []
    for name, size in zip(names, domain.shape(names), strict=True):
        one = attributes.get(name) or AttributeAlgebra.codes(size)
        if one.size != size:
            raise ValueError(f"attribute {name!r} of size {size} measured by queries on {one.size} codes")
        found.append(one)
    return found


def _problem(
    names: tuple[str, ...],
    weights: Mapping[Clique, float],
    algebras: list[AttributeAlgebra],
    noise: Noise,
    most_cells: float,
) -> MarginalProblem:
    ones = np.ones(len(names))
    subsets = _subsets(names, weights)
    counts = np.zeros(1 << len(names))
    counts[subsets] = list(weights.values())
    energies = superset_sums(counts, [one.s0 for one in algebras]) * subset_products([one.t for one in algebras], ones)
    cells: Vector = subset_products([one.size for one in algebras], ones)
    alphas = np.array([one.alpha for one in algebras])
    return MarginalProblem(energies, alphas, cells, subsets, most_cells, noise)


def _subsets(names: tuple[str, ...], cliques: Mapping[Clique, float]) -> NDArray[np.int64]:
    places = {name: place for place, name in enumerate(names)}
    return np.array([subset_index([places[name] for name in clique], len(names)) for clique in cliques], dtype=np.int64)
