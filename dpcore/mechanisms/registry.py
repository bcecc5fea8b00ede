"""Every mechanism that a config can name. The ``traits`` of each one say what it is."""

from __future__ import annotations

from typing import Final

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

# By the name that a config gives.
MECHANISMS: Final[dict[str, type[Mechanism]]] = {
    kind.traits.name: kind
    for kind in (
        Laplace,
        Gaussian,
        Independent,
        Mwem,
        MwemQueries,
        Fourier,
        Aim,
        DualQuery,
        Dqrs,
        Fem,
        SepFem,
        ClippedGaussian,
        BasketMixture,
        FrequentItemsets,
        Hdmm,
        Continual,
        Mst,
        PrivBayes,
        PrivBayesPgm,
        GaussianPgm,
        GaussianCopula,
        AdaptiveResiduals,
        MwemPgm,
        DualQueryPgm,
        CliqueTree,
    )
}
