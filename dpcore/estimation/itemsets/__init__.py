"""Frequent itemsets and association rules from noisy supports; nothing here costs privacy.

Open ``supports.py`` first. ``dpcore.mechanisms.itemsets.frequent_itemsets`` measures the supports.

    supports.py: supports of itemsets of one size with intervals, and the number of units.
    candidates.py: the items, pairs and triples that may still be frequent.
    clipping_loss.py: what clipping is expected to take from a count.
    rules.py: association rules, with intervals of support, confidence and lift.
"""

from __future__ import annotations
