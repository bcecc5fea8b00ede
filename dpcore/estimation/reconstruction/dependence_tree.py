"""What a tree of pairs implies about all other pairs of attributes: an expectation better than independence.

The tree is the one of maximum total mutual information. In the distribution that the pairs on its edges define, the
joint table of two attributes is that of the first with its neighbour on the path, times one conditional table after the
other along the path.

Source: Chow and Liu (1968).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique

Real = NDArray[np.float64]
_TINY = float(np.finfo(float).tiny)
_LEAST_INFORMATION: Final = 1e-12  # In nats, of an edge: far above rounding, far below anything that changes an answer.


@final
class DependenceTree:
    """The tree, or forest, of the pairs with the most mutual information. Independent pairs are not on it.

    singles: The table of each attribute, float64 [size], positive, in counts.
    pairs: Tables of some pairs of these attributes, float64 [size, size], non-negative, with about the same totals.
    """

    def __init__(self, singles: Mapping[str, Real], pairs: Mapping[Clique, Real]) -> None:
        from scipy.cluster.hierarchy import DisjointSet  # Only where it is called: it is slow to import.

        self._singles = {name: table / table.sum() for name, table in singles.items()}
        self._total = float(next(iter(singles.values())).sum())
        self._neighbours: dict[str, list[tuple[str, Real]]] = {name: [] for name in singles}
        joined = DisjointSet(singles)
        information = {pair: self._information(pair, table) for pair, table in pairs.items()}
        self.edges: set[Clique] = set()
        for pair in sorted(information, key=lambda pair: (-information[pair], pair)):
            if information[pair] > _LEAST_INFORMATION and joined.merge(*pair):
                self.edges.add(pair)
                self._connect(pair[0], pair[1], pairs[pair])

    def implied(self, wanted: Iterable[Clique]) -> Iterator[tuple[Clique, Real]]:
        """The wanted pairs of different attributes, each with its table in counts."""
        by_first: dict[str, set[str]] = {}
        for first, second in wanted:
            by_first.setdefault(first, set()).add(second)
        for first, seconds in by_first.items():
            for name, joint in self._joints(first, seconds):
                seconds.discard(name)
                yield (first, name), self._total * joint
            for name in seconds:  # In another tree of the forest.
                yield (first, name), self._total * np.multiply.outer(self._singles[first], self._singles[name])

    def _joints(self, first: str, seconds: set[str]) -> Iterator[tuple[str, Real]]:
        """The joint probabilities of the first attribute with those of the others that a path reaches.

        No table is made that lies on no path to one of them.
        """
        nearer, wanted = self._nearer(first), set(seconds)
        on_paths: set[str] = set()
        for name in wanted & nearer.keys():
            while name != first and name not in on_paths:
                on_paths.add(name)
                name = nearer[name]
        waiting: list[tuple[str, Real]] = [(first, np.diag(self._singles[first]))]
        while waiting:
            last, joint = waiting.pop()
            for name, conditional in self._neighbours[last]:
                if name in on_paths and nearer[name] == last:
                    further = joint @ conditional
                    waiting.append((name, further))
                    if name in wanted:
                        yield name, further

    def _nearer(self, first: str) -> dict[str, str]:
        """By attribute of the same tree: the next one on the path to the first."""
        nearer, waiting = {first: first}, [first]
        while waiting:
            last = waiting.pop()
            for name, _ in self._neighbours[last]:
                if name not in nearer:
                    nearer[name] = last
                    waiting.append(name)
        return nearer

    def _information(self, pair: Clique, table: Real) -> float:
        joint = table / table.sum()
        independent = np.multiply.outer(self._singles[pair[0]], self._singles[pair[1]])
        return float((joint * np.log(np.maximum(joint, _TINY) / np.maximum(independent, _TINY))).sum())

    def _connect(self, first: str, second: str, table: Real) -> None:
        for name, neighbour, joint in ((first, second, table), (second, first, table.T)):
            conditional = joint / np.maximum(joint.sum(axis=1, keepdims=True), _TINY)
            self._neighbours[name].append((neighbour, conditional))
