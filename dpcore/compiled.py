"""A typed door to numba: machine code, cached on disk, without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function of arrays and scalars on first use; floats keep IEEE order (no fastmath)."""
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))
