"""The papers' datasets behind an engine, from the loaders of the other cases."""

from __future__ import annotations

from dataclasses import dataclass

from dpcore.domain import BinaryView
from dpcore.exact_statistics import Statistics
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import Layout
from pipelines.schema import load_schema
from pipelines.layout import TableLayout
from pipelines.source import open_source
from tests.benchmarks import netflix as netflix_data
from tests.benchmarks.case import Inputs
from tests.benchmarks.configured import inputs_of

WIDE_UNITS = 500_000

kdd99_inputs = inputs_of("kdd99.yaml", "kdd99.schema.yaml", "raw/kdd99")
netflix_inputs = netflix_data.inputs


@dataclass(frozen=True, eq=False)
class Dataset:
    """Exact statistics of ``units`` units. SENSITIVE."""

    statistics: Statistics
    view: BinaryView
    units: int


def kdd99(inputs: Inputs) -> Dataset:
    layout = TableLayout("connection_id", load_schema(inputs["schema"]))
    return _opened(str(inputs["dataset"]), layout, 494_021)


def netflix(inputs: Inputs) -> Dataset:
    return _opened(str(inputs["baskets"]), netflix_data.LAYOUT, netflix_data.USERS)


def _opened(path: str, layout: Layout, units: int) -> Dataset:
    return Dataset(EngineStatistics(LocalEngine(), open_source(path, layout, bytes(16))), layout.view, units)
