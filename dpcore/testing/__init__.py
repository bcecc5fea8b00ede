"""Tools for your own tests: the contract of mechanisms, tiny data, and a ledger and a journal in memory.

* ``contract``: start here. ``check_mechanism`` checks a mechanism against every law, on tiny data, in every currency
  and for every privacy unit.
* ``cases``: ``MechanismContract`` states what a mechanism accepts and what is known in advance about its calls.
* ``laws``: the laws, one function each.
* ``tiny_data``: the workloads and datasets on which the laws are checked. ``tiny_statistics`` computes their exact
  answers in plain NumPy, and is the reference for the engines.
* ``memory``: a ledger and a journal in memory, also for experiments.
* ``doubles``: ``private_statistics`` over tiny data, and test doubles of statistics, ledgers and journals.
* ``pytest_plugin``: the marker ``@pytest.mark.mechanism_contract``. pytest finds the plugin where Marquee is installed.

No other module of ``dpcore``, ``pipelines`` or ``jobs`` imports this package.
"""

from __future__ import annotations
