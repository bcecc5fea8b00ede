"""Strategies for counts that are released step by step (each day, say) under one budget for all steps.

Open first: ``planning.py``. It chooses among the strategies for the queries about the series, and gives a lower bound
on the error of every strategy.

Alternatives, all in ``candidates.py``:
    best: the optimum under Gaussian noise, made lower triangular. Recommended.
    square_root: the square root of the prefix matrix; about 6 % above the optimum for running totals.
    tree: the sums of a binary tree, the classic choice.
    daily: every step by itself. Recommended for queries of single steps.

Behind them:
    strategy.py: a strategy as an integer matrix whose rows belong to steps, and what can be estimated at each step.
"""

from __future__ import annotations
