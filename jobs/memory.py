"""Returns the memory of large arrays to the operating system as soon as they are freed, if the allocator can."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MMAP_THRESHOLD: Final = -3  # M_MMAP_THRESHOLD of glibc's malloc.h.
_TRIM_THRESHOLD: Final = -1  # M_TRIM_THRESHOLD.
_LARGE: Final = 1 << 23  # Bytes of an array that is mapped separately.
_KEPT: Final = 1 << 25  # Bytes of freed memory that may stay with the process.


def give_back_large_arrays() -> bool:
    """Makes the allocator map each allocation of 8 MiB or more separately, for the whole process.

    By default, glibc raises its threshold to the size of each mapped allocation that is freed, and then keeps freed
    memory of up to twice that size. A release allocates arrays of many sizes, so the kept memory adds up: 60 MB of
    370 MB on Adult. Arrays below 8 MiB are mapped together, and up to 32 MiB of them are kept: the system clears every
    page that it maps, which took as long as the answers themselves when arrays of 1 MiB were mapped separately.

    Returns: Whether the allocator has these settings.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
        return bool(set_option(_MMAP_THRESHOLD, _LARGE)) and bool(set_option(_TRIM_THRESHOLD, _KEPT))
    except (AttributeError, OSError, TypeError):
        return False


@contextmanager
def arrow_gives_back() -> Iterator[None]:
    """Makes Arrow take its memory from the allocator of ``give_back_large_arrays`` within this context.

    Arrow's own allocator keeps freed memory. That is faster for reading many files, but raises peak memory while a
    table is written.
    """
    import pyarrow as pa

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)
