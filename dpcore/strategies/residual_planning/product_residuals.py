"""Residual planning for products of prefixes, ranges or other queries about single attributes: ResidualPlanner+."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.frozen import frozen_bytes
from dpcore.queries import Product, Products
from dpcore.queries.residual_frames import ResidualFrame
from dpcore.strategies.residual_planning.attribute_residuals import AttributeResidual, Split
from dpcore.strategies.residual_planning.clique_parts import CliqueParts
from dpcore.strategies.residual_planning.closed_form_bound import closed_form_bound
from dpcore.strategies.residual_planning.lower_bound import core_bound

Vector = NDArray[np.float64]
_BITS: Final = range(14, 2, -1)  # Bits of the matrices' entries to try, finest grid first.
_FURTHER_BITS: Final = 2  # Grids more than 2 bits coarser than the finest usable one are never better.
# Candidates for the smallest weight of a term. Rounding a weight of 128 to 8 changes a share by a relative 1 / 256 to
# 1 / 16, and the error only by the square of that.
_MIN_WEIGHTS: Final = (128, 32, 8)
# Largest product of a weight and the entries of a term's matrices: with 2^32 rows, answers stay below 2^62.
_MAX_ENTRY: Final = 1 << 30
# Smallest root of a part's error, relative to the sum: a part with no precision at all would have no answer.
_MIN_RELATIVE_ROOT: Final = 2.0**-20
_ROUNDS: Final = 6  # Maximum number of rounds over the attributes.
_MIN_GAIN: Final = 1e-5  # The rounds stop after one whose relative gain is smaller than this.


@dataclass(frozen=True, eq=False)
class ProductResidualPlan:
    """What to measure for a workload of products: one stack of integer queries with one noise scale.

    queries: One term for each part a of the workload's cliques: weight * (x)_{i in a} B_i, applied to the marginal of
        a; the part () is the number of rows. Attribute i has the same matrix B_i in every term, of rank n_i - 1, with
        B_i u_i = 0. The denominator is the integer square root of ``squared_sensitivity``, so the noise of a measured
        value is that of a query of sensitivity 1.
    variance: The weighted squared error of all answers if each integer answer, before division by the denominator, has
        noise of variance 1. It is exact for the rounded matrices.
    squared_sensitivity: The sum over the terms of the largest squared column norm. Adding or removing one row moves the
        integer answers by at most its square root, in L2.
    ideal: The ``error`` before the rounding to integers, at the closed-form shares.
    bound: A lower bound on the error of every unbiased mechanism that adds Gaussian noise to linear queries, for
        neighbours that differ by an added or removed row.
    """

    queries: Products
    variance: float
    squared_sensitivity: int
    ideal: float
    bound: float

    @property
    def error(self) -> float:
        """The weighted squared error of all answers at unit noise: noise of variance 1 at sensitivity 1."""
        return self.variance * self.squared_sensitivity

    @property
    def gap(self) -> float:
        """The relative excess error / bound - 1."""
        return self.error / self.bound - 1


def product_residuals(queries: Products, weights: Vector) -> ProductResidualPlan:
    """The residuals to measure for a workload of products, with nearly the least weighted squared error.

    queries: The workload: products that use the same matrix for an attribute in every term that contains it. The
        cliques are arbitrary; () is allowed, and so are repeated cliques.
    weights: float64 [terms], positive weights of the squared errors of each term.

    For given mean vectors u_i the best shares have a closed form (``CliqueParts``), with the error
    (sum over parts a of (V_a prod_{i in a} t_i)^(1/2))^2. The Pareto-optimal pairs (s0_i, t_i) of an attribute are
    parametrised by gamma_i (``AttributeResidual``). Along them the error is stationary where
    gamma_i = t_i / r_i^2 - s0_i, with r_i the ratio of its derivatives in s0_i and t_i. A few rounds of this fixed
    point find all u_i. Equal inputs give equal plans.

    Raises ValueError if a weight is not positive, if an attribute has two different matrices or too many values, if
    there are too many parts, or if no sufficiently small integers measure all parts.

    Source: ResidualPlanner+ (the successor of Xiao, He, Zhang and Kifer, 2023) for u_i = 1 / n_i; the choice of u_i,
    the rounding and the bound are this project's.
    """
    if weights.shape != (len(queries.terms),) or not (np.isfinite(weights).all() and (weights > 0).all()):
        raise ValueError(f"weights of shape {weights.shape}; want {len(queries.terms)} positive finite numbers")
    matrices = _matrices(queries)
    cliques = tuple(term.clique for term in queries.terms)
    scales = np.array([term.weight / queries.denominator for term in queries.terms])
    contents = tuple((name, matrix.shape, frozen_bytes(matrix)) for name, matrix in matrices.items())
    return _planned(queries.domain, cliques, tuple((weights * scales**2).tolist()), contents)


@lru_cache(maxsize=8)
def _planned(
    domain: Domain,
    cliques: tuple[Clique, ...],
    weights: tuple[float, ...],
    contents: tuple[tuple[str, tuple[int, int], bytes], ...],
) -> ProductResidualPlan:
    """The plan; cached, because planning a release and running it need the same plan.

    contents: The name, shape and bytes of each attribute's matrix.
    """
    by_matrix: dict[tuple[tuple[int, int], bytes], AttributeResidual] = {}
    by_name = {}
    for name, shape, content in contents:
        if (shape, content) not in by_matrix:
            by_matrix[shape, content] = AttributeResidual(np.frombuffer(content, dtype=np.int64).reshape(shape))
        by_name[name] = by_matrix[shape, content]
    queried = domain.project(name for name in domain.names if name in by_name)
    attributes = [by_name[name] for name in queried.names]
    residual = np.array([not attribute.flat for attribute in attributes], dtype=bool)
    axes = [queried.axes(clique) for clique in cliques]
    parts = CliqueParts(axes, weights, residual)
    splits, ideal = _best_splits(parts, attributes)
    measured = _rounded_plan(parts, attributes, splits, ideal)
    terms = tuple(
        Product(
            tuple(queried.names[index] for index in part),
            tuple(frame.matrix for index in part if (frame := measured.frames[index]) is not None),
            weight,
        )
        for part, weight in zip(parts.parts, measured.weights, strict=True)
    )
    bound = max(closed_form_bound(parts, attributes, splits), _core_bound(axes, weights, attributes, splits))
    stack = Products(domain, terms, math.isqrt(measured.squared_sensitivity))
    return ProductResidualPlan(stack, measured.variance, measured.squared_sensitivity, ideal, bound)


def _matrices(queries: Products) -> dict[str, NDArray[np.int64]]:
    """The matrix of each attribute that the queries name."""
    matrices: dict[str, NDArray[np.int64]] = {}
    for term in queries.terms:
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            earlier = matrices.setdefault(name, matrix)
            if earlier is not matrix and not np.array_equal(earlier, matrix):
                raise ValueError(f"attribute {name!r} is queried through two matrices; want one in all terms")
    return matrices


def _best_splits(parts: CliqueParts, attributes: list[AttributeResidual]) -> tuple[list[Split | None], float]:
    """The best split of each attribute (None if u = 1 / n), and the error of the whole workload at these splits."""
    means = np.array([attribute.mean for attribute in attributes])
    rests = np.array([attribute.rest for attribute in attributes])
    tunable = [index for index, attribute in enumerate(attributes) if not (attribute.flat or attribute.uniform)]
    best: list[Split | None] = [None] * len(attributes)
    loss = parts.loss(means, rests)
    best_loss, gammas = math.inf if tunable else loss.value, dict.fromkeys(tunable, 0.0)
    for _ in range(_ROUNDS if tunable else 0):
        previous_gammas = dict(gammas)
        for index in tunable:
            stationary = rests[index] * (loss.by_rest[index] / loss.by_mean[index]) ** 2 - means[index]
            gammas[index] = attributes[index].grid_gamma(stationary, rests[index])
        if gammas == previous_gammas:
            break
        splits = {index: attributes[index].split(gamma) for index, gamma in gammas.items()}
        for index, split in splits.items():
            means[index], rests[index] = split.mean, split.rest
        loss = parts.loss(means, rests)
        gain = best_loss - loss.value
        if gain > 0:
            best_loss, best = loss.value, [splits.get(index) for index in range(len(attributes))]
        if gain < _MIN_GAIN * loss.value:
            break
    return best, best_loss**2


def _core_bound(
    cliques: Sequence[tuple[int, ...]],
    weights: Sequence[float],
    attributes: list[AttributeResidual],
    splits: list[Split | None],
) -> float:
    """A lower bound on the error of every strategy (``core_bound``), from the multipliers of the splits."""
    tuned = {index: split for index, split in enumerate(splits) if split is not None}
    means = {index: attribute.mean for index, attribute in enumerate(attributes) if index not in tuned}
    residual = np.array([not attribute.flat for attribute in attributes], dtype=bool)
    grams = {index: attributes[index].gram for index in tuned}
    rests = {index: math.sqrt(attributes[index].rest) for index in means if residual[index]}
    multipliers = {index: split.multipliers for index, split in tuned.items()}
    return core_bound(cliques, weights, means, grams, rests, multipliers)


@dataclass(frozen=True, eq=False)
class _RoundedPlan:
    """The plan with all matrices and weights rounded to integers.

    frames: One per attribute; None for an attribute without a residual.
    weights: One per part.
    variance: The weighted squared error of all answers at noise of variance 1 in each integer answer.
    squared_sensitivity: The sum over the parts of the largest squared column norm.
    """

    frames: list[ResidualFrame | None]
    weights: list[int]
    variance: float
    squared_sensitivity: int

    @property
    def error(self) -> float:
        """The weighted squared error of all answers at unit noise."""
        return self.variance * self.squared_sensitivity


def _rounded_plan(
    parts: CliqueParts, attributes: list[AttributeResidual], splits: list[Split | None], ideal: float
) -> _RoundedPlan:
    """The best of several grids for entries and for weights; finer entries leave fewer bits for the weights."""
    best: _RoundedPlan | None = None
    finest_bits = 0
    for bits in _BITS if any(split is not None for split in splits) else (0,):
        if best is not None and bits < finest_bits - _FURTHER_BITS:
            break
        try:
            frames = _frames(attributes, splits, bits)
        except ValueError:
            break  # A coarser grid would lose a part of the residual as well.
        costs, energies = _integer_costs(parts, attributes, frames)
        entries = parts.products(np.array([_largest_entry(frame) for frame in frames]))
        ideal_weights = np.sqrt(np.maximum(np.sqrt(energies * costs), math.sqrt(ideal) * _MIN_RELATIVE_ROOT) / costs)
        for min_weight in _MIN_WEIGHTS:
            weights = np.rint(ideal_weights * (min_weight / ideal_weights.min()))
            if (weights * entries).max() > _MAX_ENTRY:
                continue
            weights /= np.gcd.reduce(weights.astype(np.int64))
            squared_sensitivity = sum(
                int(weight) ** 2 * math.prod(frame.cost for index in part if (frame := frames[index]) is not None)
                for part, weight in zip(parts.parts, weights, strict=True)
            )
            candidate = _RoundedPlan(
                frames, weights.astype(np.int64).tolist(), float((energies / weights**2).sum()), squared_sensitivity
            )
            finest_bits = max(finest_bits, bits)
            if best is None or candidate.error < best.error:
                best = candidate
    if best is None:
        raise ValueError("the precisions of the workload's parts differ by too much; want weights that differ less")
    return best


def _frames(attributes: list[AttributeResidual], splits: list[Split | None], bits: int) -> list[ResidualFrame | None]:
    """The integer matrix of each attribute; attributes with equal queries share one."""
    frames: dict[tuple[int, int], ResidualFrame | None] = {}
    keys = [(id(attribute), id(split)) for attribute, split in zip(attributes, splits, strict=True)]
    for key, attribute, split in zip(keys, attributes, splits, strict=True):
        if key not in frames:
            frames[key] = None if attribute.flat else attribute.rounded_frame(split, bits)
    return [frames[key] for key in keys]


def _integer_costs(
    parts: CliqueParts, attributes: list[AttributeResidual], frames: list[ResidualFrame | None]
) -> tuple[Vector, Vector]:
    """For each part, its squared column norm and its error at noise of variance 1 in its integer answers."""
    pairs = [
        (attribute.mean, 1.0) if frame is None else attribute.costs(frame)
        for attribute, frame in zip(attributes, frames, strict=True)
    ]
    means, rests = np.array(pairs).reshape(-1, 2).T
    costs = parts.products(np.array([1.0 if frame is None else float(frame.cost) for frame in frames]))
    return costs, parts.energies(means) * parts.products(rests)


def _largest_entry(frame: ResidualFrame | None) -> float:
    return 1.0 if frame is None else float(np.abs(frame.matrix).max())
