"""Synthetic rows on disk: the sampled codes, whatever the threads, read back by the pipeline that reads real rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.model import BasketRows, SyntheticRows, TableRows
from dpcore.kernel.exact_answers import ExactAnswers
from dpcore.queries import Conjunctions, Marginals, Queries, UnitCount
from pipelines.attributes import Attribute, Kind
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.generate.rows import rows_table, write_rows
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema
from pipelines.source import open_source
from tests.support.graphical_models import random_model
from tests.support.graphs import GraphShape

SCHEMA = Schema(
    (
        Attribute("sex", Kind.CATEGORICAL, values=("f", "m"), other=True),
        Attribute("age", Kind.INTEGER, edges=(0, 30, 31, 100), column="years"),
        Attribute("income", Kind.FLOAT, edges=(0.0, 1.5, 9.0), null=False),
        Attribute("home", Kind.BOOLEAN),
        Attribute("day", Kind.DATE, edges=(0, 10, 400)),
    )
)
TABLE = TableLayout("person", SCHEMA)
BASKETS = BasketLayout("user", "item", 7)


@final
@dataclass(frozen=True)
class UniformTable:
    """Independent uniform codes."""

    domain: Domain

    @property
    def total(self) -> float:
        return 1.0

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        return np.zeros(queries.size)

    def sample(self, units: int, generator: np.random.Generator) -> SyntheticRows:
        codes = generator.integers(0, self.domain.sizes, size=(units, len(self.domain.sizes)))
        return TableRows(self.domain, codes.astype(np.int32))


@final
@dataclass(frozen=True)
class UniformBaskets:
    """Independent items, each held by a third of the units."""

    items: int

    @property
    def total(self) -> float:
        return 1.0

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        return np.zeros(queries.size)

    def sample(self, units: int, generator: np.random.Generator) -> SyntheticRows:
        unit, item = np.nonzero(generator.random((units, self.items)) < 1 / 3)
        return BasketRows(units, unit.astype(np.int32), item.astype(np.int32))


def exact(folder: Path, layout: Layout, queries: Queries | UnitCount) -> list[int]:
    statistics = EngineStatistics(LocalEngine(), open_source(str(folder), layout, bytes(16)))
    return ExactAnswers(statistics).of(queries).tolist()


def blocks(seed: int, sizes: list[int], model: UniformTable | UniformBaskets) -> list[SyntheticRows]:
    seeds = np.random.SeedSequence(seed).spawn(len(sizes))
    return [model.sample(size, np.random.default_rng(one)) for size, one in zip(sizes, seeds, strict=True)]


def test_a_table_reads_back_as_the_codes_that_were_sampled(tmp_path: Path) -> None:
    model = UniformTable(SCHEMA.domain)
    files = write_rows(model, 250, TABLE, tmp_path, seed=5, block=100)
    assert [path.name for path in files] == [f"part-{index:05d}.parquet" for index in range(3)]
    codes = np.concatenate([rows.codes for rows in blocks(5, [100, 100, 50], model) if isinstance(rows, TableRows)])
    cells = np.ravel_multi_index(codes.T, SCHEMA.domain.sizes)
    wanted = np.bincount(cells, minlength=SCHEMA.domain.size())
    # A boolean or an integer has no value for `other`; this schema gives it to text alone, so every code survives.
    assert exact(tmp_path, TABLE, Marginals(SCHEMA.domain, (SCHEMA.domain.names,))) == wanted.tolist()
    assert exact(tmp_path, TABLE, UnitCount()) == [250]


def test_a_model_of_some_attributes_writes_their_columns(tmp_path: Path) -> None:
    write_rows(UniformTable(SCHEMA.domain.project(["age", "day"])), 10, TABLE, tmp_path, seed=1)
    assert pq.read_table(tmp_path).column_names == ["person", "years", "day"]


def test_the_blocks_of_a_graphical_model_are_one_rounding(tmp_path: Path) -> None:
    """The counts of all blocks together are next to their expectation, which independent blocks would miss."""
    model = random_model(GraphShape(SCHEMA.domain, (("sex", "age"), ("age", "day"))), 2)
    write_rows(model, 5_000, TABLE, tmp_path, seed=5, block=100)
    tables = Marginals(SCHEMA.domain, (("sex",), ("age",), ("day",)))
    error = np.array(exact(tmp_path, TABLE, tables)) - 5_000 * model.answer(tables) / model.total
    assert np.abs(error).max() < 3
    blocks = model.row_blocks(5_000, 100, np.random.default_rng(np.random.SeedSequence(5)))
    written = np.concatenate([rows.codes for rows in blocks])
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) == 50
    sexes = np.concatenate([np.array(pq.read_table(path).column("sex").to_pylist()) for path in files])
    assert sexes.tolist() == SCHEMA.attributes[0].decode(written[:, 0]).to_pylist()


def test_baskets_read_back_as_they_were_sampled(tmp_path: Path) -> None:
    model = UniformBaskets(7)
    write_rows(model, 90, BASKETS, tmp_path, seed=3, block=40)
    held = np.zeros(7, dtype=np.int64)
    for rows in blocks(3, [40, 40, 10], model):
        assert isinstance(rows, BasketRows)
        held += np.bincount(rows.item, minlength=7)
    assert exact(tmp_path, BASKETS, Conjunctions.single_columns(BASKETS.view)) == held.tolist()
    units = pq.read_table(tmp_path).column("user").to_numpy()
    assert (units.min() >= 0, units.max() < 90, len(np.unique(units)) > 80) == (True, True, True)


def test_the_rows_depend_on_the_seed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def content(name: str, seed: int) -> list[bytes]:
        files = write_rows(UniformTable(SCHEMA.domain), 300, TABLE, tmp_path / name, seed=seed, block=64)
        return [path.read_bytes() for path in files]

    first = content("first", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert content("one thread", 1) == first
    assert content("another seed", 2) != first


def test_progress_ends_at_the_number_of_units(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    write_rows(
        UniformBaskets(3),
        50,
        BASKETS,
        tmp_path,
        seed=1,
        block=8,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (50, 50)
    assert sorted(seen) == seen


def test_rows_of_another_shape_are_refused() -> None:
    with pytest.raises(TypeError, match="want rows of the layout's shape"):
        rows_table(UniformBaskets(3).sample(2, np.random.default_rng(1)), 0, TABLE)
