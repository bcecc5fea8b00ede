"""Clipped answers: noise that fits the usual unit, not the one that satisfies most queries.

* ``clipped_gaussian``: open it first. The mechanism for conjunctions of sparse data.
* ``clip_choice``: how far to clip what one unit adds, chosen from a noisy histogram.
* ``marginals``: one-way marginals of baskets by the same means, for the mechanisms that start from them.
* ``popularity``: noisy popularity of columns, by which a workload of conjunctions is drawn.

``dpcore/kernel/clipped_sensitivity.py`` has the proof of what clipped sums cost.
"""

from __future__ import annotations
