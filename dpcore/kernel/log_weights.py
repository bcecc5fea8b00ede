"""The public part of the log-weights with which ``sample`` and ``retain`` weigh queries and complements. TRUSTED."""

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
LARGEST_SCORE: Final = 4096.0  # Maximum size of each part of a score, in powers of two; the sampler's proof needs it.
_HIT_TYPES: Final = (np.uint16, np.uint32)  # Each type needs its own compiled code, so there are only two.


@final
@dataclass(frozen=True, eq=False)
class LogWeights:
    """The public part of the log-weights of m queries and their m complements. The kernel adds slope * c / total.

    Query q:        prior[q] - step * hits[q] + constant;
    its complement: prior[q] - step * (done - hits[q]) + constant.

    step: The amount that each hit subtracts from the log-weight, at least 0.
    hits: Integers [m] in 0..done: the number of records so far that satisfy each query. They are stored in the smallest
        unsigned type that holds ``done``. Arithmetic in that type wraps around, so convert them first.
    done: The number of records so far, at most 2^31 - 1.
    prior: float64 [m], or None for zeros. An array made by ``frozen`` is stored without a copy, and its digest is
        cached.
    constant: A number that is added to every log-weight.

    Raises TypeError when ``done`` is not an int, and ValueError for any other value out of range.
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
            raise ValueError(f"step {step}, constant {constant} of log-weights; want finite numbers, and step >= 0")
        if not 0 <= self.done <= MOST_DONE:
            raise ValueError(f"done is {self.done}; want 0 .. 2^31 - 1")
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "constant", constant)
        object.__setattr__(self, "hits", _compact(np.asarray(self.hits), self.done))
        if self.prior is not None:
            prior = frozen(self.prior, np.float64)
            if prior.shape != self.hits.shape or not np.isfinite(self._span(prior)).all():
                raise ValueError(f"prior {prior.shape} of log-weights; want finite numbers, as hits {self.hits.shape}")
            object.__setattr__(self, "prior", prior)

    @property
    def size(self) -> int:
        """Number of queries, m."""
        return int(self.hits.size)

    @property
    def prior_span(self) -> tuple[float, float]:
        """The smallest and the largest prior."""
        return (0.0, 0.0) if self.prior is None else self._span(self.prior)

    def log_weights(self) -> NDArray[np.float64]:
        """All log-weights, float64 [2 m]: those of the queries, then those of the complements."""
        prior = np.zeros(self.size) if self.prior is None else self.prior
        hits = self.hits.astype(np.float64)
        return np.concatenate([prior - self.step * hits, prior - self.step * (self.done - hits)]) + self.constant

    def digest(self) -> str:
        """A digest of all fields: equal for equal log-weights, and different otherwise."""
        prior = None if self.prior is None else _facts(frozen_bytes(self.prior))[0]
        head = json.dumps(["tilt", self.step.hex(), self.done, self.constant.hex(), self.size, prior])
        return hashlib.sha256(head.encode() + frozen_bytes(self.hits)).hexdigest()

    @staticmethod
    def _span(prior: NDArray[np.float64]) -> tuple[float, float]:
        """The smallest and the largest number of a prior that ``frozen`` made."""
        return _facts(frozen_bytes(prior))[1:]


def _compact(hits: NDArray[np.integer[Any]], done: int) -> NDArray[np.integer[Any]]:
    """A frozen copy in the smallest type that holds ``done``. Raises ValueError unless the hits are in 0 .. done."""
    if hits.ndim != 1 or hits.size == 0 or not np.issubdtype(hits.dtype, np.integer):
        raise ValueError(f"hits of log-weights are {hits.dtype} {hits.shape}; want a vector of one or more integers")
    kind = next(kind for kind in _HIT_TYPES if done <= np.iinfo(kind).max)
    compact: NDArray[np.integer[Any]] = np.empty(hits.size, dtype=kind)
    if not _copy_within(np.ascontiguousarray(hits), done, compact):
        raise ValueError("hits of log-weights outside 0 .. done; want how many of done records satisfy each query")
    return frozen(compact, kind)


@compiled
def _copy_within(hits: NDArray[np.integer[Any]], largest: int, out: NDArray[np.integer[Any]]) -> bool:
    """Copies the hits to ``out``. Returns whether all of them lie in 0 .. largest."""
    within = True
    for index in range(hits.size):
        within &= (hits[index] >= 0) & (hits[index] <= largest)
        out[index] = hits[index]
    return within


@lru_cache(maxsize=2)
def _facts(prior: bytes) -> tuple[str, float, float]:
    """Digest, minimum and maximum of a prior; cached, because mechanisms pass the same bytes in every round."""
    values = np.frombuffer(prior, dtype=np.float64)
    # numpy's min and max return NaN when a number is NaN, so that the caller's check for finite numbers sees it.
    return hashlib.sha256(prior).hexdigest(), float(values.min()), float(values.max())
