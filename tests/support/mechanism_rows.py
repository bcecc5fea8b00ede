"""One row a mechanism: its data, its currencies, and what is known about its calls in advance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
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
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB
from dpcore.queries.generation import all_parities, random_conjunctions
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.workload import Workload, all_k_way, conjunctive, explicit, linear
from tests.support.tiny_statistics import TinyBaskets, TinyTable

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2})
CODES = np.random.default_rng(0).integers(0, DOMAIN.sizes, (40, 3))
ONE_HOT, ITEMS = BinaryView.one_hot(DOMAIN), BinaryView(6)
BITS = np.random.default_rng(1).random((40, 6)) < 0.4
BINARY = Domain.of({"p": 2, "q": 2, "r": 2, "s": 2})
BITS[:, 0] |= ~BITS.any(axis=1)


def conjunctions(view: BinaryView, negate: bool = True) -> Workload:
    return conjunctive(random_conjunctions(view, 8, 2, np.random.default_rng(2), negate=negate))


@dataclass(frozen=True)
class Data:
    """A kind of workload, with two neighbouring datasets of as many units."""

    workload: Workload
    statistics: Statistics
    neighbour: Statistics


def table(codes: np.ndarray[tuple[int, int], np.dtype[np.int64]], bound: int = 1) -> TinyTable:
    return TinyTable(DOMAIN, codes, bound)


def bits(matrix: np.ndarray[tuple[int, int], np.dtype[np.bool_]], bound: int = 1) -> TinyTable:
    return TinyTable(BINARY, matrix[:, :4].astype(np.int64), bound)


OTHER_CODES, OTHER_BITS = CODES.copy(), BITS.copy()
OTHER_CODES[0] = (CODES[0] + 1) % DOMAIN.sizes
OTHER_BITS[0] = ~BITS[0]
DATA = {
    "marginals": Data(all_k_way(DOMAIN, 2), table(CODES), table(OTHER_CODES)),
    "weighted marginals": Data(
        explicit(DOMAIN, {("a",): 5.0, ("a", "b", "c"): 1.0, ("c", "b"): 0.1}), table(CODES), table(OTHER_CODES)
    ),
    "marginals of several rows a unit": Data(all_k_way(DOMAIN, 1), table(CODES, 2), table(OTHER_CODES, 2)),
    "conjunctions of a table": Data(conjunctions(ONE_HOT), table(CODES), table(OTHER_CODES)),
    "conjunctions of baskets": Data(
        conjunctions(ITEMS), TinyBaskets(ITEMS, BITS, 6), TinyBaskets(ITEMS, OTHER_BITS, 6)
    ),
    "positive conjunctions of a table": Data(conjunctions(ONE_HOT, False), table(CODES), table(OTHER_CODES)),
    "positive conjunctions of baskets": Data(
        conjunctions(ITEMS, False), TinyBaskets(ITEMS, BITS, 6), TinyBaskets(ITEMS, OTHER_BITS, 6)
    ),
    "products": Data(
        Workload(
            range_marginals(DOMAIN, [("b",), ("a", "b"), ("c", "a")], {"a": all_ranges(2), "b": prefix(3)}),
            np.array([4.0, 1.0, 0.5]),
        ),
        table(CODES),
        table(OTHER_CODES),
    ),
    "products of several rows a unit": Data(
        linear(range_marginals(DOMAIN, [("a", "b")], {"b": all_ranges(3, 2)})), table(CODES, 2), table(OTHER_CODES, 2)
    ),
    "marginals of bits": Data(all_k_way(BINARY, 2), bits(BITS), bits(OTHER_BITS)),
    "products of bits": Data(
        linear(range_marginals(BINARY, [("p", "r"), ("q",)], {"r": prefix(2)})), bits(BITS, 2), bits(OTHER_BITS, 2)
    ),
    "parities of a table": Data(conjunctive(all_parities(ONE_HOT, 3)), table(CODES), table(OTHER_CODES)),
}
MARGINALS = ("marginals", "weighted marginals", "marginals of several rows a unit")
POSITIVE = ("positive conjunctions of a table", "positive conjunctions of baskets")
CONJUNCTIONS = ("conjunctions of a table", "conjunctions of baskets", *POSITIVE)
PARITIES = ("parities of a table",)
PRODUCTS = ("products", "products of several rows a unit")
OF_BITS = ("marginals of bits", "products of bits")
EVERY = MARGINALS + PRODUCTS + CONJUNCTIONS + PARITIES
ONE_RECORD = ("marginals", "weighted marginals", *CONJUNCTIONS, *PARITIES)  # What the query release game is about.
EPSILON, DELTA = 2.5, 1e-6
PURE, ZCDP, GDP = BUDGETS = (
    budget_of(EPSILON, 0.0, Currency.PURE),
    budget_of(EPSILON, DELTA, Currency.ZCDP),
    budget_of(EPSILON, DELTA, Currency.GDP),
)


@dataclass(frozen=True)
class Row:
    """A mechanism with what it has a proof for.

    exact: Whether it uses its whole budget, up to the rounding of shares (2^-30).
    rounds_follow_units: Whether a number of units that is bought first decides how many calls follow.
    rounds_follow_draws: Whether draws do.
    scales_follow_answers: Whether earlier answers decide the noise scale of later ones.
    """

    mechanism: Mechanism
    data: tuple[str, ...]
    budgets: tuple[Budget, ...]
    exact: bool
    rounds_follow_units: bool = False
    rounds_follow_draws: bool = False
    scales_follow_answers: bool = False

    def is_asked(self, kind: str) -> bool:
        """What takes every marginal takes those of bits: a row names them that takes no others."""
        return kind in self.data or kind not in OF_BITS or "marginals" not in self.data

    def knows_its_calls(self, public: bool) -> bool:
        """Whether they are fixed in advance. public: The number of units is."""
        return not self.rounds_follow_draws and (public or not self.rounds_follow_units)


ROWS = [
    Row(Laplace(), EVERY, (PURE,), exact=True),
    Row(Gaussian(), EVERY, (ZCDP, GDP), exact=True),
    Row(Independent(), EVERY, BUDGETS, exact=True),
    Row(DualQuery(oracle="enumerate"), ONE_RECORD, BUDGETS, exact=False, rounds_follow_units=True),
    Row(DualQuery(eta=0.4, rounds=4), ONE_RECORD, BUDGETS, exact=False, rounds_follow_units=True),
    Row(Dqrs(oracle="enumerate", rounds=12), ONE_RECORD, BUDGETS, exact=False, rounds_follow_draws=True),
    Row(
        DualQuery(free="clipped", samples=6),
        ONE_RECORD,
        BUDGETS,
        exact=False,
        rounds_follow_units=True,
        scales_follow_answers=True,
    ),
    Row(Dqrs(eta=0.5, samples=6), ONE_RECORD, BUDGETS, exact=False, rounds_follow_draws=True),
    Row(Fem(records=9), ONE_RECORD, BUDGETS, exact=True, rounds_follow_units=True),
    Row(Fem(rounds=4, against="all", start="uniform"), ONE_RECORD, BUDGETS, exact=True, rounds_follow_units=True),
    Row(SepFem(rounds=5, records=6, burn_in=0.5), ONE_RECORD, BUDGETS, exact=True, rounds_follow_units=True),
    Row(Mwem(rounds=3), MARGINALS, BUDGETS, exact=True),
    Row(Mwem(rounds=2, distribution="average", start="cells"), MARGINALS, BUDGETS, exact=True),
    Row(Mwem(rounds=3, max_table_mb=6 / CELLS_IN_MB), MARGINALS, BUDGETS, exact=True),  # A pair in a table, no triple.
    Row(MwemQueries(rounds=3), (*PRODUCTS, "products of bits"), BUDGETS, exact=True),
    Row(
        MwemQueries(rounds=2, distribution="average", newest_only=True, within=0.0, step=0.5, start="cells"),
        (*PRODUCTS, "products of bits"),
        BUDGETS,
        exact=True,
    ),
    Row(MwemQueries("parities", rounds=4), OF_BITS, BUDGETS, exact=True),
    Row(Fourier(), OF_BITS, BUDGETS, exact=True),
    Row(Fourier(within=0.0, iterations=20), OF_BITS, BUDGETS, exact=True),
    Row(Hdmm(), MARGINALS + PRODUCTS, BUDGETS, exact=True),
    Row(Hdmm(reconstruction="graphical"), MARGINALS + PRODUCTS, BUDGETS, exact=True),
    Row(Mst(), MARGINALS + PRODUCTS, BUDGETS, exact=True),
    Row(Mst(max_model_mb=1e-4), MARGINALS + PRODUCTS, BUDGETS, exact=True),
    Row(PrivBayes(usefulness=0.5), MARGINALS + PRODUCTS, BUDGETS, exact=True, rounds_follow_draws=True),
    Row(PrivBayesPgm(), MARGINALS + PRODUCTS, BUDGETS, exact=True, rounds_follow_draws=True),
    Row(
        PrivBayesPgm(score="mutual_information"),
        MARGINALS + PRODUCTS,
        BUDGETS,
        exact=True,
        rounds_follow_draws=True,
    ),
    Row(GaussianPgm(), MARGINALS + PRODUCTS, BUDGETS, exact=True),
    Row(MwemPgm(rounds=3), MARGINALS + PRODUCTS, BUDGETS, exact=True),
    Row(MwemPgm(rounds=2, start="uniform", size_penalty="noise"), MARGINALS + PRODUCTS, BUDGETS, exact=True),
    Row(
        DualQueryPgm(oracle="enumerate", rounds=8),
        ("marginals", "weighted marginals"),
        BUDGETS,
        exact=False,
        rounds_follow_units=True,
    ),
    Row(
        DualQueryPgm(eta=0.4, rounds=4, free="uniform", strength=1e-3, iterations=20),
        ("marginals", "weighted marginals"),
        BUDGETS,
        exact=False,
        rounds_follow_units=True,
    ),
    Row(
        CliqueTree(),
        MARGINALS + PRODUCTS,
        BUDGETS,
        exact=True,
        rounds_follow_draws=True,
        scales_follow_answers=True,
    ),
    Row(
        CliqueTree(order=2, max_model_mb=1e-4, start_share=0.01, errors_share=0.5),
        MARGINALS + PRODUCTS,
        BUDGETS,
        exact=True,
        rounds_follow_draws=True,
        scales_follow_answers=True,
    ),
    Row(Aim(), MARGINALS + PRODUCTS, BUDGETS, exact=True, rounds_follow_draws=True, scales_follow_answers=True),
    Row(
        Aim(max_model_mb=1e-4, growth=4.0, patience=1.0, penalty="noise", workload_error=1e-9),
        MARGINALS + PRODUCTS,
        BUDGETS,
        exact=True,
        rounds_follow_draws=True,
        scales_follow_answers=True,
    ),
    Row(ClippedGaussian(), POSITIVE, BUDGETS, exact=True, scales_follow_answers=True),
    Row(ClippedGaussian(shrink_from=1), POSITIVE, BUDGETS, exact=True, scales_follow_answers=True),
]
