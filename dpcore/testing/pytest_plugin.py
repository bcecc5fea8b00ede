"""A pytest plugin that runs a test for each case of a mechanism's contract.

    CONTRACT = MechanismContract(MyMechanism(), data=("marginals",), budgets=(ZCDP,), spends_all=True)

    @pytest.mark.mechanism_contract(CONTRACT)
    def test_my_mechanism(mechanism_case: MechanismTest) -> None:
        mechanism_case.check()

pytest finds this plugin where Marquee is installed. The test runs once for each case of a cover of all pairs of data,
currency and privacy unit, including the cases that the mechanism must refuse. With ``full=True`` the test runs once for
every case. The rest of Marquee is imported only for such a test.
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
    """One case of a contract, with the check that it must pass."""

    case: Case
    _check: Callable[[Case], None]

    def check(self) -> None:
        """Runs the check. Raises LawBrokenError, which names the law that is broken."""
        self._check(self.case)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers", "mechanism_contract(contract, full=False): runs the test for each case of a mechanism's contract"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Creates one test for each case of the contracts of the marker."""
    if "mechanism_case" not in metafunc.fixturenames:
        return
    tests = [
        MechanismTest(case, check)
        for marker in metafunc.definition.iter_markers("mechanism_contract")
        for check, case in _checks(*marker.args, **marker.kwargs)
    ]
    metafunc.parametrize("mechanism_case", tests, ids=lambda test: f"{test._check.__name__}-{test.case}")


def _checks(contract: MechanismContract, full: bool = False) -> list[tuple[Callable[[Case], None], Case]]:
    """The cases of a contract, each with the check that it must pass."""
    from dpcore.testing.cases import pairwise_cover
    from dpcore.testing.contract import check_case, check_refusal

    kinds = ((check_case, contract.cases()), (check_refusal, contract.refused_cases()))
    return [(check, case) for check, cases in kinds for case in (cases if full else pairwise_cover(cases))]
