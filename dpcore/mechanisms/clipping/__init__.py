"""Clipped answers: noise for the typical unit, instead of the unit that satisfies the most queries.

* ``clipped_gaussian``: open it first. The mechanism for conjunctions of sparse data.
* ``constants``: its constants, and the measurements that chose them.
* ``query_sets``: the set of queries to measure, with its clip norm.
* ``clip_choice``: the clip norm for one set of queries from a noisy histogram, and a bound on the loss by clipping.
* ``completion``: the answers from the measurements.
* ``predictions``: predictions of each answer from the other noisy values.
* ``marginals``: clipped one-way marginals of baskets, also for other mechanisms that start from them.
* ``signed_release``: the same for conjunctions with negations or of several orders, as signed sums of positive ones.
* ``lattice_groups``: the groups of these by order, with clips and factors; ``signed_answers``: the answers from them.
* ``popularity``: noisy popularity of columns, which weights the random choice of a workload of conjunctions.

``dpcore/kernel/clipped_sensitivity.py`` has the proof of the sensitivity of clipped sums.
"""

from __future__ import annotations
