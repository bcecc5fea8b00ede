"""Random cores for the parts of the best-response oracle, and their optimum by the plainest search."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from dpcore.oracles.exact.core import Core


def random_core(
    seed: int, *, blocks: int = 5, clauses: int = 9, largest_block: int = 3, least: int = 1, apart: bool = False
) -> Core:
    """Blocks of 2 to ``largest_block`` options, clauses of ``least`` to 3 literals of any sign, weights and gains.

    apart: Whether the literals of a clause name options of different blocks.
    """
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, largest_block + 1, size=blocks)
    options = int(sizes.sum())
    lengths = generator.integers(least, 4, size=clauses)
    if apart:
        named = [generator.choice(blocks, size=length, replace=False) for length in lengths]
        starts = np.cumsum(sizes) - sizes
        literals = [starts[block] + generator.integers(0, sizes[block]) for block in named]
    else:
        literals = [generator.choice(options, size=length, replace=False) for length in lengths]
    weights = generator.integers(1, 9, size=clauses) * generator.choice([-1, 1], size=clauses)
    return Core(
        np.append(0, np.cumsum(sizes)),
        np.arange(options),
        generator.integers(-5, 6, size=options),
        np.append(0, np.cumsum(lengths)),
        np.concatenate(literals).astype(np.int32),
        generator.random(int(lengths.sum())) < 0.5,
        weights,
    )


def all_picks(core: Core) -> list[NDArray[np.int64]]:
    choices = [range(start, stop) for start, stop in pairwise(core.bounds.tolist())]
    return [np.array(picks, dtype=np.int64) for picks in product(*choices)]


def value_by_hand(core: Core, picks: NDArray[np.int64]) -> int:
    """The objective, clause by clause."""
    value = sum(int(core.gains[pick]) for pick in picks)
    for (start, stop), weight in zip(pairwise(core.clause_bounds.tolist()), core.weights.tolist(), strict=True):
        holds = [
            (literal in picks) != negated
            for literal, negated in zip(core.literals[start:stop], core.negated[start:stop], strict=True)
        ]
        value += weight if all(holds) else 0
    return value


def best_value(core: Core) -> int:
    return max(value_by_hand(core, picks) for picks in all_picks(core))
