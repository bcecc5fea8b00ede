"""Writes Netflix-like baskets to Parquet files in parallel. The data are generated from a seed, and public."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.compiled import compiled
from pipelines.generate.basket_law import TASTES, BasketLaw, draw_tastes, fit_law
from pipelines.generate.checks import empty_folder, want_at_least, want_blocks_for

UNIT, ITEM = "user_id", "movie_id"
SCHEMA = pa.schema([pa.field(UNIT, pa.int32(), nullable=False), pa.field(ITEM, pa.int32(), nullable=False)])
USERS_AT_ONCE = 1_024
_LAW, _DRAWS = 0, 1

AliasTables = tuple[NDArray[np.float64], NDArray[np.int32]]


def write_baskets(
    folder: str | Path,
    *,
    users: int,
    films: int,
    pairs: int,
    files: int,
    seed: int,
    threads: int = 2,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Writes distinct (user_id, movie_id) pairs, both int32, to Parquet files.

    Each row group holds whole users, and the pairs are ordered by user and film. The pairs depend only on ``users``,
    ``films``, ``pairs`` and ``seed``.

    folder: A new or empty folder.
    users: Number of users, at least 1.
    films: Number of films, at least 1.
    pairs: Approximate number of pairs, at most a quarter of users x films.
    files: Number of files, at most one per 1,024 users.
    seed: Public seed, at least 0.
    threads: Number of writing threads, at least 1.
    progress: Called from the writing threads with the number of users just written.

    Returns: The files.
    Raises: ConfigError when a size is out of range, or the folder is not empty.
    """
    want_at_least(1, users=users, threads=threads)
    want_at_least(0, seed=seed)
    blocks = -(-users // USERS_AT_ONCE)
    want_blocks_for(files, blocks, f"{USERS_AT_ONCE:,} users")
    law = fit_law(users=users, films=films, pairs=pairs, generator=_generator(seed, _LAW, 0))
    folder = empty_folder(folder)
    tables = alias_tables(law)
    parts = [
        (folder / f"part-{index:05d}.parquet", block)
        for index, block in enumerate(np.array_split(np.arange(blocks), files))
    ]

    def write(part: tuple[Path, NDArray[np.int64]]) -> Path:
        path, numbers = part
        with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
            for start, batch in _batches(law, tables, numbers, seed):
                writer.write_batch(batch, row_group_size=max(1, batch.num_rows))
                if progress is not None:
                    progress(min(USERS_AT_ONCE, users - start))
        return path

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(write, parts))


def _generator(seed: int, stage: int, block: int) -> np.random.Generator:
    return np.random.default_rng([seed, stage, block])


def _batches(
    law: BasketLaw, tables: AliasTables, blocks: NDArray[np.int64], seed: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the first user and the pairs of each block."""
    for block in blocks.tolist():
        start = block * USERS_AT_ONCE
        units, films = draw_baskets(
            law, tables, start, min(start + USERS_AT_ONCE, law.users), _generator(seed, _DRAWS, block)
        )
        yield start, pa.record_batch([pa.array(units), pa.array(films)], schema=SCHEMA)


def draw_baskets(
    law: BasketLaw, tables: AliasTables, start: int, stop: int, generator: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draws the baskets of the users start .. stop - 1.

    1 - exp(-x) is the probability that a Poisson variable of mean x is not 0. A basket can therefore be drawn by
    throws: for each taste k, user u makes a Poisson number of throws with mean a_u taste_uk sum_j rates[k, j], and each
    throw hits film j with probability proportional to rates[k, j]. The films that are hit have exactly this law, and
    the cost is proportional to the number of pairs instead of users x films. A user with more expected throws than
    there are films tosses a coin per film instead.

    law: The fitted law.
    tables: The ``alias_tables`` of the law.
    start: First user.
    stop: User after the last one.
    generator: Random generator of the draws.

    Returns: Units and films, int32 [pairs] each, ordered by user and film, each pair once.
    """
    likings = law.activity[start:stop, None] * draw_tastes(stop - start, generator)
    means = likings * law.rates.sum(axis=1)
    tosses = means.sum(axis=1) > law.films
    throws = generator.poisson(np.where(tosses[:, None], 0.0, means))
    films = np.empty(int(throws.sum()) + int(tosses.sum()) * law.films, dtype=np.int32)
    sizes = np.empty(stop - start, dtype=np.int64)
    _fill_baskets(throws, tosses, likings, law.rates, *tables, generator, films, sizes)
    return np.repeat(np.arange(start, stop, dtype=np.int32), sizes), films[: int(sizes.sum())].copy()


def alias_tables(law: BasketLaw) -> AliasTables:
    """Walker's alias tables, which draw film j with probability proportional to law.rates[k, j] for each taste k.

    Returns: Probabilities, float64 [TASTES, films], and aliases, int32 [TASTES, films].
    """
    probabilities = np.ones((TASTES, law.films))
    aliases = np.zeros((TASTES, law.films), dtype=np.int32)
    for taste, total in enumerate(law.rates.sum(axis=1).tolist()):
        if total > 0:
            _fill_alias_table(law.rates[taste] * (law.films / total), probabilities[taste], aliases[taste])
    return probabilities, aliases


@compiled
def _fill_alias_table(
    weights: NDArray[np.float64], probabilities: NDArray[np.float64], aliases: NDArray[np.int32]
) -> None:
    """Vose's method for weights of mean 1: a cell gives its own index with its probability, and otherwise its alias."""
    count = len(weights)
    small = np.empty(count, dtype=np.int32)
    large = np.empty(count, dtype=np.int32)
    smalls = larges = 0
    for index in range(count):
        aliases[index] = index
        if weights[index] < 1.0:
            small[smalls] = index
            smalls += 1
        else:
            large[larges] = index
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        needy, donor = small[smalls], large[larges - 1]
        probabilities[needy] = weights[needy]
        aliases[needy] = donor
        weights[donor] -= 1.0 - weights[needy]
        if weights[donor] < 1.0:
            larges -= 1
            small[smalls] = donor
            smalls += 1


@compiled
def _fill_baskets(
    throws: NDArray[np.int64],
    tosses: NDArray[np.bool_],
    likings: NDArray[np.float64],
    rates: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    aliases: NDArray[np.int32],
    generator: np.random.Generator,
    films: NDArray[np.int32],
    sizes: NDArray[np.int64],
) -> None:
    """Fills ``films`` with the sorted distinct films of one user after another, and ``sizes`` with their counts."""
    tastes, count = probabilities.shape
    held = np.zeros(count, dtype=np.bool_)
    kept = 0
    for user in range(len(sizes)):
        first = kept
        if tosses[user]:
            for film in range(count):
                mean = 0.0
                for taste in range(tastes):
                    mean += likings[user, taste] * rates[taste, film]
                if generator.random() < -np.expm1(-mean):
                    films[kept] = film
                    kept += 1
        else:
            for taste in range(tastes):
                for _ in range(throws[user, taste]):
                    position = generator.random() * count
                    cell = min(int(position), count - 1)
                    film = cell if position - cell < probabilities[taste, cell] else aliases[taste, cell]
                    if not held[film]:
                        held[film] = True
                        films[kept] = film
                        kept += 1
            films[first:kept].sort()
            held[films[first:kept]] = False
        sizes[user] = kept - first
