"""The 40 cliques of `tabular/adult/cliques40.json` with Gaussian noise: a fit whose junction tree takes 5 MB."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.evaluation import exact_answers
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from tests.benchmarks.case import Inputs
from tests.benchmarks.figures import datasets
from tests.support.datasets import folder

STDDEV: Final = 50.0
NOISE_SEED: Final = 0
PARAMS: Final = {
    "dataset": "tabular/adult", "cliques": "tabular/adult/cliques40.json", "noise": "Gaussian, without rounding",
    "stddev": STDDEV, "noise_seed": NOISE_SEED,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class NoisyMarginals:
    """What a fit is made from.

    values: float64 [queries.size], in counts. exact: int64, the same without noise. total: Rows of the table.
    """

    queries: Marginals
    values: NDArray[np.float64]
    exact: NDArray[np.int64]
    total: float

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """One a clique."""
        tables = zip(self.queries.cliques, self.queries.split(self.values), strict=True)
        return tuple(
            Measurement(self.queries.only([clique]), table.ravel().astype(np.float64), Noise.GAUSSIAN, STDDEV)
            for clique, table in tables
        )


def inputs(data: Path) -> Inputs:
    cliques = folder() / "tabular" / "adult" / "cliques40.json"
    return {**datasets.tabular_inputs("adult", data), "cliques": cliques}


def noisy_marginals(paths: Inputs) -> NoisyMarginals:
    """Exact marginals by the local engine, and the same noise at every call."""
    table = datasets.tabular(paths)
    cliques = [tuple(clique) for clique in json.loads(paths["cliques"].read_text())]
    queries = Marginals(table.domain, tuple(cliques))
    exact = exact_answers(table.statistics, queries)
    noise = np.random.default_rng(NOISE_SEED).normal(0.0, STDDEV, queries.size)
    return NoisyMarginals(queries, exact + noise, exact, float(table.units))
