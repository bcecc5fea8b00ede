"""The generated tables of the case high_order, and how its targets are computed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.benchmarks.case import Run
from tests.benchmarks.high_order import CASE, beyond_halfway
from tests.benchmarks.high_order_tables import TABLES, parity


@pytest.mark.parametrize("relevant", [2, 3])
def test_only_all_relevant_bits_together_say_something_of_the_label(relevant: int) -> None:
    rows = parity(relevant, 20_000, 1).codes
    signs = 1 - 2 * rows
    told = {
        bits: abs(float((signs[:, bits].prod(axis=1) * signs[:, -1]).mean()))
        for size in (1, 2, 3)
        for bits in itertools.combinations(range(10), size)
    }
    best = max(told, key=lambda bits: told[bits])
    assert len(best) == relevant
    assert told.pop(best) == pytest.approx(0.8, abs=0.02)
    assert max(told.values()) < 0.05


@pytest.mark.parametrize("name", TABLES)
def test_codes_are_in_their_domain_and_parts_are_different_rows_of_one_law(name: str) -> None:
    first, second = TABLES[name](3_000, 1), TABLES[name](3_000, 2)
    assert (first.codes >= 0).all()
    assert (first.codes < list(first.sizes.values())).all()
    assert not np.array_equal(first.codes, second.codes)
    assert np.abs(first.codes.mean(axis=0) - second.codes.mean(axis=0)).max() < 0.5


def test_classes_of_gaussians_differ_in_dependence_more_than_in_means() -> None:
    rows = TABLES["gauss10"](20_000, 1).codes
    correlations = [np.corrcoef(rows[rows[:, -1] == label, :-1].T) for label in (0, 1)]
    assert np.abs(correlations[0] - correlations[1]).max() > 0.5


def test_the_middle_between_aim_and_the_real_rows_is_the_target() -> None:
    run = Run(1, 0, 0, 0, 0, {"xor2": 0.7}, {"aim": {"xor2": 0.5}, "real rows": {"xor2": 0.9}}, {})
    assert beyond_halfway([run], "xor2", "aim") == pytest.approx(0.0)
    wanted = CASE.targets[0]
    verdicts = [wanted.met(wanted.got([replace(run, error={"xor2": accuracy})])) for accuracy in (0.75, 0.6)]
    assert verdicts == [True, False]
