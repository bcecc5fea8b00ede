"""The ledger: the privacy budget of each dataset, and every charge against it, in SQLite or PostgreSQL.

Open ``sql_ledger`` first: ``SqlLedger`` is the whole interface, with one transaction per method. What happens in these
transactions is in ``budgets`` (grants of the operator), ``releases`` (what a run plans, reserves and records),
``other_versions`` (charges of other versions for the same release), ``pricing`` (what a release costs), ``protection``
(whom a total protects), ``binding`` (where the data of a dataset are), ``contents`` (which content they have) and
``audit`` (checks of the sums against the charges). Partitions are in ``partitioning`` (how charges to them compose)
and ``block_rows`` (their records), and what discoveries of items take from delta is in ``thresholds``. They build on
``amounts`` (costs in each currency), ``windows`` (calendar limits), ``records`` (values), ``missing`` (what to say
where there is no ledger), ``rows`` and ``tables`` (the database), ``schema`` (versions of the tables and their
migration) and ``connection`` (transactions and locks).
"""

from __future__ import annotations

from jobs.ledger.sql_ledger import DEFAULT_LEDGER, SqlLedger

__all__ = ["DEFAULT_LEDGER", "SqlLedger"]
