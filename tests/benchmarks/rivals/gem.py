"""GEM: a small network turns fixed noise into distributions, and learns from measured marginals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, final

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
from tests.benchmarks.rivals.relaxed import Adam, Targets, answers, drawn_codes, softmax, softmax_gradient

_LATENT: Final = 32  # Dimensions of the noise.
_DRAWN: Final = 10_000  # Rows of the release.
_REMEMBERED: Final = 0.9  # Of the moving mean of the error.
_KEPT: Final = 0.5  # Errors below this part of the moving mean are left out of a step.


@final
@dataclass(frozen=True)
class Gem:
    """A network of two hidden layers, fixed noise in, a distribution for each attribute out.

    rounds: See ``Adaptive``. rows: Fixed vectors of noise. hidden: Width of a layer. steps: Of Adam in each round,
    fewer where ``max_work`` ends. rate: Of Adam. max_work: Multiplications of all gradients, in units of 2^30.

    Source: Liu, Vietri and Wu, "Iterative methods for private synthetic data" (2021), Algorithm 2.
    """

    traits: ClassVar[Traits] = Traits(
        name="gem", answers=("marginals",), shapes=("table",), rows=True, mostly_gaussian=False,
        recommended_for="comparison with the published mechanism",
    )  # fmt: skip

    rounds: int | None = None
    rows: int = 500
    hidden: int = 128
    steps: int = 300
    rate: float = 0.003
    max_work: float = 400.0

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = marginals(workload, self.traits.name)
        columns = sum(queries.domain.sizes)
        memory = 8 * (self.rows * (6 * columns + 2 * max(queries.sizes)) + 6 * self.hidden * (self.hidden + columns))
        return Adaptive(self.rounds, self.traits.name).plan(terms, workload, memory)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        adaptive = Adaptive(self.rounds, self.traits.name)
        plan = self.plan(private.terms, workload)
        domain = marginals(workload, self.traits.name).domain
        learner = _Generator(self, domain, self.max_work * 2**30 / (plan.rounds + 1), generator)
        return adaptive.run(private, workload, learner, progress)


class Network:
    """Layers with rectified units between them; ``forward`` keeps what ``backward`` needs.

    widths: Of the input, the hidden layers and the output.
    """

    def __init__(self, widths: Sequence[int], generator: Generator) -> None:
        pairs = list(itertools.pairwise(widths))
        self.weights = [generator.normal(0, np.sqrt(2 / before), (before, after)) for before, after in pairs]
        self.biases = [np.zeros(after) for _, after in pairs]
        self._inputs: list[NDArray[np.float64]] = []

    def forward(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        self._inputs = []
        for layer, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = np.maximum(values, 0) if layer else values
            self._inputs.append(values)
            values = values @ weights + bias
        return values

    def backward(self, gradient: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Gradients by the parameters, in the order of ``parameters``."""
        weights: list[NDArray[np.float64]] = []
        biases: list[NDArray[np.float64]] = []
        for layer in range(len(self.weights) - 1, -1, -1):
            weights.insert(0, self._inputs[layer].T @ gradient)
            biases.insert(0, gradient.sum(axis=0))
            gradient = (gradient @ self.weights[layer].T) * (self._inputs[layer] > 0)
        return [*weights, *biases]

    @property
    def parameters(self) -> list[NDArray[np.float64]]:
        return [*self.weights, *self.biases]


class _Generator:
    """The network, its noise and its optimisers. Implements ``Learner``."""

    def __init__(self, settings: Gem, domain: Domain, work: float, generator: Generator) -> None:
        self._settings, self._domain, self._work, self._generator = settings, domain, work, generator
        self._network = Network((_LATENT, settings.hidden, settings.hidden, sum(domain.sizes)), generator)
        self._noise = generator.normal(size=(settings.rows, _LATENT))
        self._optimisers = [Adam(settings.rate) for _ in self._network.parameters]
        self._best: NDArray[np.float64] = self._rows()

    def answers(self, queries: Marginals) -> NDArray[np.float64]:
        return answers(self._best, queries)

    def learn(self, measured: Sequence[Measurement], total: float) -> None:
        """Steps on the errors above half of their moving mean. What fitted best in this round answers until the next.
        """  # fmt: skip
        targets = Targets.of(self._domain, measured, total)
        mean: float | None = None
        least = np.inf
        for _ in range(max(1, min(self._settings.steps, int(self._work / targets.work(self._settings.rows))))):
            rows = self._rows()
            _, gradient, error = targets.gradient(rows, None if mean is None else _KEPT * mean)
            if error < least:
                least, self._best = error, rows
            mean = error if mean is None else _REMEMBERED * mean + (1 - _REMEMBERED) * error
            steps = self._network.backward(softmax_gradient(rows, gradient, self._domain))
            for parameter, optimiser, by_parameter in zip(
                self._network.parameters, self._optimisers, steps, strict=True
            ):
                parameter += optimiser.step(by_parameter)

    def codes(self) -> NDArray[np.int64]:
        return drawn_codes(self._best, self._domain, _DRAWN, self._generator)

    def _rows(self) -> NDArray[np.float64]:
        return softmax(self._network.forward(self._noise), self._domain)
