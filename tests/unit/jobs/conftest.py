"""Ledgers on both databases: a test that asks for ``ledger_url`` runs on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import Server, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with server(durable=False) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    running: Server = request.getfixturevalue("postgres")
    return running.emptied()
