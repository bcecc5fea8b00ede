"""Counts that are released step by step, such as every day, under one budget for all steps.

* ``continual``: the mechanism.
* ``series``: a workload seen as queries about a series of tables, which the mechanism measures and answers.
"""

from __future__ import annotations
