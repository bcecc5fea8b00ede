"""Keeps linear algebra on one thread, unless the user asks for more: the package imports this before numpy."""

from __future__ import annotations

import os
import sys
from typing import Final

_OF_ALL: Final = "OMP_NUM_THREADS"
_OF_EACH: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def limit_threads() -> bool:
    """Sets the variables by which linear algebra libraries learn their number of threads to 1, where they are not set.

    The products of a release are short. More threads would not finish them earlier, but wait for the next product at
    full load: a release would take up to twice the CPU seconds. Libraries read the variables when numpy is imported, so
    in a process that has imported numpy before, nothing is set. If OMP_NUM_THREADS is set, it holds for all libraries.

    Returns: Whether the variables could take effect.
    """
    if "numpy" in sys.modules or _OF_ALL in os.environ:
        return False
    for name in _OF_EACH:
        os.environ.setdefault(name, "1")
    return True
