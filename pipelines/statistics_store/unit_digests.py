"""Units as keyed digests, which can be compared without the files that the units are in. SENSITIVE."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.errors import IntegrityError
from pipelines.contribution import unit_words
from pipelines.hashing import hash_words, key_of

Digests = NDArray[np.uint64]
"""Units as two keyed hashes each, uint64 [units, 2], sorted, without repetition. SENSITIVE.

Two units have the same 128 bits with a probability that can be neglected: 2^-75 among a hundred million units."""

NO_UNITS: Digests = np.empty((0, 2), dtype=np.uint64)


def hashed(units: pa.Array, keys: tuple[bytes, bytes]) -> Digests:
    """The digests of units in their order, uint64 [units, 2]. SENSITIVE.

    units: Units of type int64, uint64 or large_string, without null.
    keys: Two keys of 16 bytes.
    """
    if not len(units):
        return NO_UNITS
    return np.stack([hash_words(unit_words(units, key)[None, :], key_of(key)) for key in keys], axis=1)


def digests_of(units: pa.Array, keys: tuple[bytes, bytes]) -> Digests:
    """The digests of distinct units, sorted. SENSITIVE. The arguments are those of ``hashed``."""
    digests = hashed(units, keys)
    return digests[np.lexsort((digests[:, 1], digests[:, 0]))]


def digests_from(content: bytes) -> Digests:
    """The digests whose ``tobytes`` was sent. SENSITIVE.

    Raises: IntegrityError when they are no whole digests.
    """
    if len(content) % 16:
        raise IntegrityError("a list of units is cut off; want whole results of tasks")
    return np.frombuffer(content, dtype="<u8").astype(np.uint64, copy=False).reshape(-1, 2)


def are_among(digests: Digests, wanted: Digests) -> NDArray[np.bool_]:
    """Which digests are among the wanted ones, bool [digests]. SENSITIVE.

    digests: In any order.
    wanted: Without repetition.
    """
    among = np.isin(digests[:, 0], wanted[:, 0])
    likely = np.flatnonzero(among)
    groups = _equal_rows(np.concatenate([wanted, digests[likely]]))
    is_wanted = np.zeros(len(wanted) + likely.size, dtype=np.bool_)
    is_wanted[groups[: len(wanted)]] = True
    among[likely] = is_wanted[groups[len(wanted) :]]
    return among


def are_repeated(digests: Digests) -> NDArray[np.bool_]:
    """Which digests occur more than once, bool [digests]. SENSITIVE. They may be in any order."""
    groups = _equal_rows(digests)
    return np.bincount(groups, minlength=len(digests))[groups] > 1


def _equal_rows(digests: Digests) -> NDArray[np.int64]:
    """A number for each digest, which equal digests have in common, int64 [digests]."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    ranked = digests[order]
    starts = np.ones(len(digests), dtype=np.bool_)
    starts[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    groups = np.empty(len(digests), dtype=np.int64)
    groups[order] = np.cumsum(starts) - 1
    return groups
