"""20 million exact discrete Gaussians on all cores, compared with opendp's; Laplace and rounded Gaussian too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from dpcore.kernel.noise import add_noise
from dpcore.measurement import Noise
from tests.benchmarks.case import Case, Inputs, Judgement, Peer, Run, Target
from tests.support.noise_distributions import distribution
from tests.support.noise_statistics import STATISTICS, Sample

dp.enable_features("contrib")

DRAWS, PEER_DRAWS, SIGMA = 20_000_000, 300_000, 1000.0


@dataclass(frozen=True)
class State:
    """exact: What noise is added to."""

    exact: NDArray[np.int64]


def inputs(data: Path) -> Inputs:
    return {}


def prepare(paths: Inputs, seed: int) -> State:
    return State(np.zeros(DRAWS, dtype=np.int64))


def work(state: State) -> NDArray[np.int64]:
    return add_noise(state.exact, Noise.GAUSSIAN, SIGMA)


def with_opendp(state: State) -> NDArray[np.int64]:
    """opendp's discrete Gaussian on the first PEER_DRAWS cells."""
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measure = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=SIGMA)
    return np.asarray(measure(state.exact[:PEER_DRAWS]), dtype=np.int64)


def judge(state: State, noisy: NDArray[np.int64]) -> Judgement:
    """Relative error of the variance, whose standard deviation is 3e-4, and the least likely of eight statistics."""
    sample = Sample(noisy, distribution(Noise.GAUSSIAN, SIGMA))
    return Judgement(
        error={"variance": abs(float(np.square(noisy.astype(np.float64)).mean()) / SIGMA**2 - 1)},
        facts={
            "smallest_p_of_8": min(statistic(sample) for statistic in STATISTICS.values()),
            "laplace_millions_per_cpu_second": _rate(state, Noise.LAPLACE),
            "rounded_gaussian_millions_per_cpu_second": _rate(state, Noise.ROUNDED_GAUSSIAN),
            "opendp_millions_per_cpu_second": _rate_of_opendp(state),
        },
    )


def _rate(state: State, noise: Noise) -> float:
    add_noise(state.exact[:1], noise, SIGMA)
    began = time.process_time()
    add_noise(state.exact, noise, SIGMA)
    return DRAWS / 1e6 / (time.process_time() - began)


def _rate_of_opendp(state: State) -> float:
    began = time.process_time()
    with_opendp(state)
    return PEER_DRAWS / 1e6 / (time.process_time() - began)


def worst_rate(runs: Sequence[Run]) -> float:
    return min(DRAWS / 1e6 / run.cpu_seconds for run in runs)


CASE = Case(
    params={"law": Noise.GAUSSIAN.value, "sigma": SIGMA, "draws": DRAWS, "peer_draws": PEER_DRAWS},
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    peer=Peer(f"opendp, {PEER_DRAWS:,} draws", with_opendp),
    targets=(
        Target("million Gaussians a CPU second, worst of 3", ">=", 1.5, worst_rate),
        Target("smallest p of 8 statistics", ">=", 1e-8, lambda runs: min(r.facts["smallest_p_of_8"] for r in runs)),
    ),
)
