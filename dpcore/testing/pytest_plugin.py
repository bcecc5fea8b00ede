"""pytest finds this module by itself where Marquee is installed.

    CONTRACT = MechanismContract(MyMechanism(), data=("marginals",), budgets=(ZCDP,), spends_all=True)

    @pytest.mark.mechanism_contract(CONTRACT)
    def test_my_mechanism(mechanism_case: MechanismTest) -> None:
        mechanism_case.check()

The test runs once for each case of a cover of every pair of data, currency and privacy unit, those included that the
mechanism must refuse; with ``full=True`` once for every case. The rest of Marquee is imported only for such a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dpcore.testing.cases import Case, MechanismContract


@dataclass(frozen=True)
class MechanismTest:
    """One case of a contract with the check that it must pass."""

    case: Case
    _check: Callable[[Case], None]

    def check(self) -> None:
        """Raises LawBrokenError, which names the law."""
        self._check(self.case)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers", "mechanism_contract(contract, full=False): runs the test for each case of a mechanism's contract"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each case of the contracts that the marker names."""
    if "mechanism_case" not in metafunc.fixturenames:
        return
    tests = [
        MechanismTest(case, check)
        for marker in metafunc.definition.iter_markers("mechanism_contract")
        for check, case in _checks(*marker.args, **marker.kwargs)
    ]
    metafunc.parametrize("mechanism_case", tests, ids=lambda test: f"{test._check.__name__}-{test.case}")


def _checks(contract: MechanismContract, full: bool = False) -> list[tuple[Callable[[Case], None], Case]]:
    from dpcore.testing.cases import pairwise_cover
    from dpcore.testing.contract import check_case, check_refusal

    kinds = ((check_case, contract.cases()), (check_refusal, contract.refused_cases()))
    return [(check, case) for check, cases in kinds for case in (cases if full else pairwise_cover(cases))]
