"""What AIM may measure, against the definitions of Algorithm 6 written out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.mechanisms.aim import marginals as aim_marginals
from dpcore.mechanisms.aim.candidates import candidates_within
from dpcore.mechanisms.aim.marginals import MarginalCandidates
from dpcore.queries import Marginals
from dpcore.workload import Workload, all_k_way, explicit

DOMAIN = Domain.of({"a": 2, "unused": 9, "b": 3, "c": 4, "d": 2, "e": 5})
WEIGHTS: dict[Clique, float] = {("a", "b", "c"): 2.0, ("c", "d"): 3.0, ("c", "b"): 0.5, ("e",): 1.0}
WORKLOAD = explicit(DOMAIN, WEIGHTS)


def test_the_candidates_are_all_subsets_with_the_weights_of_what_they_overlap() -> None:
    found = MarginalCandidates.of(WORKLOAD)
    wanted = {
        frozenset(subset)
        for clique in WEIGHTS
        for size in range(1, len(clique) + 1)
        for subset in combinations(clique, size)
    }
    assert set(map(frozenset, found.cliques)) == wanted
    assert len(found.cliques) == len(wanted)
    for clique, weight, size in zip(found.cliques, found.weights, found.sizes, strict=True):
        overlap = sum(value * len(set(clique) & set(asked)) for asked, value in WEIGHTS.items())
        assert weight == pytest.approx(overlap / 3.0)
        assert size == DOMAIN.size(clique)
        assert clique == DOMAIN.canonical(clique)
    assert found.cells == sum(map(DOMAIN.size, wanted))


def test_attributes_that_no_clique_names_are_none_of_the_model() -> None:
    found = MarginalCandidates.of(WORKLOAD)
    assert found.domain.names == ("a", "b", "c", "d", "e")
    assert found.queries.domain is DOMAIN


def test_those_of_the_workload_and_those_of_one_attribute() -> None:
    found = MarginalCandidates.of(WORKLOAD)
    assert set(found.only(found.requested).cliques) == {("a", "b", "c"), ("c", "d"), ("b", "c"), ("e",)}
    single = found.one_way()
    assert single.cliques == (("a",), ("b",), ("c",), ("d",), ("e",))
    assert single.weights.tolist() == [1.0] * 5


def test_the_row_total_is_no_candidate_and_a_clique_that_comes_twice_counts_twice() -> None:
    twice = Workload(Marginals(DOMAIN, (("a", "b"), (), ("a", "b"))), np.array([1.0, 7.0, 2.0]))
    found = MarginalCandidates.of(twice)
    assert found.cliques == (("a",), ("b",), ("a", "b"))
    assert np.allclose(7 * found.weights, [3.0, 3.0, 6.0])


@pytest.mark.parametrize("measured", [(), (("a", "b"),), (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"))])
@pytest.mark.parametrize("cells", [0.0, 16.0, 40.0, 70.0, 1e9])
def test_what_fits_is_what_keeps_the_junction_tree_small(measured: tuple[Clique, ...], cells: float) -> None:
    """The tree of all that is measured with it, made anew. One that adds nothing always fits."""
    found = MarginalCandidates.of(all_k_way(DOMAIN, 3, "abcde"))
    kept = candidates_within(found, Triangulation.of(found.domain, measured), cells)
    before = JunctionTree.of(found.domain, measured).cells
    wanted = [r for r in found.cliques if JunctionTree.of(found.domain, [*measured, r]).cells <= max(before, cells)]
    assert list(kept.cliques) == wanted
    assert {(name,) for name in "abcde"} | set(measured) <= set(kept.cliques)
    assert all(kept.weights[place] == found.weights[found.cliques.index(r)] for place, r in enumerate(kept.cliques))


def test_the_largest_candidates_are_left_out_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aim_marginals, "LARGEST_CELLS", 2 + 3 + 4 + 6 + 8)
    found = MarginalCandidates.of(explicit(DOMAIN, {("a", "b", "c"): 1.0}))
    assert found.cliques == (("a",), ("b",), ("c",), ("a", "b"), ("a", "c"))


def test_attributes_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aim_marginals, "LARGEST_CELLS", 8)
    with pytest.raises(ConfigError, match="single attributes of mechanism aim has 9 cells; want at most 8"):
        MarginalCandidates.of(explicit(DOMAIN, {("a", "b", "c"): 1.0}))


def test_a_clique_of_more_cells_than_fit_any_integer_is_left_out() -> None:
    wide = Domain.of({f"x{place}": 1000 for place in range(8)})
    found = MarginalCandidates.of(explicit(wide, {wide.names: 1.0}))
    assert max(map(len, found.cliques)) == 2


def test_no_attribute_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="aim needs a workload that names an attribute; want a clique of one"):
        MarginalCandidates.of(explicit(DOMAIN, {(): 1.0}))
