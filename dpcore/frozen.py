"""Immutable arrays and plain text: once checked, their contents cannot change."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def frozen(values: Any, kind: type[np.generic]) -> NDArray[Any]:
    """A plain, contiguous array of the given type over an immutable bytes object.

    Values are copied, unless they are already such an array; then the bytes are shared.
    """
    if type(values) is np.ndarray and values.size and values.dtype == kind:
        owner = _owner(values)
        if type(owner) is bytes and values.flags.c_contiguous and values.nbytes == len(owner):
            return np.frombuffer(owner, dtype=kind).reshape(values.shape)
        if values.flags.c_contiguous:  # This conversion copies the values only once.
            return np.frombuffer(values.tobytes(), dtype=kind).reshape(values.shape)
    array = np.array(values, dtype=kind, order="C", subok=False)
    return np.frombuffer(array.tobytes(), dtype=kind).reshape(array.shape) if array.size else array


def plain_text(text: str) -> str:
    """The text as an object of exactly the type ``str``. Raises TypeError for anything that is not text.

    A subclass could compare equal to one name while a call is charged, and to another one while it is answered.
    """
    return str.__str__(text)


def frozen_bytes(array: NDArray[Any]) -> bytes:
    """The bytes of an array, without a copy if ``frozen`` made the array."""
    owner = _owner(array)
    whole = type(owner) is bytes and array.flags.c_contiguous and array.nbytes == len(owner)
    return owner if whole and isinstance(owner, bytes) else array.tobytes()


def _owner(array: NDArray[Any]) -> object:
    """The object that owns the memory of an array."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner
