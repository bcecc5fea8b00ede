"""The one table of the audit: a row for every mechanism and every verb of the kernel.

A row says where the mechanism loses most (end to end) and what is run on generated neighbours (grey box). A mechanism
of dpcore/mechanisms/registry.py without a row fails tests/contract/test_audit_table.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from dpcore.estimation.baskets.mixture_fit import FitSettings
from dpcore.kernel.budget import Currency
from dpcore.mechanisms.adaptive.adaptive_residuals import AdaptiveResiduals
from dpcore.mechanisms.additive_noise import Gaussian, Laplace
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.baskets.basket_mixture import BasketMixture
from dpcore.mechanisms.bayes.priv_bayes import PrivBayes, PrivBayesPgm
from dpcore.mechanisms.clipping.clipped_gaussian import ClippedGaussian
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.continual.continual import Continual
from dpcore.mechanisms.fourier import Fourier
from dpcore.mechanisms.gaussian_copula import GaussianCopula
from dpcore.mechanisms.gaussian_pgm import GaussianPgm
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.independent import Independent
from dpcore.mechanisms.itemsets.frequent_itemsets import FrequentItemsets
from dpcore.mechanisms.mst import Mst
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.mechanisms.mwem.mwem_pgm import MwemPgm
from dpcore.mechanisms.mwem.mwem_queries import MwemQueries
from dpcore.mechanisms.query_game.dqrs import Dqrs
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.dual_query_pgm import DualQueryPgm
from dpcore.mechanisms.query_game.fem import Fem
from dpcore.mechanisms.query_game.sep_fem import SepFem
from tests.audit import score_cases, worst_cases
from tests.audit.discovery_trial import Discovering
from tests.audit.score_cases import Choice, Choosing, Erring
from tests.audit.verb_calls import VerbCalls
from tests.audit.worst_cases import Clipping, Copies, Measuring, MeasuringRows, Retaining, Sampling, Selecting, Trial
from tests.audit.worst_pairs import Claim
from tests.support.aim_runs import aim_with
from tests.support.constants import with_constants
from tests.support.public_tables import Informed

PURE = (Currency.PURE,)
GAUSSIAN = tuple(currency for currency in Currency if currency is not Currency.PURE)
EVERY = tuple(Currency)
_ALL_RESIDUALS = with_constants(AdaptiveResiduals(), max_noise=math.inf)
# Trials read what is measured, whatever is estimated from it.
_ONLY_SHRUNKEN = with_constants(_ALL_RESIDUALS, mean_answers=0, model_noise=math.inf, part_noise=math.inf)

# What the issue asks of a bound from below, as a part of the claim.
OF_EPSILON, OF_MU = 0.8, 0.9


class Kind(StrEnum):
    """What is asked of what.

    RANGES, BITS: Named only by rows that do not take all marginals.
    """

    MARGINALS = "marginals"
    CONJUNCTIONS = "conjunctions of a table"
    BASKETS = "conjunctions of baskets"
    RANGES = "prefixes and ranges"
    BITS = "marginals of bits"
    ITEMSETS = "itemsets of baskets"


@dataclass(frozen=True)
class Audited:
    """One line of the end-to-end audit.

    fast, full: Runs on each of the two neighbours.
    wanted: How much of the claim the bound must reach at full size; 0 where it must only stay below.
    in_mu: Measured in mu also under zCDP, where rho claims sqrt(2 rho): right for Gaussian noise alone.
    """

    trial: Trial
    fast: int
    full: int
    wanted: float = 0.0
    in_mu: bool = False


@dataclass(frozen=True)
class AuditRow:
    """A mechanism by its name in a config, or a verb by its own.

    currencies: Those it has a proof for.
    worst_cases: How it is audited end to end under a claim.
    small: Settings for runs on tiny data, by kind of workload.
    release: The mechanism section of a config for a release of a few units, by kind; empty for verbs.
    one_row: It has a proof for units of one row alone.
    positive: It has a path of its own for positive conjunctions, which half of the runs take.
    min_items: Number of items that it takes at least.
    """

    name: str
    currencies: tuple[Currency, ...]
    worst_cases: Callable[[Claim], Sequence[Audited]]
    small: Mapping[Kind, tuple[Mechanism, ...]] = field(default_factory=dict)
    release: Mapping[Kind, Mapping[str, Any]] = field(default_factory=dict)
    one_row: bool = False
    positive: bool = False
    min_items: int = 1


def _additive(mechanism: Mechanism) -> Callable[[Claim], Sequence[Audited]]:
    pure = isinstance(mechanism, Laplace)

    def cases(claim: Claim) -> Sequence[Audited]:
        copies = Audited(Copies(mechanism, claim), 20_000, _answers(claim), OF_EPSILON if pure else OF_MU, not pure)
        alone = worst_cases.one_marginal(mechanism, claim)
        if pure and claim.epsilon >= 1:
            return copies, Audited(alone, 60, 50_000, OF_EPSILON)
        return copies, Audited(alone, 60, 5_000, in_mu=not pure)

    return cases


def _runs(trial: Callable[[Claim], Trial], runs: int) -> Callable[[Claim], Sequence[Audited]]:
    return lambda claim: (Audited(trial(claim), 60, runs),)


def _noisy(trial: Callable[[Claim], Trial], runs: int) -> Callable[[Claim], Sequence[Audited]]:
    """Runs of which Gaussian noise alone protects what the trial reads, except under pure DP."""
    return lambda claim: (Audited(trial(claim), 60, runs, in_mu=claim.budget.currency is not Currency.PURE),)


def _one_round(eta: float) -> Mechanism:
    return DualQuery(eta=eta, samples=1, rounds=2, oracle="enumerate", free="uniform")


_FEW_ITERATIONS = with_constants(DualQueryPgm(free="uniform"), iterations=20)


def _one_fitted_round(eta: float) -> Mechanism:
    return replace(_FEW_ITERATIONS, eta=eta, samples=1, rounds=2, oracle="enumerate")


def _one_bit(eta: float) -> Mechanism:
    """A step of which the budget pays for the bit and for a fresh draw after it."""
    return Dqrs(eta=0.49 * eta, samples=1, rounds=2, oracle="enumerate", free="uniform")


_LITTLE_NOISE = {
    kind: with_constants(kind(rounds=2, records=1, profile="published"), exponential_scale=0.01, laplace_scale=0.01)
    for kind in (Fem, SepFem)
}


def _one_selection(kind: type[Fem] | type[SepFem]) -> Callable[[float], Mechanism]:
    """Two rounds of one record; one selection between them costs the budget, whatever its slope."""
    return lambda eta: _LITTLE_NOISE[kind]


def _selecting(claim: Claim) -> Sequence[Audited]:
    if claim.budget.currency is not Currency.PURE:
        return (Audited(Selecting(claim), 60, 8_000),)
    # The smaller epsilon, the more runs it takes to see it: loss and deviation of the bound are about
    # 4.5 (1 + exp(epsilon / 2)) / sqrt(runs) together with a third of it.
    directly = claim.epsilon < 1
    return (Audited(Selecting(claim, directly), 60, 650_000 if directly else 50_000, OF_EPSILON),)


def _choosing(name: str, make: Callable[[Claim], Choice]) -> Callable[[Claim], Sequence[Audited]]:
    return _runs(lambda claim: Choosing(claim, name, make), 8_000)


_SHRINKING = with_constants(ClippedGaussian(), marginals_share=0.3, histogram_share=0.3, min_predicted_queries=1)
_MOSTLY_ANSWERS = with_constants(ClippedGaussian(), histogram_share=0.01)
_MOSTLY_PAIRS = with_constants(
    BasketMixture(), units_share=0.002, sizes_share=0.002, counts_share=0.004, pair_histogram_share=0.002,
    fit=FitSettings(candidates=((1, 1.0),), trial_steps=5, steps=5, residual_tastes=0),  # As above.
)  # fmt: skip
_FEW_CANDIDATES = with_constants(FrequentItemsets(3), margin=0.0, pairs_per_listed=1, triples_per_listed=1)
_MOSTLY_TRIPLES = with_constants(FrequentItemsets(), items_share=0.005, pairs_share=0.005, histogram_part=0.01)


def _sampling(claim: Claim) -> Sequence[Audited]:
    pure = claim.budget.currency is Currency.PURE
    runs = 5 * _answers(claim) // 2 if pure else _answers(claim)
    return (Audited(Sampling(claim, rare=-2.5 - claim.epsilon), 20_000, runs, OF_EPSILON if pure else 0.0),)


def _retaining(claim: Claim) -> Sequence[Audited]:
    wanted = OF_EPSILON if claim.budget.currency is Currency.PURE else 0.0
    return (Audited(Retaining(claim), 20_000, _answers(claim), wanted),)


def _answers(claim: Claim) -> int:
    """Draws in bulk that show 0.8 of epsilon, or 0.9 of mu, with some deviations to spare."""
    return 8_000_000 if claim.epsilon < 1 else 600_000


_MWEM = with_constants(Mwem(rounds=1), start="uniform", final_passes=0, passes=1)
_MWEM_QUERIES = with_constants(MwemQueries(rounds=1), final_passes=0, passes=1)
_MWEM_PGM = with_constants(MwemPgm(rounds=1), start="uniform")
_EACH = (Kind.MARGINALS, Kind.CONJUNCTIONS, Kind.BASKETS)
TABLES = (
    AuditRow(
        "laplace", PURE, _additive(Laplace()),
        {kind: (Laplace(),) for kind in _EACH}, {kind: {} for kind in _EACH},
    ),
    AuditRow(
        "gaussian", GAUSSIAN, _additive(Gaussian()),
        {kind: (Gaussian(),) for kind in _EACH}, {kind: {} for kind in _EACH},
    ),
    AuditRow(
        "independent", EVERY, _runs(lambda claim: worst_cases.one_marginal(Independent(), claim), 2_500),
        {kind: (Independent(),) for kind in _EACH}, {kind: {} for kind in _EACH},
    ),
    AuditRow(
        "mwem", EVERY, _runs(lambda claim: worst_cases.mwem(_MWEM, claim), 2_500),
        {Kind.MARGINALS: (
            with_constants(Mwem(rounds=3), passes=2, final_passes=3),
            with_constants(
                Mwem(rounds=2), distribution="average", start="cells", size_penalty="cells", newest_only=True
            ),
            with_constants(Mwem(rounds=2), start="uniform", size_penalty="none"),
        )},
        {Kind.MARGINALS: {"rounds": 3}},
    ),
    AuditRow(
        "mwem_queries", EVERY, _runs(lambda claim: worst_cases.mwem_queries(_MWEM_QUERIES, claim), 2_500),
        {
            Kind.RANGES: (
                with_constants(MwemQueries(rounds=3), passes=2, final_passes=3),
                with_constants(MwemQueries(rounds=2, profile="published"), passes=10, start="cells", start_share=0.5),
            ),
            Kind.BITS: (
                MwemQueries("parities", rounds=3),
                with_constants(MwemQueries("parities", rounds=2), start="cells", start_share=0.5),
            ),
        },
        {Kind.RANGES: {"rounds": 3}, Kind.BITS: {"rounds": 3, "queries": "parities"}},
    ),
    AuditRow(
        "fourier", EVERY, _runs(lambda claim: worst_cases.parities(Fourier(), claim), 2_500),
        {Kind.BITS: (Fourier(), with_constants(Fourier(profile="published"), iterations=20))}, {Kind.BITS: {}},
    ),
    AuditRow(
        "aim", EVERY, _runs(lambda claim: worst_cases.one_marginal(Aim(rounds_per_attribute=2), claim), 1_000),
        {Kind.MARGINALS: (
            Aim(rounds_per_attribute=3),
            aim_with(rounds_per_attribute=2, growth=4.0, patience=1.0, penalty="noise"),
            aim_with(rounds_per_attribute=2, max_model_mb=1e-4, select_share=0.5, workload_error=10.0),
            aim_with(rounds_per_attribute=2, workload_error=0.0, rich_error=1e9, no_batch_error=1e9),
        )},
        {Kind.MARGINALS: {"rounds_per_attribute": 3}},
    ),
    AuditRow(
        "dual_query", EVERY, _runs(lambda claim: worst_cases.dual_query(_one_round, claim), 2_500),
        {
            Kind.CONJUNCTIONS: (DualQuery(oracle="enumerate", rounds=4), DualQuery(eta=0.5, rounds=3, free="uniform")),
            Kind.BASKETS: (DualQuery(oracle="enumerate", rounds=4, free="zeros"), DualQuery(eta=0.4, rounds=4)),
            Kind.MARGINALS: (DualQuery(oracle="anneal", rounds=4),),
        },
        {kind: {"rounds": 6} for kind in _EACH}, one_row=True,
    ),
    AuditRow(
        "dqrs", EVERY, _runs(lambda claim: worst_cases.dual_query(_one_bit, claim), 2_500),
        {
            Kind.CONJUNCTIONS: (Dqrs(oracle="enumerate", rounds=8), Dqrs(eta=0.5, rounds=6, free="uniform")),
            Kind.BASKETS: (Dqrs(oracle="enumerate", rounds=8, free="zeros"), Dqrs(eta=0.4, samples=5)),
            Kind.MARGINALS: (Dqrs(rounds=8),),
        },
        {kind: {"rounds": 6} for kind in _EACH}, one_row=True,
    ),
    AuditRow(
        "fem", EVERY, _runs(lambda claim: worst_cases.dual_query(_one_selection(Fem), claim), 2_500),
        {
            kind: (Fem(rounds=5, records=4), with_constants(Fem(rounds=3, records=2), compared="all", start="uniform"))
            for kind in _EACH
        },
        {kind: {"rounds": 6, "records": 5} for kind in _EACH}, one_row=True,
    ),
    AuditRow(
        "sep_fem", EVERY, _runs(lambda claim: worst_cases.dual_query(_one_selection(SepFem), claim), 2_500),
        {kind: (SepFem(rounds=5, records=4),) for kind in _EACH},
        {kind: {"rounds": 6, "records": 5} for kind in _EACH}, one_row=True,
    ),
    AuditRow(
        "clipped_gaussian", EVERY, _noisy(lambda claim: worst_cases.clipped_answer(_MOSTLY_ANSWERS, claim), 2_500),
        {kind: (ClippedGaussian(), _SHRINKING) for kind in _EACH[1:]},
        {Kind.CONJUNCTIONS: {}, Kind.BASKETS: {}}, one_row=True, positive=True,
    ),
    AuditRow(
        "basket_mixture", EVERY, _noisy(lambda claim: worst_cases.basket_pair(_MOSTLY_PAIRS, claim), 400),
        {Kind.BASKETS: (BasketMixture(), with_constants(BasketMixture(), pair_histogram_share=0.3))},
        {Kind.BASKETS: {}}, one_row=True, min_items=2,
    ),
    AuditRow(
        "frequent_itemsets", EVERY, _noisy(lambda claim: worst_cases.lone_itemset(_MOSTLY_TRIPLES, claim), 2_500),
        {Kind.ITEMSETS: (FrequentItemsets(), _FEW_CANDIDATES)},
        {Kind.ITEMSETS: {"max_paired_items": 12}}, one_row=True, min_items=3,
    ),
    AuditRow(
        "hdmm", EVERY, _runs(lambda claim: worst_cases.one_marginal(Hdmm(), claim), 2_500),
        {Kind.MARGINALS: (Hdmm(), Hdmm(reconstruction="graphical"))}, {Kind.MARGINALS: {}},
    ),
    AuditRow(
        "continual", EVERY, _runs(lambda claim: worst_cases.one_series(Continual("x"), claim), 2_500),
        {Kind.RANGES: (Continual("y"), Continual("y", strategy="tree"))}, {Kind.RANGES: {"attribute": "y"}},
    ),
    AuditRow(
        "mst", EVERY, _runs(lambda claim: worst_cases.one_marginal(Mst(), claim), 2_500),
        {Kind.MARGINALS: (Mst(), with_constants(Mst(), one_way_share=0.1, select_share=0.6))}, {Kind.MARGINALS: {}},
    ),
    AuditRow(
        "priv_bayes", EVERY, _runs(lambda claim: worst_cases.one_marginal(PrivBayes(), claim), 2_500),
        {Kind.MARGINALS: (
            PrivBayes(usefulness=1e-3), with_constants(PrivBayes(usefulness=1e-3), score="mutual_information"),
        )},
        {Kind.MARGINALS: {"usefulness": 0.001}},
    ),
    AuditRow(
        "priv_bayes_pgm", EVERY, _runs(lambda claim: worst_cases.one_marginal(PrivBayesPgm(), claim), 2_500),
        {Kind.MARGINALS: (PrivBayesPgm(usefulness=1e-3),)}, {Kind.MARGINALS: {"usefulness": 0.001}}),
    AuditRow(
        "gaussian_pgm", EVERY, _runs(lambda claim: worst_cases.one_marginal(GaussianPgm(), claim), 2_500),
        {Kind.MARGINALS: (GaussianPgm(),)}, {Kind.MARGINALS: {}}),
    AuditRow(
        "gaussian_copula", EVERY, _runs(lambda claim: worst_cases.one_marginal(GaussianCopula(), claim), 2_500),
        {Kind.MARGINALS: (GaussianCopula(), with_constants(GaussianCopula(), values_share=0.02))}, {Kind.MARGINALS: {}},
    ),
    AuditRow(
        "adaptive_residuals", GAUSSIAN,
        _runs(lambda claim: worst_cases.one_marginal_of_residuals(_ONLY_SHRUNKEN, claim), 2_500),
        {Kind.MARGINALS: (AdaptiveResiduals(), _ALL_RESIDUALS)}, {Kind.MARGINALS: {}},
    ),
    AuditRow(
        "mwem_pgm", EVERY, _runs(lambda claim: worst_cases.mwem(_MWEM_PGM, claim), 2_500),
        {Kind.MARGINALS: (
            MwemPgm(rounds=3),
            with_constants(MwemPgm(rounds=2), start="uniform", size_penalty="noise", select_share=0.2),
        )},
        {Kind.MARGINALS: {"rounds": 3}},
    ),
    AuditRow(
        "dual_query_pgm", EVERY, _runs(lambda claim: worst_cases.drawn_marginal(_one_fitted_round, claim), 2_500),
        {Kind.MARGINALS: (DualQueryPgm(oracle="enumerate", rounds=4), replace(_FEW_ITERATIONS, eta=0.5, rounds=3))},
        {Kind.MARGINALS: {"rounds": 6}}, one_row=True,
    ),
    AuditRow(
        "clique_tree", EVERY, _runs(lambda claim: worst_cases.one_marginal(CliqueTree(), claim), 1_000),
        {Kind.MARGINALS: (
            CliqueTree(), with_constants(CliqueTree(order=2), start_share=0.01, errors_share=0.5), Informed(),
        )}, {Kind.MARGINALS: {}}),
)  # fmt: skip
VERBS = (
    AuditRow("measure", EVERY, _runs(Measuring, 2_500), {kind: (VerbCalls("measure"),) for kind in _EACH}),
    AuditRow("measure_rows", EVERY, _runs(MeasuringRows, 2_500), {Kind.MARGINALS: (VerbCalls("measure_rows"),)}),
    AuditRow(
        "measure, clipped",
        EVERY,
        _noisy(Clipping, 2_500),
        {kind: (VerbCalls("measure_clipped"),) for kind in (Kind.CONJUNCTIONS, Kind.BASKETS)},
        one_row=True,
    ),
    AuditRow("select", EVERY, _selecting, {Kind.MARGINALS: (VerbCalls("select"),)}),
    *(
        AuditRow(f"select, {name}", EVERY, _choosing(name, make), {Kind.MARGINALS: (VerbCalls(calls),)})
        for name, make, calls in (
            ("linear queries", score_cases.linear_queries, "select_linear"),
            ("generalised", score_cases.generalised, "select_generalised"),
            ("R", score_cases.r_score, "select_r"),
            ("mutual information", score_cases.mutual_information, "select_information"),
        )
    ),
    AuditRow("measure_errors", EVERY, _noisy(Erring, 2_500), {Kind.MARGINALS: (VerbCalls("measure_errors"),)}),
    AuditRow("sample", EVERY, _sampling, {kind: (VerbCalls("sample"),) for kind in _EACH}, one_row=True),
    AuditRow("retain", EVERY, _retaining, {kind: (VerbCalls("retain"),) for kind in _EACH}, one_row=True),
)

# Before a mechanism starts. It is no verb of the statistics that mechanisms see, and has no grey-box replay.
STAGES = (AuditRow("discover", GAUSSIAN, lambda claim: (Audited(Discovering(claim), 60, 20_000, in_mu=True),)),)
