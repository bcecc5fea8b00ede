"""Exact reductions of an objective, and the optimum of the remaining core or a bound on it.

Open ``persistency.py`` first, which decides most columns, and then ``core.py``, the remaining problem.

In the order of use by ``dpcore.oracles.best_response``:
    persistency.py: columns whose best value does not depend on the others.
    reduced_problem.py: the arrays of the problem that persistency leaves.
    core.py: this problem as blocks of options and clauses over them.
    components.py: parts of a core that share no clause.
    min_cut.py: the optimum by one minimum cut, if the signs of the clauses allow it.
    dual_ascent.py: an upper bound, and often the optimum, by block-coordinate ascent on the dual.
    mip.py: the optimum by a mixed-integer program, with a limit on its nodes; the last resort.
"""

from __future__ import annotations
