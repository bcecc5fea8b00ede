"""Noise against its exact law: eight statistics for each law and scale, wrong scales, another library, planted bugs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from dpcore.kernel.noise import add_noise
from dpcore.measurement import Noise
from tests.audit.section import Row, Size
from tests.support.noise_distributions import distribution
from tests.support.noise_statistics import STATISTICS, Sample, power

TITLE = "Sampler laws"
CLAIM = (
    "Additive noise has its stated law. A right sampler fails any of all these tests with chance below 1e-6 (half of "
    "it is kept for the normal approximations); a scale 0.75 % wrong is rejected with power above 0.99 for every law "
    "and scale. Each row has 8 statistics: " + ", ".join(STATISTICS) + ". Two million draws a row, because from one "
    "million Laplace draws no test of this level has power above 0.96. opendp's samplers pass the same tests; planted "
    "bugs must be rejected."
)

dp.enable_features("contrib")

FAMILY_ERROR = 1e-6
POWER = 0.99
LAWS = tuple(Noise)
Draws = NDArray[np.int64]
Sampler = Callable[[Noise, float, int], Draws]


@dataclass(frozen=True)
class Plan:
    """How much is drawn.

    draws: For each row.
    wrong_by: The relative error of a scale that must be noticed.
    repetitions: Draws of a wrong scale for each row.
    """

    scales: tuple[float, ...]
    draws: int
    wrong_by: float
    repetitions: int

    @property
    def level(self) -> float:
        """Of one statistic: half of the family's error, shared by all tests of samplers that should pass."""
        rows = len(LAWS) * len(self.scales) + len(PEERS)
        return FAMILY_ERROR / 2 / (rows * len(STATISTICS))


PLANS = {
    Size.FULL: Plan((0.3, 1.0, 2.7, 10.0, 1000.0, 123456.789), 2_000_000, 0.0075, 100),
    Size.FAST: Plan((0.3, 1000.0), 200_000, 0.03, 3),
}


def kernel(noise: Noise, scale: float, size: int) -> Draws:
    """What the kernel adds to zeros, in steps."""
    return add_noise(np.zeros(size, dtype=np.int64), noise, scale)


def opendp(noise: Noise, scale: float, size: int) -> Draws:
    """opendp's discrete Laplace and Gaussian (Canonne, Kamath and Steinke 2020)."""
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if noise is Noise.LAPLACE:
        measure = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    else:
        measure = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)
    return np.asarray(measure(np.zeros(size, dtype=np.int64)), dtype=np.int64)


PEERS = ((Noise.LAPLACE, 10.0), (Noise.GAUSSIAN, 10.0))


@dataclass(frozen=True)
class Bug:
    """A wrong sampler. draws: From right draws of this law and scale, and the fraction by which a scale is wrong."""

    name: str
    noise: Noise
    scale: float
    draws: Callable[[Draws, float], Draws]


def float_gaussian(right: Draws, wrong_by: float) -> Draws:
    return np.round(np.random.default_rng().normal(0.0, 1000.0 * (1 + wrong_by), right.size)).astype(np.int64)


def laplace_for_gaussian(right: Draws, _: float) -> Draws:
    return kernel(Noise.LAPLACE, 1000.0 / math.sqrt(2), right.size)


def keeps_minus_zero(right: Draws, _: float) -> Draws:
    """Zero comes twice as often: as many zeros as there are take the places of evenly spread draws."""
    again = np.flatnonzero(right == 0)
    kept = np.delete(right, np.arange(0, right.size, right.size // (again.size + 1))[: again.size])
    return np.concatenate([kept, np.zeros(again.size, dtype=np.int64)])


def short_tail(right: Draws, _: float) -> Draws:
    """Beyond 3.8 sigma nothing is drawn, as by a table that ends there."""
    return np.clip(right, -3800, 3800)


def repeated_words(right: Draws, _: float) -> Draws:
    """One draw in 20 is that of the cell before."""
    again = np.arange(1, right.size, 20)
    found = right.copy()
    found[again] = found[again - 1]
    return found


BUGS = (
    Bug("rounded float Gaussian, wrong scale", Noise.GAUSSIAN, 1000.0, float_gaussian),
    Bug("Laplace for Gaussian", Noise.GAUSSIAN, 1000.0, laplace_for_gaussian),
    Bug("minus 0 is kept", Noise.LAPLACE, 10.0, keeps_minus_zero),
    Bug("tail is cut off", Noise.GAUSSIAN, 1000.0, short_tail),
    Bug("random words used twice", Noise.ROUNDED_GAUSSIAN, 10.0, repeated_words),
)


def run(size: Size) -> Sequence[Row]:
    return list(_rows(PLANS[size]))


def _rows(plan: Plan) -> Iterator[Row]:
    for noise in LAWS:
        for scale in plan.scales:
            yield _right(plan, "kernel", kernel, noise, scale)
    for noise, scale in PEERS:
        yield _right(plan, "opendp", opendp, noise, scale, repetitions=0)
    for bug in BUGS:
        yield _wrong(plan, bug)


def _right(plan: Plan, name: str, sampler: Sampler, noise: Noise, scale: float, repetitions: int | None = None) -> Row:
    """A sampler that must pass, while draws of a wrong scale must not."""
    law = distribution(noise, scale)
    statistic, p_value = worst(Sample(sampler(noise, scale, plan.draws), law))
    expected = power(law, plan.draws, plan.wrong_by, plan.level)
    count = plan.repetitions if repetitions is None else repetitions
    noticed = sum(_wrong_scale_is_noticed(plan, noise, scale, index) for index in range(count))
    cells = _cells(name, noise, scale, plan, statistic, p_value)
    cells |= {"power": round(expected, 6), "wrong scale rejected": f"{noticed} of {count}" if count else ""}
    return Row(cells, p_value >= plan.level and expected >= POWER and noticed >= 0.97 * count)


def _wrong_scale_is_noticed(plan: Plan, noise: Noise, scale: float, index: int) -> bool:
    """Too large and too small in turn."""
    wrong = scale * (1 + plan.wrong_by) ** (1 if index % 2 else -1)
    sample = Sample(kernel(noise, wrong, plan.draws), distribution(noise, scale))
    return any(statistic(sample) < plan.level for statistic in STATISTICS.values())


def _wrong(plan: Plan, bug: Bug) -> Row:
    """A planted bug, which passes when it is rejected."""
    draws = bug.draws(kernel(bug.noise, bug.scale, plan.draws), plan.wrong_by)
    statistic, p_value = worst(Sample(draws, distribution(bug.noise, bug.scale)))
    cells = _cells(bug.name, bug.noise, bug.scale, plan, statistic, p_value)
    return Row(cells | {"power": "", "wrong scale rejected": ""}, p_value < plan.level)


def worst(sample: Sample) -> tuple[str, float]:
    """The statistic with the smallest p-value."""
    p_values = {name: statistic(sample) for name, statistic in STATISTICS.items()}
    name = min(p_values, key=p_values.__getitem__)
    return name, p_values[name]


def _cells(
    name: str, noise: Noise, scale: float, plan: Plan, statistic: str, p_value: float
) -> dict[str, str | int | float]:
    return {
        "sampler": name,
        "law": noise.value,
        "scale": str(scale),
        "draws": plan.draws,
        "smallest p": p_value,
        "of": statistic,
        "rejected": "yes" if p_value < plan.level else "no",
        "wrong by": f"{plan.wrong_by:.2%}",
    }
