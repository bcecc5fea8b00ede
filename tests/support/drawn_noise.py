"""Noise of the kernel's laws from a seeded generator, for simulations, and models that are one table."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.measurement import GRID_BITS, Measurement, Noise
from dpcore.queries import Marginals


def drawn(
    noise: Noise, scale: float, shape: int | tuple[int, ...], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Independent values of the law, in counts."""
    if noise is Noise.ROUNDED_GAUSSIAN:
        return np.rint(generator.normal(0, scale, shape) * 2**GRID_BITS) / 2**GRID_BITS
    if noise is Noise.LAPLACE:
        chance = -math.expm1(-1 / scale)
        return (generator.geometric(chance, shape) - generator.geometric(chance, shape)).astype(np.float64)
    whole = np.arange(-math.ceil(10 * scale) - 2, math.ceil(10 * scale) + 3)
    mass = np.exp(-((whole / scale) ** 2) / 2)
    return generator.choice(whole, shape, p=mass / mass.sum()).astype(np.float64)


def measured(
    queries: Marginals, exact: NDArray[np.float64], noise: Noise, scale: float, generator: np.random.Generator
) -> Measurement:
    """The exact answers with noise."""
    return Measurement(queries, exact + drawn(noise, scale, exact.size, generator), noise, scale)


def one_table(domain: Domain, table: NDArray[np.float64]) -> GraphicalModel:
    """The model with these counts, one a cell of the domain in its order."""
    chances = np.maximum(table.ravel(), 0.0)
    tree = JunctionTree.of(domain, [domain.names])
    return GraphicalModel(tree, (chances[None, :] / chances.sum(),), float(chances.sum()))
