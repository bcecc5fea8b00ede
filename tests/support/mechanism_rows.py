"""The contract of every mechanism: its data, its currencies, and what is known about its calls in advance."""

from __future__ import annotations

from typing import Final

from dpcore.mechanisms.adaptive.adaptive_residuals import AdaptiveResiduals
from dpcore.mechanisms.additive_noise import Gaussian, Laplace
from dpcore.mechanisms.aim.aim import Aim
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
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB
from dpcore.testing.cases import MechanismContract
from dpcore.testing.tiny_data import (
    BUDGETS,
    CONJUNCTIONS,
    DATA,
    EVERY,
    GDP,
    ITEMSETS,
    MARGINALS,
    OF_BITS,
    ONE_RECORD,
    PRODUCTS,
    PURE,
    ZCDP,
)
from tests.support.aim_runs import aim_with
from tests.support.constants import with_constants
from tests.support.public_tables import Informed

__all__ = ["DATA", "ROWS"]

ROWS: Final = [
    MechanismContract(Laplace(), EVERY, (PURE,), spends_all=True),
    MechanismContract(Gaussian(), EVERY, (ZCDP, GDP), spends_all=True),
    MechanismContract(Independent(), EVERY, BUDGETS, spends_all=True),
    MechanismContract(DualQuery(oracle="enumerate"), ONE_RECORD, BUDGETS, spends_all=False, rounds_follow_units=True),
    MechanismContract(DualQuery(eta=0.4, rounds=4), ONE_RECORD, BUDGETS, spends_all=False, rounds_follow_units=True),
    MechanismContract(
        Dqrs(oracle="enumerate", rounds=12), ONE_RECORD, BUDGETS, spends_all=False, rounds_follow_draws=True
    ),
    MechanismContract(
        DualQuery(free="clipped", samples=6),
        ONE_RECORD,
        BUDGETS,
        spends_all=False,
        rounds_follow_units=True,
        scales_follow_answers=True,
    ),
    MechanismContract(Dqrs(eta=0.5, samples=6), ONE_RECORD, BUDGETS, spends_all=False, rounds_follow_draws=True),
    MechanismContract(Fem(records=9), ONE_RECORD, BUDGETS, spends_all=True, rounds_follow_units=True),
    MechanismContract(
        with_constants(Fem(rounds=4), compared="all", start="uniform"),
        ONE_RECORD,
        BUDGETS,
        spends_all=True,
        rounds_follow_units=True,
    ),
    MechanismContract(
        with_constants(SepFem(rounds=5, records=6), burn_in=0.5),
        ONE_RECORD,
        BUDGETS,
        spends_all=True,
        rounds_follow_units=True,
    ),
    MechanismContract(Mwem(rounds=3), MARGINALS, BUDGETS, spends_all=True),
    MechanismContract(
        with_constants(Mwem(rounds=2), distribution="average", start="cells"), MARGINALS, BUDGETS, spends_all=True
    ),
    MechanismContract(
        Mwem(rounds=3, max_table_mb=6 / CELLS_IN_MB), MARGINALS, BUDGETS, spends_all=True
    ),  # A pair in a table, no triple.
    MechanismContract(MwemQueries(rounds=3), (*PRODUCTS, "products of bits"), BUDGETS, spends_all=True),
    MechanismContract(
        with_constants(MwemQueries(rounds=2, profile="published"), passes=10, start="cells", start_share=0.5),
        (*PRODUCTS, "products of bits"),
        BUDGETS,
        spends_all=True,
    ),
    MechanismContract(MwemQueries("parities", rounds=4), OF_BITS, BUDGETS, spends_all=True),
    MechanismContract(Fourier(), OF_BITS, BUDGETS, spends_all=True),
    MechanismContract(with_constants(Fourier(profile="published"), iterations=20), OF_BITS, BUDGETS, spends_all=True),
    MechanismContract(Hdmm(), MARGINALS + PRODUCTS, BUDGETS, spends_all=True),
    MechanismContract(Hdmm(reconstruction="graphical"), MARGINALS + PRODUCTS, BUDGETS, spends_all=True),
    MechanismContract(Mst(), MARGINALS + PRODUCTS, BUDGETS, spends_all=True),
    MechanismContract(Mst(max_model_mb=1e-4), MARGINALS + PRODUCTS, BUDGETS, spends_all=True),
    MechanismContract(
        PrivBayes(usefulness=0.5), MARGINALS + PRODUCTS, BUDGETS, spends_all=True, rounds_follow_draws=True
    ),
    MechanismContract(PrivBayesPgm(), MARGINALS + PRODUCTS, BUDGETS, spends_all=True, rounds_follow_draws=True),
    MechanismContract(
        with_constants(PrivBayesPgm(), score="mutual_information"),
        MARGINALS + PRODUCTS,
        BUDGETS,
        spends_all=True,
        rounds_follow_draws=True,
    ),
    MechanismContract(GaussianPgm(), MARGINALS + PRODUCTS, BUDGETS, spends_all=True),
    MechanismContract(MwemPgm(rounds=3), MARGINALS + PRODUCTS, BUDGETS, spends_all=True),
    MechanismContract(
        with_constants(MwemPgm(rounds=2), start="uniform", size_penalty="noise"),
        MARGINALS + PRODUCTS,
        BUDGETS,
        spends_all=True,
    ),
    MechanismContract(
        DualQueryPgm(oracle="enumerate", rounds=8),
        ("marginals", "weighted marginals"),
        BUDGETS,
        spends_all=False,
        rounds_follow_units=True,
    ),
    MechanismContract(
        with_constants(DualQueryPgm(eta=0.4, rounds=4, free="uniform"), prior_strength=1e-3, iterations=20),
        ("marginals", "weighted marginals"),
        BUDGETS,
        spends_all=False,
        rounds_follow_units=True,
    ),
    MechanismContract(
        CliqueTree(),
        MARGINALS + PRODUCTS,
        BUDGETS,
        spends_all=True,
        rounds_follow_draws=True,
        scales_follow_answers=True,
    ),
    MechanismContract(
        with_constants(CliqueTree(order=2, max_model_mb=1e-4), start_share=0.01, errors_share=0.5),
        MARGINALS + PRODUCTS,
        BUDGETS,
        spends_all=True,
        rounds_follow_draws=True,
        scales_follow_answers=True,
    ),
    MechanismContract(
        Aim(), MARGINALS + PRODUCTS, BUDGETS, spends_all=True, rounds_follow_draws=True, scales_follow_answers=True
    ),
    MechanismContract(
        aim_with(max_model_mb=1e-4, growth=4.0, patience=1.0, penalty="noise", workload_error=1e-9),
        MARGINALS + PRODUCTS,
        BUDGETS,
        spends_all=True,
        rounds_follow_draws=True,
        scales_follow_answers=True,
    ),
    MechanismContract(ClippedGaussian(), CONJUNCTIONS, BUDGETS, spends_all=True, scales_follow_answers=True),
    MechanismContract(
        with_constants(ClippedGaussian(), min_predicted_queries=1),
        CONJUNCTIONS,
        BUDGETS,
        spends_all=True,
        scales_follow_answers=True,
    ),
    MechanismContract(Continual("b"), PRODUCTS, BUDGETS, spends_all=True),
    MechanismContract(Continual("r", strategy="tree"), ("products of bits",), BUDGETS, spends_all=True),
    MechanismContract(FrequentItemsets(), ITEMSETS, BUDGETS, spends_all=True, scales_follow_answers=True),
    MechanismContract(
        with_constants(FrequentItemsets(4), pairs_per_listed=1, triples_per_listed=1, margin=0.0),
        ITEMSETS,
        BUDGETS,
        spends_all=True,
        scales_follow_answers=True,
    ),
    MechanismContract(
        BasketMixture(),
        ("conjunctions of baskets", "positive conjunctions of baskets"),
        BUDGETS,
        spends_all=True,
        scales_follow_answers=True,
    ),
    MechanismContract(
        AdaptiveResiduals(),
        MARGINALS,
        (ZCDP, GDP),
        spends_all=True,
        rounds_follow_draws=True,
        scales_follow_answers=True,
    ),
    MechanismContract(
        with_constants(AdaptiveResiduals(model="graphical"), max_noise=float("inf")),
        MARGINALS,
        (ZCDP, GDP),
        spends_all=True,
        rounds_follow_draws=True,
        scales_follow_answers=True,
        own_answers=True,
    ),
    MechanismContract(
        Informed(),
        MARGINALS + PRODUCTS,
        BUDGETS,
        spends_all=True,
        rounds_follow_draws=True,
        scales_follow_answers=True,
    ),
    MechanismContract(GaussianCopula(), MARGINALS + PRODUCTS, BUDGETS, spends_all=True),
]
