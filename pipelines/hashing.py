"""SipHash-2-4, the keyed hash that chooses which rows of a unit are kept. TRUSTED.

Aumasson and Bernstein (2012), "SipHash: a fast short-input PRF", section 2,
https://cr.yp.to/siphash/siphash-20120918.pdf
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

Key = tuple[np.uint64, np.uint64]
State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


def key_of(salt: bytes) -> Key:
    """The two little-endian words of a 16-byte key."""
    first, second = np.frombuffer(salt, dtype="<u8").astype(np.uint64)
    return first, second


@compiled
def _rotate_left(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@compiled
def _round(state: State) -> State:
    v0, v1, v2, v3 = state
    v0 += v1
    v2 += v3
    v1 = _rotate_left(v1, 13) ^ v0
    v3 = _rotate_left(v3, 16) ^ v2
    v0 = _rotate_left(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _rotate_left(v1, 17) ^ v2
    v3 = _rotate_left(v3, 21) ^ v0
    v2 = _rotate_left(v2, 32)
    return v0, v1, v2, v3


@compiled
def sip_start(key: Key) -> State:
    """The state before the first word."""
    return (
        key[0] ^ np.uint64(0x736F6D6570736575),
        key[1] ^ np.uint64(0x646F72616E646F6D),
        key[0] ^ np.uint64(0x6C7967656E657261),
        key[1] ^ np.uint64(0x7465646279746573),
    )


@compiled
def sip_absorb(state: State, word: np.uint64) -> State:
    """The state after one more word of eight little-endian bytes."""
    v0, v1, v2, v3 = _round(_round((state[0], state[1], state[2], state[3] ^ word)))
    return v0 ^ word, v1, v2, v3


@compiled
def sip_finish(state: State, last: np.uint64) -> np.uint64:
    """The hash. ``last`` contains the bytes after the last full word, and the length modulo 256 in its top byte."""
    v0, v1, v2, v3 = sip_absorb(state, last)
    v0, v1, v2, v3 = _round(_round(_round(_round((v0, v1, v2 ^ np.uint64(0xFF), v3)))))
    return v0 ^ v1 ^ v2 ^ v3


@compiled
def hash_texts(data: NDArray[np.uint8], stops: NDArray[np.int64], key: Key) -> NDArray[np.uint64]:
    """SipHash of each text data[stops[i] : stops[i + 1]], uint64 [texts]."""
    hashes = np.empty(stops.size - 1, dtype=np.uint64)
    for text in range(hashes.size):
        state = sip_start(key)
        word = np.uint64(0)
        length = stops[text + 1] - stops[text]
        for position in range(length):
            word |= np.uint64(data[stops[text] + position]) << np.uint64(8 * (position & 7))
            if position & 7 == 7:
                state = sip_absorb(state, word)
                word = np.uint64(0)
        hashes[text] = sip_finish(state, word | (np.uint64(length & 255) << np.uint64(56)))
    return hashes


@compiled
def hash_words(words: NDArray[np.uint64], key: Key) -> NDArray[np.uint64]:
    """SipHash of each column of words[length, columns], uint64 [columns]."""
    hashes = np.empty(words.shape[1], dtype=np.uint64)
    last = np.uint64((8 * words.shape[0]) & 255) << np.uint64(56)
    for column in range(words.shape[1]):
        state = sip_start(key)
        for position in range(words.shape[0]):
            state = sip_absorb(state, words[position, column])
        hashes[column] = sip_finish(state, last)
    return hashes
