"""The constants of the query-game mechanisms. ``dpcore/decisions/dual_family.md`` has the measurements behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Start = Literal["marginals", "uniform"]
ComparedRecords = Literal["round", "all"]


@dataclass(frozen=True)
class DualQueryProfile:
    """Constants of DualQuery and DQRS. A share is a fraction of the whole budget.

    burn_in: Fraction, in [0, 1), of the records that are played first and never released. The weights correct only
        large deviations, so the mistakes of the first records would stay in most answers. Leaving out 15 % lowered the
        mean error by a fifth on Adult and by a third on KDD99.
    marginals_share: Share, in (0, 1), of the one-way marginals for undecided columns, where they are measured.
    units_share: Share, in (0, 1), of the number of units, where it is private. The number of rounds grows with the
        fourth root of the budget, so 5 % costs about 1 % of the rounds.
    """

    burn_in: float
    marginals_share: float
    units_share: float


DUAL_QUERY_PROFILES: Final[dict[str, DualQueryProfile]] = {
    "default": DualQueryProfile(burn_in=0.15, marginals_share=0.05, units_share=0.05),
    # Every record is released, as in Algorithm 2 of DualQuery and Algorithm 4 of DQRS.
    "published": DualQueryProfile(burn_in=0.0, marginals_share=0.05, units_share=0.05),
    # The game that ``DualQueryPgm`` plays; a config cannot name it. The fitted model reads the one-way marginals too,
    # so they get more of the budget, and no record is released.
    "dual_query_pgm": DualQueryProfile(burn_in=0.0, marginals_share=0.2, units_share=0.05),
}
"""The profiles of ``DualQuery`` and ``Dqrs`` by the name that a config gives; a config cannot give the last."""

_CONSTANT: Final = "it is a constant of a profile; leave it out"
_USE_BRANCH_AND_BOUND: Final = (
    "leave it out, or write mechanism.oracle: branch_and_bound for up to 1,000 nodes per response"
)
RETIRED_FROM_DUAL_QUERY: Final[Mapping[str, str]] = {
    "burn_in": f"{_CONSTANT}, or write mechanism.profile: published to release every record",
    "free_share": _CONSTANT,
    "total_share": _CONSTANT,
    "node_limit": _USE_BRANCH_AND_BOUND,
}
"""What to write instead of the former settings of ``DualQuery`` and ``Dqrs``."""


@dataclass(frozen=True)
class DualQueryPgmProfile:
    """Constants of the model that DualQuery+PGM fits to the draws.

    prior_strength: Weight, at least 0, of the prior that attributes are independent. At 0 there is no prior, and the
        model follows the sampling error of the draws.
    iterations: Maximum number of marginal-oracle calls, at least 1. The fit stops earlier if 50 consecutive calls
        barely improve the objective.
    """

    prior_strength: float
    iterations: int


DUAL_QUERY_PGM_PROFILES: Final[dict[str, DualQueryPgmProfile]] = {
    "default": DualQueryPgmProfile(prior_strength=0.2, iterations=1000),
    # The likelihood alone, as in section 4.5 of the thesis.
    "published": DualQueryPgmProfile(prior_strength=0.0, iterations=1000),
}
"""The profiles of ``DualQueryPgm`` by the name that a config gives."""

RETIRED_FROM_DUAL_QUERY_PGM: Final[Mapping[str, str]] = {
    "free_share": _CONSTANT,
    "total_share": _CONSTANT,
    "node_limit": _USE_BRANCH_AND_BOUND,
    "strength": f"{_CONSTANT}, or write mechanism.profile: published for a fit without a prior",
    "iterations": _CONSTANT,
}
"""What to write instead of the former settings of ``DualQueryPgm``."""


@dataclass(frozen=True)
class FemProfile:
    """Constants of FEM and sepFEM. A share is a fraction of the whole budget.

    exponential_scale: Scale (the mean) of FEM's Exponential noise over sqrt(T), in weights of one query, above 0.
    laplace_scale: Scale of sepFEM's Laplace noise over sqrt(T), in weights of one query, above 0. The Laplace
        distribution has twice the variance of the Exponential one of the same scale.
    burn_in: Fraction, in [0, 1), of the rounds that come first and whose records are not released, because they follow
        only few queries.
    start: "marginals" centres the noise so that records follow noisy one-way marginals before any query is selected;
        "uniform" does not centre it. On Adult at epsilon 0.1 the marginals lowered the largest error from 0.138 to
        about 0.1.
    marginals_share: Share, in (0, 1), of the one-way marginals, where they are measured.
    units_share: Share, in (0, 1), of the number of units, where it is private.
    compared: What the query player compares with the data: the records of this "round", or "all" records so far.
        "all" was better at epsilon 1 on Adult and Loans, and worse at 0.1 and on Titanic.
    sweeps: Number of annealing sweeps per oracle call, at least 1. 5 to 200 sweeps ended in the same error.
    """

    exponential_scale: float
    laplace_scale: float
    burn_in: float
    start: Start
    marginals_share: float
    units_share: float
    compared: ComparedRecords
    sweeps: int


FEM_PROFILES: Final[dict[str, FemProfile]] = {
    "default": FemProfile(
        exponential_scale=0.2,
        laplace_scale=0.15,
        burn_in=0.1,
        start="marginals",
        marginals_share=0.15,
        units_share=0.05,
        compared="round",
        sweeps=10,
    ),
    # Algorithms 1 to 3 as printed: uniform start, and the records of all rounds are released.
    "published": FemProfile(
        exponential_scale=0.2,
        laplace_scale=0.15,
        burn_in=0.0,
        start="uniform",
        marginals_share=0.15,
        units_share=0.05,
        compared="round",
        sweeps=10,
    ),
}
"""The profiles of ``Fem`` and ``SepFem`` by the name that a config gives."""

_UNIFORM: Final = f"{_CONSTANT}, or write mechanism.profile: published for a uniform start"
RETIRED_FROM_FEM: Final[Mapping[str, str]] = {
    "noise": _CONSTANT,
    "burn_in": f"{_CONSTANT}, or write mechanism.profile: published to release the records of every round",
    "start": _UNIFORM,
    "start_share": _UNIFORM,
    "total_share": _CONSTANT,
    "against": _CONSTANT,
    "sweeps": _CONSTANT,
}
"""What to write instead of the former settings of ``Fem`` and ``SepFem``."""
