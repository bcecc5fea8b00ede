"""AIM on MSNBC, a million rows, all 560 3-way marginals at epsilon 1, compared with other mechanisms with a model."""

from __future__ import annotations

from tests.benchmarks.graphical.release_case import Setting, below, cpu_at_most, release_case

BESIDE = ("independent", "mst", "mwem_pgm")
CASE = release_case(Setting("msnbc", "aim", beside=BESIDE), [*below(BESIDE), cpu_at_most(300)])
