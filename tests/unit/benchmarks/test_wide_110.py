"""The distribution of the wide tables: its marginals are those of its table of all values, and of drawn rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tests.benchmarks.wide_110 import Distribution, generated


def test_marginals_of_a_distribution_are_those_of_its_whole_table() -> None:
    generator = np.random.default_rng(3)
    sizes, parents = (2, 3, 4, 2, 3), [-1, 0, -1, 1, 1]
    tables = [
        generator.dirichlet(np.ones(size), 1 if parent < 0 else sizes[parent])
        for size, parent in zip(sizes, parents, strict=True)
    ]
    distribution = Distribution(parents, tables, [0, 1, 2, 3, 4])
    whole = np.einsum("a,ab,c,bd,be->abcde", tables[0][0], tables[1], tables[2][0], tables[3], tables[4])
    for order in (1, 2, 3):
        for nodes in combinations(range(5), order):
            others = tuple(set(range(5)) - set(nodes))
            np.testing.assert_allclose(distribution.marginal(nodes), whole.sum(axis=others), atol=1e-15)


def test_rows_follow_their_distribution() -> None:
    rows = 20_000
    for kind in ("tree", "clusters", "mixture"):
        distribution, codes = generated(kind, rows)
        for attributes in ((0, 1), (10, 11, 12), (100, 104, 109)):
            expected = distribution.marginal(tuple(distribution.attributes[attribute] for attribute in attributes))
            cells = np.ravel_multi_index(
                [codes[attribute].astype(np.int64) for attribute in attributes], expected.shape
            )
            found = np.bincount(cells, minlength=expected.size) / rows
            distance = np.abs(found - expected.ravel()).sum()
            assert distance < 1.3 * np.sqrt(2 * expected / np.pi / rows).sum()
