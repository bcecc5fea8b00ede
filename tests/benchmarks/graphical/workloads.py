"""The workloads of the thesis's experiments (section 5.6), and its datasets with their target attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from dpcore.domain import Domain
from dpcore.workload import Workload, all_k_way, skewed, target
from tests.benchmarks.figures.datasets import Table, marginals

ORDER: Final = 3
SKEWED_DRAWS: Final = 256
SEED: Final = 0
# The thesis predicts these two; elsewhere it draws the target, here the attribute that stands in the middle.
_TARGETS: Final = {"adult": "income>50K", "titanic": "Survived"}


def all_three_way(name: str, table: Table) -> Workload:
    """ALL-3WAY."""
    return all_k_way(table.domain, ORDER)


def target_of(name: str, domain: Domain) -> str:
    return _TARGETS.get(name, domain.names[len(domain.names) // 2])


def with_target(name: str, table: Table) -> Workload:
    """TARGET: all 3-way marginals of one attribute."""
    return target(table.domain, ORDER, target_of(name, table.domain))


def of_favourites(name: str, table: Table) -> Workload:
    """SKEWED: 256 draws of triples; one that is drawn again weighs more."""
    return skewed(table.domain, ORDER, SKEWED_DRAWS, np.random.default_rng(SEED))


def random_three_way(count: int) -> Callable[[str, Table], Workload]:
    """Different random 3-way marginals, each with at most as many cells as the table has rows."""

    def workload(name: str, table: Table) -> Workload:
        return Workload(marginals(table, ORDER, count), np.ones(count))

    return workload


WORKLOADS: Final[dict[str, Callable[[str, Table], Workload]]] = {
    "ALL-3WAY": all_three_way,
    "TARGET": with_target,
    "SKEWED": of_favourites,
}
