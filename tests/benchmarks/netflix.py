"""Generated Netflix: 480,189 users x 17,770 films, about 98 million pairs in 64 Parquet files, created once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.generate.basket_law import TASTES, fit_law
from pipelines.generate.baskets import ITEM, UNIT, write_baskets
from pipelines.layout import BasketLayout
from tests.benchmarks.case import Inputs
from tests.benchmarks.generated import kept

USERS, FILMS, FILES = 480_189, 17_770, 64
ASKED_PAIRS = 100_480_507  # Of these, tastes leave about 98 million.
SEED = 1
LAYOUT = BasketLayout(UNIT, ITEM, FILMS, clustered_by_unit=True)
PARAMS = {"users": USERS, "films": FILMS, "asked_pairs": ASKED_PAIRS, "files": FILES, "data_seed": SEED}


def inputs(data: Path) -> Inputs:
    def make(folder: Path) -> None:
        write_baskets(folder, users=USERS, films=FILMS, pairs=ASKED_PAIRS, files=FILES, seed=SEED)
        np.save(folder / "popularity.npy", _fitted_popularity())

    return {"baskets": kept(data, f"netflix-{USERS}x{FILMS}-{ASKED_PAIRS}-seed{SEED}", make)}


def public_popularity(paths: Inputs) -> NDArray[np.float64]:
    """The generator's own weight of each film, float64 [FILMS]: public, not counted from the data."""
    weights: NDArray[np.float64] = np.load(paths["baskets"] / "popularity.npy")
    return weights


def _fitted_popularity() -> NDArray[np.float64]:
    law = fit_law(users=USERS, films=FILMS, pairs=ASKED_PAIRS, generator=np.random.default_rng([SEED, 0, 0]))
    return np.asarray(law.rates.sum(axis=0) / TASTES)
