"""Aggregators: exact sums over the encoded rows of whole units. They do not depend on any engine.

Open ``protocol`` first: it defines the ``Aggregator`` interface, its laws, and the blocks of rows that aggregators
read. ``aggregator_for`` chooses an aggregator for a request:

* ``units``: the number of units.
* ``contingency``: marginals of a table.
* ``bitmaps`` and ``parities``: conjunctions and parities, 64 records at a time, on the bit rows of ``packing``.
* ``clipped``: sums in which the contribution of a unit depends on the number of queries that it satisfies, and the
  histogram of these numbers.
* ``pairs``: the same for all pairs of some items of baskets, unit by unit.

``item_sums`` sums the items of baskets by their names, where no list of them is given. Its accumulators have no fixed
length.

``row_hashes`` sums hashes of the rows beside the counts of any of these, so that rows that have changed are noticed.
``distinct`` finds repeated records, which ``weighing`` counts with their multiplicities.
"""

from __future__ import annotations

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Request
from dpcore.queries import ClippedSums, Conjunctions, Marginals, Parities, SatisfactionHistogram, UnitCount
from pipelines.aggregators.bitmaps import Bitmaps
from pipelines.aggregators.clipped import Clipped, Satisfactions
from pipelines.aggregators.contingency import Contingency
from pipelines.aggregators.pairs import ClippedPairs, PairSatisfactions, items_of_all_pairs
from pipelines.aggregators.parities import ParityCounts
from pipelines.aggregators.protocol import Aggregator, BasketBlock, Block, TableBlock
from pipelines.aggregators.units import Units
from pipelines.layout import BasketLayout, Layout

__all__ = ["Aggregator", "BasketBlock", "Block", "TableBlock", "aggregator_for"]


def aggregator_for(request: Request, layout: Layout) -> Aggregator:
    """The aggregator that answers a request about data with a layout.

    Raises: ConfigError when the request does not fit the attributes or columns of the layout.
    """
    max_records = 1 if isinstance(layout, BasketLayout) else layout.max_rows_per_unit
    if isinstance(request, UnitCount):
        return Units(max_records)
    if isinstance(request, SatisfactionHistogram | ClippedSums):
        _check_view(request.queries.view, layout.view)
        if max_records != 1:
            raise ConfigError("clipped answers do not fit units of several rows; want max_rows_per_unit: 1")
        return _clipped_aggregator(request)
    match request.queries:
        case Conjunctions() as queries:
            _check_view(queries.view, layout.view)
            return Bitmaps.of(queries, max_records)
        case Parities() as queries:
            _check_view(queries.view, layout.view)
            return ParityCounts.of(queries, max_records)
        case Marginals() as queries:
            if isinstance(layout, BasketLayout):
                raise ConfigError("baskets have no marginals; want conjunctions, or data of shape table")
            _check_within(queries.domain, layout.schema.domain)
            return Contingency.of(queries, layout.schema.domain, max_records)


def _clipped_aggregator(request: SatisfactionHistogram | ClippedSums) -> Aggregator:
    items = items_of_all_pairs(request)
    if isinstance(request, SatisfactionHistogram):
        return Satisfactions.of(request) if items is None else PairSatisfactions.of(request, items)
    return Clipped.of(request) if items is None else ClippedPairs.of(request, items)


def _check_view(query_view: BinaryView, data_view: BinaryView) -> None:
    if query_view.columns != data_view.columns:
        raise ConfigError(
            f"the queries have {query_view.columns} columns; want {data_view.columns}, as many as the data"
        )
    if query_view != data_view:
        raise ConfigError("the queries are over other columns than the data; want the one-hot view of the schema")


def _check_within(query_domain: Domain, domain: Domain) -> None:
    for name, size in zip(query_domain.names, query_domain.sizes, strict=True):
        if name not in domain or domain.shape((name,)) != (size,):
            raise ConfigError(
                f"marginals use attribute {name!r} of size {size}, which is not in the schema; want its attributes"
            )
