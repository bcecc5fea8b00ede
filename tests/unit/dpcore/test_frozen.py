"""Frozen arrays: nobody can write to them, and their bytes are those of what they show."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.frozen import frozen, frozen_bytes


def test_what_was_frozen_is_shared_and_cannot_be_written_to() -> None:
    first = frozen([[1, 2, 3], [4, 5, 6]], np.int64)
    again = frozen(first, np.int64)
    assert np.shares_memory(first, again)
    with pytest.raises(ValueError, match="read-only"):
        again[0, 0] = 9
    with pytest.raises(ValueError, match="WRITEABLE"):
        again.flags.writeable = True


def test_an_array_that_its_owner_can_change_is_copied() -> None:
    mine = np.arange(3)
    kept = frozen(mine, np.int64)
    mine[0] = 7
    assert kept.tolist() == [0, 1, 2]


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:1], lambda a: a[:, ::-1]])
def test_the_bytes_are_those_of_the_view(view: object) -> None:
    """Of a transposed or reversed view of the same size too: a digest of the others' order would be another's."""
    assert callable(view)
    shown = view(frozen([[1, 2, 3], [4, 5, 6]], np.int64))
    assert frozen_bytes(shown) == shown.tobytes()
