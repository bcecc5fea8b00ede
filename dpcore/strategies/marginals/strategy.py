"""OPT_M: the marginals to measure together for a workload of marginals, or of ranges over a few attributes each."""

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

MAX_ATTRIBUTES: Final = 16  # With 2^16 marginals to choose from.
MAX_CELLS: Final = 1 << 24  # Cells of a marginal outside the workload.
EFFORT: Final = 2e10  # Multiplications: about ten seconds.


@dataclass(frozen=True, eq=False)
class MarginalsStrategy:
    """Marginals to measure all at once, whose joint least squares answers the workload.

    The measured values are weights_j (x)_{i in clique j} A_i x, stacked: a strategy of sensitivity 1.

    cliques: The measured cliques, attributes in the order of the domain, small cliques first.
    weights: float64 [cliques], positive, with sum 1 for Laplace noise and with sum of squares 1 for the Gaussians.
    matrices: A_i, float64 [p, n], of the attributes that are not measured by their codes.
    error: The sum of the weighted variances of all answers where each measured value has noise of variance 1.
    bound: A lower bound on the error of all weights of any marginals with the same A_i, in closed form. Where all
        attributes are asked for their codes and measured by them, it is the SVD bound, which holds for every strategy.
    certified: A lower bound on the error of all weights of marginals of at most ``max_cells`` cells. It is a few
        millionths below ``error`` under the Gaussians, by convexity, and the same as ``bound`` under Laplace noise.
    """

    cliques: tuple[Clique, ...]
    weights: NDArray[np.float64]
    matrices: Mapping[str, Matrix]
    error: float
    bound: float
    certified: float

    def factors(self, clique: Clique) -> tuple[Matrix | None, ...]:
        """A_i for each attribute of a clique; None for an attribute that is measured by its codes."""
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
    """The best marginals and weights found for a workload of marginals; a step takes O(d 2^d) or less.

    domain: The domain of the workload.
    clique_weights: The cliques of the workload, with positive weights of the squared errors of their answers.
    noise: The law of the noise that the marginals are measured with.
    attributes: Attributes that are asked or measured by other queries than their codes. They are measured by the same
        queries in each marginal.
    max_cells: The largest number of cells of a measured marginal outside the workload.
    effort: The number of multiplications to spend on the search; it depends on no clock.
    seed: Of the starts that are tried under Laplace noise.

    The choice depends on the arguments alone, so that a plan and its run make the same one.

    Raises ValueError for no clique, a weight that is not positive, more than MAX_ATTRIBUTES attributes in all cliques
    together, and an algebra of another size than its attribute.

    Source: McKenna (2022), section 3.7, Definition 24 and Theorems 8 to 11; the eigenvalues by sums over subsets, the
    joint least squares of other queries than codes, and the search are this project's.
    """
    weights = _weights(domain, clique_weights)
    names = tuple(name for name in domain.names if any(name in clique for clique in weights))
    algebras = _algebras(domain, names, attributes or {})
    problem = _problem(names, weights, algebras, noise, float(max_cells))
    solution, certified = best_shares(problem, effort, seed)
    chosen = [tuple(names[index] for index in subset_places(b, len(names))) for b in solution.subsets.tolist()]
    share_of_clique = dict(zip(chosen, solution.shares.tolist(), strict=True))
    cliques = tuple(_ordered(domain, chosen))
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
    """The ``MarginalsStrategy.error`` of given weights, scaled to sensitivity 1.

    domain, clique_weights, noise, attributes: As for ``marginals_strategy``.
    measured: The positive weight of each measured clique.

    Returns inf where the measured marginals do not determine the workload's answers.

    Raises ValueError as ``marginals_strategy`` does.
    """
    weights, strategy = _weights(domain, clique_weights), _weights(domain, measured)
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
    counts = np.zeros(1 << len(names))
    counts[subsets] = list(weights.values())
    means = superset_sums(counts, [algebra.s0 for algebra in algebras])
    energies = means * subset_products([algebra.t for algebra in algebras], ones)
    cells: Vector = subset_products([algebra.size for algebra in algebras], ones)
    alphas = np.array([algebra.alpha for algebra in algebras])
    return MarginalProblem(energies, alphas, cells, subsets, max_cells, noise)


def _subsets(names: tuple[str, ...], cliques: Mapping[Clique, float]) -> NDArray[np.int64]:
    indices = {name: index for index, name in enumerate(names)}
    return np.array(
        [subset_index([indices[name] for name in clique], len(names)) for clique in cliques], dtype=np.int64
    )
