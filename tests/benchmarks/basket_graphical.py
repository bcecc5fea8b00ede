"""A graphical model of bounded width in size classes, beside ``basket_mixture``: pairs and triples of popular items.

``python -m tests.benchmarks.basket_graphical`` prints one row a dataset and method. The table that the graphical model
sees has the size class of a basket and a yes/no attribute for each of the most popular items, which are taken from the
exact counts, in its favour. ``dpcore/decisions/baskets.md`` has what came out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.baskets.basket_mixture import BasketMixture
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.independent import Independent
from dpcore.mechanisms.mst import Mst
from dpcore.queries import Conjunctions, Marginals
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive
from tests.benchmarks.basket_synthetic import DELTA, EPSILON, LAYOUTS
from tests.support.datasets import folder

POPULAR: Final = 60
SIZE_STARTS: Final = np.array([1, 2, 3, 4, 6, 9, 13, 20])  # The smallest size of each class, but for the first.
TRIPLES: Final = 2_000
DATASETS: Final = ("groceries", "msweb", "mushroom")
Floats = NDArray[np.float64]


def main() -> None:
    """Prints the errors as fractions of the units, largest and mean, and the CPU seconds of the release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    arguments = parser.parse_args()
    for name in arguments.datasets:
        bits = _bits(folder() / "baskets" / name, LAYOUTS[name].view.columns)
        for seed in arguments.seeds:
            for method, figures, seconds in _compared(bits, seed):
                print(f"{name} {seed} {method:14} {figures}  {seconds:6.1f} CPU s", flush=True)


def _bits(path: Path, items: int) -> NDArray[np.bool_]:
    table = ds.dataset(sorted(map(str, path.glob("*.parquet"))), format="parquet").to_table()
    units, unit = np.unique(table["unit_id"].to_numpy(), return_inverse=True)
    bits = np.zeros((units.size, items), dtype=np.bool_)
    bits[unit, table["item_id"].to_numpy()] = True
    return bits


def _compared(bits: NDArray[np.bool_], seed: int) -> Iterator[tuple[str, str, float]]:
    popular = np.sort(np.argsort(-bits.sum(axis=0), kind="stable")[:POPULAR])
    draw = np.random.default_rng(7)
    cliques = {
        "pairs": np.array(list(combinations(range(popular.size), 2))),
        "triples": np.sort(np.array([draw.choice(popular.size, 3, replace=False) for _ in range(TRIPLES)]), axis=1),
    }
    sizes = np.searchsorted(SIZE_STARTS, bits.sum(axis=1), side="right")
    domain = Domain.of({"size": len(SIZE_STARTS) + 1} | {f"item{item}": 2 for item in popular})
    table = TinyTable(domain, np.column_stack([sizes, bits[:, popular]]).astype(np.int64))
    view = BinaryView(bits.shape[1])
    baskets = TinyBaskets(view, bits)
    pairs, singles = all_k_way(domain, 2), conjunctive(Conjunctions.single_columns(view))
    jobs: list[tuple[str, CliqueTree | Mst | BasketMixture | Independent, Statistics, Workload]] = [
        ("clique_tree", CliqueTree(order=2), table, pairs),
        ("mst", Mst(), table, pairs),
        ("basket_mixture", BasketMixture(), baskets, singles),
        ("independent", Independent(), baskets, singles),
    ]
    budget = budget_of(EPSILON, DELTA, Currency.GDP)
    for method, mechanism, statistics, workload in jobs:
        started = time.process_time()
        release = mechanism.run(private_statistics(statistics, budget), workload, generator=np.random.default_rng(seed))
        seconds = time.process_time() - started
        texts = []
        for label, positions in cliques.items():
            exact = bits[:, popular[positions]].all(axis=2).mean(axis=0)
            distances = np.abs(_answers(release, domain if statistics is table else view, popular, positions) - exact)
            texts.append(f"{label} {distances.max():.4f} / {distances.mean():.6f}")
        yield method, "  ".join(texts), seconds


def _answers(
    release: Release, over: Domain | BinaryView, popular: NDArray[np.int64], positions: NDArray[np.int64]
) -> Floats:
    """The modelled fraction of units that hold all items of each row of positions, float64 [rows]."""
    model = release.model
    assert model is not None
    if isinstance(over, BinaryView):
        items = popular[positions].astype(np.int32)
        return model.answer(Conjunctions(over, items, np.zeros(items.shape, dtype=np.bool_))) / model.total
    queries = Marginals(over, tuple(tuple(f"item{popular[p]}" for p in row) for row in positions))
    return np.array([np.ravel(table)[-1] for table in queries.split(model.answer(queries))]) / model.total


if __name__ == "__main__":
    main()
