"""RAP++: a relaxed dataset that is projected onto measured marginals by gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, silent
from dpcore.queries import Marginals
from dpcore.workload import Workload
from tests.benchmarks.rivals.adaptive import Adaptive, marginals
from tests.benchmarks.rivals.relaxed import Adam, Targets, answers, drawn_codes, sparsemax, sparsemax_gradient

_DRAWN = 10_000  # Rows of the release, drawn from the relaxed ones.


@final
@dataclass(frozen=True)
class Rap:
    """Relaxed rows, each attribute's block projected onto the simplex, follow measured marginals by Adam.

    rounds: See ``Adaptive``. rows: Of the relaxed dataset. steps: Of Adam in each round, fewer where ``max_work`` ends.
    rate: Of Adam. max_work: Multiplications of all gradients, in units of 2^30.

    A workload of marginals has no thresholds of numbers, so that there is no sigmoid whose temperature is annealed.

    Source: Vietri and others, "Private synthetic data for multitask learning and marginal queries" (2022).
    """

    traits: ClassVar[Traits] = Traits(
        name="rap++", answers=("marginals",), shapes=("table",), rows=True, mostly_gaussian=False,
        recommended_for="comparison with the published mechanism",
    )  # fmt: skip

    rounds: int | None = None
    rows: int = 1_000
    steps: int = 300
    rate: float = 0.02
    max_work: float = 400.0

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = marginals(workload, self.traits.name)
        memory = 8 * self.rows * (6 * sum(queries.domain.sizes) + 2 * max(queries.sizes))
        return Adaptive(self.rounds, self.traits.name).plan(terms, workload, memory)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        adaptive = Adaptive(self.rounds, self.traits.name)
        plan = self.plan(private.terms, workload)
        domain = marginals(workload, self.traits.name).domain
        learner = _Relaxed(self, domain, self.max_work * 2**30 / (plan.rounds + 1), generator)
        return adaptive.run(private, workload, learner, progress)


class _Relaxed:
    """The relaxed rows before their projection, and their optimiser. Implements ``Learner``."""

    def __init__(self, settings: Rap, domain: Domain, work: float, generator: Generator) -> None:
        self._settings, self._domain, self._work, self._generator = settings, domain, work, generator
        self._logits = generator.random((settings.rows, sum(domain.sizes)))

    def answers(self, queries: Marginals) -> NDArray[np.float64]:
        return answers(sparsemax(self._logits, self._domain), queries)

    def learn(self, measured: Sequence[Measurement], total: float) -> None:
        """A constant factor of the loss, such as 1 / rows, does not change the steps of Adam."""
        targets = Targets.of(self._domain, measured, total)
        adam = Adam(self._settings.rate)
        for _ in range(max(1, min(self._settings.steps, int(self._work / targets.work(self._settings.rows))))):
            rows = sparsemax(self._logits, self._domain)
            _, gradient, _ = targets.gradient(rows)
            self._logits += adam.step(sparsemax_gradient(rows, gradient, self._domain))

    def codes(self) -> NDArray[np.int64]:
        return drawn_codes(sparsemax(self._logits, self._domain), self._domain, _DRAWN, self._generator)
