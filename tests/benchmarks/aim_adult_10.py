"""AIM on Adult, all 455 3-way marginals at epsilon 10, where the size of the model binds."""

from __future__ import annotations

from tests.benchmarks.graphical.release_case import Setting, cpu_at_most, errors_at_most, release_case

CASE = release_case(
    Setting("adult", "aim", epsilon=10.0), [*errors_at_most(mean=0.059), cpu_at_most(600)], seeds=(1, 2, 3)
)
