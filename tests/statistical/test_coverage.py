"""Intervals of released answers cover the truth as often as they say.

4,000 answers a case: the number covered is within 5 standard deviations of its law (6e-7 by chance); noise 30 % larger
than stated would cover 87 % and noise 30 % smaller 99.4 %, more than 15 standard deviations away.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.additive_noise import Gaussian, Laplace
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, linear

CELLS = 4000
FIVE_SIGMA = 5 * math.sqrt(CELLS * 0.95 * 0.05)
DOMAIN = Domain.of({"a": 50, "b": 80})
TABLE = TinyTable(DOMAIN, np.zeros((30, 2), dtype=np.int64))
CELLWISE = all_k_way(DOMAIN, 2)
PREFIXES = linear(range_marginals(DOMAIN, [("a", "b")], {"a": prefix(50)}))


@pytest.mark.false_alarm(1.4e-6)
@pytest.mark.smoke(2)
@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [(Laplace(), Budget.pure(0.02)), (Gaussian(), Budget.zcdp(0.0002))],
    ids=["laplace", "gaussian"],
)
@pytest.mark.parametrize("workload", [CELLWISE, PREFIXES], ids=["marginals", "prefixes"])
def test_intervals_cover_the_truth_in_95_of_100_answers(mechanism: Any, budget: Budget, workload: Workload) -> None:
    release = mechanism.run(private_statistics(TABLE, budget), workload, generator=np.random.default_rng(0))
    answers, truth = release.answers, exact_answers(TABLE, workload.queries)
    covered = ((answers.lower <= truth) & (truth <= answers.upper)).sum()
    # At a scale of 50 a count more or less in the width changes the coverage by about a tenth of a percent.
    assert abs(covered - 0.95 * CELLS) < FIVE_SIGMA + 0.003 * CELLS
    spread = float(np.std(answers.values - truth))
    assert spread == pytest.approx(float(answers.stddev[0]), rel=0.15)  # 5 standard deviations of the Laplace's.
