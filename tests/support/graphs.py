"""Named shapes of sets of cliques, on domains small enough to enumerate, and random ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpcore.domain import Clique, Domain


@dataclass(frozen=True)
class GraphShape:
    """Some cliques, their attributes in any order, on the attributes of ``domain``."""

    domain: Domain
    cliques: tuple[Clique, ...]


def _shape(sizes: dict[str, int], *cliques: str) -> GraphShape:
    """Attributes are single letters and a clique is a word."""
    return GraphShape(Domain.of(sizes), tuple(tuple(clique) for clique in cliques))


_FIVE = {"a": 2, "b": 3, "c": 2, "d": 4, "e": 3}
_SIX = {"a": 2, "b": 3, "c": 2, "d": 3, "e": 2, "f": 2}

SHAPES: dict[str, GraphShape] = {
    "tree": _shape(_SIX, "ab", "ac", "bd", "eb", "fc"),
    "chain": _shape(_FIVE, "ab", "bc", "cd", "de"),
    "chain of three-way cliques": _shape(_SIX, "abc", "bcd", "cde", "fed"),
    "star": _shape(_FIVE, "ca", "cb", "cd", "ce"),
    "cycle": _shape(_FIVE, "ab", "bc", "cd", "de", "ea"),
    "two cycles that share an attribute": _shape({**_SIX, "g": 2}, "ab", "bc", "cd", "da", "ae", "ef", "fg", "ga"),
    "grid": _shape(
        dict.fromkeys("abcdefghi", 2), "ab", "bc", "de", "ef", "gh", "hi", "ad", "dg", "be", "eh", "cf", "fi"
    ),
    "missing attribute": _shape(_FIVE, "ac", "ce"),
    "disconnected": _shape(_SIX, "ad", "de", "ae", "bf"),
    "single attributes": _shape(_FIVE, "a", "b", "c", "d", "e"),
    "no cliques": _shape(_FIVE),
    "the empty clique": _shape(_FIVE, ""),
    "the empty clique among others": _shape(_FIVE, "bc", "", "cd"),
    "duplicate clique": _shape(_FIVE, "bd", "ab", "db", "bd"),
    "nested cliques": _shape(_FIVE, "abd", "bd", "d", "a", "de", "e"),
    "attribute of one value": _shape({"a": 2, "b": 1, "c": 3, "d": 2}, "ab", "bc", "cd"),
    "attributes of one value": _shape({"a": 1, "b": 1, "c": 1}, "ab", "b", "c"),
    "one attribute": _shape({"a": 4}, "a"),
    "one attribute without a clique": _shape({"a": 4}),
    "everything in one clique": _shape(_FIVE, "edcba", "ab"),
    "all pairs": _shape(_FIVE, "ab", "ac", "ad", "ae", "bc", "bd", "be", "cd", "ce", "de"),
}


def random_shape(seed: int, *, attributes: int = 7, cliques: int = 6, largest: int = 3) -> GraphShape:
    """Attributes of 1 to 4 values, and cliques of 0 to 3 of them, fewer of either for some seeds."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(2, attributes + 1))
    names = [f"x{place}" for place in range(count)]
    domain = Domain(tuple(names), tuple(generator.integers(1, 5, size=count)))
    chosen = [
        tuple(generator.choice(names, size=min(count, int(generator.integers(0, largest + 1))), replace=False).tolist())
        for _ in range(generator.integers(cliques + 1))
    ]
    return GraphShape(domain, tuple(chosen))


def long_chain(attributes: int, size: int, width: int = 3) -> GraphShape:
    """Each clique is ``width`` attributes in a row."""
    names = [f"x{place}" for place in range(attributes)]
    return GraphShape(
        Domain.of(dict.fromkeys(names, size)),
        tuple(tuple(names[place : place + width]) for place in range(attributes - width + 1)),
    )


def ring(attributes: int, size: int) -> GraphShape:
    names = [f"x{place}" for place in range(attributes)]
    return GraphShape(Domain.of(dict.fromkeys(names, size)), tuple(pairwise([*names, names[0]])))
