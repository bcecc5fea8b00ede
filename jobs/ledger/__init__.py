"""The ledger: what has been promised about each dataset, and what is left. SQLite by default, PostgreSQL by URL."""

from __future__ import annotations

from jobs.ledger.sql_ledger import DEFAULT_LEDGER, SqlLedger

__all__ = ["DEFAULT_LEDGER", "SqlLedger"]
