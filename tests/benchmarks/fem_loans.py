"""FEM with default parameters on Loans: Figure 1 of Vietri et al. (2020)."""

from __future__ import annotations

from tests.benchmarks.fem_release import table_case

CASE = table_case(
    "loans", limits=(0.24, 0.20, 0.18, 0.16, 0.115, 0.10), published=(0.254, 0.215, 0.188, 0.164, 0.120, 0.106)
)
