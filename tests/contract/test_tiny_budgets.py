"""Budgets with which hardly anything can be learnt: each is refused by the plan, or the run ends well."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore.kernel.budget import Budget, Currency
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.testing.cases import UNITS, Case, MechanismContract
from tests.support.mechanism_rows import ROWS


def _default(mechanism: Any) -> Any:
    """The mechanism with default settings, but for the name of an attribute of its data."""
    named = {"attribute": mechanism.attribute} if hasattr(mechanism, "attribute") else {}
    return type(mechanism)(**named)


DEFAULTS = [
    MechanismContract(_default(row.mechanism), row.data, row.budgets, row.spends_all)
    for kind in MECHANISMS.values()
    for row in [next(row for row in ROWS if type(row.mechanism) is kind)]
]
EPSILONS = (1e-3, 1e-6, 1e-9, 1e-10, 1e-11, 1e-12)


def _budget(currency: Currency, epsilon: float) -> Budget:
    """A budget that gives about as much noise in every currency."""
    exact = Fraction(epsilon)
    return Budget(currency, {Currency.PURE: exact, Currency.ZCDP: exact**2 / 2, Currency.GDP: exact**2}[currency])


def _cases(row: MechanismContract) -> list[object]:
    """The first and the last kind of data, in every currency. The fast tier takes one of them a mechanism."""
    made = []
    for kind in {row.data[0]: None, row.data[-1]: None}:
        for number, budget in enumerate(row.budgets):
            case = Case(row, kind, budget, list(UNITS)[number % 2])
            slow = () if number == 0 and kind == row.data[0] and row in DEFAULTS else pytest.mark.full
            made.append(pytest.param(case, id=f"{case} {row.mechanism!r}", marks=slow))
    return made


@pytest.mark.parametrize("case", [case for row in [*DEFAULTS, *ROWS] for case in _cases(row)])
def test_a_tiny_budget_is_refused_by_the_plan_or_the_run_ends_well(case: Case) -> None:
    refused = []
    for epsilon in EPSILONS:
        tiny = Case(case.contract, case.kind, _budget(case.budget.currency, epsilon), case.unit)
        private = tiny.private()
        try:
            tiny.plan(private)
        except ValueError:
            refused.append(epsilon)
            with pytest.raises(ValueError, match="scale|2\\^-80"):
                tiny.run(private)
            continue
        assert not refused, "a smaller budget works although a larger one was refused"
        release = tiny.run(private)
        assert np.isfinite(release.answers.values).all()
        assert np.isfinite(release.answers.stddev[~np.isnan(release.answers.stddev)]).all()
        if release.model is not None:
            assert release.model.sample(100, np.random.default_rng(0)) is not None
            assert np.isfinite(release.model.answer(release.workload.queries)).all()
    assert EPSILONS[0] not in refused
