"""A budget with which a run cannot end is refused before its charge, with the smallest one that works."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from dpcore.errors import ConfigError
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.additive_noise import Gaussian, Laplace
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.clipping.clipped_gaussian import ClippedGaussian
from dpcore.mechanisms.independent import Independent
from dpcore.testing.cases import UNITS, Case, MechanismContract
from jobs.planning.smallest_budget import plan_within_budget

LARGEST = 100.0
TINY = 1e-15
DELTAS = {Currency.PURE: 0.0, Currency.ZCDP: 1e-30, Currency.GDP: 1e-30}  # A larger delta alone is a budget.
BASKETS = "positive conjunctions of baskets"
CASES = [
    (Laplace(), "marginals", Currency.PURE),
    (Laplace(), BASKETS, Currency.PURE),
    (Gaussian(), "marginals", Currency.ZCDP),
    (Gaussian(), BASKETS, Currency.GDP),
    (Independent(), "marginals", Currency.PURE),
    (ClippedGaussian(), BASKETS, Currency.PURE),
    (ClippedGaussian(), BASKETS, Currency.ZCDP),
    (ClippedGaussian(), BASKETS, Currency.GDP),
    (ClippedGaussian(), "conjunctions of baskets", Currency.PURE),
    (ClippedGaussian(), "conjunctions of baskets", Currency.GDP),
]


def case_of(mechanism: Mechanism, kind: str, currency: Currency, epsilon: float) -> Case:
    budget = budget_of(epsilon, DELTAS[currency], currency)
    contract = MechanismContract(mechanism, (kind,), (budget,), spends_all=False)
    return Case(contract, kind, budget, next(iter(UNITS)))


@pytest.mark.parametrize(("mechanism", "kind", "currency"), CASES, ids=str)
def test_a_run_with_the_smallest_budget_ends_well_and_less_is_refused(
    mechanism: Mechanism, kind: str, currency: Currency
) -> None:
    def terms_at(epsilon: float) -> PrivacyTerms:
        return case_of(mechanism, kind, currency, epsilon).private().terms

    plan = partial(
        plan_within_budget, mechanism, case_of(mechanism, kind, currency, 1.0).data.workload, terms_at, largest=LARGEST
    )
    with pytest.raises(
        ConfigError, match=r"privacy\.epsilon is 1e-15, which is too small .*; want at least "
    ) as refused:
        plan(epsilon=TINY)
    smallest = float(str(refused.value).rpartition(" ")[2])
    assert float(f"{smallest:.1e}") == smallest
    plan(epsilon=smallest)
    case = case_of(mechanism, kind, currency, smallest)
    assert np.isfinite(case.run(case.private()).answers.values).all()
    with pytest.raises(ConfigError, match="which is too small .*; want at least "):
        plan(epsilon=smallest / 1.2)


def test_a_budget_that_can_never_suffice_has_no_smallest_one() -> None:
    def terms_at(epsilon: float) -> PrivacyTerms:
        raise ValueError("there is no such budget")

    with pytest.raises(ConfigError, match=r"^mechanism: there is no such budget$"):
        plan_within_budget(Laplace(), case_of(*CASES[0], 1.0).data.workload, terms_at, 1.0, LARGEST)
