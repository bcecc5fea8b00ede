"""AIM: an adaptive and iterative mechanism for synthetic data (McKenna's thesis, Algorithms 6 to 8).

Open ``aim`` first: ``Aim.run`` is the pseudo-code, with the marks SELECT, MEASURE and ESTIMATE. The other files, in the
order in which a run uses them:

* ``profile``: the constants of the two profiles, ours and the published one.
* ``candidates``: the protocol of what a round may select. ``marginals`` implements it for workloads of marginals,
  ``products`` for workloads of prefixes, ranges and other products.
* ``expected``: the errors that measurements are expected to leave, which scores, shares and the batch depend on.
* ``batch``: the marginals that noisy errors choose before the first round, and that are measured together.
* ``budget``: the shares of the rounds, which grow as in the annealing of the thesis.
* ``rounds``: the public record of the rounds, which proves intervals and bounds.

AIM is the recommended mechanism for marginals of many attributes. Two alternatives: ``dpcore.mechanisms.clique_tree``
selects all marginals at once, which is faster; ``dpcore.mechanisms.gaussian_pgm`` measures the whole workload, which is
better when the workload has few cells.
"""

from __future__ import annotations
