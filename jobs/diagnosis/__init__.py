"""What ``marquee doctor`` checks: whether this machine and a config are ready for a release. No data are read.

Open ``findings`` first: a finding has a name, an outcome and the next step. ``machine`` checks Python, packages, Java,
Spark, memory, disk and compiled kernels. ``config`` checks what a config needs: data, extras, memory, ledger and
folders. ``doctor`` puts all of them together.
"""

from __future__ import annotations
