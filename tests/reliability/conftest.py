"""One warm process for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.drivers import Drivers, warm_drivers
from tests.reliability.trials import Place


@pytest.fixture(scope="session")
def drivers() -> Iterator[Drivers]:
    with warm_drivers() as running:
        yield running


@pytest.fixture
def place(drivers: Drivers, tmp_path: Path) -> Place:
    return Place(drivers, tmp_path)
