"""The public part of the log-weights that queries and complements are drawn by. TRUSTED."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.frozen import frozen, frozen_bytes

MOST_DONE: Final = (1 << 31) - 1
LARGEST_SCORE: Final = 4096.0  # Of each part of a score, in powers of two: the sampler's proof goes so far.
_KINDS: Final = (np.uint16, np.uint32)  # Compiled code is made anew for each.


@final
@dataclass(frozen=True, eq=False)
class LogWeights:
    """Log-weights of m queries and m complements, up to what the exact counts add.

    Query q:        prior[q] - step * hits[q] + constant;
    its complement: prior[q] - step * (done - hits[q]) + constant.

    step: At least 0.
    hits: Integers [m], each in 0..done: how many of ``done`` records satisfy the query. Kept as the smallest unsigned
        type that holds done, so that arithmetic on them wraps: convert first, or take ``log_weights``.
    done: At most 2^31 - 1.
    prior: float64 [m], or None for zeros. An array that ``frozen`` made is kept without a copy, and its digest known.
    """

    step: float
    hits: NDArray[np.integer[Any]]
    done: int
    prior: NDArray[np.float64] | None = None
    constant: float = 0.0

    def __post_init__(self) -> None:
        if type(self.done) is not int:
            raise TypeError(f"done is a {type(self.done).__name__}; want an int")
        step, constant = float(self.step), float(self.constant)
        if not (0 <= step < np.inf and np.isfinite(constant)):
            raise ValueError(f"step {step} and constant {constant} of a tilt; want finite numbers, and step >= 0")
        if not 0 <= self.done <= MOST_DONE:
            raise ValueError(f"done is {self.done}; want 0 .. 2^31 - 1")
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "constant", constant)
        object.__setattr__(self, "hits", _compact(np.asarray(self.hits), self.done))
        if self.prior is not None:
            prior = frozen(self.prior, np.float64)
            if prior.shape != self.hits.shape or not np.isfinite(self._span(prior)).all():
                raise ValueError(f"prior {prior.shape} of a tilt; want finite ones, as many as hits {self.hits.shape}")
            object.__setattr__(self, "prior", prior)

    @property
    def size(self) -> int:
        """Number of queries, m."""
        return int(self.hits.size)

    @property
    def prior_span(self) -> tuple[float, float]:
        """Smallest and largest prior."""
        return (0.0, 0.0) if self.prior is None else self._span(self.prior)

    def log_weights(self) -> NDArray[np.float64]:
        """All of them, float64 [2 m]: first of the queries, then of the complements."""
        prior = np.zeros(self.size) if self.prior is None else self.prior
        hits = self.hits.astype(np.float64)
        return np.concatenate([prior - self.step * hits, prior - self.step * (self.done - hits)]) + self.constant

    def digest(self) -> str:
        """Of everything above: equal tilts, equal digests, and others' differ."""
        prior = None if self.prior is None else _facts(frozen_bytes(self.prior))[0]
        head = json.dumps(["tilt", self.step.hex(), self.done, self.constant.hex(), self.size, prior])
        return hashlib.sha256(head.encode() + frozen_bytes(self.hits)).hexdigest()

    @staticmethod
    def _span(prior: NDArray[np.float64]) -> tuple[float, float]:
        return _facts(frozen_bytes(prior))[1:]


def _compact(hits: NDArray[np.integer[Any]], done: int) -> NDArray[np.integer[Any]]:
    """A frozen copy in the smallest type. Raises ValueError for what no hits can be."""
    if hits.ndim != 1 or hits.size == 0 or not np.issubdtype(hits.dtype, np.integer):
        raise ValueError(f"hits of a tilt are {hits.dtype} {hits.shape}; want integers, one or more in a vector")
    kind = next(kind for kind in _KINDS if done <= np.iinfo(kind).max)
    kept: NDArray[np.integer[Any]] = np.empty(hits.size, dtype=kind)
    if not _copied_within(np.ascontiguousarray(hits), done, kept):
        raise ValueError("hits of a tilt pass 0 .. done; want how many of done records satisfy each query")
    return frozen(kept, kind)


@compiled
def _copied_within(hits: NDArray[np.integer[Any]], largest: int, into: NDArray[np.integer[Any]]) -> bool:
    within = True
    for index in range(hits.size):
        within &= (hits[index] >= 0) & (hits[index] <= largest)
        into[index] = hits[index]
    return within


@lru_cache(maxsize=2)
def _facts(prior: bytes) -> tuple[str, float, float]:
    """Digest, minimum and maximum; bytes that a mechanism hands over in every round are read once."""
    values = np.frombuffer(prior, dtype=np.float64)
    # A NaN would hide behind min and max only if they skipped it; numpy's pass it on.
    return hashlib.sha256(prior).hexdigest(), float(values.min()), float(values.max())
