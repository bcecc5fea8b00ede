"""items.parquet: the name of each item of a release with named items, in the order of the codes. Public.

Where the items were discovered, ``weight`` is the noisy sum of each, and ``stddev`` the standard deviation of its
noise: a unit of k items adds 1 / sqrt(k).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.errors import ConfigError
from dpcore.kernel.private_items import DiscoveredItems
from pipelines.item_names import ItemNames
from pipelines.layout import Layout, TableLayout

ITEMS_FILE: Final = "items.parquet"
_NAMES = {"code": pa.int32(), "item": pa.string()}
_WEIGHTS = {**_NAMES, "weight": pa.float64(), "stddev": pa.float64()}


def write_items(folder: Path, layout: Layout, discovered: DiscoveredItems | None = None) -> None:
    """Writes items.parquet with the columns ``code`` and ``item``. Without names, nothing is written.

    folder: The folder of the release.
    layout: The public layout of its data.
    discovered: The discovered items with their noisy sums, for two further columns; None if a list was given.
    """
    if isinstance(layout, TableLayout) or layout.names is None:
        return
    codes = pa.array(np.arange(layout.items, dtype=np.int32))
    table = pa.table({"code": codes, "item": layout.names.array.cast(pa.string())})
    if discovered is not None:
        table = table.append_column("weight", pa.array(discovered.values))
        table = table.append_column("stddev", pa.array(discovered.stddevs))
    pq.write_table(table, folder / ITEMS_FILE, compression="zstd")


def read_items(folder: Path) -> ItemNames | None:
    """The names in items.parquet of a release; None if there is no such file.

    folder: The folder of the release.

    Raises: ConfigError when it holds no list of items; pyarrow's errors and OSError when it cannot be read.
    """
    table = _read(folder)
    return None if table is None else ItemNames(table["item"].cast(pa.large_string()).combine_chunks())


def read_discovered(folder: Path) -> DiscoveredItems | None:
    """The discovered items with their noisy sums; None without them.

    folder, Raises: As for ``read_items``.
    """
    names, table = read_items(folder), _read(folder)
    if names is None or table is None or "weight" not in table.column_names:
        return None
    values, stddevs = (np.asarray(table[name].to_numpy(), dtype=np.float64) for name in ("weight", "stddev"))
    return DiscoveredItems(tuple(name.encode() for name in names.array.to_pylist()), values, stddevs)


def _read(folder: Path) -> pa.Table | None:
    path = folder / ITEMS_FILE
    if not path.is_file():
        return None
    schema = pq.read_schema(path)
    if dict(zip(schema.names, schema.types, strict=True)) not in (_NAMES, _WEIGHTS):
        raise ConfigError(f"{path} has other columns than items.parquet")
    table = pq.read_table(path)
    if any(column.null_count for column in table.columns):
        raise ConfigError(f"{path} has a null; want none")
    if not np.array_equal(table["code"].to_numpy(), np.arange(table.num_rows)):
        raise ConfigError(f"{path} does not name the codes 0, 1, 2, ...")
    return table
