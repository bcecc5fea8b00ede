"""FEM with default parameters on Adult: Figure 1 of Vietri et al. (2020)."""

from __future__ import annotations

from tests.benchmarks.fem_release import table_case

CASE = table_case(
    "adult", limits=(0.16, 0.12, 0.10, 0.088, 0.075, 0.068), published=(0.172, 0.133, 0.113, 0.106, 0.078, 0.076)
)
