"""Checks a mechanism, your own or one of ours, against everything that callers rely on.

    contract = MechanismContract(MyMechanism(), data=("marginals", "products"), budgets=(ZCDP, GDP), spends_all=True)
    check_mechanism(contract)

A mechanism that keeps its contract can be named in a config, replayed after a crash, and audited by its plan alone. A
contract says nothing about accuracy, and no test proves privacy: what the kernel cannot enforce is proved on paper.
"""

from __future__ import annotations

from dpcore.errors import ConfigError
from dpcore.testing.cases import Case, MechanismContract, pairwise_cover, run_of
from dpcore.testing.doubles import NoStatistics
from dpcore.testing.laws import LAWS


class LawBrokenError(AssertionError):
    """A mechanism does not keep its contract; the message names the case and the law."""


def check_case(case: Case) -> None:
    """Runs the mechanism on the case and holds the run against every law. Raises LawBrokenError."""
    run = run_of(case)
    for law in LAWS:
        try:
            law(case, run)
        except AssertionError as error:
            raise LawBrokenError(f"{case} breaks the law {law.__name__!r}: {error}") from error


def check_refusal(case: Case) -> None:
    """What has no proof is refused, by plan and by run, before anything is measured. Raises LawBrokenError."""
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
    """Checks every law on the cases of a contract, and that all other cases are refused.

    full: All cases instead of a cover of every pair of data, currency and privacy unit; about three times as long.

    Raises LawBrokenError, which names the first case and law that fail.
    """
    accepted, refused = contract.cases(), contract.refused_cases()
    for case in accepted if full else pairwise_cover(accepted):
        check_case(case)
    for case in refused if full else pairwise_cover(refused):
        check_refusal(case)
