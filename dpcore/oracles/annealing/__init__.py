"""Simulated annealing of best responses: no proof of optimality, but thousands of objectives per second.

Open ``anneal.py`` first, the oracle. ``moves.py`` is its compiled inner loop, with heat-bath moves of one block and
moves that satisfy a whole clause.
"""

from __future__ import annotations
