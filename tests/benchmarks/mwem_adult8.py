"""MWEM on the eight categorical attributes of Adult, a dense table of 38.1 million cells, by a release config."""

from __future__ import annotations

from tests.benchmarks.case import Case, Target, mean_cpu_seconds
from tests.benchmarks.configured import inputs_of, judge, prepare, work

CASE = Case(
    params={"config": "tests/support/configs/adult8.yaml", "engine": "local", "fractions_of": "units"},
    seeds=(1, 2),
    inputs=inputs_of("adult8.yaml", "adult.schema.yaml", "raw/adult"),
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("cells of the dense table", "==", 38_102_400, lambda runs: runs[0].facts["cells"]),
        Target("CPU seconds", "<=", 180, mean_cpu_seconds),
        Target("peak memory, MB", "<=", 2_000, lambda runs: max(run.peak_rss_mb for run in runs)),
        Target(
            "mean error over that of the product of exact one-way marginals",
            "<",
            1.0,
            lambda runs: max(run.error["mean"] / run.baselines["product"]["mean"] for run in runs),
        ),
    ),
)
