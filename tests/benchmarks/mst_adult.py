"""MST on Adult, all 455 3-way marginals at epsilon 1."""

from __future__ import annotations

from tests.benchmarks.graphical.release_case import Setting, cpu_at_most, errors_at_most, release_case

CASE = release_case(
    Setting(
        "adult",
        "mst",
        beside=("independent",),
        measured_apart="mbi's mst.py: rows 0.1844, 76 CPU s; dpsynth: rows 0.1824, 29 CPU s",
    ),
    [*errors_at_most(mean=0.184), cpu_at_most(6)],
)
