"""Every row of the audit on fewer draws, and rows that must fail: a wrong scale, and an outcome that cannot be."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.kernel.budget import Currency
from tests.audit import selection_laws
from tests.audit.section import Size
from tests.audit.selection_laws import FAMILY, Case, _power, p_value, permute_and_flip, row_of, smallest_error_found
from tests.support import laws

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.

CASES = selection_laws.cases(Size.FAST)
LEVEL = FAMILY / len(CASES)
FREE = [case for case in CASES if case.found_by is not None]
name_of = lambda case: f"{case.verb} {case.via} {case.name}"  # noqa: E731
every_case = pytest.mark.parametrize("case", CASES, ids=name_of)
free_case = pytest.mark.parametrize("case", FREE, ids=name_of)


@functools.cache
def frequencies(case: Case) -> NDArray[np.int64]:
    return case.draw(case.draws)


@pytest.mark.false_alarm(LEVEL)
@pytest.mark.smoke(2)
@every_case
def test_frequencies_follow_the_exact_law(case: Case) -> None:
    row = row_of(case, frequencies(case), LEVEL, Size.FAST, 1.0)
    assert row.passed, row.cells


@pytest.mark.false_alarm(1e-8)
@free_case
def test_a_wrong_scale_is_rejected(case: Case) -> None:
    """A scale 40 % too large slips through less than once in 10^8 runs of any row."""
    sizes = frequencies(case).sum(axis=1, keepdims=True)
    assert _power(case, sizes, 0.4, LEVEL) > 1 - 1e-8
    assert not row_of(case, frequencies(case), LEVEL, Size.FAST, 1.4).passed


@free_case
def test_the_full_size_finds_the_error_that_is_claimed(case: Case) -> None:
    """From the law alone: no draw is made."""
    (full,) = [one for one in selection_laws.cases(Size.FULL) if (one.via, one.name) == (case.via, case.name)]
    groups = len(case.law(1.0))
    assert smallest_error_found(full, np.full((groups, 1), full.draws // groups), LEVEL) <= (case.found_by or 0)


def test_an_outcome_that_cannot_be_fails_its_row() -> None:
    certain = [case for case in CASES if case.found_by is None]
    assert len(certain) == 4
    for case in certain:
        wrong = frequencies(case).copy()
        if wrong.size > 1:
            wrong[0, 0] += 1
            assert p_value(wrong, case.law(1.0)) == 0.0


@pytest.mark.smoke
def test_the_integral_of_permute_and_flip_is_the_sum_over_its_orders() -> None:
    wanted = laws.selection_law(Currency.PURE, laws.SCORE_SCALE)
    found = permute_and_flip(laws.GAPS, laws.SCORE_SCALE)
    assert found == pytest.approx(wanted / wanted.sum())
    assert found.sum() == pytest.approx(1.0)
