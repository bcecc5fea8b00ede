"""The ledger: the privacy budget of each dataset, and every charge against it. SQLite by default, PostgreSQL by URL.

Open ``sql_ledger`` first: ``SqlLedger`` is the whole interface, one transaction per method. Its transactions are
``budgets`` (what the operator grants), ``releases`` (what a run plans, reserves and records), ``binding`` (the path of
a dataset) and ``audit`` (sums against charges). Below them lie ``amounts`` (costs in each currency), ``windows``
(calendar limits), ``records`` (values), ``rows`` and ``tables`` (the database), ``schema`` (layouts and migrations) and
``connection`` (transactions and locks).
"""

from __future__ import annotations

from jobs.ledger.sql_ledger import DEFAULT_LEDGER, SqlLedger

__all__ = ["DEFAULT_LEDGER", "SqlLedger"]
