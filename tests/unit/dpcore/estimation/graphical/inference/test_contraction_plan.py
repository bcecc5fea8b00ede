"""Shared intermediate cliques: each part is reached once, from what contains it, and passes are saved."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.inference.contraction_plan import Step, shared_steps

SIZES = {"a": 2, "b": 3, "c": 5, "d": 7, "e": 4, "f": 6}
DOMAIN = Domain.of(SIZES)
NODE = ("f", "a", "b", "c", "d", "e")

CASES: dict[str, list[str]] = {
    "nothing": [],
    "one": ["ab"],
    "the node itself": ["abcdef", "ab"],
    "twice": ["ab", "ab", "ab"],
    "nested": ["abc", "ab", "a", ""],
    "empty": ["", ""],
    "pairs": ["".join(pair) for pair in combinations("abcdef", 2)],
    "triples": ["".join(three) for three in combinations("abcdef", 3)],
    "all": ["".join(part) for size in range(7) for part in combinations("abcdef", size)],
}


def planned(words: list[str], node: Clique = NODE) -> tuple[tuple[Clique, ...], list[Step], list[frozenset[str]]]:
    cliques = [tuple(word) for word in words]
    made, steps = shared_steps(DOMAIN, node, cliques)
    return made, steps, [frozenset(clique) for clique in (*cliques, *made)]


def cost(steps: list[Step], names: list[frozenset[str]], node: Clique = NODE) -> int:
    """Cells that are read."""
    return sum(DOMAIN.size(node if step.table < 0 else sorted(names[step.table])) for step in steps)


@pytest.mark.parametrize("case", CASES)
def test_every_part_is_taken_once_from_a_table_that_contains_it(case: str) -> None:
    _, steps, names = planned(CASES[case])
    assert sorted(step.part for step in steps) == list(range(len(names)))
    for step in steps:
        assert names[step.part] <= (frozenset(NODE) if step.table < 0 else names[step.table])


@pytest.mark.parametrize("case", CASES)
def test_tables_come_before_their_parts(case: str) -> None:
    _, steps, _ = planned(CASES[case])
    known = {-1}
    for step in steps:
        assert step.table in known
        known.add(step.part)


@pytest.mark.parametrize("case", CASES)
def test_intermediate_cliques_keep_the_order_of_the_node(case: str) -> None:
    made, _, _ = planned(CASES[case])
    assert all([name for name in NODE if name in clique] == list(clique) for clique in made)


@pytest.mark.parametrize("case", CASES)
def test_no_more_cells_are_read_than_without_sharing(case: str) -> None:
    _, steps, names = planned(CASES[case])
    assert cost(steps, names) <= len(CASES[case]) * DOMAIN.size()


def test_many_parts_save_most_passes() -> None:
    _, steps, names = planned(CASES["triples"])
    assert cost(steps, names) < 0.35 * len(CASES["triples"]) * DOMAIN.size()


def test_a_part_inside_another_is_summed_from_it() -> None:
    _, steps, _ = planned(["abc", "ab"])
    assert steps == [Step(-1, 0), Step(0, 1)]


def test_two_parts_with_a_small_union_share_it() -> None:
    """A pass over 24 cells each instead of 5,040."""
    made, steps, _ = planned(["ab", "be"])
    assert made == (("a", "b", "e"),)
    assert set(steps) == {Step(-1, 2), Step(2, 0), Step(2, 1)}


def test_two_parts_whose_union_is_the_node_do_not() -> None:
    made, steps, _ = planned(["ab", "bc"], ("a", "b", "c"))
    assert made == ()
    assert set(steps) == {Step(-1, 0), Step(-1, 1)}


@pytest.mark.parametrize("seed", range(20))
def test_random_parts(seed: int) -> None:
    generator = np.random.default_rng(seed)
    words = ["".join(name for name in "abcdef" if generator.random() < 0.5) for _ in range(generator.integers(50))]
    made, steps, names = planned(words)
    assert sorted(step.part for step in steps) == list(range(len(names)))
    assert all(names[step.part] <= (frozenset(NODE) if step.table < 0 else names[step.table]) for step in steps)
    assert len(set(made)) == len(made)
