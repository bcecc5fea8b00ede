"""Best responses of the data player in query games: the record that satisfies the most sampled queries.

Sampled conjunctions are weighted clauses over the one-hot columns of a record, so that a best response is a weighted
maximum-satisfiability problem. Everything here is post-processing of public clauses.

Open first: ``protocol.py``, what an oracle promises; then ``clauses.py``, the objective, and ``best_response.py``.

Oracles:
    best_response.py: exact reductions and search; it proves optimality or a bound. Recommended for single responses.
    annealing: simulated annealing, for thousands of objectives that differ only in their linear terms. Recommended for
        follow-the-perturbed-leader.
    enumerate.py: enumeration of all records; exact, for up to about a million records, and the reference in tests.

Behind them:
    objective.py: clauses from sampled queries, and the queries that a record satisfies.
    pad_clauses.py: padding, so that clauses of different orders fit in one array.
    perturbation.py: random linear terms of follow-the-perturbed-leader.
    coordinate_ascent.py: blocks of columns, and the local improvement that breaks ties by preference.
    exact: exact reductions, and bounds and mixed-integer programs for the remaining problem.
"""

from __future__ import annotations
