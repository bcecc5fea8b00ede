"""Query release as a zero-sum game between a query player and a data player.

* ``dual_query``: open it first. Multiplicative weights over queries, answered by whole records from an oracle.
* ``dqrs``: DualQuery with fewer draws, because drawn queries are kept by rejection sampling. It has smaller errors and
  takes longer.
* ``dual_loop``, ``dual_query_schedule``: what these two share, and how step size, samples and rounds follow from the
  budget.
* ``fem``, ``sep_fem``: the data player follows the perturbed leader. ``primal_loop`` and ``fem_schedule`` are shared.
* ``dual_query_pgm``: a graphical model fitted to the draws of ``dual_query``.
* ``profiles``: the constants of all of them.
"""

from __future__ import annotations
