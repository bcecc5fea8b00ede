"""DualQuery's loop on 512,000 attributes: the widest point of the paper's Figure 4, with its synthetic data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.exact_statistics import Contribution, QueryAnswers, Request, Shape
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.queries import Conjunctions, UnitCount
from dpcore.queries.generation import random_conjunctions
from tests.benchmarks.case import Case, Inputs, Target, mean_cpu_seconds
from tests.benchmarks.dual_loops import DELTA, EPSILON, Loop, judge, work

ATTRIBUTES, UNITS, QUERIES, QUERY_SEED = 512_000, 500_000, 100_000, 7
MECHANISM = DualQuery(eta=0.4, samples=50_000)
_WORDS: Final = -(-UNITS // 64)
_BLOCK: Final = 32  # Words of each column that are made at a time: 131 MB for all columns.


@dataclass(frozen=True)
class CountedColumns:
    """Attribute i is 1 with its own chance p_i, uniform in [0, 1], independently in each unit. Nothing is stored:
    64 units of a column are a function of (column, word), made again whenever they are asked for."""

    contribution: Contribution = field(default_factory=lambda: Contribution(Shape.BASKETS, ATTRIBUTES))

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        match request:
            case UnitCount():
                return np.array([UNITS], dtype=np.int64)
            case QueryAnswers(Conjunctions() as queries) if not queries.negated.any():
                used, places = np.unique(queries.columns, return_inverse=True)
                counts = np.zeros(queries.size, dtype=np.int64)
                for start in range(0, _WORDS, _BLOCK):
                    block = _columns(used, start, min(_BLOCK, _WORDS - start), UNITS)
                    _add_counts(block, places.reshape(queries.columns.shape), counts)
                return counts
            case _:
                raise AssertionError(f"{type(request).__name__} of counted columns; want positive conjunctions")


@compiled
def _mixed(word: np.uint64) -> np.uint64:
    """SplitMix64's finaliser: 64 bits that look independent for neighbouring inputs."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def _columns(used: NDArray[np.int32], start: int, words: int, units: int) -> NDArray[np.uint64]:
    """Words start .. start + words of the columns, uint64 [columns, words].

    64 coins of chance p at once: with p = 0.b1 b2 ... b8 in binary, from the last bit on, or with a random word where
    the bit is 1 and and with one where it is 0 halves the chance, and adds 1/2 for a 1.
    """
    made = np.empty((used.size, words), dtype=np.uint64)
    for place in range(used.size):
        column = np.uint64(used[place])
        chance = _mixed(column + np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(56)
        for word in range(words):
            counter = (column * np.uint64(1 << 20) + np.uint64(start + word)) * np.uint64(8)
            bits = np.uint64(0)
            for bit in range(8):
                coins = _mixed(counter + np.uint64(bit + 1))
                bits = bits | coins if (chance >> np.uint64(bit)) & np.uint64(1) else bits & coins
            left = units - 64 * (start + word)
            made[place, word] = bits if left >= 64 else bits & ((np.uint64(1) << np.uint64(left)) - np.uint64(1))
    return made


@compiled
def _add_counts(block: NDArray[np.uint64], places: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Units that satisfy each positive conjunction."""
    for query in range(places.shape[0]):
        for word in range(block.shape[1]):
            bits = block[places[query, 0], word]
            for literal in range(1, places.shape[1]):
                bits &= block[places[query, literal], word]
            bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
            bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
            bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            counts[query] += np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


def inputs(data: Path) -> Inputs:
    return {}


def prepare(paths: Inputs, seed: int) -> Loop:
    queries = random_conjunctions(BinaryView(ATTRIBUTES), QUERIES, 3, np.random.default_rng(QUERY_SEED))
    return Loop.of(MECHANISM, CountedColumns(), queries, UNITS, seed)


CASE = Case(
    params={
        "attributes": ATTRIBUTES,
        "units": UNITS,
        "queries": QUERIES,
        "epsilon": EPSILON,
        "delta": DELTA,
        "neighbours": "replace one unit, n public",
        "mechanism": repr(MECHANISM),
        "fractions_of": "units",
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("CPU seconds of the loop", "<", 20, mean_cpu_seconds),
        Target("peak memory, MB", "<", 2_000, lambda runs: max(run.peak_rss_mb for run in runs)),
    ),
)
