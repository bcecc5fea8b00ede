"""Predicted CPU seconds: their monotonicity, and what plans say of limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.work import SECONDS_PER_UNIT, UNIT
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.mechanisms.shared.predicted_seconds import (
    FROM_NOTHING,
    LEARNING,
    ROUGH,
    FitShape,
    answer_seconds,
    choice_seconds,
    limit_notes,
    reads_of,
    run_seconds,
    scoring_reads,
    selected_of,
    small_tree,
)

SHAPE = FitShape(cells=1e6, nodes=10, marginals=100, components=250, rows=5e4)


@pytest.mark.parametrize("field", ["cells", "marginals", "components", "rows"])
@pytest.mark.parametrize("effort", [FROM_NOTHING, LEARNING, ROUGH])
def test_a_larger_fit_takes_longer(field: str, effort: object) -> None:
    larger = replace(SHAPE, **{field: 2 * getattr(SHAPE, field)})
    assert larger.reads(effort) > SHAPE.reads(effort)  # type: ignore[arg-type]


def test_small_trees_have_no_sweeps() -> None:
    small = replace(SHAPE, cells=1e5)
    assert small.reads(FROM_NOTHING) == FROM_NOTHING.calls * small.costs.call


def test_the_shape_of_given_marginals_is_exact() -> None:
    domain = Domain.of({"a": 3, "b": 4, "c": 2})
    cliques = tuple(combinations("abc", 2))
    tree = JunctionTree.of(domain, cliques)
    shape = FitShape.of_cliques(domain, cliques, tree.cells, len(tree.nodes))
    assert (shape.components, shape.rows) == (6, 3 + 4 + 2 + 12 + 6 + 8)
    assert shape.cells == 24


def test_a_selection_never_has_more_than_its_candidates() -> None:
    assert selected_of(5, 110) == 5
    assert selected_of(2_000, 20) == 120
    assert selected_of(800, 20) == 100
    assert selected_of(100, 20) == 50


@pytest.mark.parametrize("larger", [(2_000, 10, 1e4), (1_000, 40, 1e4), (1_000, 10, 1e6)])
def test_more_to_choose_from_takes_longer(larger: tuple[int, int, float]) -> None:
    assert choice_seconds(*map(int, larger)) >= choice_seconds(1_000, 10, 10_000)


def test_scores_and_answers_grow_with_the_model() -> None:
    assert scoring_reads(100, 1_000, 1e8) > scoring_reads(100, 1_000, 1e6)
    assert answer_seconds(100, 1_000, 1e7) > answer_seconds(100, 1_000, 1e5)
    assert reads_of(1e6, 1, 1_000) == pytest.approx(17e6)
    assert reads_of(1e6, 10, 0) == pytest.approx(2e6)


def test_the_limit_bounds_the_fits_alone() -> None:
    unlimited = run_seconds(50.0 * UNIT, 3.0, 240.0)
    assert run_seconds(50.0 * UNIT, 3.0, 20.0) == pytest.approx(unlimited - 30 * SECONDS_PER_UNIT)
    assert limit_notes(50.0 * UNIT, 3.0, 50.0) == ()
    assert "about 50 units of work, and mechanism.max_work ends them at 20" in limit_notes(50.0 * UNIT, 3.0, 20.0)[0]


def test_what_no_limit_ends_is_warned_of() -> None:
    assert limit_notes(0.0, 600.0, 240.0) == ()
    (note,) = limit_notes(0.0, 1_000.0, 240.0)
    assert note.startswith("choices and answers take about 1,000 CPU seconds, which no limit ends")
    assert len(limit_notes(300.0 * UNIT, 1_000.0, 240.0)) == 2


def test_many_candidates_are_not_taken_to_be_selected() -> None:
    """151 of the 34,220 triples of 60 attributes were, and the release took 54 seconds."""
    assert selected_of(34_220, 60) == 360
    assert choice_seconds(34_220, 60, 0) < 150


def test_trees_of_many_attributes_are_not_built() -> None:
    wide = Domain.of({f"a{number}": 2 for number in range(201)})
    assert small_tree(wide, [(name,) for name in wide.names], 1e9) is None
    narrow = Domain.of({"a": 30, "b": 30})
    assert small_tree(narrow, [("a", "b")], 899) is None
    tree = small_tree(narrow, [("a", "b")], 900)
    assert tree is not None
    assert tree.cells == 900
