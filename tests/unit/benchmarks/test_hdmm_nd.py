"""The tables over several attributes: workloads, baselines and our error against dense matrices and printed numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Marginals, Product, Products
from dpcore.queries.ranges import identity, prefix, range_marginals
from dpcore.workload import Workload, linear
from tests.benchmarks import hdmm_nd
from tests.benchmarks.hdmm_1d import scales
from tests.benchmarks.hdmm_nd import Ours
from tests.benchmarks.matrix import schemas, tables_nd
from tests.support.product_cases import dense

DOMAIN = Domain.of({"a": 4, "b": 3, "c": 2})
CLIQUES = (("a", "b"), ("b", "c"), ("a",), ())
RANGES = range_marginals(DOMAIN, CLIQUES, {"a": prefix(4)})
SIGMA = 4.2246788893268326


def matrix(queries: Products) -> NDArray[np.float64]:
    return dense(queries).astype(np.float64)


@pytest.mark.parametrize(
    ("name", "cells", "answers"),
    [
        (schemas.SF1, 29_440, 4_151),
        (schemas.SF1_PLUS, 1_501_440, 215_852),
        (schemas.CPS_MARGINALS, 280_000, 618_120),
        (schemas.CPS_PREFIXES, 280_000, 600_000),
        (schemas.ADULT_MARGINALS, 641_263_392_000_000_000, 21_043_262),
        (schemas.ADULT_PREFIXES, 641_263_392_000_000_000, 148_137),
        (schemas.LOANS_MARGINALS, 8_253_571_517_395_200, 279_751),
        (schemas.LOANS_PREFIXES, 8_253_571_517_395_200, 279_751),
    ],
)
def test_workloads_have_the_sizes_of_the_thesis(name: str, cells: int, answers: int) -> None:
    queries = schemas.WORKLOADS[name]().queries
    assert isinstance(queries, Marginals | Products)
    assert (math.prod(queries.domain.sizes), queries.size) == (cells, answers)


def test_identity_and_sensitivities_are_those_of_the_dense_matrix() -> None:
    rows = matrix(RANGES)
    assert schemas.identity_error(RANGES) == np.square(rows).sum()
    # The first cell is counted by every prefix, so that sums over terms are attained.
    assert schemas.term_sensitivities(RANGES) == (rows.sum(axis=0).max(), np.square(rows).sum(axis=0).max())


def test_marginals_are_products_of_identities() -> None:
    marginals, products = Marginals(DOMAIN, CLIQUES), range_marginals(DOMAIN, CLIQUES, {})
    assert schemas.identity_error(marginals) == schemas.identity_error(products)
    assert schemas.term_sensitivities(marginals) == schemas.term_sensitivities(products)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", schemas.WORKLOADS)
def test_baselines_are_the_printed_ones(noise: str, name: str) -> None:
    workload, printed = schemas.WORKLOADS[name](), hdmm_nd.PRINTED[noise][name]
    found = hdmm_nd.baselines(noise, workload)
    for column, figure in found.items():
        wanted = (noise, name, column) not in tables_nd.MISPRINTED
        assert tables_nd.agrees(figure, printed[column]) == wanted
    assert (tables_nd.SVDB in found) == (tables_nd.SVDB in printed)


def test_large_figures_agree_to_nine_digits() -> None:
    assert tables_nd.agrees(1420766965.50, 1420766966.19)
    assert not tables_nd.agrees(1420766961.0, 1420766966.19)
    assert not tables_nd.agrees(7.856, 7.85)


@pytest.mark.full
@pytest.mark.parametrize("name", [schemas.CPS_MARGINALS, schemas.CPS_PREFIXES, schemas.LOANS_PREFIXES])
def test_ours_is_between_its_bound_and_what_is_known(name: str) -> None:
    found = hdmm_nd.ours("gaussian", schemas.WORKLOADS[name]())
    assert found.bound <= found.rmse * (1 + 1e-9)
    assert found.rmse == found.released <= hdmm_nd.LIMITS["gaussian"][name]


def test_marginals_meet_the_svd_bound() -> None:
    found = hdmm_nd.ours("gaussian", Workload(Marginals(DOMAIN, CLIQUES), np.ones(len(CLIQUES))))
    rows = matrix(range_marginals(DOMAIN, CLIQUES, {}))
    svd = np.linalg.svd(rows, compute_uv=False).sum() ** 2 / rows.shape[1]
    assert found.bound == pytest.approx(SIGMA * math.sqrt(svd / len(rows)), rel=1e-9)
    assert found.rmse == pytest.approx(found.bound, rel=1e-4)


# One attribute asked in two ways: what ``hdmm_together`` has no strategy for is taken from symmetry and one product.
TWO_WAYS = linear(
    Products(
        DOMAIN,
        (Product(("a", "b"), (prefix(4), identity(3))), Product(("a", "c"), (np.array([[1, 1, 0, 0]]), identity(2)))),
    )
)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_terms_that_ask_an_attribute_in_two_ways_have_a_strategy_and_a_bound(noise: str) -> None:
    found = hdmm_nd.ours(noise, TWO_WAYS)
    assert isinstance(TWO_WAYS.queries, Products)
    rows = matrix(TWO_WAYS.queries)
    svd = np.linalg.svd(rows, compute_uv=False).sum() ** 2 / rows.shape[1]
    scale = scales()[noise]
    assert scale * math.sqrt(svd / len(rows)) <= found.bound * (1 + 1e-9)
    assert found.bound <= found.rmse * (1 + 1e-9)
    norm = np.abs(rows).sum(axis=0).max() if noise == "laplace" else math.sqrt(np.square(rows).sum(axis=0).max())
    assert found.rmse < scale * norm  # Of the workload itself.


def test_exact_noise_on_counts_has_less_variance_than_continuous_noise() -> None:
    found = hdmm_nd.ours("laplace", Workload(Marginals(DOMAIN, (("a",),)), np.ones(1)))
    assert found.rmse == pytest.approx(math.sqrt(2), rel=1e-6)
    ratio = math.exp(-1)
    assert found.released == pytest.approx(math.sqrt(2 * ratio) / (1 - ratio), rel=1e-9)


def test_the_case_counts_figures_and_rows_above_the_print() -> None:
    name = schemas.CPS_PREFIXES
    asked = {name: schemas.WORKLOADS[name]()}
    good = Ours(rmse=29.47, released=29.47, cpu_seconds=1.0, bound=29.46)
    judged = hdmm_nd.judge(asked, {("gaussian", name): good})
    assert judged.facts["baseline_figures"] == 3
    assert judged.facts["baselines_not_as_printed"] == judged.facts["ours_above_print"] == 0
    assert judged.facts[f"gaussian, {name}: ours"] == 29.47
    worse = hdmm_nd.judge(asked, {("gaussian", name): replace(good, rmse=29.5)})
    assert worse.facts["ours_above_print"] == 1
    assert worse.error["ours_over_hdmm_max"] == pytest.approx(29.5 / 29.48)
