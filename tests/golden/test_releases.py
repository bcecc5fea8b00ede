"""Releases of every mechanism with recorded randomness: a change of the code that changes a release is seen.

Each release of each contract in ``tests.support.mechanism_rows`` (tables and baskets, three currencies, two privacy
units) is drawn from a stream of its own, and its answers, measurements, charges and synthetic rows are held against
``releases.json``. After a deliberate change, raise the version and write the file anew with

    python -m tests.golden.test_releases
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.mechanisms.api import Release
from dpcore.testing.cases import Case
from tests.support.mechanism_rows import ROWS
from tests.support.recorded_randomness import recorded

STORED = Path(__file__).with_name("releases.json")
UNITS = ("add/remove, private number of units", "replace")
PLACES = 5
CASES = {
    f"{number} {case}": case for number, row in enumerate(ROWS) for case in row.cases() if case.unit in UNITS
}  # One mechanism may come with several settings: its number tells them apart.


def facts(name: str, case: Case) -> dict[str, Any]:
    """What a release says, short enough to be stored: exact charges, integers by their hash, and some real numbers."""
    with recorded(name):
        private = case.private()
        release = case.run(private)
    charges = [(str(charge.amount), charge.scale) for charge in private.charges]
    return {
        "charges": hashlib.sha256(repr(charges).encode()).hexdigest()[:12],
        "measured": _digest([measured.values for measured in release.measurements]),
        "answers": _some(release.answers.values),
        "stddev": _some(np.nan_to_num(release.answers.stddev)),
        "rows": _rows(release),
    }


def _some(values: NDArray[np.float64]) -> list[float]:
    """Mean, root mean square and some of the values, rounded to ten digits."""
    chosen = values[np.linspace(0, len(values) - 1, PLACES).astype(np.int64)]
    return [float(f"{value:.10g}") for value in (values.mean(), np.sqrt((values**2).mean()), *chosen)]


def _rows(release: Release) -> list[int]:
    """How many of 30 synthetic rows have each column; empty without a model."""
    if release.model is None:
        return []
    rows = release.model.sample(30, np.random.default_rng(5))
    arrays = [value for value in vars(rows).values() if isinstance(value, np.ndarray)]
    return [int(array.sum()) for array in arrays]


def _digest(arrays: list[NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(np.round(array, 6) + 0.0).tobytes())
    return digest.hexdigest()[:12]


def test_every_case_is_stored() -> None:
    assert list(json.loads(STORED.read_text())) == list(CASES)


@pytest.mark.smoke(200)
@pytest.mark.parametrize("name", CASES)
def test_a_release_is_what_it_was(name: str) -> None:
    stored, present = json.loads(STORED.read_text())[name], facts(name, CASES[name])
    for key in ("charges", "measured", "rows"):
        assert present[key] == stored[key], key
    for key in ("answers", "stddev"):
        np.testing.assert_allclose(present[key], stored[key], rtol=1e-6, atol=1e-6, err_msg=key)


def main() -> None:
    """Writes the present releases to the file."""
    lines = [f" {json.dumps(name)}: {json.dumps(facts(name, case))}" for name, case in CASES.items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
