"""Fig. 3 and 4 of the MWEM paper: contingency tables of binary attributes, by relative entropy of the whole table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.fourier import Fourier
from dpcore.mechanisms.gaussian_pgm import GaussianPgm
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.mechanisms.mwem.mwem_queries import MwemQueries
from dpcore.queries import Marginals
from dpcore.workload import all_k_way
from tests.benchmarks.mwem.histograms import Histogram
from tests.benchmarks.mwem.lines import Line, expected, line, release, repeated
from tests.support.constants import with_constants
from tests.support.relative_entropy import relative_entropy

MEASURE: Final = "relative entropy"
MIXED: Final = 1e-6  # Part of every released table that is uniform: one cell of 0 would make the entropy infinite.
BARAK, BARAK_STOPPED = "Barak + MW", "Barak + MW, stopped"
MWEM_PARITIES: Final = "MWEM, parities"
OURS: Final[Mapping[str, Mechanism]] = {
    "hdmm, graphical": Hdmm(reconstruction="graphical"),
    "gaussian_pgm": GaussianPgm(),
    "clique_tree": CliqueTree(),
    "aim": Aim(),
}


@dataclass(frozen=True)
class Setting:
    """A panel. rounds: Of MWEM. runs: Releases of each series. all_forms: Whether MWEM runs in all its forms."""

    order: int
    epsilons: tuple[float, ...]
    rounds: int
    runs: int
    all_forms: bool

    def mechanisms(self) -> dict[str, Mechanism]:
        found: dict[str, Mechanism] = {
            BARAK: Fourier(profile="published"),
            BARAK_STOPPED: Fourier(),
            MWEM_PARITIES: MwemQueries(queries="parities", rounds=self.rounds),
        }
        if self.all_forms:
            found["MWEM, Fig. 1"] = MwemQueries(queries="parities", rounds=self.rounds, profile="published")
            found["MWEM, noisy cells"] = with_constants(
                MwemQueries(queries="parities", rounds=self.rounds), start="cells", start_share=0.5
            )
            found["mwem, whole marginals"] = Mwem()
        return {**found, **OURS}


def panel(name: str, data: Histogram, setting: Setting) -> Iterator[Line]:
    """All lines of one plot."""
    workload = all_k_way(data.domain, setting.order)
    whole = Marginals(data.domain, (data.domain.names,))
    cells = data.domain.size()
    product = np.ones(1)
    for attribute in data.domain.names:
        product = np.multiply.outer(product, data.table((attribute,)) / data.units)
    for epsilon in setting.epsilons:
        for series, mechanism in setting.mechanisms().items():

            def one(seed: int, mechanism: Mechanism = mechanism, epsilon: float = epsilon) -> list[float]:
                model = release(data, mechanism, workload, epsilon, seed).model
                assert model is not None
                table = model.answer(whole)
                return [relative_entropy(data.counts, (1 - MIXED) * table / table.sum() + MIXED / cells)]

            (found,) = repeated(setting.runs, one)
            yield line(name, epsilon, series, MEASURE, found)
        yield expected(name, epsilon, "uniform", MEASURE, relative_entropy(data.counts, np.full(cells, 1 / cells)))
        yield expected(name, epsilon, "exact one-way product", MEASURE, relative_entropy(data.counts, product.ravel()))
