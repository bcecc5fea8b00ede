"""Tab-PE: Private Evolution for tables; rows that survive are those for which the private rows vote."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.totals import row_total, total_share
from dpcore.workload import Workload
from tests.benchmarks.rivals.dependence import attribute_marginals
from tests.benchmarks.rivals.synthetic import release_of_rows
from tests.benchmarks.rivals.votes import Codes, nearest_of


@final
@dataclass(frozen=True)
class TabPe:
    """Tab-PE, with votes that our kernel measures as a one-way marginal (``votes``).

    Rows start uniform. In each iteration every private row votes for the nearest candidate, and the votes get noise. In
    the first iterations rows are drawn by their noisy votes and then varied; in the others the candidates are the rows
    and some variations of each, and those with the most noisy votes survive. A variation changes each attribute with
    the mutation rate, which falls from iteration to iteration, to a uniform value.

    It needs statistics that count votes, as ``VotingStatistics``: they are no marginals of the table.

    How ours differs from the paper: all attributes are categorical, also where the order of their values means
    something; equal candidates share their votes, so that a frequent record can survive several times; the number of
    rows that the answers are scaled to is measured for 1 % of the budget.

    rows: Number of synthetic rows; 1,000 as published, as are the defaults of all others.
    iterations: Number of iterations.
    drawn_iterations: The first iterations, in which rows are drawn.
    variations: Variations of each row in the others.
    first_rate, last_rate, decay: The mutation rate: it falls from the first to the last with the power ``decay`` of the
        part of the iterations that are over.

    Guarantee: the budget's, by composition of the kernel's measurements.

    Source: Tran, Backurs, Lin, Reis, Xiong and Yekhanin, "Differentially Private Synthetic Data via APIs 4: Tabular
    Data", 2026, and the settings of the authors' example for Adult.
    """

    traits: ClassVar[Traits] = Traits(
        name="tab_pe",
        answers=("marginals",),
        shapes=("table",),
        rows=True,
        mostly_gaussian=True,
        recommended_for="a rival in benchmarks",
    )

    rows: int = 1_000
    iterations: int = 30
    drawn_iterations: int = 5
    variations: int = 3
    first_rate: float = 0.5
    last_rate: float = 0.01
    decay: float = 0.2

    total_part: ClassVar[Fraction] = Fraction(1, 100)

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = attribute_marginals(workload, "tab_pe")
        share = total_share(terms, self.total_part)
        total = (Step("measure the number of rows", float(share), 1),) if share else ()
        votes = Step("measure votes for the nearest records", float(1 - share), self.iterations)
        memory = 16 * self.rows * (1 + self.variations) * len(queries.domain.names)
        return Plan((*total, votes), self.iterations, memory, None)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        queries = attribute_marginals(workload, "tab_pe")
        sizes = queries.domain.sizes
        share = total_share(private.terms, self.total_part)
        total, measured = row_total(private, queries.domain, self.total_part)  # MEASURE
        rows = generator.integers(0, sizes, size=(self.rows, len(sizes))).astype(np.int16)
        for number in range(self.iterations):
            progress(number, self.iterations)
            rate, drawn = self._rate(number), number < self.drawn_iterations
            varied = [] if drawn else [_varied(rows, sizes, rate, generator) for _ in range(self.variations)]
            candidates = np.concatenate([rows, *varied])
            measured.append(private.measure(nearest_of(candidates), (1 - share) / self.iterations))  # MEASURE
            votes = measured[-1].values
            rows = _drawn(candidates, votes, self.rows, generator) if drawn else _ranked(candidates, votes, self.rows)
            rows = _varied(rows, sizes, rate, generator) if drawn else rows
        progress(self.iterations, self.iterations)
        return release_of_rows(workload, rows.astype(np.int32), total, measured)

    def _rate(self, number: int) -> float:
        passed: float = (number / self.iterations) ** self.decay
        return self.first_rate - (self.first_rate - self.last_rate) * passed


def _varied(rows: Codes, sizes: tuple[int, ...], rate: float, generator: Generator) -> Codes:
    values = generator.integers(0, sizes, size=rows.shape)
    return np.where(generator.random(rows.shape) < rate, values, rows).astype(np.int16)


def _drawn(candidates: Codes, votes: NDArray[np.float64], count: int, generator: Generator) -> Codes:
    """Rows drawn with replacement by their noisy votes; negative ones count as none."""
    weights = np.maximum(votes, 0.0)
    weights = weights if weights.any() else np.ones(len(votes))
    return candidates[generator.choice(len(candidates), count, p=weights / weights.sum())]


def _ranked(candidates: Codes, votes: NDArray[np.float64], count: int) -> Codes:
    return candidates[np.argsort(-votes, kind="stable")[:count]]
