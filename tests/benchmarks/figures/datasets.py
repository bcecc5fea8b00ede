"""Datasets of the papers behind an engine, from the loaders of the other cases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Contribution, Shape, Statistics
from dpcore.queries import Marginals
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import Layout, TableLayout
from pipelines.schema import schema_from
from pipelines.source import open_source
from tests.benchmarks.case import Inputs
from tests.benchmarks.generated import kept
from tests.support.datasets import folder

_CLIQUE_SEED = 0
_DRAWS_IN_VAIN = 20_000  # One after the other; one in 500 draws names a marginal that is small enough, or more.


@dataclass(frozen=True, eq=False)
class Dataset:
    """Exact statistics of ``units`` units, for conjunctions over ``view``. SENSITIVE."""

    statistics: Statistics
    view: BinaryView
    units: int


@dataclass(frozen=True, eq=False)
class Table:
    """Exact statistics of ``units`` rows, one a unit, for marginals over ``domain``. SENSITIVE."""

    statistics: Statistics
    domain: Domain
    units: int


# The modules of other cases are imported where they are asked for: what they import would be memory of every case.


def adult_inputs(data: Path) -> Inputs:
    from tests.benchmarks import dual_release

    return dual_release.adult181(data)


def kdd99_inputs(data: Path) -> Inputs:
    from tests.benchmarks import dual_release

    return dual_release.kdd99(data)


def netflix_inputs(data: Path) -> Inputs:
    from tests.benchmarks import netflix as netflix_data

    return netflix_data.inputs(data)


def table_of_dual_cases(inputs: Inputs) -> Dataset:
    """KDD99 or Adult, as the cases of DualQuery and DQRS have them."""
    from tests.benchmarks import dual_release

    state = dual_release.prepare(inputs, seed=0, queries=1)
    return Dataset(state.statistics, state.queries.view, state.units)


def netflix(inputs: Inputs) -> Dataset:
    from tests.benchmarks import netflix as netflix_data

    layout = netflix_data.LAYOUT
    return Dataset(_opened(inputs["baskets"], layout), layout.view, netflix_data.USERS)


def no_inputs(data: Path) -> Inputs:
    return {}


def wide(attributes: int) -> Dataset:
    """Independent attributes that are made again whenever they are counted; answers positive conjunctions only."""
    from tests.benchmarks import dual_512k

    contribution = Contribution(Shape.BASKETS, attributes)
    return Dataset(dual_512k.CountedColumns(contribution), BinaryView(attributes), dual_512k.UNITS)


def tabular_inputs(name: str, data: Path) -> Inputs:
    """The codes of a table with a column that numbers its rows, because each row is a person."""

    def make(target: Path) -> None:
        target.mkdir(parents=True)
        origin = folder() / "tabular" / name
        table = pa.concat_tables([pq.read_table(file) for file in sorted(origin.glob("*.parquet"))])
        pq.write_table(table.append_column("row", pa.array(np.arange(table.num_rows))), target / "part-0.parquet")
        (target / "domain.json").write_text((origin / "domain.json").read_text())

    return {"table": kept(data, f"{name}-with-rows", make)}


def tabular(inputs: Inputs) -> Table:
    sizes: dict[str, int] = json.loads((inputs["table"] / "domain.json").read_text())
    attributes = [
        {"name": name, "type": "categorical", "values": list(range(size)), "other": False, "null": False}
        for name, size in sizes.items()
    ]
    layout = TableLayout("row", schema_from({"version": 1, "attributes": attributes}))
    rows = pq.read_metadata(inputs["table"] / "part-0.parquet").num_rows
    return Table(_opened(inputs["table"], layout), layout.schema.domain, rows)


def marginals(table: Table, order: int, count: int) -> Marginals:
    """Different random marginals of at most n cells each, fewer where there are not so many; they begin alike."""
    names, generator = table.domain.names, np.random.default_rng(_CLIQUE_SEED)
    found: dict[tuple[str, ...], None] = {}
    in_vain = 0
    while len(found) < count and in_vain < _DRAWS_IN_VAIN:
        before = len(found)
        chosen = generator.choice(len(names), size=order, replace=False)
        clique = table.domain.canonical(names[axis] for axis in chosen)
        if table.domain.size(clique) <= table.units:
            found[clique] = None
        in_vain = 0 if len(found) > before else in_vain + 1
    return Marginals(table.domain, tuple(found))


def _opened(path: Path, layout: Layout) -> EngineStatistics:
    return EngineStatistics(LocalEngine(), open_source(str(path), layout, bytes(16)))
