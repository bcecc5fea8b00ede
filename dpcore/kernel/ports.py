"""What the kernel asks of the outside: a ledger that is charged first, and a journal that remembers answers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.budget import Budget


class Ledger(Protocol):
    """Where privacy is accounted beyond one process."""

    def reserve(self, budget: Budget) -> None:
        """Makes the whole budget of a release durable as spent, or raises and reserves nothing.

        Contract: when it returns, no other release can spend the same amount, even after a crash. Reserving again
        for the same release changes nothing.
        """
        ...


class Journal(Protocol):
    """Kernel answers of one release, in order. Public values only."""

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        """The stored answer number ``index``, or None when it was never stored.

        Raises IntegrityError when the stored answer belongs to another request than ``request`` (a digest).
        """
        ...

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        """Stores an answer; when it returns the answer survives a crash."""
        ...
