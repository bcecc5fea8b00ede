from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.engines import parts
from pipelines.source import open_source
from tests.support import engine_cases
from tests.support.engine_cases import SALT


def test_a_part_ends_with_a_row_group_and_no_row_group_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_PART_ROWS", 5)
    rows = pa.table({"user": pa.array(range(22), pa.int32()), "film": pa.array([0] * 22)})
    pq.write_table(rows, tmp_path / "x.parquet", row_group_size=3)
    source = open_source(str(tmp_path), engine_cases.messy_baskets().layout, SALT)
    found = parts.parts_of(source)
    assert [part.row_groups for part in found] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert [part.rows for part in found] == [6, 6, 6, 4]
