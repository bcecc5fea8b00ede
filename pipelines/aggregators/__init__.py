"""Aggregators: exact sums over the encoded rows of whole units. They know no engine.

Open ``protocol`` first: the ``Aggregator`` interface, its laws, and the blocks of rows that aggregators read.
``aggregator_for`` chooses among them by the request:

* ``units``: the number of units;
* ``contingency``: marginals of a table;
* ``bitmaps``: conjunctions, and ``parities``: parities, both 64 records at a time on the bit rows of ``packing``;
* ``clipped``: sums in which a unit's contribution depends on how many queries it satisfies, and their histogram.

``distinct`` finds repeated records, which ``weighing`` counts with multiplicity.
"""

from __future__ import annotations

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Request
from dpcore.queries import ClippedSums, Conjunctions, Marginals, Parities, SatisfactionHistogram, UnitCount
from pipelines.aggregators.bitmaps import Bitmaps
from pipelines.aggregators.clipped import Clipped, Satisfactions
from pipelines.aggregators.contingency import Contingency
from pipelines.aggregators.parities import ParityCounts
from pipelines.aggregators.protocol import Aggregator, BasketBlock, Block, TableBlock
from pipelines.aggregators.units import Units
from pipelines.layout import BasketLayout, Layout

__all__ = ["Aggregator", "BasketBlock", "Block", "TableBlock", "aggregator_for"]


def aggregator_for(request: Request, layout: Layout) -> Aggregator:
    """The aggregator that answers a request about data of a layout.

    Raises: ConfigError when the request names other attributes or columns than the layout has.
    """
    max_records = 1 if isinstance(layout, BasketLayout) else layout.max_rows_per_unit
    if isinstance(request, UnitCount):
        return Units(max_records)
    if isinstance(request, SatisfactionHistogram | ClippedSums):
        _check_view(request.queries.view, layout.view)
        if max_records != 1:
            raise ConfigError("clipped answers do not fit units of several rows; want max_rows_per_unit: 1")
        return Satisfactions.of(request) if isinstance(request, SatisfactionHistogram) else Clipped.of(request)
    match request.queries:
        case Conjunctions() as queries:
            _check_view(queries.view, layout.view)
            return Bitmaps.of(queries, max_records)
        case Parities() as queries:
            _check_view(queries.view, layout.view)
            return ParityCounts.of(queries, max_records)
        case Marginals() as queries:
            if isinstance(layout, BasketLayout):
                raise ConfigError("marginals were asked of baskets; want conjunctions, or data of shape table")
            _check_within(queries.domain, layout.schema.domain)
            return Contingency.of(queries, layout.schema.domain, max_records)


def _check_view(query_view: BinaryView, data_view: BinaryView) -> None:
    if query_view.columns != data_view.columns:
        raise ConfigError(
            f"the conjunctions have {query_view.columns} columns; want {data_view.columns}, as the data have"
        )
    if query_view != data_view:
        raise ConfigError("the conjunctions name other columns than the data; want the one-hot view of the schema")


def _check_within(query_domain: Domain, domain: Domain) -> None:
    for name, size in zip(query_domain.names, query_domain.sizes, strict=True):
        if name not in domain or domain.shape((name,)) != (size,):
            raise ConfigError(
                f"marginals use attribute {name!r} of size {size}, which the schema lacks; want its attributes"
            )
