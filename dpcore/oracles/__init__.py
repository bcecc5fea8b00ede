"""Best responses of the data player in query games: the record that satisfies the most sampled queries.

Sampled conjunctions are weighted clauses over the one-hot columns of a record, so that a best response is a weighted
maximum-satisfiability problem. Everything here is post-processing of public clauses.

Open first: ``protocol.py``, what an oracle promises; then ``clauses.py``, the objective, and ``best_response.py``.

Oracles:
    best_response.py: exact where it can be, with a bound where it cannot. Recommended for single responses.
    annealing: simulated annealing, for thousands of objectives that differ in their linear terms alone. Recommended for
        follow-the-perturbed-leader.
    enumerate.py: all records, one by one; exact, for up to about a million records, and the reference of tests.

Behind them:
    objective.py: clauses from sampled queries, and the sampler of those.
    pad_clauses.py: clauses of different orders in one array.
    perturbation.py: random linear terms of follow-the-perturbed-leader.
    coordinate_ascent.py: blocks of columns, and the local improvement that settles ties by preference.
    exact: reductions, bounds and mixed-integer programs for what they leave.
"""

from __future__ import annotations
