"""Fig. 5 of the MWEM paper: all cuboids of eight categorical attributes of Adult, by the average error of a cuboid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.evaluation import baselines, exact_answers
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.queries import Marginals
from dpcore.workload import Workload
from tests.benchmarks.mwem.cuboid_choice import Cube, b_max_c, p_most_c
from tests.benchmarks.mwem.histograms import Histogram
from tests.benchmarks.mwem.lines import Line, expected, line, release, repeated
from tests.support.constants import with_constants

EPSILONS: Final = (0.25, 0.5, 1.0, 2.0)
ROUNDS, RUNS = 10, 2
HDMM_EPSILON: Final = 1.0  # Its errors at another epsilon are these, scaled: it adds noise and no more.
AVERAGE, LARGEST = "average of averages", "largest average"
FIGURE_5, WEIGHTED, MWEM = "MWEM, sec. 3.3", "MWEM, weighted score", "MWEM, weighted, from one-way"
P_MOST_C, B_MAX_C, HDMM = "PMostC", "BMaxC", "hdmm"
_PAPER: Final = with_constants(Mwem(rounds=ROUNDS), start="uniform", size_penalty="cells", passes=5, final_passes=10)
MECHANISMS: Final[Mapping[str, Mechanism]] = {
    FIGURE_5: _PAPER,
    WEIGHTED: _PAPER,
    MWEM: with_constants(Mwem(rounds=ROUNDS), passes=5, final_passes=10),
    "clique_tree": CliqueTree(),
}


def cuboids(data: Histogram) -> Workload:
    """All 256, weighted so that the mean square of a cuboid's cells counts alike in each."""
    names = data.domain.names
    queries = Marginals(data.domain, tuple(c for k in range(len(names) + 1) for c in combinations(names, k)))
    return Workload(queries, 1 / np.sqrt(np.array(queries.sizes)))


def unweighted(workload: Workload) -> Workload:
    """Weights multiply the score of MWEM; the paper's score has none."""
    return Workload(workload.queries, np.ones_like(workload.weights))


def averages(queries: Marginals, errors: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and largest over cuboids of the mean absolute error of a cell."""
    found = np.array([np.abs(table).mean() for table in queries.split(errors)])
    return float(found.mean()), float(found.max())


def panel(name: str, data: Histogram) -> Iterator[Line]:
    """Both plots."""
    workload = cuboids(data)
    queries = workload.queries
    assert isinstance(queries, Marginals)
    exact = exact_answers(data.statistics, queries)
    guesses = {
        series: averages(queries, guess - exact)
        for series, guess in baselines(queries, data.statistics, data.units).items()
    }
    cube = Cube.of(data.domain.sizes)
    choices = {P_MOST_C: p_most_c(cube), B_MAX_C: b_max_c(cube)}

    def errors(seed: int, mechanism: Mechanism, asked: Workload, epsilon: float) -> tuple[float, float]:
        return averages(queries, release(data, mechanism, asked, epsilon, seed).answers.values - exact)

    hdmm = partial(errors, mechanism=Hdmm(strategy="marginals"), asked=workload, epsilon=HDMM_EPSILON)
    unbiased = repeated(RUNS, hdmm)
    for epsilon in EPSILONS:
        for measure, found in zip((AVERAGE, LARGEST), unbiased, strict=True):
            yield line(name, epsilon, HDMM, measure, [HDMM_EPSILON / epsilon * value for value in found])
        for series, mechanism in MECHANISMS.items():
            asked = unweighted(workload) if series == FIGURE_5 else workload
            made = repeated(RUNS, partial(errors, mechanism=mechanism, asked=asked, epsilon=epsilon))
            for measure, found in zip((AVERAGE, LARGEST), made, strict=True):
                yield line(name, epsilon, series, measure, found)
        for series, choice in choices.items():
            means = choice.mean_errors(epsilon)
            yield expected(name, epsilon, series, AVERAGE, float(means.mean()))
            yield expected(name, epsilon, series, LARGEST, float(means.max()))
        for series, (mean, largest) in guesses.items():
            yield expected(name, epsilon, series, AVERAGE, mean)
            yield expected(name, epsilon, series, LARGEST, largest)
