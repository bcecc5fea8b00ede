"""Sums of named items: the same bits on every engine, however the rows lie in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpcore.kernel.item_threshold import weights_of
from pipelines.aggregators.item_sums import ItemSums
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine
from pipelines.item_names import ItemNames
from pipelines.layout import BasketLayout
from pipelines.source import open_source
from tests.support import engine_cases
from tests.support.engine_cases import SALT
from tests.support.engines import ENGINES

AGGREGATORS = {
    "all": ItemSums(weights_of(3), SALT),
    "a part without some": ItemSums(weights_of(3), SALT, 1, 2, ItemNames.of(["film 0", "film 3"])),
}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param()


def named_rows() -> pa.Table:
    rows = engine_cases.messy_baskets().rows
    films = [None if film is None else f"film {film}" for film in rows["film"].to_pylist()]
    return rows.set_column(1, "film", pa.array(films, pa.string()))


@pytest.mark.parametrize("aggregator", AGGREGATORS.values(), ids=AGGREGATORS)
@pytest.mark.parametrize("clustered", [False, True], ids=["shuffled", "clustered"])
def test_every_engine_gives_the_same_bits(
    engine: Engine, tmp_path: Path, clustered: bool, aggregator: ItemSums
) -> None:
    rows, layout = named_rows(), BasketLayout("user", "film", 10, 3, clustered, any_items=True)
    if clustered:
        engine_cases.write_clustered(rows, "user", tmp_path, 3)
    else:
        engine_cases.write(rows, tmp_path, 3)
    source = open_source(str(tmp_path), layout, SALT)
    counted = engine.reduce(source, aggregator)
    assert aggregator.extract(counted).sums.size > 3
    np.testing.assert_array_equal(counted, LocalEngine(1).reduce(source, aggregator))
