"""Checks that a mechanism, yours or one of ours, keeps the contract on which callers rely.

    contract = MechanismContract(MyMechanism(), data=("marginals", "products"), budgets=(ZCDP, GDP), spends_all=True)
    check_mechanism(contract)

A mechanism that keeps its contract can be named in a config, replayed after a crash, and audited by its plan. The
contract says nothing about accuracy. No test proves privacy: what the kernel cannot enforce needs a proof on paper.
"""

from __future__ import annotations

from dpcore.errors import ConfigError
from dpcore.testing.cases import Case, MechanismContract, pairwise_cover, run_of
from dpcore.testing.doubles import NoStatistics
from dpcore.testing.laws import LAWS


class LawBrokenError(AssertionError):
    """A mechanism breaks its contract. The message names the case and the law."""


def check_case(case: Case) -> None:
    """Runs the mechanism on a case and checks every law. Raises LawBrokenError when one is broken."""
    run = run_of(case)
    for law in LAWS:
        try:
            law(case, run)
        except AssertionError as error:
            raise LawBrokenError(f"{case} breaks the law {law.__name__!r}: {error}") from error


def check_refusal(case: Case) -> None:
    """Checks that plan and run refuse a case before anything is measured, with advice in the error.

    Raises LawBrokenError otherwise.
    """
    private = case.private(NoStatistics(case.data.statistics.contribution))
    for call in (case.plan, case.run):
        try:
            call(private)
        except ConfigError as error:
            if "want" not in str(error) and "choose" not in str(error):
                raise LawBrokenError(f"{case} is refused without a way out: {error}") from error
        else:
            raise LawBrokenError(f"{case} is accepted by {call.__name__!r}; the contract does not list it")
    if private.charges:
        raise LawBrokenError(f"{case} is charged before it is refused")


def check_mechanism(contract: MechanismContract, *, full: bool = False) -> None:
    """Checks every law on the cases of a contract, and checks that all other cases are refused.

    full: Checks all cases instead of a cover of all pairs of data, currency and privacy unit. It takes about three
        times as long.

    Raises LawBrokenError, which names the first case and the law that it breaks.
    """
    accepted, refused = contract.cases(), contract.refused_cases()
    for case in accepted if full else pairwise_cover(accepted):
        check_case(case)
    for case in refused if full else pairwise_cover(refused):
        check_refusal(case)
