"""itemsets.parquet and rules.parquet: the frequent itemsets of a release, and their association rules. Public.

All intervals of both files hold together with probability 95 %: lower ends of counts whatever the data are, the others
if clipping takes no more than twice the expected loss and one standard deviation. Counts are numbers of units, and
supports fractions of them. An upper end of a rule is null where it is not bounded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.estimation.itemsets.rules import Ratios, Rules
from dpcore.estimation.itemsets.supports import FrequentItemsets
from dpcore.queries import Conjunctions
from dpcore.queries.itemsets import positive
from jobs.outputs.attribute_columns import item_lists, item_type, items_column
from pipelines.arrow import numbers_of
from pipelines.layout import BasketLayout, Layout

ITEMSETS: Final = "itemsets.parquet"
RULES: Final = "rules.parquet"
MEASURES: Final = ("support", "confidence", "lift")


def itemset_schema(layout: BasketLayout) -> pa.Schema:
    """The columns of ``itemsets.parquet``."""
    return pa.schema(
        [
            pa.field("items", pa.list_(item_type(layout)), nullable=False),
            pa.field("size", pa.int8(), nullable=False),
            *(pa.field(name, pa.float64(), nullable=False) for name in ("count", "measured")),
            pa.field("stddev", pa.float64()),
            *(pa.field(name, pa.float64(), nullable=False) for name in ("lower", "upper")),
            *(pa.field(name, pa.float64(), nullable=False) for name in ("support", "support_lower", "support_upper")),
        ]
    )


def rule_schema(layout: BasketLayout) -> pa.Schema:
    """The columns of ``rules.parquet``."""
    return pa.schema(
        [
            pa.field("antecedent", pa.list_(item_type(layout)), nullable=False),
            pa.field("consequent", item_type(layout), nullable=False),
            *(
                pa.field(f"{name}{end}", pa.float64(), nullable=end == "_upper")
                for name in MEASURES
                for end in ("", "_lower", "_upper")
            ),
        ]
    )


def write_itemsets(folder: Path, itemsets: FrequentItemsets | None, layout: Layout) -> None:
    """Writes both tables. The same itemsets always give the same bytes.

    folder: The folder of the release.
    itemsets: What its mechanism has found; None if the workload asks for no itemsets: then nothing is written.
    layout: The public layout of its data, which names the items.
    """
    if itemsets is None:
        return
    assert isinstance(layout, BasketLayout)
    pq.write_table(_itemset_table(itemsets, layout), folder / ITEMSETS, compression="zstd")
    pq.write_table(_rule_table(itemsets.rules, layout), folder / RULES, compression="zstd")


def _itemset_table(itemsets: FrequentItemsets, layout: BasketLayout) -> pa.Table:
    units, tables = itemsets.units, []
    for part in itemsets.listed:
        rows, size = part.items.shape
        counts = (part.values, part.lower, part.upper)
        divisors = (units.value, units.upper, units.lower)
        supports = [np.minimum(count / divisor, 1.0) for count, divisor in zip(counts, divisors, strict=True)]
        supports[0] = np.clip(supports[0], supports[1], supports[2])
        columns = [
            item_lists(part.items, part.items >= 0, layout),
            pa.array(np.full(rows, size, dtype=np.int8)),
            *(pa.array(values) for values in (part.values, part.measured)),
            pa.array(np.full(rows, part.stddev)),
            *(pa.array(values) for values in (part.lower, part.upper, *supports)),
        ]
        tables.append(pa.table(columns, schema=itemset_schema(layout)))
    return pa.concat_tables(tables).combine_chunks()


def _rule_table(rules: Rules, layout: BasketLayout) -> pa.Table:
    measures = [column for ratios in (rules.support, rules.confidence, rules.lift) for column in _columns(ratios)]
    antecedents = item_lists(rules.antecedents, rules.antecedents >= 0, layout)
    return pa.table([antecedents, items_column(rules.consequents, layout), *measures], schema=rule_schema(layout))


def _columns(ratios: Ratios) -> list[pa.Array]:
    unbounded = np.isinf(ratios.upper)
    return [pa.array(ratios.values), pa.array(ratios.lower), pa.array(ratios.upper, mask=unbounded)]


def listed_itemsets(folder: Path, layout: BasketLayout) -> Conjunctions:
    """The itemsets that a release lists, as conjunctions in the order of answers.parquet and of ``itemsets.parquet``.

    folder: The folder of the release.
    layout: The public layout of its data.

    Raises: ArrowException, OSError or ValueError for a damaged file.
    """
    lists = pq.read_table(folder / ITEMSETS, columns=["items"])["items"].combine_chunks()
    sizes = lists.value_lengths().to_numpy()
    values, offsets = lists.flatten(), np.concatenate([[0], np.cumsum(sizes)[:-1]])
    if not sizes.size or sizes.min() < 1:
        raise ValueError("an itemset without items; want one or more items")
    items = numbers_of(values) if layout.names is None else layout.names.codes_of(values)
    positions = np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)  # The last item is repeated.
    return positive(layout.view, items[offsets[:, None] + positions])
