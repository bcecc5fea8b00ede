"""Candidates of PrivBayes against all subsets, and networks that grow at random within their limits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.mechanisms.bayes import structure as priv_bayes_structure
from dpcore.mechanisms.bayes.structure import Family, Limits, candidates

PLENTY = 1 << 40


def domain_of(seed: int, attributes: int) -> Domain:
    sizes = np.random.default_rng(seed).integers(2, 6, attributes)
    return Domain(tuple(f"x{place}" for place in range(attributes)), tuple(sizes.tolist()))


def grown(domain: Domain, seed: int, limits: Limits, until: int) -> list[Family]:
    """A network of so many attributes whose families are drawn from the candidates."""
    random = np.random.default_rng(seed)
    network = [Family(domain.names[random.integers(len(domain.names))], ())]
    while len(network) < until:
        choices = candidates(domain, network, domain.names, limits)
        network.append(choices[random.integers(len(choices))])
    return network


def by_hand(domain: Domain, network: list[Family], limits: Limits) -> set[tuple[str, frozenset[str]]]:
    """Every subset that fits and lies in no other one that does."""
    inside = [family.child for family in network]
    found = set()
    for child in set(domain.names) - set(inside):
        fitting = [
            frozenset(parents)
            for order in range(limits.parents + 1)
            for parents in combinations(inside, order)
            if domain.size([*parents, child]) <= limits.cells
        ]
        fitting = fitting or [frozenset()]
        found |= {(child, parents) for parents in fitting if not any(parents < other for other in fitting)}
    return found


def found_of(families: list[Family]) -> set[tuple[str, frozenset[str]]]:
    return {(family.child, frozenset(family.parents)) for family in families}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("parents", [0, 1, 2, 6])
def test_parents_are_the_maximal_sets_that_fit(seed: int, parents: int) -> None:
    domain = domain_of(seed, 8)
    for inside, cells in ((1, 10.0), (4, 40.5), (7, 100.0), (5, 1.5)):
        limits = Limits(cells, parents, PLENTY)
        network = grown(domain, seed, Limits(30.0, 2, PLENTY), inside)
        found = candidates(domain, network, domain.names, limits)
        assert found_of(found) == by_hand(domain, network, limits)
        assert len(found) == len(found_of(found))


def test_only_named_attributes_come_next() -> None:
    domain = domain_of(0, 6)
    names: Clique = ("x0", "x2", "x5")
    found = candidates(domain, [Family("x2", ())], names, Limits(100.0, 3, PLENTY))
    assert found_of(found) == {("x0", frozenset({"x2"})), ("x5", frozenset({"x2"}))}


@pytest.mark.parametrize("seed", range(20))
def test_the_junction_tree_of_a_whole_network_keeps_its_limit(seed: int) -> None:
    domain = domain_of(seed, 12)
    limit = 900
    network = grown(domain, seed, Limits(200.0, 3, limit), 12)
    assert JunctionTree.of(domain, [family.names for family in network]).cells <= limit


def test_without_the_limit_many_networks_have_larger_trees() -> None:
    """So the limit is what keeps them small above, and not for want of large families."""
    trees = []
    for seed in range(20):
        domain = domain_of(seed, 12)
        network = grown(domain, seed, Limits(200.0, 3, PLENTY), 12)
        trees.append(JunctionTree.of(domain, [family.names for family in network]).cells)
    assert sum(cells > 900 for cells in trees) > 10


def test_where_there_are_too_many_families_they_have_fewer_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten binary attributes inside: 10 sets of one, 45 of two, 120 of three, for two children each."""
    domain = Domain(tuple("abcdefghijkl"), (2,) * 12)
    network = [Family(name, ()) for name in "abcdefghij"]
    limits = Limits(1e6, 3, PLENTY)
    assert len(candidates(domain, network, domain.names, limits)) == 240
    monkeypatch.setattr(priv_bayes_structure, "_MAX_CANDIDATES", 239)
    assert len(candidates(domain, network, domain.names, limits)) == 90
    monkeypatch.setattr(priv_bayes_structure, "_MAX_CANDIDATES", 1)
    assert len(candidates(domain, network, domain.names, limits)) == 20
    monkeypatch.undo()
    monkeypatch.setattr(priv_bayes_structure, "_MAX_CELLS", 2 * 2 * 4 * 45)
    assert len(candidates(domain, network, domain.names, limits)) == 90
