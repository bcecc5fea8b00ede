"""DualQuery on KDD99, 100,000 3-way conjunctions over one-hot columns: the config of a release."""

from __future__ import annotations

from tests.benchmarks.case import Case, Target
from tests.benchmarks.configured import inputs_of, judge, prepare, work

CASE = Case(
    params={"config": "tests/support/configs/kdd99.yaml", "engine": "local", "fractions_of": "units"},
    seeds=(1, 2, 3),
    inputs=inputs_of("kdd99.yaml", "kdd99.schema.yaml", "raw/kdd99"),
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target(
            "largest error over that of the product of exact one-way marginals",
            "<",
            0.5,
            lambda runs: max(run.error["max"] / run.baselines["product"]["max"] for run in runs),
        ),
        Target(
            "mean error over that of the product of exact one-way marginals",
            "<",
            1.0,
            lambda runs: max(run.error["mean"] / run.baselines["product"]["mean"] for run in runs),
        ),
    ),
)
