"""The section ``discovery`` of a certificate: what it has cost to learn the names of items, and what they are."""

from __future__ import annotations

from typing import Final

from dpcore.kernel.private_items import ItemTerms

NOTE: Final = (
    "Items were not listed but discovered, in rounds: each unit adds 1 / sqrt(k) to the noisy sum of each of its k "
    "items that no earlier round has released, and an item is released if its noisy sum reaches the threshold of the "
    "round. "
    "threshold_delta is the part of delta that pays for the thresholds: names which only one unit has are released "
    "with at most this probability. The reserved budget implies epsilon - 2 threshold_delta at delta - "
    "threshold_delta, and both together the promise. items.parquet lists the items."
)


def discovery_section(terms: ItemTerms, items: int, names: str) -> dict[str, object]:
    """The section of a release that has discovered its items.

    terms: The public terms of the discovery.
    items: Number of discovered items.
    names: SHA-256 of their names in order.
    """
    return {
        "threshold_delta": str(terms.threshold_delta),
        "thresholds": [each.threshold_in_units for each in terms.rounds],
        "at_most": terms.max_items,
        "items": items,
        "names": names,
        "note": NOTE,
    }
