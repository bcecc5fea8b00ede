"""AIM on Adult at epsilon 10, where the budget fills a model of 80 MB: peak memory stays within 6 times that size."""

from __future__ import annotations

from tests.benchmarks.graphical.release_case import Setting, memory_at_most, release_case

CAPACITY_MB = 80
CASE = release_case(
    Setting(
        "adult",
        "aim",
        epsilon=10.0,
        settings={"max_model_mb": CAPACITY_MB},
        beside=("independent",),
        measured_apart="mbi's aim.py: hours",
    ),
    [memory_at_most(6 * CAPACITY_MB)],
    seeds=(1,),  # A run takes minutes, and memory hardly differs between runs.
)
