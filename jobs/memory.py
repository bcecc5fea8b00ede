"""Where the system's allocator allows it, what large arrays took goes back as soon as they are freed."""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3  # M_MMAP_THRESHOLD of glibc's malloc.h.
_LARGE: Final = 1 << 20


def give_back_large_arrays() -> bool:
    """Maps allocations of a MiB or more one by one, for the whole process; False where there is no such setting.

    glibc does so too until the first of them is freed; from then on it keeps up to twice the size of the largest for
    later. Releases hold arrays of one marginal's size one moment and of a model's the next: what is kept for later adds
    up, to 60 MB of 370 on Adult.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE))
    except (AttributeError, OSError, TypeError):
        return False
