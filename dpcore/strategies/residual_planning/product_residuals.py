"""Residual planning for marginals of prefixes, ranges or any other queries, under Gaussian noise."""

from __future__ import annotations

import math
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

Vector = NDArray[np.float64]
_BITS: Final = range(14, 2, -1)
_COARSER: Final = 2  # Bits less than the finest grid that fits: what is still coarser is no better.
_WEIGHTS: Final = (
    128,
    32,
    8,
)  # The smallest one. Rounding it moves a share by 1 / 256 to 1 / 16, errors by its square.
_LARGEST_WEIGHT: Final = 1 << 30  # Times entries of a term's matrices: answers about 2^32 rows stay below 2^62.
_LEAST_ROOT: Final = 2.0**-20  # Of the largest: a part that is measured with no precision has no answer.
_ROUNDS: Final = 6
_WORTH: Final = 1e-5  # A round that gains less is the last.


@dataclass(frozen=True, eq=False)
class ProductResidualPlan:
    """What to measure for a workload of products, all in one stack of integer queries with one noise.

    queries: A term for each part a of the workload's cliques, weight * (x)_{i in a} B_i on the marginal of a, with the
        same B_i wherever attribute i is; () is the number of rows. B_i has rank n_i - 1 and its own u_i, B_i u_i = 0.
        The denominator is the root of ``squared_sensitivity``: a measured value has the noise of a query of
        sensitivity 1.
    spread: The weighted squared error of all answers where each integer answer has noise of variance 1, before the
        denominator; exact for the integers that are measured.
    squared_sensitivity: Sum over the terms of the largest squared norms of their columns: one row more or less moves
        the answers by its root at most, in L2.
    ideal: ``error`` without the rounding to integers, for the closed form of the shares.
    bound: Where a row is added or removed no unbiased mechanism with Gaussian noise in linear queries has a smaller
        error.
    """

    queries: Products
    spread: float
    squared_sensitivity: int
    ideal: float
    bound: float

    @property
    def error(self) -> float:
        """The weighted squared error of all answers at unit noise: noise of variance 1 at sensitivity 1."""
        return self.spread * self.squared_sensitivity

    @property
    def gap(self) -> float:
        """error / bound - 1."""
        return self.error / self.bound - 1


def product_residuals(queries: Products, weights: Vector) -> ProductResidualPlan:
    """The residuals of the parts of a workload's cliques, measured so that their least squares has nearly least error.

    queries: The workload, products with the same matrix for an attribute in every term that contains it. Terms may
        come in any number, for any cliques, () among them.
    weights: float64 [terms], positive: how much the squared errors of each term count.

    For given u_i the best shares have a closed form (``CliqueParts``), with the error
    (sum over parts a of (V_a prod_{i in a} t_i)^(1/2))^2. Along the best pairs (s0_i, t_i) of an attribute, which
    gamma_i tells apart (``AttributeResidual``), it is stationary where gamma_i = t_i / r_i^2 - s0_i, r_i being the
    ratio of its derivatives by s0_i and t_i. A few rounds of that find all u_i. Equal inputs give equal plans.

    For u_i = 1 / n_i this is ResidualPlanner+; the choice of u_i, the rounding and the bound are this project's.

    Source: ResidualPlanner+ (the successor of Xiao, He, Zhang and Kifer, 2023).

    Raises ValueError for weights that are not positive, an attribute with two different matrices or too many values,
    too many parts, and where no integers small enough measure the parts.
    """
    if weights.shape != (len(queries.terms),) or not (np.isfinite(weights).all() and (weights > 0).all()):
        raise ValueError(f"weights of shape {weights.shape}; want {len(queries.terms)} positive finite numbers")
    matrices = _matrices(queries)
    cliques = tuple(term.clique for term in queries.terms)
    scales = np.array([term.weight / queries.denominator for term in queries.terms])
    contents = tuple((name, one.shape, frozen_bytes(one)) for name, one in matrices.items())
    return _planned(queries.domain, cliques, tuple((weights * scales**2).tolist()), contents)


@lru_cache(maxsize=8)
def _planned(
    domain: Domain,
    cliques: tuple[Clique, ...],
    weights: tuple[float, ...],
    contents: tuple[tuple[str, tuple[int, int], bytes], ...],
) -> ProductResidualPlan:
    """Kept, because a run asks for what its plan asked for. contents: Name, shape and bytes of each matrix."""
    alike: dict[tuple[tuple[int, int], bytes], AttributeResidual] = {}
    found = {}
    for name, shape, content in contents:
        if (shape, content) not in alike:
            alike[shape, content] = AttributeResidual(np.frombuffer(content, dtype=np.int64).reshape(shape))
        found[name] = alike[shape, content]
    read = domain.project(name for name in domain.names if name in found)
    attributes = [found[name] for name in read.names]
    residual = np.array([not one.flat for one in attributes], dtype=bool)
    parts = CliqueParts([read.axes(clique) for clique in cliques], weights, residual)
    splits, ideal = _tuned(parts, attributes)
    measured = _rounded(parts, attributes, splits, ideal)
    terms = tuple(
        Product(
            tuple(read.names[place] for place in part),
            tuple(frame.matrix for place in part if (frame := measured.frames[place]) is not None),
            weight,
        )
        for part, weight in zip(parts.parts, measured.weights, strict=True)
    )
    bound = _bound(parts, attributes, splits)
    stack = Products(domain, terms, math.isqrt(measured.squared_sensitivity))
    return ProductResidualPlan(stack, measured.spread, measured.squared_sensitivity, ideal, bound)


def _matrices(queries: Products) -> dict[str, NDArray[np.int64]]:
    found: dict[str, NDArray[np.int64]] = {}
    for term in queries.terms:
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            first = found.setdefault(name, matrix)
            if first is not matrix and not np.array_equal(first, matrix):
                raise ValueError(f"attribute {name!r} is asked through two matrices; want one in all terms")
    return found


def _tuned(parts: CliqueParts, attributes: list[AttributeResidual]) -> tuple[list[Split | None], float]:
    """The split of each attribute, None where u = 1 / n, and the error that they have together."""
    means = np.array([one.mean for one in attributes])
    rests = np.array([one.rest for one in attributes])
    tuned = [place for place, one in enumerate(attributes) if not (one.flat or one.uniform)]
    best: list[Split | None] = [None] * len(attributes)
    loss = parts.loss(means, rests)
    least, gammas = math.inf if tuned else loss.value, dict.fromkeys(tuned, 0.0)
    for _ in range(_ROUNDS if tuned else 0):
        before = dict(gammas)
        for place in tuned:
            wanted = rests[place] * (loss.by_rest[place] / loss.by_mean[place]) ** 2 - means[place]
            gammas[place] = attributes[place].gamma(wanted, rests[place])
        if gammas == before:
            break
        splits = {place: attributes[place].split(gamma) for place, gamma in gammas.items()}
        for place, split in splits.items():
            means[place], rests[place] = split.mean, split.rest
        loss = parts.loss(means, rests)
        gained = least - loss.value
        if gained > 0:
            least, best = loss.value, [splits.get(place) for place in range(len(attributes))]
        if gained < _WORTH * loss.value:
            break
    return best, least**2


def _bound(parts: CliqueParts, attributes: list[AttributeResidual], splits: list[Split | None]) -> float:
    """The error that no strategy is below.

    For W the stacked queries on all cells, D diagonal and of trace 1 and Z = Q D^(1/2) with a contraction Q, every X
    with a diagonal of 1 at most has tr(W X^-1 W') >= <W, Z>^2 / tr(Z X Z') >= <W, Z>^2. With D the product over
    attributes of diag(v_i), and Q on clique b the product of the attributes' Q_i, weighted on each part a of b so that
    squares add up to 1 over b, that is the closed form with (sigma_i^2, tau_i^2) in the place of (s0_i, t_i).
    """
    means = np.array([one.mean for one in attributes])
    rests = np.array([one.rest for one in attributes])
    multipliers = {place: split.multipliers for place, split in enumerate(splits) if split is not None}
    kappas, largest = dict.fromkeys(multipliers, 1.0), 0.0
    for _ in range(_ROUNDS if multipliers else 1):
        for place, v in multipliers.items():
            means[place], rests[place] = attributes[place].below(v, kappas[place])
        loss = parts.loss(means, rests)
        if loss.value <= largest * (1 + _WORTH):
            break
        largest = loss.value
        for place in multipliers:
            slope = loss.by_mean[place] * math.sqrt(means[place])
            kappas[place] = slope / (loss.by_rest[place] * math.sqrt(rests[place]))
    return largest**2


@dataclass(frozen=True, eq=False)
class _Integers:
    """frames: One an attribute, None where it has no residual. weights: One a part."""

    frames: list[ResidualFrame | None]
    weights: list[int]
    spread: float
    squared_sensitivity: int

    @property
    def error(self) -> float:
        return self.spread * self.squared_sensitivity


def _rounded(
    parts: CliqueParts, attributes: list[AttributeResidual], splits: list[Split | None], ideal: float
) -> _Integers:
    """The best of some grids for entries and for weights: finer ones for the first leave less for the second."""
    best: _Integers | None = None
    finest = 0
    for bits in _BITS if any(split is not None for split in splits) else (0,):
        if best is not None and bits < finest - _COARSER:
            break
        try:
            frames = _frames(attributes, splits, bits)
        except ValueError:
            break  # A coarser grid would miss a part too.
        costs, energies = _integer_costs(parts, attributes, frames)
        entries = parts.products(np.array([_largest_entry(frame) for frame in frames]))
        wanted = np.sqrt(np.maximum(np.sqrt(energies * costs), math.sqrt(ideal) * _LEAST_ROOT) / costs)
        for least in _WEIGHTS:
            weights = np.rint(wanted * (least / wanted.min()))
            if (weights * entries).max() > _LARGEST_WEIGHT:
                continue
            weights /= np.gcd.reduce(weights.astype(np.int64))
            squared = sum(
                int(weight) ** 2 * math.prod(frame.cost for place in part if (frame := frames[place]) is not None)
                for part, weight in zip(parts.parts, weights, strict=True)
            )
            made = _Integers(frames, weights.astype(np.int64).tolist(), float((energies / weights**2).sum()), squared)
            finest = max(finest, bits)
            if best is None or made.error < best.error:
                best = made
    if best is None:
        raise ValueError("the parts of the workload want precisions too far apart; want weights that differ less")
    return best


def _frames(attributes: list[AttributeResidual], splits: list[Split | None], bits: int) -> list[ResidualFrame | None]:
    made: dict[tuple[int, int], ResidualFrame | None] = {}
    keys = [(id(one), id(split)) for one, split in zip(attributes, splits, strict=True)]
    for key, one, split in zip(keys, attributes, splits, strict=True):
        if key not in made:
            made[key] = None if one.flat else one.rounded(split, bits)
    return [made[key] for key in keys]


def _integer_costs(
    parts: CliqueParts, attributes: list[AttributeResidual], frames: list[ResidualFrame | None]
) -> tuple[Vector, Vector]:
    """Of each part: the squared norm of its integer columns, and the error it brings at noise 1 in its answers."""
    both = [
        (one.mean, 1.0) if frame is None else one.costs(frame) for one, frame in zip(attributes, frames, strict=True)
    ]
    means, rests = np.array(both).reshape(-1, 2).T
    costs = parts.products(np.array([1.0 if frame is None else float(frame.cost) for frame in frames]))
    return costs, parts.energies(means) * parts.products(rests)


def _largest_entry(frame: ResidualFrame | None) -> float:
    return 1.0 if frame is None else float(np.abs(frame.matrix).max())
