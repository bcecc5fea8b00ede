"""A tilt checks itself, cannot change, and its digest tells it from every other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpcore.frozen import frozen, frozen_bytes
from dpcore.kernel.log_weights import LogWeights

HITS = np.array([3, 0, 5], dtype=np.int32)
PRIOR = np.array([0.5, -1.0, 0.0])
TILT = LogWeights(0.25, HITS, 5, PRIOR, -2.0)


def test_log_weights_are_those_of_the_docstring() -> None:
    ones = [0.5 - 0.25 * 3, -1.0, -0.25 * 5]
    others = [0.5 - 0.25 * 2, -1.0 - 0.25 * 5, 0.0]
    assert TILT.log_weights().tolist() == [value - 2.0 for value in ones + others]
    assert replace(TILT, prior=None).log_weights().tolist() == [-2.75, -2.0, -3.25, -2.5, -3.25, -2.0]
    assert (TILT.size, TILT.prior_span, replace(TILT, prior=None).prior_span) == (3, (-1.0, 0.5), (0.0, 0.0))


REFUSED: dict[str, tuple[type[Exception], Callable[[], object]]] = {
    "a negative step": (ValueError, lambda: replace(TILT, step=-0.1)),
    "a step that is no number": (ValueError, lambda: replace(TILT, step=np.nan)),
    "an infinite step": (ValueError, lambda: replace(TILT, step=np.inf)),
    "a constant that is no number": (ValueError, lambda: replace(TILT, constant=np.nan)),
    "an infinite constant": (ValueError, lambda: replace(TILT, constant=-np.inf)),
    "more hits than records": (ValueError, lambda: replace(TILT, done=4)),
    "a negative hit": (ValueError, lambda: replace(TILT, hits=np.array([0, -1, 2]))),
    "a hit that wraps to 0": (ValueError, lambda: replace(TILT, hits=np.array([0, 1 << 32, 2]))),
    "a hit that wraps in 64 bits": (ValueError, lambda: replace(TILT, hits=np.array([0, 2**64 - 1, 2], np.uint64))),
    "floats for hits": (ValueError, lambda: replace(TILT, hits=PRIOR)),
    "bools for hits": (ValueError, lambda: replace(TILT, hits=np.zeros(3, dtype=bool))),
    "a matrix of hits": (ValueError, lambda: replace(TILT, hits=HITS[None, :])),
    "no hits": (ValueError, lambda: replace(TILT, hits=HITS[:0], prior=None)),
    "a negative number of records": (ValueError, lambda: LogWeights(0.0, HITS * 0, -1)),
    "too many records": (ValueError, lambda: replace(TILT, done=1 << 31)),
    "a number of records of numpy": (TypeError, lambda: replace(TILT, done=np.int64(5))),  # type: ignore[arg-type]
    "a number of records that is true": (TypeError, lambda: LogWeights(0.0, HITS * 0, True)),
    "a short prior": (ValueError, lambda: replace(TILT, prior=PRIOR[:2])),
    "a matrix of priors": (ValueError, lambda: replace(TILT, prior=PRIOR[None, :])),
    "a prior that is no number": (ValueError, lambda: replace(TILT, prior=np.array([0, np.nan, 0]))),
    "an infinite prior": (ValueError, lambda: replace(TILT, prior=np.array([0, 0, -np.inf]))),
}


@pytest.mark.parametrize(("kind", "make"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_tilt_is_refused(kind: type[Exception], make: Callable[[], object]) -> None:
    with pytest.raises(kind, match="want"):
        make()


@pytest.mark.parametrize("done", [5, 2**16 - 1, 2**16, 2**31 - 1])
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint16])
def test_hits_keep_their_values_in_every_type(done: int, kind: type) -> None:
    hits = np.minimum(np.array([0, 1, done]), np.iinfo(kind).max).astype(kind)
    made = LogWeights(1.0, hits, done)
    assert made.hits.tolist() == hits.tolist()
    assert made.digest() == LogWeights(1.0, hits.astype(np.int64), done).digest()


def test_a_tilt_keeps_what_it_was_made_with() -> None:
    hits, prior = HITS.copy(), PRIOR.copy()
    made = LogWeights(0.25, hits, 5, prior, -2.0)
    hits[:], prior[:] = 0, 0
    assert made.digest() == TILT.digest()
    assert made.hits.tolist() == HITS.tolist()
    for held in (made.hits, made.prior):
        assert held is not None
        with pytest.raises(ValueError, match="WRITEABLE"):
            held.flags.writeable = True


def test_hits_in_strides_are_taken_as_they_look() -> None:
    assert LogWeights(1.0, np.arange(6, dtype=np.int32)[::2], 5).hits.tolist() == [0, 2, 4]


def test_the_digest_is_that_of_the_content() -> None:
    others: list[dict[str, Any]] = [
        {"step": 0.5},
        {"hits": HITS[::-1].copy()},
        {"done": 6},
        {"done": 1 << 20},
        {"prior": None},
        {"prior": np.zeros(3)},
        {"prior": PRIOR[::-1].copy()},
        {"constant": 0.0},
        {"constant": -0.0},
        {"hits": np.array([3, 0]), "prior": PRIOR[:2]},
    ]
    digests = [TILT.digest(), *(replace(TILT, **other).digest() for other in others)]
    assert len(set(digests)) == len(digests)
    assert LogWeights(0.25, HITS.astype(np.int64), 5, PRIOR.copy(), -2.0).digest() == TILT.digest()


def test_a_frozen_prior_is_shared_and_another_copied() -> None:
    again = LogWeights(1.0, HITS, 5, TILT.prior)
    assert again.prior is not None
    assert TILT.prior is not None
    assert frozen_bytes(again.prior) is frozen_bytes(TILT.prior)
    assert frozen_bytes(LogWeights(1.0, HITS, 5, PRIOR).prior) is not frozen_bytes(TILT.prior)  # type: ignore[arg-type]


def test_frozen_arrays_are_shared_only_where_they_are_the_same_numbers() -> None:
    base = frozen(np.arange(6.0).reshape(2, 3), np.float64)
    shared = frozen(base, np.float64)
    assert frozen_bytes(shared) is frozen_bytes(base)
    assert shared.tolist() == base.tolist()
    shared.shape = (6,)  # The caller's array is its own: nothing is seen of this.
    assert base.shape == (2, 3)
    for other, kind in ((base[:, :2], np.float64), (base[1:], np.float64), (base.T, np.float64), (base, np.float32)):
        copied = frozen(other, kind)
        assert frozen_bytes(copied) is not frozen_bytes(base)
        assert copied.tolist() == other.tolist()
        assert copied.dtype == kind
    view = np.frombuffer(bytearray(frozen_bytes(base)), dtype=np.float64)  # Its bytes can change.
    kept = frozen(view, np.float64)
    view[:] = 0
    assert kept.tolist() == np.arange(6.0).tolist()
