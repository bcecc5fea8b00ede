"""Everything that is known about a release before its data are opened: from a config to a job.

* ``job``: start here. It reads what the config names and gives a ``Job``: layout, mechanism, budget, workload and plan.
* ``identity``: the release id, and one spelling for each path of a dataset.
* ``engines``: the engine that the config names, checked early and opened late.
"""

from __future__ import annotations
