"""What plan predicts against what 50 releases give: each mechanism predicts the mean error, or says that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from dpcore.errors import ConfigError
from dpcore.evaluation import exact_answers
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.queries import Marginals
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.workload import Workload, all_k_way, downward_closure, explicit, linear
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.releases import mechanism, private_of

RELEASES: Final = 50
MORE_RELEASES: Final = 1_000
"""Of prefixes, whose few answers share their noise: the mean of 50 releases still varies by a tenth."""

EPSILONS: Final = (0.1, 1.0)
PREDICTED: Final = ("gaussian", "laplace", "hdmm")
_DELTA: Final = 1e-6
_OTHERS: Final = ("aim", "clique_tree", "dqrs", "clipped_gaussian", "mst", "independent", "gaussian_pgm", "mwem")


def _pairs(table: Table) -> Workload:
    return all_k_way(table.domain, 2)


def _down_to_rows(table: Table) -> Workload:
    queries = _pairs(table).queries
    assert isinstance(queries, Marginals)
    return explicit(table.domain, dict.fromkeys(downward_closure(queries.cliques), 1.0))


def _prefixes(table: Table) -> Workload:
    names = table.domain.names[:3]
    matrices = {name: prefix(table.domain.size((name,)), table.domain.size((name,))) for name in names}
    return linear(range_marginals(table.domain, [*((name,) for name in names), names[:2]], matrices))


WORKLOADS: Final[dict[str, Callable[[Table], Workload]]] = {
    "pairs": _pairs, "up to pairs": _down_to_rows, "prefixes": _prefixes,
}  # fmt: skip


def ratios(table: Table) -> Iterator[tuple[str, float]]:
    """Yields each setting with the mean error of its releases over the predicted one."""
    statistics = Remembered(table.statistics)
    for asked, build in WORKLOADS.items():
        workload = build(table)
        exact = exact_answers(statistics, workload.queries)
        for name in PREDICTED:
            for epsilon in EPSILONS:
                made, delta = mechanism(name), 0.0 if name == "laplace" else _DELTA
                predicted = made.plan(private_of(statistics, made, epsilon, delta).terms, workload).predicted_error
                assert predicted is not None
                errors = [
                    np.abs(
                        made.run(
                            private_of(statistics, made, epsilon, delta),
                            workload,
                            generator=np.random.default_rng(seed),
                        ).answers.values
                        - exact
                    ).mean()
                    for seed in range(MORE_RELEASES if asked == "prefixes" else RELEASES)
                ]
                yield f"{name}, {asked}, epsilon {epsilon:g}", float(np.mean(errors)) / predicted


def stated(table: Table) -> dict[str, float]:
    """1 for each mechanism that predicts an error of pairs although its error depends on the data; 0 if it declines."""
    workload = _pairs(table)
    found = {}
    for name in _OTHERS:
        made = MECHANISMS[name]()
        try:
            terms = private_of(table.statistics, made, 1.0, _DELTA).terms
            found[name] = float(made.plan(terms, workload).predicted_error is not None)
        except (ConfigError, ValueError):  # It does not answer marginals.
            continue
    return found


def _worst(runs: Sequence[Run]) -> float:
    return max(abs(ratio - 1) for run in runs for ratio in run.error.values())


def _judge(table: Table, found: dict[str, float]) -> Judgement:
    return Judgement(found, facts={f"{name} predicts": value for name, value in stated(table).items()})


def _prepare(paths: Inputs, seed: int) -> Table:
    return datasets.tabular(paths)


def _work(table: Table) -> dict[str, Any]:
    return dict(ratios(table))


CASE = Case(
    {
        "dataset": "tabular/titanic",
        "releases": f"{RELEASES}; {MORE_RELEASES} of prefixes",
        "mechanisms": PREDICTED,
        "epsilons": EPSILONS,
        "error": "mean absolute error per answer of the releases, over the one that plan predicts",
    },
    (1,),
    lambda data: datasets.tabular_inputs("titanic", data),
    _prepare,
    _work,
    _judge,
    [
        Target("largest distance of a ratio from 1", "<=", 0.1, _worst),
        Target(
            "mechanisms that predict although their error depends on the data",
            "==",
            0.0,
            lambda runs: sum(value for run in runs for name, value in run.facts.items() if name.endswith(" predicts")),
        ),
    ],
    cold=False,
)
