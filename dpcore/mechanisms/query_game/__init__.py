"""Query release as a zero-sum game between a player of queries and a player of records.

* ``dual_query``: open it first. Multiplicative weights over queries, answered by whole records from an oracle.
* ``dqrs``: the same with fewer draws, because drawn queries are kept by rejection sampling; better wherever time
  allows.
* ``dual_loop``, ``dual_query_schedule``: what these two share, and how step size, samples and rounds follow from the
  budget.
* ``fem``, ``sep_fem``: the player of records follows the perturbed leader; ``primal_loop`` and ``fem_schedule`` are
  shared.
* ``dual_query_pgm``: a graphical model fitted to the draws of ``dual_query``.
"""

from __future__ import annotations
