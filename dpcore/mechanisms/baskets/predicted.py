"""The CPU seconds that a run of ``basket_mixture`` will take, predicted from public facts."""

from __future__ import annotations

from typing import Final

from dpcore.estimation.baskets.nodes import most_nodes

_POPULAR: Final = 0.75  # Part of the items that are popular, where fewer than the maximum are.
_NODES: Final = 0.8  # Part of the nodes that stay when light ones are merged.
# Seconds of the whole fit, on one core of a current server: in any case, per node and pair of popular items, per node
# and popular item, and per node and item of the model.
_FIT: Final = 1.0
_A_PAIR: Final = 1e-5
_A_POPULAR_ITEM: Final = 8e-4
_AN_ITEM: Final = 1e-5


def predicted_seconds(items: int, largest: int, max_popular: int) -> float:
    """CPU seconds of the fit and of the model, which do not depend on the number of units.

    items: Number of items. largest: Largest basket that counts. max_popular: Maximum number of popular items.
    """
    nodes = _NODES * most_nodes(largest)
    popular = min(_POPULAR * items, max_popular)
    return _FIT + nodes * (_A_PAIR * popular**2 + _A_POPULAR_ITEM * popular + _AN_ITEM * items)
