"""Workload errors of the thesis (Definition 26), computed from exact tables alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.model import TableRows
from dpcore.queries import Marginals
from dpcore.workload import Workload
from pipelines.aggregators.contingency import Contingency
from pipelines.aggregators.protocol import TableBlock

_ROWS_AT_ONCE = 1_000_000


def workload_error(
    workload: Workload, answers: NDArray[np.floating | np.integer], exact: NDArray[np.int64], units: float
) -> float:
    """(1 / (k N)) sum over the k cliques of c ||M(D) - M(D^)||_1: no factor 1/2, and the answers are not rescaled.

    answers, exact: In counts, [queries.size]. units: N, the true number of rows.

    Source: thesis, Definition 26.
    """
    queries = _marginals(workload)
    return float(workload.weights @ distances(queries, answers, exact)) / (len(queries.cliques) * units)


def distances(
    queries: Marginals, answers: NDArray[np.floating | np.integer], exact: NDArray[np.int64]
) -> NDArray[np.float64]:
    """L1 distance of each marginal in counts, float64 [cliques]."""
    starts = np.cumsum([0, *queries.sizes[:-1]])
    return np.asarray(np.add.reduceat(np.abs(answers - exact, dtype=np.float64), starts))


def counted(rows: TableRows, queries: Marginals) -> NDArray[np.int64]:
    """Marginals of synthetic rows, int64 [queries.size]."""
    aggregator = Contingency.of(queries, rows.domain, 1)
    counts = aggregator.create()
    for start in range(0, rows.codes.shape[0], _ROWS_AT_ONCE):
        codes = np.ascontiguousarray(rows.codes[start : start + _ROWS_AT_ONCE].T)
        counts = aggregator.add(counts, TableBlock(codes, codes.shape[1]))
    return aggregator.extract(counts)


def _marginals(workload: Workload) -> Marginals:
    assert isinstance(workload.queries, Marginals)
    return workload.queries
