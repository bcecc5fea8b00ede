"""The real code passes every check, and no planted bug passes its own."""

from __future__ import annotations

import pytest

from tests.audit import planted_bugs
from tests.audit.planted_bugs import BUGS, CHECKS, Bug
from tests.audit.section import Size

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.


@pytest.mark.false_alarm(3e-7)
@pytest.mark.smoke(4)
@pytest.mark.parametrize("check", CHECKS)
def test_the_real_code_passes(check: str) -> None:
    CHECKS[check]()


@pytest.mark.false_alarm(1e-7)
@pytest.mark.smoke(4)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.bug)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    assert planted_bugs.is_caught(bug)


def test_every_check_catches_something() -> None:
    assert {bug.caught_by for bug in BUGS} == set(CHECKS)


def test_the_bugs_differ() -> None:
    assert len({bug.bug for bug in BUGS}) == len(BUGS) >= 60


@pytest.mark.false_alarm(1e-6)
def test_what_does_no_harm_is_not_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row fails where its bug slips through, and where the real code fails its check."""
    harmless = Bug("nothing", planted_bugs, "CLAIM", "another", "budget")
    monkeypatch.setattr(planted_bugs, "BUGS", [harmless])
    (row,) = planted_bugs.run(Size.FAST)
    assert not row.passed
    assert row.cells["caught by"] == "NOT by budget"
