"""How many edges a spanning forest of pairs has, and what selecting it costs."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.work import UNIT
from dpcore.kernel.budget import Budget
from dpcore.mechanisms import clique_tree
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.shared.marginal_selection import Design, work_of_forest
from dpcore.mechanisms.shared.spanning_forest import edges_of_forest
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import all_k_way, explicit

NAMES = tuple("abcdefgh")
DOMAIN = Domain.of(dict.fromkeys(NAMES, 2))


@pytest.mark.parametrize("seed", range(20))
def test_it_has_as_many_edges_as_the_rank_of_the_incidence_matrix(seed: int) -> None:
    generator = np.random.default_rng(seed)
    every = list(combinations(NAMES, 2))
    count = int(generator.integers(0, 12))
    pairs: list[Clique] = [every[index] for index in generator.choice(len(every), count, replace=False)]
    incidence = np.zeros((len(NAMES), max(1, len(pairs))))
    for column, (first, second) in enumerate(pairs):
        incidence[NAMES.index(first), column], incidence[NAMES.index(second), column] = 1, -1
    assert edges_of_forest(pairs) == np.linalg.matrix_rank(incidence)


def test_pairs_that_form_one_forest_need_no_selection() -> None:
    chain = explicit(DOMAIN, dict.fromkeys(pairwise(NAMES), 1.0))
    ring = explicit(DOMAIN, dict.fromkeys([*pairwise(NAMES), ("a", "h")], 1.0))
    found = [work_of_forest(Design(workload.queries, workload, 3)) for workload in (chain, ring)]  # type: ignore[arg-type]
    assert found[0] == 0 < found[1]


def test_the_plan_of_clique_tree_knows_the_selections(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain.of({f"a{index}": 2 for index in range(60)})
    terms = private_statistics(TinyTable(domain, np.zeros((50, 60), dtype=np.int64)), Budget.gdp(1)).terms
    workload, seconds = all_k_way(domain, 2), []
    for units in (0.0, 1e-3, 30.0, 60.0):
        monkeypatch.setattr(clique_tree, "work_of_forest", lambda _, units=units: units * UNIT)
        seconds.append(CliqueTree().plan(terms, workload).cpu_seconds)
    assert seconds[0] == seconds[1]  # A forest leaves fewer pairs to choose from.
    assert seconds[1] < seconds[2] < seconds[3]
