"""AIM on Titanic, all 84 3-way marginals at epsilon 1."""

from __future__ import annotations

from tests.benchmarks.graphical.release_case import Setting, cpu_at_most, errors_at_most, release_case

CASE = release_case(
    Setting(
        "titanic",
        "aim",
        beside=("independent", "mst", "mwem_pgm"),
        measured_apart="mbi's aim.py, 80 MB: mean 0.517, rows 0.528, 113 CPU s, 3.5 GB",
    ),
    [*errors_at_most(mean=0.505, rows=0.515), cpu_at_most(15)],
)
