"""AIM: an adaptive and iterative mechanism for synthetic data (McKenna's thesis, Algorithms 6 to 8).

Open ``aim`` first: its ``run`` reads as the pseudo-code, SELECT, MEASURE, ESTIMATE. What it calls, in that order:

* ``profile``: the constants, as we chose them or as published.
* ``candidates``: what may be measured, the protocol; ``marginals`` for workloads of marginals, ``products`` for
  prefixes, ranges and products.
* ``batch``: the first marginals, chosen by noisy errors and measured together.
* ``budget``: the shares of the rounds, which grow.
* ``rounds``: the public record of the rounds, from which intervals and bounds are proved.

For marginals of many attributes AIM is the recommended mechanism; ``dpcore.mechanisms.clique_tree`` selects once
instead of in every round and is faster, and ``dpcore.mechanisms.gaussian_pgm`` measures a whole workload of few cells.
"""

from __future__ import annotations
