"""One row a mechanism: its name in a config and its settings."""

from __future__ import annotations

from typing import Final

from dpcore.mechanisms.additive_noise import Gaussian, Laplace
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.bayes.priv_bayes import PrivBayes, PrivBayesPgm
from dpcore.mechanisms.clipping.clipped_gaussian import ClippedGaussian
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.fourier import Fourier
from dpcore.mechanisms.gaussian_pgm import GaussianPgm
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.independent import Independent
from dpcore.mechanisms.mst import Mst
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.mechanisms.mwem.mwem_pgm import MwemPgm
from dpcore.mechanisms.mwem.mwem_queries import MwemQueries
from dpcore.mechanisms.query_game.dqrs import Dqrs
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.dual_query_pgm import DualQueryPgm
from dpcore.mechanisms.query_game.fem import Fem
from dpcore.mechanisms.query_game.sep_fem import SepFem

MECHANISMS: Final[dict[str, type[Mechanism]]] = {
    "laplace": Laplace,
    "gaussian": Gaussian,
    "independent": Independent,
    "mwem": Mwem,
    "mwem_queries": MwemQueries,
    "fourier": Fourier,
    "aim": Aim,
    "dual_query": DualQuery,
    "dqrs": Dqrs,
    "fem": Fem,
    "sep_fem": SepFem,
    "clipped_gaussian": ClippedGaussian,
    "hdmm": Hdmm,
    "mst": Mst,
    "priv_bayes": PrivBayes,
    "priv_bayes_pgm": PrivBayesPgm,
    "gaussian_pgm": GaussianPgm,
    "mwem_pgm": MwemPgm,
    "dual_query_pgm": DualQueryPgm,
    "clique_tree": CliqueTree,
}
