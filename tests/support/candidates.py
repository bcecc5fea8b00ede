"""Exact tables of candidates, as a score is given them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.exact_statistics import QueryAnswers, Statistics
from dpcore.kernel.scores import Candidates
from dpcore.queries import Marginals


def cliques_of(candidates: Candidates) -> Sequence[Clique]:
    """The clique of each candidate, of which several may share one."""
    return candidates.cliques if isinstance(candidates, Marginals) else [term.clique for term in candidates.terms]


def tables_of(candidates: Marginals, answers: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    """From the concatenation of all tables."""
    return [(place, np.asarray(table).ravel()) for place, table in enumerate(candidates.split(answers))]


def tables_from(candidates: Candidates, statistics: Statistics) -> list[tuple[int, NDArray[np.int64]]]:
    """Straight from the data."""
    every = Marginals(candidates.domain, tuple(cliques_of(candidates)))
    return tables_of(every, statistics.aggregate(QueryAnswers(every)))
