"""FEM: follow the perturbed leader against the exponential mechanism."""

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

DATA_PLAYER: Final = DataPlayer(perturbation.exponential, perturbation.exponential_offsets, noise=0.2)


@final
@dataclass(frozen=True)
class Fem:
    """In each round s records answer the queries selected so far, and the query they answer worst is selected next.

    A record maximises how many selected queries and complements it satisfies, minus Exponential noise for each column
    that is 1 (Algorithm 2). The query player selects by the exponential mechanism with score q(D) - q(D_t), q of the
    round's records, over queries and complements. The release is the union of the records. Records and noise see
    selected queries only; the first one is drawn at random.

    Formal guarantees: one selection has bounded range 2 slope / n where a unit is replaced and slope / n0 where one is
    added or removed: scores are monotone. Ranges add up under pure DP; under zCDP a selection costs range^2 / 8, under
    Gaussian DP about pi/2 times as much of its budget. The total and the marginals below are charged beside them.

    A workload's weights multiply the probabilities of its queries to be selected. Each cell of a marginal is a query.

    rounds: T, the number of rounds; None for what the budget, the units and the queries suggest (``fem_schedule``). The
        slope of the selections follows, because the rounds use up the budget.
    records: s, the number of records of each round; None as for ``rounds``.
    noise: Scale of the Exponential noise (its mean) divided by sqrt(T), in weights of one query; None for 0.2.
    burn_in: Fraction of the rounds, the first ones, whose records are not released, because they follow few queries.
    start: "marginals": noise is centred so that without any query records follow noisy one-way marginals, measured
        for ``start_share``; "uniform": as in the paper.
    total_share: Share of the budget for the number of units where it is private.
    against: What the query player compares with: the records of this "round", as in the paper, or "all" so far.
    sweeps: Work of an oracle call (``Annealing``); from 5 to 200 the error is the same.

    Source: Vietri, Tian, Bun, Steinke and Wu, "New Oracle-Efficient Algorithms for Private Synthetic Data Release"
    (ICML 2020), Algorithms 1 and 2; the sum starts at i = 0, as in its text.
    """

    traits: ClassVar[Traits] = Traits(
        name="fem",
        answers=("marginals", "conjunctions", "parities"),
        shapes=("table", "baskets"),
        rows=True,
        mostly_gaussian=False,
        several_rows=False,
        recommended_for="some dozens of marginals at a small epsilon",
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
        return PrimalLoop(name="fem", player=DATA_PLAYER, **vars(self))
