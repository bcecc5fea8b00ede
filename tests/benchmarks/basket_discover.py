"""Discovery of 10 million string items over 100 million generated pairs, with a heavy tail, by the local engine.

"Known domain" is what the same noise and the same threshold find when the list of all possible items is given: plain
numpy sums over integer codes in the same rounds, on which no name, hash or part has any influence. "At 5 % false" is
what the same noise finds in the known domain when no delta protects names of single units, and 5 % of what the last
round finds may be false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget
from dpcore.kernel.conversion import gdp_of
from dpcore.kernel.item_threshold import weights_of, without_threshold_delta
from dpcore.kernel.private_items import DiscoveredItems, ItemTerms, PrivateItems
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout
from pipelines.source import open_source
from tests.benchmarks.case import Case, Inputs, Judgement, Target, mean_cpu_seconds
from tests.benchmarks.generated import kept

PAIRS, FILES = 100_000_000, 64
NAMES = PAIRS // 4  # Possible items, of which 10 to 11 million occur.
BOUND, SHARE = 100, Fraction(1, 10)
EPSILON, DELTA = 1.0, 1e-6
THRESHOLD_DELTA = Fraction(1, 4_000_000)
LAYOUT = BasketLayout("user", "item", 1 << 22, BOUND, clustered_by_unit=True, any_items=True)
UNIT = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.BASKETS, BOUND))


@dataclass(frozen=True)
class State:
    folder: Path
    terms: ItemTerms


def inputs(data: Path) -> Inputs:
    return {"baskets": kept(data, f"named-baskets-{PAIRS}-seed1", lambda folder: write_pairs(folder, PAIRS, FILES))}


def write_pairs(folder: Path, pairs: int, files: int, seed: int = 1) -> None:
    """Units with a log-normal number of pairs (median 30, mean 50); item r of ``NAMES`` has probability ~ 1 / r."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (users, codes) in enumerate(_files(pairs, files, seed)):
        table = pa.table({"user": users, "item": names_of(codes)})
        pq.write_table(table, folder / f"part-{number:03d}.parquet", compression="zstd")


def _files(pairs: int, files: int, seed: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The units and the ranks of the items of each file. The user of a file is numbered from 2^32 times its number."""
    for number in range(files):
        generator = np.random.default_rng([seed, number])
        sizes = np.maximum(1, generator.lognormal(np.log(30), 1.0, int(pairs / files / 50))).astype(np.int64)
        users = np.repeat(np.arange(sizes.size, dtype=np.int64) + number * (1 << 32), sizes)
        yield users, (pairs // 4) ** generator.random(users.size) // 1


def names_of(codes: NDArray[np.int64]) -> pa.Array:
    """A name of 17 to 24 characters per rank, which says nothing about the rank."""
    mixed = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return pc.binary_join_element_wise("sku-", pa.array(mixed).cast(pa.string()), "")


def prepare(paths: Inputs, seed: int) -> State:
    whole = gdp_of(*without_threshold_delta(EPSILON, DELTA, THRESHOLD_DELTA))
    return State(paths["baskets"], ItemTerms(UNIT, Budget.gdp(SHARE * whole), THRESHOLD_DELTA, 1 << 22))


def work(state: State) -> DiscoveredItems:
    statistics = EngineStatistics(LocalEngine(), open_source(str(state.folder), LAYOUT, salt=bytes(16)))
    ledger = MemoryLedger(state.terms.budget)
    return PrivateItems(statistics, state.terms, ledger=ledger, journal=MemoryJournal()).discover()


def judge(state: State, made: DiscoveredItems) -> Judgement:
    generator = np.random.default_rng(2)
    released = np.zeros(NAMES, dtype=np.bool_)
    facts: dict[str, float] = {}
    for number, terms in enumerate(state.terms.rounds, 1):
        sums = known_sums(generator, released)
        noisy = sums + generator.normal(0, terms.stddev, sums.size)
        if number == 1:
            occurring = int(np.count_nonzero(sums))
        at_five = np.count_nonzero(released) + found_at_false_share(noisy[~released], terms.stddev, 0.05)
        released |= noisy >= terms.public_threshold
        facts |= {f"threshold_{number}": terms.public_threshold, f"noise_{number}": terms.stddev}
    found, known = len(made.names), int(np.count_nonzero(released))
    facts |= {"released": float(found), "known_domain": float(known), "distinct_items": float(occurring)}
    baselines = {"at 5 % false": {"missing": 1 - found / at_five}}
    return Judgement(error={"missing": 1 - found / known}, baselines=baselines, facts=facts)


def known_sums(generator: np.random.Generator, released: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The weighted sum of every possible item by plain numpy, as if nobody had those that are released."""
    weights = weights_of(BOUND) / (1 << 16)
    sums = np.zeros(NAMES)
    for users, ranks in _files(PAIRS, FILES, 1):
        codes = ranks.astype(np.int64)
        left = ~released[codes]
        codes, units = codes[left], (users - users[0])[left]
        order = generator.permutation(units.size)  # A random choice of the items that a unit keeps.
        keys = np.unique(units[order] * sums.size + codes[order], return_index=True)[1]
        first = order[np.sort(keys)]
        of_unit = np.argsort(units[first], kind="stable")
        unit, code = units[first][of_unit], codes[first][of_unit]
        starts = np.flatnonzero(np.diff(unit, prepend=-1))
        sizes = np.diff(np.append(starts, unit.size))
        kept_pairs = np.arange(unit.size) - np.repeat(starts, sizes) < BOUND
        added = np.repeat(weights[np.minimum(sizes, BOUND)], sizes)
        sums += np.bincount(code[kept_pairs], weights=added[kept_pairs], minlength=sums.size)
    return sums


def found_at_false_share(noisy: NDArray[np.float64], scale: float, share: float) -> int:
    """How many items Benjamini and Hochberg's procedure reports when 5 % of the reported may be false."""
    chances = np.sort(ndtr(-noisy / scale))
    passed = np.flatnonzero(chances <= share * np.arange(1, chances.size + 1) / chances.size)
    return int(passed[-1]) + 1 if passed.size else 1


CASE = Case(
    params={
        "pairs": PAIRS, "files": FILES, "bound": BOUND, "share": float(SHARE), "epsilon": EPSILON, "delta": DELTA,
        "engine": "local",
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    cold=False,
    targets=(
        Target("released, of the known domain's", ">=", 0.95, lambda runs: 1 - max(r.error["missing"] for r in runs)),
        Target("distinct items", ">=", 10_000_000, lambda runs: min(run.facts["distinct_items"] for run in runs)),
        Target("peak memory in MB", "<=", 3000, lambda runs: max(run.peak_rss_mb for run in runs)),
        Target("CPU seconds", "<=", 600, mean_cpu_seconds),
    ),
)  # fmt: skip
