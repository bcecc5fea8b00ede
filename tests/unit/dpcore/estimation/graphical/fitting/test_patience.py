"""Fits of small models with little noise need many calls of the oracle, and may make them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting import fit
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

DOMAIN = Domain.of(dict.fromkeys("abcdefg", 2))
ROWS = 1e6


def measured() -> list[Measurement]:
    """All triples of a table with strong dependence, at a noise of one row in a million."""
    generator = np.random.default_rng(3)
    joint = np.exp(3.0 * generator.normal(size=DOMAIN.sizes))
    joint *= ROWS / joint.sum()
    found = []
    for clique in combinations(DOMAIN.names, 3):
        table = joint.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)).ravel()
        found.append(Measurement(Marginals(DOMAIN, (clique,)), table + generator.normal(0, 1, 8), Noise.GAUSSIAN, 1.0))
    return found


def test_a_patient_fit_comes_much_nearer_to_its_optimum() -> None:
    noisy = measured()
    hasty, patient = (
        fit_model(DOMAIN, noisy, ROWS, FitSettings(tolerance=1e-3, iterations=60, patience=times)) for times in (1, 10)
    )
    assert hasty.evaluations <= 62 < patient.evaluations <= 602
    assert patient.gap < hasty.gap / 5


@pytest.mark.parametrize(("cells", "most"), [(1 << 30, 600), (128 * 200, 200), (128 * 20, 60), (0, 60)])
def test_patience_ends_with_the_cells_that_calls_may_touch(
    cells: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "_PATIENT_CELLS", cells)
    found = fit_model(DOMAIN, measured(), ROWS, FitSettings(tolerance=1e-9, iterations=60, patience=10))
    assert found.tree.cells == 128
    assert most <= found.evaluations <= most + 2


def test_without_patience_little_work_is_a_limit_too() -> None:
    found = fit_model(DOMAIN, measured(), ROWS, FitSettings(tolerance=1e-9, iterations=60, work=128 * 20))
    assert 20 <= found.evaluations <= 22
