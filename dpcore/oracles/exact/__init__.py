"""Exact reductions of an objective, and the optimum or a bound for the core that they leave.

Open first: ``persistency.py``, which decides most columns; then ``core.py``, the problem that is left.

In the order of use by ``dpcore.oracles.best_response``:
    persistency.py: columns whose best value does not depend on the others.
    reduced_problem.py: what persistency leaves, as the arrays of a core.
    core.py: that problem: blocks of options and clauses over them.
    components.py: parts of a core that share no clause.
    min_cut.py: the optimum by one minimum cut, where clauses are submodular.
    dual_ascent.py: an upper bound, and often the optimum, by block-coordinate ascent on the dual.
    mip.py: the optimum by a mixed-integer program, with a limit on its nodes; the last resort.
"""

from __future__ import annotations
