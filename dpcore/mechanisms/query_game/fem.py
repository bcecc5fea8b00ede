"""FEM: the data player follows the perturbed leader, and the query player uses the exponential mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, final

from numpy.random import Generator

from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, silent
from dpcore.mechanisms.query_game.primal_loop import PerturbationLaw, PrimalLoop
from dpcore.mechanisms.query_game.profiles import RETIRED_FROM_FEM
from dpcore.oracles import perturbation
from dpcore.workload import Workload

LAW: Final = PerturbationLaw(
    perturbation.exponential, perturbation.exponential_offsets, lambda profile: profile.exponential_scale
)


@final
@dataclass(frozen=True)
class Fem:
    """In each round s records answer the queries selected so far, and the query that they answer worst is selected.

    A record maximises the number of selected queries and complements that it satisfies, minus Exponential noise for
    each column that is 1 (Algorithm 2). The query player selects by the exponential mechanism, over queries and
    complements, with the score q(D) - q(D_t), where D_t are the records of the round. The release is the union of the
    records. Records and noise depend on the selected queries only; the first of these is drawn uniformly.

    A workload's weights multiply the probabilities of its queries to be selected. Each cell of a marginal is a query.

    Formal guarantees: a selection has bounded range 2 slope / n where a unit is replaced, and slope / n0 where one is
    added or removed, because the scores are monotone. Ranges add up under pure DP. A selection costs range^2 / 8 under
    zCDP, and about pi/2 times as much of the budget under Gaussian DP. The number of units and the one-way marginals
    are charged in addition.

    rounds: T, the number of rounds, at least 2. By default it minimises the sum of the players' regrets for the budget,
        the number of units and the number of queries (see ``fem_schedule``). The rounds use up the budget, so the slope
        of the selections follows from their number.
    records: s, the number of records per round, at least 1. By default about 100,000 records are divided among the
        rounds, with 50 to 200 records per round.
    profile: "default" starts from noisy one-way marginals and leaves the first 10 % of the rounds out of the release,
        because their records follow only few queries; "published" starts uniformly and releases the records of all
        rounds, as in the paper.

    Source: Vietri, Tian, Bun, Steinke and Wu, "New Oracle-Efficient Algorithms for Private Synthetic Data Release"
    (ICML 2020), Algorithms 1 and 2. The sum over selected queries starts at i = 0, as in the paper's text.
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
    profile: Literal["default", "published"] = "default"

    retired: ClassVar[Mapping[str, str]] = RETIRED_FROM_FEM

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        return self._loop.plan(terms, workload)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        return self._loop.run(private, workload, generator=generator, progress=progress)

    @property
    def _loop(self) -> PrimalLoop:
        return PrimalLoop("fem", LAW, self.rounds, self.records, self.profile)
