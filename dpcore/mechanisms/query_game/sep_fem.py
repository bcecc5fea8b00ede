"""sepFEM: FEM in which the perturbation is a random weight for each query of a separator set."""

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

LAW: Final = PerturbationLaw(perturbation.laplace, perturbation.laplace_offsets, lambda profile: profile.laplace_scale)


@final
@dataclass(frozen=True)
class SepFem:
    """FEM in which the queries of a separator set, with Laplace weights, perturb the records (Algorithm 3).

    Any two records differ on some query of a separator set. For conjunctions, and for marginals over their one-hot
    columns, the set consists of the literals of single columns, x_a = 1. For parities it consists of the parities of
    single columns, 1 - x_a. With weights that are symmetric about 0 these perturb in the same way, up to a constant
    that changes no maximum. Every class of queries here is therefore perturbed by one Laplace weight per column.

    Formal guarantees: those of ``Fem``.

    rounds: T, the number of rounds, at least 2; by default as for ``Fem``.
    records: s, the number of records per round, at least 1; by default as for ``Fem``.
    profile: "default" or "published", with the same differences as for ``Fem``.

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
        return PrimalLoop("sep_fem", LAW, self.rounds, self.records, self.profile)
