"""Exact counts over encoded rows; they know no engine."""

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
    """The aggregator that answers ``request`` about data of this layout.

    Raises ConfigError when the request speaks of other attributes or columns than the layout has.
    """
    most = 1 if isinstance(layout, BasketLayout) else layout.max_rows_per_unit
    if isinstance(request, UnitCount):
        return Units(most)
    if isinstance(request, SatisfactionHistogram | ClippedSums):
        _check_view(request.queries.view, layout.view)
        if most != 1:
            raise ConfigError("clipped answers were asked of units of several rows; want max_rows_per_unit: 1")
        return Satisfactions.of(request) if isinstance(request, SatisfactionHistogram) else Clipped.of(request)
    match request.queries:
        case Conjunctions() as queries:
            _check_view(queries.view, layout.view)
            return Bitmaps.of(queries, most)
        case Parities() as queries:
            _check_view(queries.view, layout.view)
            return ParityCounts.of(queries, most)
        case Marginals() as queries:
            if isinstance(layout, BasketLayout):
                raise ConfigError("marginals were asked of baskets; want conjunctions, or data of shape table")
            _check_within(queries.domain, layout.schema.domain)
            return Contingency.of(queries, layout.schema.domain, most)


def _check_view(asked: BinaryView, view: BinaryView) -> None:
    if asked.columns != view.columns:
        raise ConfigError(f"the conjunctions have {asked.columns} columns; the data have {view.columns}")
    if asked != view:
        raise ConfigError("the conjunctions speak of other columns than the data; want the one-hot view of the schema")


def _check_within(asked: Domain, domain: Domain) -> None:
    for name, size in zip(asked.names, asked.sizes, strict=True):
        if name not in domain or domain.shape((name,)) != (size,):
            raise ConfigError(f"marginals use attribute {name!r} of size {size}; the schema has no such attribute")
