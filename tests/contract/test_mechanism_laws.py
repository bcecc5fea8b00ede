"""The contract of every mechanism, on every workload, privacy unit and currency."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dpcore.errors import ConfigError
from dpcore.kernel.budget import Currency
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.queries import Conjunctions
from dpcore.testing.cases import Case, MechanismContract, pairwise_cover
from dpcore.testing.contract import check_case, check_refusal
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.tiny_data import CONJUNCTIONS, DATA
from tests.support.mechanism_rows import ROWS


def _tiers(cases: list[Case]) -> list[object]:
    """Every case; those outside a cover of all pairs are of the full tier."""
    cover = set(map(id, pairwise_cover(cases)))
    return [pytest.param(case, id=str(case), marks=() if id(case) in cover else pytest.mark.full) for case in cases]


CASES = [param for row in ROWS for param in _tiers(row.cases())]
REFUSED = [param for row in ROWS for param in _tiers(row.refused_cases())]


def test_every_mechanism_that_a_config_can_name_has_a_contract() -> None:
    assert set(MECHANISMS.values()) <= {type(row.mechanism) for row in ROWS}


@pytest.mark.parametrize("case", CASES)
def test_it_keeps_every_law(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_proof_is_refused_before_anything_is_measured(case: Case) -> None:
    check_refusal(case)


OF_A_TABLE = [
    (row, kind) for row, kind in product(ROWS, ("marginals", "products", "marginals of bits")) if kind in row.data
]


@pytest.mark.parametrize(("row", "kind"), OF_A_TABLE, ids=[f"{row.mechanism!r}-{kind}" for row, kind in OF_A_TABLE])
def test_marginals_of_baskets_are_refused_before_anything_is_measured(row: MechanismContract, kind: str) -> None:
    private = private_statistics(NoStatistics(DATA["conjunctions of baskets"].statistics.contribution), row.budgets[0])
    with pytest.raises(ConfigError, match="marginals were asked of baskets"):
        row.mechanism.run(private, DATA[kind].workload, generator=np.random.default_rng(0))
    assert private.charges == ()


def test_the_cases_cover_all_currencies_neighbours_and_units() -> None:
    cases = [case for row in ROWS for case in row.cases()]
    assert {(case.budget.currency, case.unit) for case in cases} == set(
        product(Currency, {case.unit for case in cases})
    )
    assert len({case.unit for case in cases}) == 3
    assert all(isinstance(DATA[kind].workload.queries, Conjunctions) for kind in CONJUNCTIONS)


def test_the_cover_has_every_pair_of_every_contract() -> None:
    for row in ROWS:
        for cases in (row.cases(), row.refused_cases()):
            cover = pairwise_cover(cases)
            for first, second in (("kind", "budget"), ("kind", "unit"), ("budget", "unit")):
                pairs = [{(getattr(c, first), getattr(c, second)) for c in some} for some in (cases, cover)]
                assert pairs[0] == pairs[1]
            assert set(cover) <= set(cases)
    assert 2 * sum(len(pairwise_cover(row.cases())) for row in ROWS) < sum(len(row.cases()) for row in ROWS)
