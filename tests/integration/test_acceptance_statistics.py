"""Real datasets give the same exact aggregates, bit for bit, on every engine and for every layout of their rows.

The statistics come by the very wiring of ``marquee run``, with only the engine, the path and the layout claim changed.
Spark and Beam take the layouts that differ most; MARQUEE_ALL_LAYOUTS=1 gives them all.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.acceptance import AS_THEY_ARE, DATA, Arrangement, answers, write_config
from tests.support.engines import spark_engine

ALL = [AS_THEY_ARE, *(Arrangement(files, clustered) for files in (1, 3, 16) for clustered in (True, False))]
FEW = [Arrangement(16, clustered=True), Arrangement(3, clustered=False)]
DISTRIBUTED = ALL if os.environ.get("MARQUEE_ALL_LAYOUTS") == "1" else FEW


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("acceptance")


@pytest.fixture(scope="module", params=sorted(DATA))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def exact(name: str, place: Path) -> NDArray[np.int64]:
    """The answers of the local engine on the files as they are."""
    return answers(write_config(name, place, "local", AS_THEY_ARE))


@pytest.mark.smoke(2)
@pytest.mark.parametrize("arrangement", ALL[1:], ids=str)
def test_local_gives_the_same_bits(name: str, exact: NDArray[np.int64], place: Path, arrangement: Arrangement) -> None:
    assert exact.sum() > 0
    np.testing.assert_array_equal(answers(write_config(name, place, "local", arrangement)), exact)


@pytest.mark.smoke(1)
@pytest.mark.spark
@pytest.mark.parametrize("arrangement", DISTRIBUTED, ids=str)
def test_spark_gives_the_same_bits(name: str, exact: NDArray[np.int64], place: Path, arrangement: Arrangement) -> None:
    spark_engine()  # The session that the config's engine then finds.
    np.testing.assert_array_equal(answers(write_config(name, place, "spark", arrangement)), exact)


@pytest.mark.smoke(1)
@pytest.mark.beam
@pytest.mark.parametrize("arrangement", DISTRIBUTED, ids=str)
def test_beam_gives_the_same_bits(name: str, exact: NDArray[np.int64], place: Path, arrangement: Arrangement) -> None:
    np.testing.assert_array_equal(answers(write_config(name, place, "beam", arrangement)), exact)
