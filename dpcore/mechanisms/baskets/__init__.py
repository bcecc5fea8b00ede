"""Synthetic baskets, and answers of conjunctions of any sign and order.

* ``basket_mixture``: open it first. The mechanism.
* ``constants``: its constants; ``dpcore/decisions/baskets.md`` has the measurements that chose them.
* ``measuring``: its measurements, and the norm to which each is clipped.
* ``basket_queries``: how popular items and norms are chosen from noisy numbers.
"""

from __future__ import annotations
