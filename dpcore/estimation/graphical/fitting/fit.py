"""PrivatePGM: from noisy measurements to a graphical model; a fit can start from an earlier fit.

``fit_model`` turns all measurements into one optimisation problem (``_Problem``): their measurement matrix, a junction
tree of their cliques, a base of independent attributes, and a prior for how far the components of marginals lie from
the base.
"""

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
from dpcore.estimation.graphical.fitting.base import independent_base, public_base, with_public_counts
from dpcore.estimation.graphical.fitting.block_descent import BlockDescent
from dpcore.estimation.graphical.fitting.components import component_measurements
from dpcore.estimation.graphical.fitting.empirical_bayes_counts import with_posterior_counts
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement, linear_measurements, merged
from dpcore.estimation.graphical.fitting.maximum_entropy import DualFit, MaximumEntropy
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.fitting.prior import (
    LARGEST_PRIOR_SCALE,
    MIN_EXPECTED,
    learn_prior_scale,
    mixed_prior_scales,
    own_prior_scales,
    prior_variances,
)
from dpcore.estimation.graphical.fitting.work import FitCosts, FitWork, WorkMeter
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.inference.node_tables import Conditionals, NodeTable
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.measurement import Measurement

Vector = NDArray[np.float64]
_RELEARN_GROWTH: Final = 1.2  # A prior is learnt again when the number of measured components grew by this factor.
_ROUGH: Final = 1e-2  # Tolerance of the fits from which a prior is learnt.
_LEARNING: Final = 0.25  # Part of the remaining work that a fit from which a prior is learnt may take.
_PATIENT_CELLS: Final = 1 << 30  # Cells of nodes that the calls of a patient fit may touch.
_HELD: Final = 1e9  # Strength of a prior that holds a component at its value in the base.
# Of measured products: factors of the tolerance and of the prior scale (``dpcore/decisions/fits.md``).
_PRODUCTS_TOLERANCE: Final = 0.1
_PRODUCTS_SCALE: Final = 4.0
_LARGE: Final = 1 << 18  # For trees of at least this many cells, sweeps save more oracle calls than they cost.


@final
@dataclass(frozen=True)
class FitSettings:
    """How measurements become a model.

    prior_scale: The prior variance of an answer that independent attributes expect to be e is prior_scale e^1.5. None
        learns the scale from the noisy values, order by order: that of pairs from their distance to independent
        attributes, that of triples from their distance to what the pairs imply. Learning is sound only for marginals
        that were not selected, because a marginal that was selected for lying far from a model says nothing about the
        others. The default is the largest scale that learning can return, the weakest prior. The scale of measured
        products is four times as large.
    tolerance: The fit stops when its gap to the optimum is at most this many units per measured value. The noise of one
        value is worth 1/2 unit, so the default leaves an error far below that of the noise. For measured products,
        such as ranges, it is a tenth of this: their answers sum many cells, so that a small gap can hide a large error.
    iterations: The largest number of calls of the marginal oracle for one order.
    work: The largest number of cells of nodes that all calls together may touch; a sixth of ``iterations`` is allowed
        in any case. By default there is no limit.
    empirical_bayes: Whether the priors of attributes and components are learnt from the noisy values. One-way counts
        are then replaced by their posterior medians (``empirical_bayes_counts``), unless there is a public table. Each
        pair has its own scale in place of ``prior_scale`` (``prior.own_prior_scales``); where the scales of orders are
        learnt, each component of two attributes or more has one (``prior.mixed_prior_scales``). It is sound only for
        marginals that were selected without regard to the noise in them; the default is therefore False.
    patience: A fit may make this many times ``iterations`` calls, as long as they touch at most 2^30 cells of nodes
        together. With little noise a small model needs them, and they take seconds.
    """

    prior_scale: float | None = LARGEST_PRIOR_SCALE
    tolerance: float = 1e-2
    iterations: int = 500
    work: float = math.inf
    empirical_bayes: bool = False
    patience: int = 1


@final
@dataclass(frozen=True, eq=False)
class GraphicalFit:
    """A fitted graphical model, and the state from which a later fit can start.

    tree: The junction tree.
    total: Number of rows of the model, > 0.
    loss: 1/2 sum (A mu - y)^2 / sigma^2 at the fit, with posterior medians for y under ``empirical_bayes``.
    gap: Bound on the distance of the objective from its optimum, in units of the noise (``DualFit.gap``).
    evaluations: Number of calls of the marginal oracle; a sweep counts as the calls that take as long.
    work: Number of cells of tables that all these calls read (``MarginalOracle.work``).
    prior_scales: Scale of the prior variances by number of attributes, without the own scales of pairs.
    learns_prior: Whether these scales were learnt.
    learnt_from: Number of measured components when the scales were set.
    joints: The joint tables of the nodes, which ``calibrated`` and ``model`` read; None in a fit without tables.
    multipliers: Dual variables of each measured component, by the key of its function (``_key``).
    """

    tree: JunctionTree
    total: float
    loss: float
    gap: float
    evaluations: int
    work: int
    prior_scales: dict[int, float]
    learns_prior: bool
    learnt_from: int
    joints: tuple[NodeTable, ...] | None = field(repr=False)
    multipliers: dict[str, Vector] = field(repr=False)

    @property
    def conditionals(self) -> Conditionals:
        """p(residual | separator) of each node."""
        return Conditionals(self.tree, self._tables)

    @cached_property
    def calibrated(self) -> Calibrated:
        """The distribution, ready to answer queries."""
        return Calibrated(self.tree, self.conditionals)

    @property
    def model(self) -> GraphicalModel:
        """A new model at each access, so that its cached answers are freed with it."""
        return GraphicalModel(self.tree, self.conditionals, self.total)

    def without_tables(self) -> GraphicalFit:
        """The same fit without its tables, which frees their memory: a later fit can start from it, but not answer."""
        return replace(self, joints=None)

    @property
    def _tables(self) -> tuple[NodeTable, ...]:
        """The joint tables. Raises: RuntimeError for a fit without tables."""
        if self.joints is None:
            raise RuntimeError("a fit without tables answers nothing; want the fit that fit_model returned")
        return self.joints


def fit_model(
    domain: Domain,
    measurements: Sequence[Measurement],
    total: float,
    settings: FitSettings | None = None,
    warm: GraphicalFit | None = None,
    cliques: Sequence[Clique] = (),
    meter: WorkMeter | None = None,
    public: GraphicalFit | None = None,
) -> GraphicalFit:
    """Fits a graphical model to measurements of marginals, by penalised maximum entropy (``maximum_entropy``).

    domain: Attributes of the model; attributes that no measurement names become uniform.
    measurements: Measurements of marginals, or of products on marginals; at least one.
    total: Number of rows of the model, > 0.
    settings: Prior, tolerance and effort; None for the defaults of ``FitSettings``.
    warm: An earlier fit. Functions that were measured then start from their multipliers in that fit, and a prior that
        was learnt there is kept until there are a fifth more measured components.
    cliques: Further cliques that must lie inside some node of the junction tree.
    meter: Counts the work. A fit that comes to its limit stops early, further from the optimum. By default there is no
        limit.
    public: The fit of a public table, on the same domain, to which the model keeps where nothing was measured, in place
        of independent attributes; its nodes lie inside nodes of the junction tree. One-way counts are then replaced by
        their posterior means (``base.with_public_counts``). By default there is none.

    Raises: ValueError without measurements, or for a total that is not positive and finite.

    Source: thesis of McKenna (2022), sections 4.2 and 4.3; the objective is that of ``MaximumEntropy``, the prior is
    ours.
    """
    if not 0 < total < math.inf:
        raise ValueError(f"total is {total}; want a finite number > 0")
    settings = settings or FitSettings()
    problem = _Problem(domain, measurements, total, settings, cliques, meter or WorkMeter(), public)
    start = problem.start({} if warm is None else warm.multipliers)
    learnt_from = problem.count
    if settings.prior_scale is not None:
        prior_scales = dict.fromkeys(problem.orders, settings.prior_scale)
        scales = problem.scales_of(prior_scales)
        if settings.empirical_bayes:
            scales = problem.own_prior_scales(scales, start)
    elif (
        warm is not None
        and warm.learns_prior
        and not settings.empirical_bayes
        and problem.count < _RELEARN_GROWTH * warm.learnt_from
        and set(problem.orders) <= set(warm.prior_scales)
    ):
        prior_scales, learnt_from = warm.prior_scales, warm.learnt_from
        scales = problem.scales_of(prior_scales)
    else:
        prior_scales, scales = problem.learn_prior_scales(start, settings.empirical_bayes)
    dual_fit = problem.fit(scales, start, settings.tolerance)
    pieces = np.split(dual_fit.multipliers, problem.matrix.starts[1:-1])
    multipliers = dict(zip(problem.keys, pieces, strict=True))
    return GraphicalFit(
        problem.tree,
        total,
        dual_fit.loss,
        dual_fit.gap,
        dual_fit.evaluations,
        dual_fit.evaluations * problem.oracle.work,
        prior_scales,
        settings.prior_scale is None,
        learnt_from,
        problem.oracle.take_tables(),
        multipliers,
    )


@final
class _Problem:
    """The optimisation problem of one fit.

    matrix: All measured components, and products, as one measurement matrix.
    tree: A junction tree of their cliques.
    oracle: The marginal oracle of that tree.
    keys: The key of each measurement in the matrix.
    count: Number of measurements in the matrix.
    orders: The numbers of attributes of their cliques, ascending.
    """

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[Measurement],
        total: float,
        settings: FitSettings,
        cliques: Sequence[Clique],
        meter: WorkMeter,
        public: GraphicalFit | None,
    ) -> None:
        parts = itertools.chain(*map(linear_measurements, measurements))
        components = component_measurements(domain, merged(parts))
        if public is not None:
            shares = {name: public.calibrated.vector([(name,)]) for name in domain.names}
            components = with_public_counts(components, shares, public.total, total)
        elif settings.empirical_bayes:
            components = with_posterior_counts(components, total)
        nodes = () if public is None else public.tree.nodes
        self.matrix = MeasurementMatrix(domain, components, merge=False, cliques=nodes)
        self.tree = JunctionTree.of(domain, [*self.matrix.queries.cliques, *cliques])
        self.oracle = Inference(self.tree, self.matrix.queries.cliques)
        self.keys = [_key(measurement) for measurement in self.matrix.measurements]
        self.count = len(self.matrix.measurements)
        self._domain, self._total, self._meter = domain, total, meter
        allowed = max(settings.iterations / 6, settings.work / self.tree.cells)
        max_calls = min(settings.iterations, allowed)
        if settings.patience > 1:
            patient_calls = min(settings.patience * settings.iterations, _PATIENT_CELLS / self.tree.cells)
            max_calls = max(max_calls, patient_calls)
        self._iterations = math.ceil(max_calls)
        self._base = (
            independent_base(self.matrix.queries, self.matrix.measurements, total)
            if public is None
            else public_base(self.matrix.queries, public.tree, public.conditionals)
        )
        self._counts = self.matrix.expected_counts(total * self.oracle.marginals(self._base))
        self._orders = np.array([len(measurement.clique) for measurement in self.matrix.measurements])
        self.orders = sorted(set(self._orders.tolist()))

    def start(self, earlier: dict[str, Vector]) -> Vector:
        """Multipliers to start from, float64 [rows]: those of an earlier fit if it has them, else 0."""
        pairs = zip(self.keys, self.matrix.measurements, strict=True)
        return np.concatenate([earlier.get(key, np.zeros(measurement.values.size)) for key, measurement in pairs])

    def scales_of(self, prior_scales: dict[int, float]) -> Vector:
        """The prior scale of each measurement, float64 [measurements], from those of the orders."""
        return np.array([prior_scales[len(measurement.clique)] for measurement in self.matrix.measurements])

    def learn_prior_scales(self, start: Vector, mixed: bool) -> tuple[dict[int, float], Vector]:
        """The prior scale of each order, learnt from the deviations from a model of the orders below it.

        mixed: Whether each component has a scale of its own.

        Returns the scales of the orders, and those of the measurements, float64 [measurements].
        """
        prior_scales = dict.fromkeys(self.orders, LARGEST_PRIOR_SCALE)
        scales = self.scales_of(prior_scales)
        for order in self.orders:
            if order > 1:
                deviations = self._deviations(order, scales, start)
                prior_scales[order] = learn_prior_scale(self._domain, *deviations)
                scales[self._orders == order] = prior_scales[order]
                if mixed:
                    own = mixed_prior_scales(self._domain, *deviations, prior_scales[order])
                    scales[self._components_of(order)] = own
        return prior_scales, scales

    def own_prior_scales(self, scales: Vector, start: Vector) -> Vector:
        """The prior scale of each measurement, with one of its own for each pair; float64 [measurements]."""
        own, pairs = scales.copy(), self._components_of(2)
        if pairs:
            own[pairs] = own_prior_scales(self._domain, *self._deviations(2, scales, start))
        return own

    def fit(self, scales: Vector, start: Vector, tolerance: float, free: NDArray[np.bool_] | None = None) -> DualFit:
        """The fit with given prior scales.

        scales: The prior scale of each measurement, float64 [measurements].
        start: First multipliers, float64 [rows].
        tolerance: As in ``FitSettings``.
        free: Rows that the fit explains, bool [rows]; the others are held at the base. By default all are free.
        """
        matrices = [len(measurement.matrices or ()) for measurement in self.matrix.measurements]
        row_scales = np.repeat(np.where(matrices, _PRODUCTS_SCALE * scales, scales), np.diff(self.matrix.starts))
        strengths = np.maximum(self._counts, MIN_EXPECTED) / prior_variances(self._counts, row_scales)
        if free is not None:
            strengths = np.where(free, strengths, _HELD)
        if any(matrices):
            tolerance *= _PRODUCTS_TOLERANCE
        estimator = MaximumEntropy(strengths, tolerance, self._iterations)
        sweeps, parts, cells = None, 0, 0
        if self.tree.cells >= _LARGE and free is None:
            blocks = BlockDescent(self.tree, self.matrix, self._total, strengths / self.matrix.precisions)
            sweeps = partial(blocks.sweep, self.oracle, self._base) if blocks.has_blocks else None
            parts, cells = blocks.parts, blocks.cells
        costs = FitCosts.of(self.oracle.work, self.matrix.values.size, self.count, parts, cells, sum(matrices))
        # Fits from which a prior is learnt leave enough for the fit that uses it.
        work = FitWork(costs, self._meter if free is None else self._meter.part(_LEARNING))
        return estimator.estimate(self.oracle, self.matrix, self._total, self._base, start, self._counts, sweeps, work)

    def _components_of(self, order: int) -> list[int]:
        """Positions of the components of one order among the measurements."""
        numbered = enumerate(self.matrix.measurements)
        return [k for k, measurement in numbered if measurement.centred and len(measurement.clique) == order]

    def _deviations(
        self, order: int, scales: Vector, start: Vector
    ) -> tuple[list[LinearMeasurement], list[Vector], list[Vector]]:
        """The components of one order, their deviations from a model of the orders below, and expected counts."""
        below = np.repeat(self._orders < order, np.diff(self.matrix.starts))
        potentials = self._base
        if below.any():
            potentials = self.fit(scales, np.where(below, start, 0.0), _ROUGH, below).potentials
        boundaries, numbers = self.matrix.starts[1:-1], self._components_of(order)
        answers = self.matrix.apply(self._total * self.oracle.marginals(potentials))
        deviations = np.split(self.matrix.values - answers, boundaries)
        counts = np.split(self._counts, boundaries)
        components = [self.matrix.measurements[k] for k in numbers]
        return components, [deviations[k] for k in numbers], [counts[k] for k in numbers]


def _key(measurement: LinearMeasurement) -> str:
    """A key of the measured function: equal for measurements of the same function."""
    name = repr((measurement.clique, measurement.centred))
    if measurement.matrices is None:
        return name
    content = hashlib.sha256(name.encode())
    for matrix in measurement.matrices:
        content.update(repr(matrix.shape).encode())
        content.update(matrix.tobytes())
    return content.hexdigest()
