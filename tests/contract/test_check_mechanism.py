"""The contract suite as an outsider uses it: on a mechanism of one's own, from Python and from pytest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator

from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.additive_noise import Gaussian
from dpcore.mechanisms.api import Plan, Progress, Release, Step, silent
from dpcore.testing.cases import MechanismContract
from dpcore.testing.contract import LawBrokenError, check_mechanism
from dpcore.testing.tiny_data import EVERY, GDP, MARGINALS, ZCDP
from dpcore.workload import Workload
from tests.support.checks import ROOT


@dataclass(frozen=True)
class Outsider:
    """A mechanism that is not in the registry: Gaussian answers of everything."""

    change_plan: Callable[[Plan], Plan] = lambda plan: plan
    change_release: Callable[[Release, PrivateStatistics], Release] = lambda release, private: release
    after: Callable[[Progress], None] = lambda progress: None

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        return self.change_plan(Gaussian().plan(terms, workload))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        release = Gaussian().run(private, workload, generator=generator, progress=progress)
        self.after(progress)
        return self.change_release(release, private)


def _contract(mechanism: Outsider) -> MechanismContract:
    return MechanismContract(mechanism, data=EVERY, budgets=(ZCDP, GDP), spends_all=True)


def test_a_sound_mechanism_keeps_its_contract() -> None:
    check_mechanism(_contract(Outsider()))


def _other_answers(release: Release, private: PrivateStatistics) -> Release:
    """Answers that no journal knows: every run has others."""
    values = release.answers.values + np.random.default_rng().random(release.answers.values.shape)
    return replace(release, answers=replace(release.answers, values=values, upper=values + 9, lower=values - 9))


def _one_more_step(plan: Plan) -> Plan:
    return replace(plan, steps=(*plan.steps, Step("nothing", 0.5, 1)))


BROKEN = {
    "everything_it_releases_comes_from_the_journal": Outsider(change_release=_other_answers),
    "its_plan_tells_every_call_and_its_share": Outsider(change_plan=_one_more_step),
    "the_events_of_its_plan_are_the_calls_of_its_run": Outsider(change_plan=lambda plan: replace(plan, events=())),
    "its_progress_ends_where_it_says": Outsider(after=lambda progress: progress(1, 10)),
    "its_answers_have_the_shape_of_the_workload": Outsider(
        change_release=lambda release, private: replace(
            release, answers=replace(release.answers, values=release.answers.values[1:])
        )
    ),
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_mechanism_is_told_which_law_it_breaks(law: str) -> None:
    with pytest.raises(LawBrokenError, match=f"Outsider-marginals-ZCDP.* breaks the law '{law}': "):
        check_mechanism(_contract(BROKEN[law]))


def test_what_a_contract_does_not_list_must_be_refused() -> None:
    contract = replace(_contract(Outsider()), data=MARGINALS)
    with pytest.raises(LawBrokenError, match="is accepted by 'plan'; the contract does not list it"):
        check_mechanism(contract)


TEST_FILE = """\
from dataclasses import replace
import pytest
from dpcore.mechanisms.additive_noise import Laplace
from dpcore.testing.cases import MechanismContract
from dpcore.testing.tiny_data import EVERY, PURE

SOUND = MechanismContract(Laplace(), data=EVERY, budgets=(PURE,), spends_all=True)

@pytest.mark.mechanism_contract(SOUND)
def test_sound(mechanism_case):
    mechanism_case.check()

@pytest.mark.mechanism_contract(replace(SOUND, data=EVERY[:1]))
def test_broken(mechanism_case):
    mechanism_case.check()
"""


def test_pytest_runs_each_case_by_itself(tmp_path: Path) -> None:
    """In a folder of its own: pytest finds the plugin because Marquee is installed."""
    (tmp_path / "test_mine.py").write_text(TEST_FILE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n0",
    ]
    done = subprocess.run([*command, str(tmp_path)], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "test_broken[check_refusal-Laplace-products-PURE" in done.stdout
    assert "the contract does not list it" in done.stdout
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert failed
    assert all("test_broken[check_refusal-" in line for line in failed)
