"""Interfaces that the kernel needs: a ledger that reserves the budget, and a journal that stores answers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.budget import Budget


class Ledger(Protocol):
    """Accounts the privacy loss of all releases, across processes."""

    def reserve(self, budget: Budget) -> None:
        """Records the whole budget of a release durably as spent, or raises an error and records nothing.

        Contract: once this returns, no other release can spend the same amount, even after a crash. Reserving again for
        the same release changes nothing.
        """
        ...


class Journal(Protocol):
    """Stores the answers of the kernel for one release, in order. All stored values are public."""

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        """Returns the stored answer number ``index``, or None when it was never stored.

        request: Digest of the request.

        Raises IntegrityError when the stored answer belongs to another request.
        """
        ...

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        """Stores an answer. Contract: once this returns, the answer survives a crash."""
        ...
