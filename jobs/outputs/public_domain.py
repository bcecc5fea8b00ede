"""The attributes of a plan with their codes, and its queries in words: what a schema and a workload amount to."""

from __future__ import annotations

import math
from typing import Any, Final

from dpcore.queries import Itemsets, Marginals, Products
from dpcore.workload import Workload
from jobs.config.workload import MarginalQueries, Queries
from jobs.wording import number_of
from pipelines.attributes import Attribute
from pipelines.layout import Layout, TableLayout

_SHOWN: Final = 12  # Attributes of a wide table in a plan for people.


def domain_facts(layout: Layout) -> dict[str, Any]:
    """Codes of each attribute, and cells of all together, as a JSON object; for baskets the number of items.

    layout: The public layout of the data.
    """
    if not isinstance(layout, TableLayout):
        return {"items": layout.items}
    attributes = layout.schema.attributes
    return {
        "cells": math.prod(attribute.size for attribute in attributes),
        "attributes": [
            {
                "name": attribute.name,
                "values": attribute.known,
                "other": attribute.other is True,
                "null": attribute.null is True,
                "codes": attribute.size,
            }
            for attribute in attributes
        ],
    }


def domain_texts(layout: Layout) -> list[str]:
    """The same as text: the codes of the attributes, and then those that the schema has added to the listed values."""
    if not isinstance(layout, TableLayout):
        known = "" if layout.names is not None or not layout.any_items else "at most "
        return [f"{known}{layout.items:,} items"]
    attributes = layout.schema.attributes
    shown = ", ".join(f"{attribute.name} {attribute.size:,}" for attribute in attributes[:_SHOWN])
    more = f" and {len(attributes) - _SHOWN:,} more attributes" if len(attributes) > _SHOWN else ""
    texts = [f"{shown}{more}: {_cells(attributes)} cells in all"]
    added = [text for code in ("other", "null") if (text := _added(attributes, code))]
    if added:
        extra = sum((attribute.other is True) + (attribute.null is True) for attribute in attributes)
        texts.append(f"{number_of(extra, 'code')} added to the listed values: {'; '.join(added)}")
    return texts


def queries_text(section: Queries, workload: Workload) -> str:
    """What is queried, in one clause.

    section: The section ``workload`` of the config.
    workload: The queries that follow from it.
    """
    if isinstance(workload.requested, Itemsets):
        return workload.requested.description
    queries = workload.queries
    if isinstance(queries, Marginals):
        return f"{number_of(len(queries.cliques), 'marginal')}{_choice(section.marginals)}"
    if isinstance(queries, Products):
        what = "product of query matrices" if section.products is not None else "marginal with ranges"
        plural = "products of query matrices" if section.products is not None else "marginals with ranges"
        return f"{number_of(len(queries.terms), what, plural)}{_choice(section.marginals)}"
    if section.conjunctions is not None:
        order, orders = section.conjunctions.order, section.conjunctions.orders
        text = number_of(queries.size, "conjunction")
        if orders is not None:
            return f"{text} of {', '.join(map(str, sorted(orders)))} literals"
        return text if order is None else f"{text} of {number_of(order, 'literal')}"
    return number_of(queries.size, "parity", "parities")


def _choice(section: MarginalQueries | None) -> str:
    """How marginals were chosen, after their number."""
    if section is None or section.order is None:
        return ""
    text = f" of {number_of(section.order, 'attribute')}"
    if section.count is not None:
        text += f", chosen at random with seed {section.seed or 0}"
    return text if section.max_cells is None else f"{text}, each of at most {number_of(section.max_cells, 'cell')}"


def _cells(attributes: tuple[Attribute, ...]) -> str:
    cells = math.prod(attribute.size for attribute in attributes)
    return f"{cells:,}" if cells < 10**15 else f"about 10^{math.floor(math.log10(cells))}"


def _added(attributes: tuple[Attribute, ...], code: str) -> str:
    """The attributes that have the code ``other`` or ``null`` beside those of their values; empty without any."""
    names = [attribute.name for attribute in attributes if getattr(attribute, code) is True]
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    meaning = {"other": "unlisted values", "null": "nulls"}[code]
    return f"{code} ({meaning}) to {', '.join(names[:_SHOWN])}{more}"
