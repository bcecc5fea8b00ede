"""AIM on Loans, 48 attributes, 100 random 3-way marginals at epsilon 1, compared with other mechanisms with a model."""

from __future__ import annotations

from tests.benchmarks.graphical.release_case import Setting, below, cpu_at_most, release_case
from tests.benchmarks.graphical.workloads import random_three_way

BESIDE = ("independent", "mst", "mwem_pgm")
MARGINALS = 100
CASE = release_case(
    Setting(
        "loans",
        "aim",
        workload=random_three_way(MARGINALS),
        asked=f"{MARGINALS} random 3-way marginals, each with at most as many cells as there are rows",
        beside=BESIDE,
    ),
    [*below(BESIDE), cpu_at_most(600)],
)
