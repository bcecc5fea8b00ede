"""A release from its reservation in the ledger to its published folder, and what may be done with it afterwards.

* ``run``: start here. It wires ledger, engine, kernel, mechanism and outputs, and no algorithm lives in it.
* ``journal``: the kernel's answers on disk, each durable before it is used, so that a killed run continues.
* ``lock``: one run of a release at a time.
* ``publish``: the folder appears whole or not at all.
* ``evaluation``: a published release against the exact answers. SENSITIVE.
* ``more_rows``: more synthetic rows of a published release, at no cost.
"""

from __future__ import annotations
