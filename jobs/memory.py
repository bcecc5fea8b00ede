"""Returns the memory of large arrays to the system as soon as they are freed, where the allocator supports it."""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3  # M_MMAP_THRESHOLD of glibc's malloc.h.
_LARGE: Final = 1 << 20


def give_back_large_arrays() -> bool:
    """Makes the allocator map each allocation of 1 MiB or more by itself, for the whole process.

    glibc does so only until the first such allocation is freed. Afterwards it keeps freed memory, up to twice the size
    of the largest allocation. Releases allocate arrays of many sizes, so the kept memory adds up: 60 MB of 370 MB on
    Adult.

    Returns: Whether the allocator has the setting.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE))
    except (AttributeError, OSError, TypeError):
        return False
