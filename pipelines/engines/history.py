"""The exact statistics of the steps of a series so far, which must not change once a step has read them. TRUSTED."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError, IntegrityError
from dpcore.exact_statistics import Contribution, QueryAnswers, Request, Statistics
from dpcore.queries import Marginals

Compare = Callable[[str, str], None]
"""Called with a keyed digest of the steps before this one, and of these with this one, before a table is returned.
SENSITIVE. It raises an error unless the former is what the step before has recorded."""


@final
class StepsSoFar:
    """The statistics of the rows up to a step. SENSITIVE.

    Tables of the attribute that holds the steps count no row of a later step. Before one is returned, ``compare`` sees
    keyed digests of the exact counts of all earlier steps, so that a run can stop before it draws if rows of an earlier
    step have arrived, changed or vanished since that step was released (condition 2 of ``dpcore.kernel.series``).

    statistics: The statistics of all rows, of which those of earlier steps are kept first
        (``TableLayout.earliest``).
    attribute: The attribute that holds the steps.
    step: The step, from 0.
    key: Secret key of the digests.
    compare: Compares the digests with the recorded ones.
    """

    def __init__(self, statistics: Statistics, attribute: str, step: int, key: bytes, compare: Compare) -> None:
        self._statistics = statistics
        self._attribute = attribute
        self._step = step
        self._key = key
        self._compare = compare

    @property
    def contribution(self) -> Contribution:
        """What one unit may contribute to all steps together."""
        return self._statistics.contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        """The counts of the steps so far, int64 [size of the request]. SENSITIVE.

        Raises: ConfigError for anything but one marginal with the attribute; the exceptions of the statistics and of
            ``compare``.
        """
        queries = request.queries if isinstance(request, QueryAnswers) else None
        if not isinstance(queries, Marginals) or [self._attribute in clique for clique in queries.cliques] != [True]:
            raise ConfigError(
                "a step of a series reads one table of its steps; want mechanism continual, which asks for it"
            )
        (clique,) = queries.cliques
        exact = self._statistics.aggregate(request)  # SENSITIVE
        table = np.moveaxis(exact.reshape(queries.domain.shape(clique)).copy(), clique.index(self._attribute), 0)
        table[self._step + 1 :] = 0
        about = json.dumps([clique, queries.domain.shape(clique)])
        self._compare(self._digest(about, table[: self._step]), self._digest(about, table[: self._step + 1]))
        return np.ascontiguousarray(np.moveaxis(table, 0, clique.index(self._attribute))).ravel()

    def _digest(self, about: str, counts: NDArray[np.int64]) -> str:
        content = counts.astype("<i8").tobytes()
        return hmac.new(self._key, about.encode() + b"\0" + content, hashlib.sha256).hexdigest()


@final
@dataclass(frozen=True)
class NoRows:
    """Statistics for calls of the kernel that are replayed from a journal: the data are not there.

    contribution: What one unit may contribute.
    message: Why a request cannot be answered, and the next step.
    """

    contribution: Contribution
    message: str

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        """Raises IntegrityError."""
        raise IntegrityError(self.message)
