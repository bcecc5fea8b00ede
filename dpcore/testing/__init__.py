"""For tests of one's own: the contract that every mechanism keeps, tiny data, and a ledger and a journal in memory.

* ``contract``: start here. ``check_mechanism`` holds a mechanism against every law, on tiny data, in every currency and
  under every privacy unit.
* ``cases``: ``MechanismContract`` says what a mechanism accepts and what is known about its calls in advance.
* ``laws``: the laws themselves, one function each.
* ``tiny_data``: the workloads and datasets that the laws are checked on. ``tiny_statistics`` answers them by slow and
  obvious numpy, and is the reference that engines are held to.
* ``memory``: a ledger and a journal that live as long as the process, for experiments too.
* ``doubles``: ``private_statistics`` over tiny data, and statistics, ledgers and journals that fail or watch.
* ``pytest_plugin``: pytest finds it by itself where Marquee is installed: ``@pytest.mark.mechanism_contract``.

Nothing else in ``dpcore``, ``pipelines`` or ``jobs`` imports this package.
"""

from __future__ import annotations
