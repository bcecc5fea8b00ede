"""What `plan` recommends, in 252 settings of generated and real tables, against all mechanisms for marginals.

The case computes what results/study lacks; ``python -m tests.benchmarks.study --minutes 30`` computes it in slices.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.harness import FOLDER
from tests.benchmarks.study import __main__ as study
from tests.benchmarks.study.comparison import Comparison, comparisons, mean_ratio, share
from tests.benchmarks.study.configurations import EPSILONS, FAMILIES, KINDS
from tests.benchmarks.study.report import choices
from tests.benchmarks.study.store import Store
from tests.benchmarks.study.tables import REAL
from tests.benchmarks.study.worker import CANDIDATES
from tests.support.datasets import folder

RESULTS = FOLDER / "results" / "study"
MINUTES = 600.0  # CPU minutes, more than the whole study takes.


def inputs(data: Path) -> Inputs:
    return {name: folder() / "tabular" / name for name in REAL}


def prepare(paths: Inputs, seed: int) -> None:
    """Each setting makes its own table."""


def work(state: None) -> list[Comparison]:
    """Computes setting after setting. What is done stays stored when a later one fails."""
    study.main(["--refresh", "--minutes", str(MINUTES)])
    return comparisons(Store.opened(RESULTS))


def judge(state: None, settings: list[Comparison]) -> Judgement:
    """Geometric means of errors over the least ones: of `plan`, and of each mechanism if it were always recommended."""
    rules = choices(settings)
    always = {name: dict.fromkeys((one.key for one in settings), name) for name in CANDIDATES}
    return Judgement(
        error={"mean": mean_ratio(settings, rules["plan"])},
        baselines={name: {"mean": mean_ratio(settings, chosen)} for name, chosen in (always | rules).items()},
        facts={
            "settings": len(settings),
            **{f"best or as good: {name}": share(settings, chosen) for name, chosen in (rules | always).items()},
        },
    )


def _fact(name: str, runs: Sequence[Run]) -> float:
    return runs[0].facts[name]


CASE = Case(
    params={
        "families": FAMILIES, "workloads": KINDS, "epsilons": EPSILONS, "delta": 1e-9,
        "neighbours": "add or remove one row, n private", "mechanisms": tuple(CANDIDATES),
        "error": "thesis, Definition 26, over the least of the setting", "results": "study/*.jsonl, STUDY.md",
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("settings", ">=", 200, functools.partial(_fact, "settings")),
        Target(
            "share of settings where the recommended is the best, or as good within 3 % or two standard errors",
            ">=", 0.95, functools.partial(_fact, "best or as good: plan"),
        ),
    ),
    cold=False,
)  # fmt: skip
