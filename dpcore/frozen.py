"""Arrays that nobody can change: what was checked once stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def frozen(values: Any, kind: type[np.generic]) -> NDArray[Any]:
    """A copy of an array as a plain contiguous one of this type, over bytes that no reference can write to."""
    array = np.array(values, dtype=kind, order="C", subok=False)
    return np.frombuffer(array.tobytes(), dtype=kind).reshape(array.shape) if array.size else array
