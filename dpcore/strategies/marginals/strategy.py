"""OPT_M: the marginals to measure together for a workload of marginals, or of queries about single attributes."""

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
from dpcore.strategies.marginals.subset_sums import (
    Vector,
    subset_attributes,
    subset_index,
    subset_products,
    superset_sums,
)

MAX_ATTRIBUTES: Final = 16  # There are 2^16 marginals to choose from.
MAX_CELLS: Final = 1 << 24  # Default of the largest measured marginal outside the workload, in cells.
EFFORT: Final = 2e10  # Default number of multiplications for the search, about ten seconds.


@dataclass(frozen=True, eq=False)
class MarginalsStrategy:
    """Marginals to measure together; joint least squares from all of them answers the workload.

    The strategy stacks weights_j (x)_{i in clique j} A_i over the cliques j. Its sensitivity is 1.

    cliques: The measured cliques, small ones first, with attributes in the order of the domain.
    weights: float64 [cliques], positive; their sum is 1 under Laplace noise, their sum of squares is 1 under Gaussian
        noise.
    matrices: A_i, float64 [p, n], of the attributes that are not measured by their codes.
    error: The weighted sum of the variances of all answers if each measured value has noise of variance 1.
    bound: A closed-form lower bound on the error of any weighted marginals with the same A_i. If all attributes are
        queried and measured by their codes, it is the SVD bound, which holds for every strategy.
    certified: A lower bound on the error of any weighted marginals of at most ``max_cells`` cells. Under Gaussian noise
        it is, by convexity, a few millionths below ``error``; under Laplace noise it equals ``bound``.
    """

    cliques: tuple[Clique, ...]
    weights: NDArray[np.float64]
    matrices: Mapping[str, Matrix]
    error: float
    bound: float
    certified: float

    def factors(self, clique: Clique) -> tuple[Matrix | None, ...]:
        """A_i for each attribute of a clique; None if the attribute is measured by its codes."""
        return tuple(self.matrices.get(name) for name in clique)


def marginals_strategy(
    domain: Domain,
    clique_weights: Mapping[Clique, float],
    noise: Noise,
    attributes: Mapping[str, AttributeAlgebra] | None = None,
    *,
    max_cells: int = MAX_CELLS,
    effort: float = EFFORT,
    seed: int = 0,
) -> MarginalsStrategy:
    """The best marginals and weights found for a workload of marginals. A step of the search takes O(d 2^d) or less.

    domain: The domain of the workload.
    clique_weights: The cliques of the workload, with positive weights of their squared errors.
    noise: The law of the noise with which the marginals are measured.
    attributes: The attributes that are queried or measured through other queries than their codes. An attribute is
        measured through the same queries in every marginal.
    max_cells: The largest number of cells of a measured marginal outside the workload. The default of 2^24 bounds the
        memory to 128 MiB per marginal.
    effort: The number of multiplications to spend on the search. The default takes about ten seconds.
    seed: The seed of the random starts that are tried under Laplace noise.

    The result depends on the arguments alone, not on a clock, so a plan and its run use the same strategy.

    Raises ValueError for no clique, for a weight that is not positive, for more than MAX_ATTRIBUTES attributes in all
    cliques together, and for an algebra whose size is not that of its attribute.

    Source: McKenna (2022), section 3.7, Definition 24 and Theorems 8 to 11; the eigenvalues by sums over subsets, the
    joint least squares of other queries than codes, and the search are this project's.
    """
    weights = _checked_weights(domain, clique_weights)
    names = tuple(name for name in domain.names if any(name in clique for clique in weights))
    algebras = _algebras(domain, names, attributes or {})
    problem = _problem(names, weights, algebras, noise, float(max_cells))
    solution, certified = best_shares(problem, effort, seed)
    measured = [tuple(names[index] for index in subset_attributes(b, len(names))) for b in solution.subsets.tolist()]
    share_of_clique = dict(zip(measured, solution.shares.tolist(), strict=True))
    cliques = tuple(_ordered(domain, measured))
    shares = np.array([share_of_clique[clique] for clique in cliques])
    matrices = {
        name: algebra.matrix for name, algebra in zip(names, algebras, strict=True) if algebra.matrix is not None
    }
    bound, _ = problem.closed_form()
    return MarginalsStrategy(
        cliques,
        shares if noise is Noise.LAPLACE else np.sqrt(shares),
        matrices,
        solution.error,
        bound,
        certified,
    )


def marginals_error(
    domain: Domain,
    clique_weights: Mapping[Clique, float],
    noise: Noise,
    measured: Mapping[Clique, float],
    attributes: Mapping[str, AttributeAlgebra] | None = None,
) -> float:
    """The ``MarginalsStrategy.error`` of given weights, after scaling them to sensitivity 1.

    domain, clique_weights, noise, attributes: The same as for ``marginals_strategy``.
    measured: The measured cliques with their positive weights.

    Returns inf if the measured marginals do not determine the workload's answers.

    Raises ValueError as ``marginals_strategy`` does.
    """
    weights, strategy = _checked_weights(domain, clique_weights), _checked_weights(domain, measured)
    names = tuple(name for name in domain.names if any(name in clique for clique in [*weights, *strategy]))
    algebras = _algebras(domain, names, attributes or {})
    problem = _problem(names, weights, algebras, noise, math.inf)
    squares = np.array([weight**2 for weight in strategy.values()])
    shares = np.sqrt(squares) if noise is Noise.LAPLACE else squares
    subsets = _subsets(names, strategy)
    return problem.evaluated(subsets, shares / shares.sum(), None)[0]


def _checked_weights(domain: Domain, clique_weights: Mapping[Clique, float]) -> dict[Clique, float]:
    """The weights by canonical clique, small cliques first."""
    weights: dict[Clique, float] = {}
    for clique, weight in clique_weights.items():
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
    """The cliques by size, then by the positions of their attributes."""
    return sorted(cliques, key=lambda clique: (len(clique), domain.axes(clique)))


def _algebras(
    domain: Domain, names: tuple[str, ...], attributes: Mapping[str, AttributeAlgebra]
) -> list[AttributeAlgebra]:
    """The algebra of each attribute; that of its codes unless one is given."""
    if len(names) > MAX_ATTRIBUTES:
        raise ValueError(f"cliques over {len(names)} attributes; want at most {MAX_ATTRIBUTES}")
    algebras = []
    for name, size in zip(names, domain.shape(names), strict=True):
        algebra = attributes.get(name) or AttributeAlgebra.codes(size)
        if algebra.size != size:
            raise ValueError(
                f"attribute {name!r} of size {size} has a strategy for {algebra.size} codes; want the same"
            )
        algebras.append(algebra)
    return algebras


def _problem(
    names: tuple[str, ...],
    weights: Mapping[Clique, float],
    algebras: list[AttributeAlgebra],
    noise: Noise,
    max_cells: float,
) -> MarginalProblem:
    ones = np.ones(len(names))
    subsets = _subsets(names, weights)
    weight_of_subset = np.zeros(1 << len(names))
    weight_of_subset[subsets] = list(weights.values())
    means = superset_sums(weight_of_subset, [algebra.s0 for algebra in algebras])
    energies = means * subset_products([algebra.t for algebra in algebras], ones)
    cells: Vector = subset_products([algebra.size for algebra in algebras], ones)
    alphas = np.array([algebra.alpha for algebra in algebras])
    return MarginalProblem(energies, alphas, cells, subsets, max_cells, noise)


def _subsets(names: tuple[str, ...], cliques: Mapping[Clique, float]) -> NDArray[np.int64]:
    """The index of each clique in vectors over subsets."""
    indices = {name: index for index, name in enumerate(names)}
    return np.array(
        [subset_index([indices[name] for name in clique], len(names)) for clique in cliques], dtype=np.int64
    )
