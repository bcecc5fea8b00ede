"""Releases of rivals that end with synthetic rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.estimation.model import TableRows
from dpcore.estimation.record_model import RecordModel
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Release
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload
from tests.benchmarks.graphical.definition26 import counted


def release_of_rows(
    workload: Workload, codes: NDArray[np.int32], total: float, measured: Sequence[Measurement]
) -> Release:
    """The release whose answers are counts of synthetic rows, scaled to a number of rows.

    workload: A workload of marginals.
    codes: int32 [rows, attributes], in the order of the workload's domain.
    total: The number of rows that they stand for.
    """
    queries = workload.queries
    assert isinstance(queries, Marginals)
    answers = counted(TableRows(queries.domain, codes), queries).astype(np.float64) * (total / len(codes))
    model = RecordModel.of_rows(BinaryView.one_hot(queries.domain), one_hot(queries.domain, codes), total)
    return Release(workload, of_model(answers), model, tuple(measured))


def one_hot(domain: Domain, codes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """One column for each value of each attribute, bool [rows, columns]."""
    starts = np.cumsum([0, *domain.sizes[:-1]])
    rows = np.zeros((len(codes), sum(domain.sizes)), dtype=np.bool_)
    np.put_along_axis(rows, codes + starts, values=True, axis=1)
    return rows
