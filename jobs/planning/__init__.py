"""From a config to a job: everything that is known about a release before its data are opened.

* ``job``: start here. It reads what the config names and builds a ``Job`` with layout, mechanism, budget, workload and
  plan.
* ``dataset``: location, filter of rows and layout of the data. ``places``: a new location of moved data.
* ``discovery``: how much of delta and of the budget discovers items.
* ``identity``: the release id, and the canonical form of a dataset's path.
* ``paths``: the files that a config names, found from the folder of the config.
* ``rows``: how many synthetic rows ``auto`` writes.
* ``smallest_budget``: refuses a budget that is too small for the plan, with the smallest one that works.
* ``comparison``: the plans of all mechanisms, and of one at several budgets; ``time_limit`` bounds the time of each.
* ``engines``: the engine that the config names. Its options are checked first; it is opened only when data are read.
"""

from __future__ import annotations
