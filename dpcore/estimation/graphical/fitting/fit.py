"""PrivatePGM: from noisy measurements to a graphical model, also when measurements come one by one."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.answering.calibrated import Calibrated
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.block_descent import BlockDescent
from dpcore.estimation.graphical.fitting.components import component_measurements
from dpcore.estimation.graphical.fitting.empirical_bayes_counts import denoised
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement, linear_measurements, merged
from dpcore.estimation.graphical.fitting.maximum_entropy import DualFit, MaximumEntropy
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.fitting.one_way_least_squares import one_way_of
from dpcore.estimation.graphical.fitting.prior import (
    LARGEST_PRIOR_SCALE,
    LEAST_EXPECTED,
    learn_prior_scale,
    own_prior_scales,
    prior_variances,
)
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.inference.node_tables import Conditionals, NodeTable
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.independent import to_simplex
from dpcore.measurement import Measurement
from dpcore.queries import Marginals

Vector = NDArray[np.float64]
_LEARN_AGAIN: Final = 1.2
_ROUGH: Final = 1e-2  # Tolerance of the fits that a prior is learnt from.
_HELD: Final = 1e9  # Weight of a prior that leaves no room.
_LARGE: Final = 1 << 18  # Cells of a tree: below, a call of its oracle takes too little for sweeps to gain much.
_FLOOR: Final = 0.1  # Of a standard deviation: no value of an attribute is excluded because its noisy count is low.


@final
@dataclass(frozen=True)
class FitSettings:
    """How measurements become a model.

    spread: An answer that independent attributes expect to be e has the prior variance spread e^1.5. None learns it
        from the noisy values, order by order: for pairs from how far they lie from independent attributes, for triples
        from how far they lie from what the pairs tell. That is for marginals that nobody selected: one that was chosen
        because it lies far from a model says nothing about the others.
    tolerance: How far from the optimum a fit may stop, in units a measured value.
    iterations: Most calls of the marginal oracle for one order, where
    work: so many cells of nodes, all calls together, allow for them; a sixth of them always.
    own: Whether priors are learnt attribute by attribute and pair by pair, each from its own noisy values: counts of an
        attribute are taken for what they probably are (``one_way``), and a pair has a spread of its own in place of
        ``spread`` (``prior.own_prior_scales``); nothing changes where that is None. For marginals whose choice did not
        rest on the noise in them.
    """

    prior_scale: float | None = LARGEST_PRIOR_SCALE
    tolerance: float = 1e-2
    iterations: int = 500
    work: float = math.inf
    own: bool = False


@final
@dataclass(frozen=True, eq=False)
class GraphicalFit:
    """A graphical model, and what the next fit starts from.

    tree: Its structure.
    total: Number of rows that it stands for.
    loss, gap, evaluations: As of ``DualFit``; of what the measurements were taken for, where ``FitSettings.own``.
    factors: Of the prior variances, for each order of a component, before a pair got its own.
    learns: Whether the factors were learnt, and
    learnt_from: how many terms there were then.
    joints: The joint tables of the nodes, the only copy, which ``calibrated`` and ``model`` read; None once released.
    multipliers: Of each term by what it measures.
    """

    tree: JunctionTree
    total: float
    loss: float
    gap: float
    evaluations: int
    factors: dict[int, float]
    learns: bool
    learnt_from: int
    joints: tuple[NodeTable, ...] | None = field(repr=False)
    multipliers: dict[str, Vector] = field(repr=False)

    @property
    def conditionals(self) -> Conditionals:
        return Conditionals(self.tree, self._tables)

    @cached_property
    def calibrated(self) -> Calibrated:
        """The distribution, ready to answer."""
        return Calibrated(self.tree, self.conditionals)

    @property
    def model(self) -> GraphicalModel:
        """A new one each time: what it keeps for answers goes with it."""
        return GraphicalModel(self.tree, self.conditionals, self.total)

    def without_tables(self) -> GraphicalFit:
        """The same to start the next fit from, without the tables: it answers nothing."""
        return replace(self, joints=None)

    @property
    def _tables(self) -> tuple[NodeTable, ...]:
        if self.joints is None:
            raise RuntimeError("a released fit has no tables to answer from; want the fit itself")
        return self.joints


def fit_model(
    domain: Domain,
    measurements: Sequence[Measurement],
    total: float,
    fitting: FitSettings | None = None,
    warm: GraphicalFit | None = None,
    cliques: Sequence[Clique] = (),
) -> GraphicalFit:
    """The graphical model that explains measurements of marginals best, close to independent attributes elsewhere.

    domain: Attributes of the model; what no measurement names is uniform.
    measurements: Of marginals, or products on marginals.
    total: Rows of the model.
    warm: An earlier fit: what was measured then starts from its multipliers, and what it learnt about the prior is kept
        until there are a fifth more terms.
    cliques: Further cliques that the structure shall hold.

    Raises ValueError without measurements, or for a total that is not positive and finite.

    Source: McKenna (2022), sections 4.2 and 4.3; the objective is that of ``MaximumEntropy``, the prior is ours.
    """
    if not 0 < total < math.inf:
        raise ValueError(f"total is {total}; want a finite number > 0")
    fitting = fitting or FitSettings()
    problem = _Problem(domain, measurements, total, fitting, cliques)
    start = problem.start({} if warm is None else warm.multipliers)
    if fitting.prior_scale is not None:
        factors = dict.fromkeys(problem.orders, fitting.prior_scale)
        learnt = problem.terms
    elif (
        warm is not None
        and warm.learns
        and problem.terms < _LEARN_AGAIN * warm.learnt_from
        and set(problem.orders) <= set(warm.factors)
    ):
        factors, learnt = warm.factors, warm.learnt_from
    else:
        factors, learnt = problem.learnt(start), problem.terms
    spreads = problem.spreads(factors)
    if fitting.own and fitting.prior_scale is not None:
        spreads = problem.own_prior_scales(spreads, start)
    found = problem.fitted(spreads, start, fitting.tolerance)
    pieces = np.split(found.multipliers, problem.rows.starts[1:-1])
    multipliers = dict(zip(problem.keys, pieces, strict=True))
    return GraphicalFit(
        problem.tree,
        total,
        found.loss,
        found.gap,
        found.evaluations,
        factors,
        fitting.prior_scale is None,
        learnt,
        problem.oracle.take_tables(),
        multipliers,
    )


@final
class _Problem:
    """What a fit minimises: rows, structure, base and prior.

    terms: Number of terms. orders: Of the terms' cliques, ascending.
    """

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[Measurement],
        total: float,
        fitting: FitSettings,
        cliques: Sequence[Clique],
    ) -> None:
        terms = component_measurements(domain, merged(itertools.chain(*map(linear_measurements, measurements))))
        own = fitting.own and fitting.prior_scale is not None
        self.rows = MeasurementMatrix(domain, denoised(terms, total) if own else terms, merge=False)
        self.tree = JunctionTree.of(domain, [*self.rows.queries.cliques, *cliques])
        self.oracle = Inference(self.tree, self.rows.queries.cliques)
        self.keys = [_key(term) for term in self.rows.measurements]
        self.terms = len(self.rows.measurements)
        self._domain, self._total = domain, total
        allowed = max(fitting.iterations / 6, fitting.work / self.tree.cells)
        self._iterations = math.ceil(min(fitting.iterations, allowed))
        self._base = _base(self.rows.queries, self.rows.measurements, total)
        self._counts = self.rows.expected_counts(total * self.oracle.marginals(self._base))
        sizes = np.diff(self.rows.starts)
        self._order = np.repeat([len(term.clique) for term in self.rows.measurements], sizes)
        self.orders = sorted(set(self._order.tolist()))

    def start(self, known: dict[str, Vector]) -> Vector:
        """Multipliers to start from: those of an earlier fit, else 0."""
        pairs = zip(self.keys, self.rows.measurements, strict=True)
        return np.concatenate([known.get(key, np.zeros(term.values.size)) for key, term in pairs])

    def spreads(self, factors: dict[int, float]) -> Vector:
        """That of each term, float64 [terms], from those of the orders."""
        return np.array([factors[len(term.clique)] for term in self.rows.measurements])

    def learnt(self, start: Vector) -> dict[int, float]:
        """The factor of the prior of each order, each from models of the orders below it."""
        factors = dict.fromkeys(self.orders, LARGEST_PRIOR_SCALE)
        for order in self.orders:
            if order > 1:
                factors[order] = learn_prior_scale(self._domain, *self._seen(order, self.spreads(factors), start))
        return factors

    def own_prior_scales(self, spreads: Vector, start: Vector) -> Vector:
        """The same, with one of its own for each pair."""
        found, pairs = spreads.copy(), self._chosen(2)
        if pairs:
            found[pairs] = own_prior_scales(self._domain, *self._seen(2, spreads, start))
        return found

    def fitted(
        self, spreads: Vector, start: Vector, tolerance: float, free: NDArray[np.bool_] | None = None
    ) -> DualFit:
        """The fit with these priors, one a term; rows that are not ``free`` hardly count."""
        spread = np.repeat(spreads, np.diff(self.rows.starts))
        strengths = np.maximum(self._counts, LEAST_EXPECTED) / prior_variances(self._counts, spread)
        if free is not None:
            strengths = np.where(free, strengths, _HELD)
        estimator = MaximumEntropy(strengths, tolerance, self._iterations)
        sweeps = None
        if self.tree.cells >= _LARGE and free is None:
            blocks = BlockDescent(self.tree, self.rows, self._total, strengths / self.rows.precisions)
            sweeps = partial(blocks.swept, self.oracle, self._base) if blocks.any else None
        return estimator.estimate(self.oracle, self.rows, self._total, self._base, start, self._counts, sweeps)

    def _chosen(self, order: int) -> list[int]:
        """Places of the components of one order."""
        return [k for k, term in enumerate(self.rows.measurements) if term.centred and len(term.clique) == order]

    def _seen(
        self, order: int, spreads: Vector, start: Vector
    ) -> tuple[list[LinearMeasurement], list[Vector], list[Vector]]:
        """The components of one order, how far they lie from a model of the orders below, and expected counts."""
        below = self._order < order
        held = (
            self.fitted(spreads, np.where(below, start, 0.0), _ROUGH, below).potentials if below.any() else self._base
        )
        split, chosen = self.rows.starts[1:-1], self._chosen(order)
        away = np.split(self.rows.values - self.rows.apply(self._total * self.oracle.marginals(held)), split)
        counts = np.split(self._counts, split)
        return [self.rows.measurements[k] for k in chosen], [away[k] for k in chosen], [counts[k] for k in chosen]


def _key(term: LinearMeasurement) -> str:
    """What a term measures, by name."""
    name = repr((term.clique, term.centred))
    if term.matrices is None:
        return name
    content = hashlib.sha256(name.encode())
    for matrix in term.matrices:
        content.update(repr(matrix.shape).encode())
        content.update(matrix.tobytes())
    return content.hexdigest()


def _base(queries: Marginals, terms: Sequence[LinearMeasurement], total: float) -> Vector:
    """Log-potentials of independent attributes with one-way marginals as measured, float64 [queries.size]."""
    parts: list[Vector] = []
    seen: set[str] = set()
    domain = queries.domain
    for clique in queries.cliques:
        table = np.zeros(domain.shape(clique))
        for axis, name in enumerate(clique):
            if name not in seen:
                along = [-1 if other == axis else 1 for other in range(len(clique))]
                table += _log_one_way(domain, name, terms, total).reshape(along)
        seen.update(clique)
        parts.append(table.ravel())
    return np.concatenate(parts)


def _log_one_way(domain: Domain, name: str, terms: Sequence[LinearMeasurement], total: float) -> Vector:
    """Logarithms of the marginal of one attribute, from all measurements that tell it; zeros where none does."""
    size = domain.size((name,))
    values, precision = np.zeros(size), 0.0
    for term in terms:
        if term.clique == (name,) and term.centred:
            values += term.precision * (term.values + total / size)
            precision += term.precision
        elif (found := one_way_of(term, name)) is not None:
            values += found[1] * found[0]
            precision += found[1]
    if precision == 0.0:
        return values
    chances = to_simplex(values / (precision * total))
    return np.asarray(np.log(np.maximum(chances, _FLOOR * precision**-0.5 / total)))
