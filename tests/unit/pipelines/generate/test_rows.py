"""Synthetic rows on disk: the dealt codes, whatever the threads, read back by the pipeline that reads real rows."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.estimation.independent import IndependentModel
from dpcore.estimation.model import BasketRows, Model, SyntheticRows, TableRows
from dpcore.estimation.row_partitions import partition_rows
from dpcore.kernel.exact_answers import ExactAnswers
from dpcore.queries import Conjunctions, Marginals, Queries, UnitCount
from pipelines.attributes import Attribute, Kind
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.generate import rows
from pipelines.generate.parallel_rows import LocalRowWorkers
from pipelines.generate.row_files import rows_table
from pipelines.generate.rows import units_of_a_part, write_rows
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


def uniform(layout: Layout) -> IndependentModel:
    """Independent uniform codes of a table, or independent items that a third of the units hold."""
    view = layout.view
    if isinstance(layout, BasketLayout):
        return IndependentModel(view, np.full(view.columns, 1 / 3), 1.0)
    chances = [np.full(size, 1 / size) for size in layout.schema.domain.sizes]
    return IndependentModel(
        BinaryView.one_hot(layout.schema.domain), np.concatenate(chances), 1.0, layout.schema.domain
    )


def parts(model: Model, units: int, size: int, seed: int) -> list[SyntheticRows]:
    rounded = model.rounded(units, np.random.default_rng(np.random.SeedSequence(seed)))
    return list(partition_rows(rounded, size, seed, 0, -(-units // size)))


def exact(folder: Path, layout: Layout, queries: Queries | UnitCount) -> list[int]:
    statistics = EngineStatistics(LocalEngine(), open_source(str(folder), layout, bytes(16)))
    return ExactAnswers(statistics).of(queries).tolist()


def test_a_table_reads_back_as_the_codes_that_were_dealt(tmp_path: Path) -> None:
    files = write_rows(uniform(TABLE), 250, TABLE, tmp_path, seed=5, size=100)
    assert [path.name for path in files] == [f"part-{index:05d}.parquet" for index in range(3)]
    codes = np.concatenate([one.codes for one in parts(uniform(TABLE), 250, 100, 5) if isinstance(one, TableRows)])
    cells = np.ravel_multi_index(codes.T, SCHEMA.domain.sizes)
    wanted = np.bincount(cells, minlength=SCHEMA.domain.size())
    # A boolean or an integer has no value for `other`; this schema gives it to text alone, so every code survives.
    assert exact(tmp_path, TABLE, Marginals(SCHEMA.domain, (SCHEMA.domain.names,))) == wanted.tolist()
    assert exact(tmp_path, TABLE, UnitCount()) == [250]
    assert pq.read_table(tmp_path)["person"].to_pylist() == list(range(250))


def test_files_have_the_types_of_the_schema(tmp_path: Path) -> None:
    """Values are written through dictionaries, which a reader does not see."""
    (path,) = write_rows(uniform(TABLE), 250, TABLE, tmp_path, seed=5)
    types = {field.name: field.type for field in pq.read_schema(path)}
    assert types == {
        "person": pa.int64(), "sex": pa.string(), "years": pa.int64(), "income": pa.float64(), "home": pa.bool_(),
        "day": pa.date32(),
    }  # fmt: skip
    encodings = pq.read_metadata(path).row_group(0)
    assert "DELTA_BINARY_PACKED" in encodings.column(0).encodings
    assert "RLE_DICTIONARY" in encodings.column(1).encodings


def test_codes_of_one_value_are_one_entry_and_null_is_none() -> None:
    """Two bins whose middle is the same number, `other` of integers, and null."""
    narrow = Attribute("narrow", Kind.FLOAT, edges=(1.0, 1.0 + 2**-52, 1.0 + 2**-51))
    number = Attribute("number", Kind.CATEGORICAL, values=(7, 5), other=True)
    many = Attribute("many", Kind.CATEGORICAL, values=tuple(f"v{value}" for value in range(128)), null=True)
    layout = TableLayout("person", Schema((narrow, number, many)))
    codes = np.array(list(product(range(narrow.size), range(number.size), range(many.size))), dtype=np.int32)
    table = rows_table(TableRows(layout.schema.domain, codes), 10, layout)
    for attribute, column in (narrow, 0), (number, 1), (many, 2):
        wanted = attribute.decode(codes[:, column])
        assert table[attribute.column].combine_chunks().dictionary_decode().equals(wanted)
        assert table[attribute.column].combine_chunks().dictionary.null_count == 0
    assert table["person"].to_pylist() == list(range(10, 10 + len(codes)))


def test_a_unit_column_that_is_an_attribute_holds_its_values(tmp_path: Path) -> None:
    layout = TableLayout("sex", SCHEMA)
    (path,) = write_rows(uniform(layout), 30, layout, tmp_path, seed=5)
    assert set(pq.read_table(path)["sex"].to_pylist()) <= {"f", "m", "__other__", None}


def test_a_model_of_some_attributes_writes_their_columns(tmp_path: Path) -> None:
    some = TableLayout("person", Schema((SCHEMA.attributes[1], SCHEMA.attributes[4])))
    write_rows(uniform(some), 10, TABLE, tmp_path, seed=1)
    assert pq.read_table(tmp_path).column_names == ["person", "years", "day"]


def test_the_parts_of_a_graphical_model_are_one_rounding(tmp_path: Path) -> None:
    """The counts of all parts together are next to their expectation, which independent parts would miss."""
    model = random_model(GraphShape(SCHEMA.domain, (("sex", "age"), ("age", "day"))), 2)
    files = write_rows(model, 5_000, TABLE, tmp_path, seed=5, size=100)
    assert len(files) == 50
    tables = Marginals(SCHEMA.domain, (("sex",), ("age",), ("day",)))
    error = np.array(exact(tmp_path, TABLE, tables)) - 5_000 * model.answer(tables) / model.total
    assert np.abs(error).max() < 3


def test_few_units_are_drawn_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the model itself, as long as they fit into one file; from then on, parts of a rounding."""
    monkeypatch.setattr(rows, "FEW_UNITS", 60)
    own, child = np.random.SeedSequence(4), np.random.SeedSequence(4).spawn(1)[0]
    graphical = random_model(GraphShape(SCHEMA.domain, (("sex", "age"),)), 2)
    for name, model, drawn in (
        ("graphical", graphical, graphical.rows(60, np.random.default_rng(own))),
        ("independent", uniform(TABLE), uniform(TABLE).sample(60, np.random.default_rng(child))),
    ):
        (path,) = write_rows(model, 60, TABLE, tmp_path / name, seed=4)
        assert pq.read_table(path)["sex"].to_pylist() == rows_table(drawn, 0, TABLE)["sex"].to_pylist()
        (path,) = write_rows(model, 61, TABLE, tmp_path / f"{name} more", seed=4)
        (one,) = parts(model, 61, 61, 4)
        assert pq.read_table(path)["sex"].to_pylist() == rows_table(one, 0, TABLE)["sex"].to_pylist()


def test_baskets_read_back_as_they_were_dealt(tmp_path: Path) -> None:
    write_rows(uniform(BASKETS), 90, BASKETS, tmp_path, seed=3, size=40)
    held = np.zeros(7, dtype=np.int64)
    for one in parts(uniform(BASKETS), 90, 40, 3):
        assert isinstance(one, BasketRows)
        held += np.bincount(one.item, minlength=7)
    assert exact(tmp_path, BASKETS, Conjunctions.single_columns(BASKETS.view)) == held.tolist()
    assert held.tolist() == [30] * 7
    units = pq.read_table(tmp_path).column("user").to_numpy()
    assert (units.min() >= 0, units.max() < 90, len(np.unique(units)) > 80) == (True, True, True)
    assert (np.diff(units) >= 0).all()


def test_the_rows_depend_on_the_seed_alone(tmp_path: Path) -> None:
    def content(name: str, seed: int, threads: int | None = None) -> list[bytes]:
        workers = LocalRowWorkers(threads)
        files = write_rows(uniform(TABLE), 300, TABLE, tmp_path / name, seed=seed, size=64, workers=workers)
        return [path.read_bytes() for path in files]

    first = content("first", 1)
    assert content("one thread", 1, 1) == first
    assert content("another seed", 2) != first


@pytest.mark.parametrize(("model", "layout"), [(uniform(BASKETS), BASKETS), (uniform(TABLE), TABLE)])
@pytest.mark.parametrize("size", [None, 8])
def test_progress_ends_at_the_number_of_units(tmp_path: Path, model: Model, layout: Layout, size: int | None) -> None:
    seen: list[tuple[int, int]] = []
    write_rows(model, 50, layout, tmp_path, seed=1, size=size, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (50, 50)
    assert sorted(seen) == seen
    assert len(seen) == 1 if size is None else len(seen) > 1


def test_no_units_are_no_files(tmp_path: Path) -> None:
    assert write_rows(uniform(TABLE), 0, TABLE, tmp_path / "new", seed=1) == []
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(("columns", "units"), [(1, 1_000_000), (16, 1_000_000), (64, 250_000), (1_000, 100_000)])
def test_parts_of_wide_tables_have_fewer_units(columns: int, units: int) -> None:
    attributes = tuple(Attribute(f"a{number}", Kind.BOOLEAN) for number in range(columns))
    assert units_of_a_part(TableLayout("person", Schema(attributes))) == units
    assert units_of_a_part(BASKETS) == 100_000


def test_no_threads_are_refused() -> None:
    with pytest.raises(ConfigError, match="engine threads is 0; want >= 1"):
        LocalRowWorkers(0)


def test_a_part_that_fails_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "part-00001.parquet").mkdir()
    with pytest.raises(IsADirectoryError):
        write_rows(uniform(TABLE), 300, TABLE, tmp_path, seed=1, size=64)


def test_rows_of_another_shape_are_refused() -> None:
    with pytest.raises(TypeError, match="want rows of the layout's shape"):
        rows_table(uniform(BASKETS).sample(2, np.random.default_rng(1)), 0, TABLE)
