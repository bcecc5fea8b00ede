"""The fast version of the section passes, and a wrong sampler makes its rows fail."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.measurement import Noise
from tests.audit import sampler_laws
from tests.audit.section import Row, Size
from tests.support.noise_distributions import distribution
from tests.support.noise_statistics import STATISTICS, Sample, power

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.


def failed(rows: list[Row]) -> list[str]:
    return [f"{row.cells['sampler']} {row.cells['law']} {row.cells['scale']}" for row in rows if not row.passed]


@pytest.mark.false_alarm(sampler_laws.FAMILY_ERROR)
def test_the_section_passes() -> None:
    """False alarms 1e-6; scales 3 % wrong are noticed for certain."""
    rows = list(sampler_laws.run(Size.FAST))
    assert failed(rows) == []
    assert len(rows) == 6 + 2 + 5


@pytest.mark.false_alarm(1e-6)
@pytest.mark.smoke(1)
@pytest.mark.parametrize("noise", list(Noise))
def test_a_wrong_scale_fails_its_rows(noise: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    right = sampler_laws.kernel

    def wrong(asked: Noise, scale: float, size: int) -> sampler_laws.Draws:
        return right(asked, scale * 1.03 if asked is noise else scale, size)

    monkeypatch.setattr(sampler_laws, "kernel", wrong)
    plan = sampler_laws.PLANS[Size.FAST]
    rows = [sampler_laws._right(plan, "kernel", wrong, law, 1000.0, repetitions=0) for law in Noise]
    assert failed(rows) == [f"kernel {noise.value} 1000.0"]


@pytest.mark.false_alarm(1e-6)
def test_a_bug_that_is_not_noticed_fails_its_row() -> None:
    harmless = sampler_laws.Bug("none", Noise.GAUSSIAN, 10.0, lambda right, wrong_by: right)
    assert failed([sampler_laws._wrong(sampler_laws.PLANS[Size.FAST], harmless)]) == ["none discrete_gaussian 10.0"]


def test_the_full_size_is_what_is_claimed() -> None:
    """At least 10 laws and scales of a million draws, a family error of 1e-6, power 0.99 against 0.75 %."""
    plan = sampler_laws.PLANS[Size.FULL]
    pairs = [(noise, scale) for noise in sampler_laws.LAWS for scale in plan.scales]
    assert len(set(pairs)) >= 12
    assert plan.draws >= 1_000_000
    assert plan.level * (len(pairs) + len(sampler_laws.PEERS)) * len(STATISTICS) <= 1e-6
    assert len(STATISTICS) == 8
    assert plan.wrong_by == 0.0075
    assert all(power(distribution(*pair), plan.draws, plan.wrong_by, plan.level) > 0.99 for pair in pairs)


# What each statistic alone must notice: right draws of a Gaussian of scale 1000, and what happens to them.
def _shifted(draws: sampler_laws.Draws) -> sampler_laws.Draws:
    return draws + 20


def _more_positive(draws: sampler_laws.Draws) -> sampler_laws.Draws:
    """Half of the small negative draws change their sign; the mean hardly moves."""
    return np.where((draws < 0) & (draws > -50) & (np.arange(draws.size) % 2 == 0), -draws, draws)


PLANTED = {
    "slope of log-ratios": lambda draws: np.round(draws * 1.03).astype(np.int64),
    "variance": lambda draws: np.round(draws * 1.03).astype(np.int64),
    "chi-square": lambda draws: np.where(np.abs(draws) < 30, 0, draws),
    "Kolmogorov-Smirnov": _shifted,
    "mean": _shifted,
    "sign": _more_positive,
    "tail mass": lambda draws: np.where(np.abs(draws) > 3800, 0, draws),
    "lag-1 correlation": lambda draws: np.repeat(draws[::2], 2),
}


@pytest.mark.false_alarm(1e-7)
@pytest.mark.parametrize("name", list(STATISTICS))
def test_each_statistic_notices_what_it_is_for(name: str) -> None:
    law = distribution(Noise.GAUSSIAN, 1000.0)
    draws = sampler_laws.kernel(Noise.GAUSSIAN, 1000.0, 500_000)
    assert STATISTICS[name](Sample(draws, law)) > 1e-7
    assert STATISTICS[name](Sample(PLANTED[name](draws), law)) < 1e-7
