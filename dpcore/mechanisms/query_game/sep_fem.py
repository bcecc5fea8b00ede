"""sepFEM: FEM whose noise is a random weight for each query of a separator set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, final

from numpy.random import Generator

from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, silent
from dpcore.mechanisms.query_game.primal_loop import Against, DataPlayer, PrimalLoop, Start
from dpcore.oracles import perturbation
from dpcore.workload import Workload

# The Laplace distribution has twice the variance of the Exponential one of the same scale.
DATA_PLAYER: Final = DataPlayer(perturbation.laplace, perturbation.laplace_offsets, noise=0.15)


@final
@dataclass(frozen=True)
class SepFem:
    """FEM in which fake queries with Laplace weights perturb the records (Algorithm 3).

    The fake queries form a separator set: any two records differ on one of them. For conjunctions, and for marginals
    over their one-hot columns, these are the literals of single columns, x_a = 1. For parities they are the parities of
    single columns, 1 - x_a: with a weight that is symmetric about 0 the same perturbation, but for a constant that
    moves no maximum. So every class here is perturbed by one Laplace weight a column.

    The guarantees and the settings are those of ``Fem``; ``noise`` is the scale of the Laplace noise over sqrt(T), None
    for 0.15.

    Source: Vietri, Tian, Bun, Steinke and Wu (ICML 2020), Algorithms 1 and 3, Definition 4.1.
    """

    traits: ClassVar[Traits] = Traits(
        name="sep_fem",
        answers=("marginals", "conjunctions", "parities"),
        shapes=("table", "baskets"),
        rows=True,
        mostly_gaussian=False,
        several_rows=False,
        recommended_for="comparison with the published mechanism",
    )

    rounds: int | None = None
    records: int | None = None
    noise: float | None = None
    burn_in: float = 0.1
    start: Start = "marginals"
    start_share: float = 0.15
    total_share: float = 0.05
    against: Against = "round"
    sweeps: int = 10

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        return self._loop.plan(terms, workload)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        return self._loop.run(private, workload, generator=generator, progress=progress)

    @property
    def _loop(self) -> PrimalLoop:
        return PrimalLoop(name="sep_fem", player=DATA_PLAYER, **vars(self))
