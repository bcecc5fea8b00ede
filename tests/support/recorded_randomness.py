"""A recorded stream in place of the operating system's randomness: the seam by which no test fails by chance.

``dpcore.kernel.entropy`` has no seed, and nothing in the packages can give it one. Tests replace its two sources for
the time of one test, with a stream that is a function of the test's name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel import entropy

_OF_THE_SYSTEM = (entropy.words, entropy.below)


class RecordedStream:
    """Uniform 64-bit words that are a function of a name; the same two sources as ``dpcore.kernel.entropy``."""

    def __init__(self, name: str) -> None:
        digest = hashlib.sha256(name.encode()).digest()
        self._generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16])))

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` words."""
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)

    def below(self, bound: int) -> int:
        """One uniform integer in [0, bound), of any size, by rejection."""
        bits = (bound - 1).bit_length()
        while True:
            drawn = int.from_bytes(self._generator.bytes(-(-bits // 8))) >> (-bits % 8)
            if drawn < bound:
                return drawn


@contextmanager
def recorded(name: str) -> Iterator[None]:
    """Draws from the stream of a name; afterwards from what was drawn from before."""
    stream = RecordedStream(name)
    with _drawing_from(stream.words, stream.below):
        yield


@contextmanager
def drawn_from_the_system() -> Iterator[None]:
    """Draws from the operating system, for a test of the entropy itself; afterwards from what was drawn from before."""
    with _drawing_from(*_OF_THE_SYSTEM):
        yield


@contextmanager
def _drawing_from(words: Callable[[int], NDArray[np.uint64]], below: Callable[[int], int]) -> Iterator[None]:
    before = entropy.words, entropy.below
    entropy.words, entropy.below = words, below
    try:
        yield
    finally:
        entropy.words, entropy.below = before
