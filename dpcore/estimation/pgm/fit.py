"""PrivatePGM: from noisy measurements to a graphical model, also when measurements come one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.independent import to_simplex
from dpcore.estimation.pgm.array_inference import gpu_inference
from dpcore.estimation.pgm.calibrated import Calibrated
from dpcore.estimation.pgm.inference import Inference, MarginalOracle
from dpcore.estimation.pgm.junction_tree import JunctionTree
from dpcore.estimation.pgm.linear_terms import LinearTerm, linear_terms
from dpcore.estimation.pgm.maximum_entropy import DualFit, MaximumEntropy
from dpcore.estimation.pgm.model import GraphicalModel
from dpcore.estimation.pgm.rows import Rows
from dpcore.measurement import Measurement

Vector = NDArray[np.float64]
_LEAST_EXPECTED: Final = 0.01
_LEAST_PULL: Final = 0.2
_FLOOR: Final = 0.1  # Of a standard deviation: no value of an attribute is excluded because its noisy count is low.
_ORACLES: Final[dict[str, Callable[[JunctionTree, Sequence[Clique]], MarginalOracle]]] = {
    "cpu": Inference,
    "gpu": gpu_inference,
}


@final
@dataclass(frozen=True)
class Fitting:
    """How measurements become a model.

    strength: Weight of the prior against the likelihood: an answer that independent attributes expect to be e has
        the prior variance e^1.5 / strength, between that of independent rows, e, and of relative deviations, e^2.
    least: Least weight of the prior, for large counts too, unless it would pull an answer by more than a fifth.
    tolerance: How far from the optimum a fit may stop, in units a measured value.
    iterations: Most calls of the marginal oracle.
    device: Where the marginal oracle computes; "gpu" needs the extra marquee[gpu] and pays for nodes of 10^5 cells or
        more.
    """

    strength: float = 0.2
    least: float = 0.03
    tolerance: float = 1e-2
    iterations: int = 500
    device: Literal["cpu", "gpu"] = "cpu"


@final
@dataclass(frozen=True, eq=False)
class GraphicalFit:
    """A graphical model, and what the next fit starts from.

    tree: Its structure.
    total: Number of rows that it stands for.
    loss: 1/2 sum of squared residuals, in units of the noise.
    gap: How far the penalised loss is above its minimum, at most.
    """

    tree: JunctionTree
    total: float
    loss: float
    gap: float
    evaluations: int
    oracle: MarginalOracle = field(repr=False)
    potentials: Vector = field(repr=False)
    multipliers: dict[str, Vector] = field(repr=False)

    @cached_property
    def conditionals(self) -> tuple[Vector, ...]:
        return self.oracle.conditionals(self.potentials)

    @cached_property
    def calibrated(self) -> Calibrated:
        """The distribution, ready to answer."""
        return Calibrated(self.tree, self.conditionals)

    @cached_property
    def model(self) -> GraphicalModel:
        return GraphicalModel(self.tree, self.conditionals, self.total)


def fit_model(
    domain: Domain,
    measurements: Sequence[Measurement],
    total: float,
    fitting: Fitting | None = None,
    warm: GraphicalFit | None = None,
    cliques: Sequence[Clique] = (),
) -> GraphicalFit:
    """The graphical model that explains measurements of marginals best, close to independent attributes elsewhere.

    domain: Attributes of the model; what no measurement names is uniform.
    measurements: Of marginals, or products on marginals.
    total: Rows of the model.
    warm: An earlier fit: what was measured then starts from its multipliers.
    cliques: Further cliques that the structure shall hold.

    Source: McKenna (2022), sections 4.2 and 4.3; the objective is that of ``MaximumEntropy``.
    """
    fitting = fitting or Fitting()
    rows = Rows(domain, [term for measurement in measurements for term in linear_terms(measurement)])
    tree = JunctionTree.of(domain, [*rows.queries.cliques, *cliques])
    oracle = _ORACLES[fitting.device](tree, rows.queries.cliques)
    keys = [_key(term) for term in rows.terms]
    known = {} if warm is None else warm.multipliers
    start = np.concatenate([_start(known.get(key), term) for key, term in zip(keys, rows.terms, strict=True)])
    base = _base(domain, rows, total)
    expected = rows.applied(total * oracle.marginals(base))
    estimator = MaximumEntropy(_strengths(fitting, expected, rows.precisions), fitting.tolerance, fitting.iterations)
    found = estimator.estimate(oracle, rows, total, base, start)
    pieces = np.split(found.multipliers, rows.starts[1:-1])
    return _fitted(tree, total, oracle, found, dict(zip(keys, pieces, strict=True)))


def _fitted(
    tree: JunctionTree, total: float, oracle: MarginalOracle, found: DualFit, multipliers: dict[str, Vector]
) -> GraphicalFit:
    return GraphicalFit(tree, total, found.loss, found.gap, found.evaluations, oracle, found.potentials, multipliers)


def _strengths(fitting: Fitting, expected: Vector, precisions: Vector) -> Vector:
    """kappa of each row: an expected answer e has the prior variance e / kappa."""
    counts = np.maximum(expected, _LEAST_EXPECTED)
    least = np.minimum(fitting.least, _LEAST_PULL * counts * precisions)
    return np.asarray(np.maximum(least, fitting.strength / np.sqrt(counts)))


def _key(term: LinearTerm) -> str:
    """What a term measures, by name."""
    if term.matrices is None:
        return " ".join(term.clique)
    content = hashlib.sha256(" ".join(term.clique).encode())
    for matrix in term.matrices:
        content.update(matrix.tobytes())
    return content.hexdigest()


def _start(known: Vector | None, term: LinearTerm) -> Vector:
    return np.zeros(term.values.size) if known is None else known


def _base(domain: Domain, rows: Rows, total: float) -> Vector:
    """Log-potentials of independent attributes with one-way marginals as measured, float64 [rows.queries.size]."""
    parts: list[Vector] = []
    seen: set[str] = set()
    for clique in rows.queries.cliques:
        table = np.zeros(domain.shape(clique))
        for axis, name in enumerate(clique):
            if name not in seen:
                along = [-1 if other == axis else 1 for other in range(len(clique))]
                table += _log_one_way(domain, name, rows.terms, total).reshape(along)
        seen.update(clique)
        parts.append(table.ravel())
    return np.concatenate(parts)


def _log_one_way(domain: Domain, name: str, terms: Sequence[LinearTerm], total: float) -> Vector:
    """Logarithms of the marginal of one attribute, from all whole marginals that tell it; zeros where none does."""
    size = domain.size((name,))
    values, precision = np.zeros(size), 0.0
    for term in terms:
        if name in term.clique and term.matrices is None:
            others = tuple(axis for axis, other in enumerate(term.clique) if other != name)
            weight = term.precision * size / term.values.size
            values += weight * term.values.reshape(domain.shape(term.clique)).sum(axis=others)
            precision += weight
    if precision == 0.0:
        return values
    chances = to_simplex(values / (precision * total))
    return np.asarray(np.log(np.maximum(chances, _FLOOR * precision**-0.5 / total)))
