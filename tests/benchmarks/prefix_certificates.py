"""How far strategies for prefix marginals are from the optimum: certified on large schemas, computed on small ones.

Prefixes of the numeric attributes of CPS, Loans and Adult, single values of the others, at unit noise and sensitivity.
Optima of small cases are those of the matrix over all cells. No data is read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Final

import numpy as np

from dpcore.domain import Clique, Domain
from dpcore.queries import Products
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum
from dpcore.strategies.residual_planning.product_residuals import product_residuals
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.matrix.schemas import ADULT, CPS, LOANS

SCHEMAS: Final[Mapping[str, tuple[Domain, int]]] = {"CPS": (CPS, 2), "Loans": (LOANS, 4), "Adult": (ADULT, 5)}
ORDERS: Final[Mapping[str, tuple[int, ...]]] = {
    "1-way": (1,),
    "2-way": (2,),
    "3-way": (3,),
    "at most 3-way": (0, 1, 2, 3),
}
# RMSE of ResidualPlanner+ as printed, where it is known.
PUBLISHED: Final = {
    "CPS 2-way": 5.823, "CPS at most 3-way": 7.570, "Loans 2-way": 14.502, "Loans at most 3-way": 34.144,
    "Adult 2-way": 17.274, "Adult 3-way": 45.223,
}  # fmt: skip
# All prefixes of some of several attributes: values of each, attributes, attributes of a marginal.
SMALL: Final = ((8, 2, 1), (8, 3, 2), (3, 6, 2), (2, 9, 2), (5, 4, 3), (3, 6, 3))
CERTIFIED, FROM_OPTIMUM, SECONDS = 0.0125, 0.005, 10.0


@dataclass(frozen=True)
class Figure:
    """RMSE of the strategy as it is measured, the certified bound and, where it can be computed, the optimum."""

    rmse: float
    bound: float
    cpu_seconds: float
    optimum: float | None = None


def inputs(data: Path) -> Inputs:
    return {}


def prepare(paths: Inputs, seed: int) -> dict[str, Products]:
    asked = {}
    for name, (domain, numeric) in SCHEMAS.items():
        for order, sizes in ORDERS.items():
            cliques = list(chain.from_iterable(combinations(domain.names, size) for size in sizes))
            asked[f"{name} {order}"] = _prefixes(domain, cliques, numeric)
    for values, attributes, size in SMALL:
        domain = Domain(tuple(f"x{axis}" for axis in range(attributes)), (values,) * attributes)
        cliques = list(combinations(domain.names, size))
        asked[f"{size} of {attributes} attributes of {values}"] = _prefixes(domain, cliques, attributes)
    return asked


def _prefixes(domain: Domain, cliques: list[Clique], numeric: int) -> Products:
    return range_marginals(domain, cliques, {name: prefix(domain.size((name,))) for name in domain.names[:numeric]})


def work(asked: dict[str, Products]) -> dict[str, Figure]:
    return {name: figure(queries) for name, queries in asked.items()}


def figure(queries: Products) -> Figure:
    began = time.process_time()
    plan = product_residuals(queries, np.ones(len(queries.terms)))
    took = time.process_time() - began
    rmse, bound = (math.sqrt(error / queries.size) for error in (plan.error, plan.bound))
    is_small = math.prod(queries.domain.sizes) <= max(values**attributes for values, attributes, _ in SMALL)
    return Figure(rmse, bound, took, optimum(queries) if is_small else None)


def optimum(queries: Products) -> float:
    """RMSE of the best strategy, over all cells."""
    domain = queries.domain
    gram = np.zeros((math.prod(domain.sizes),) * 2)
    for term in queries.terms:
        named = dict(zip(term.clique, term.matrices, strict=True))
        pairs = zip(domain.names, domain.sizes, strict=True)
        factors = [named.get(name, np.ones((1, size))).astype(np.float64) for name, size in pairs]
        product = np.ones((1, 1))
        for factor in factors:
            product = np.kron(product, factor.T @ factor)
        gram += product
    return math.sqrt(gaussian_optimum(gram, 1e-4).error / queries.size)


def judge(asked: dict[str, Products], found: dict[str, Figure]) -> Judgement:
    """error: Relative excess of each strategy over its bound."""
    facts: dict[str, float] = {"cells within 1 %": 0.0}
    for name, each in found.items():
        facts |= {f"{name}: RMSE": each.rmse, f"{name}: bound": each.bound, f"{name}: CPU s": each.cpu_seconds}
        if each.optimum is not None:
            facts[f"{name}: optimum"] = each.optimum
            facts[f"{name}: strategy over optimum"] = each.rmse / each.optimum - 1
            facts[f"{name}: optimum over bound"] = each.optimum / each.bound - 1
        else:
            facts["cells within 1 %"] += each.rmse <= 1.01 * each.bound
    return Judgement({name: each.rmse / each.bound - 1 for name, each in found.items()}, {}, facts)


def _largest(suffix: str) -> Callable[[Sequence[Run]], float]:
    return lambda runs: max(value for run in runs for name, value in run.facts.items() if name.endswith(suffix))


def over_published(runs: Sequence[Run]) -> float:
    return max(run.facts[f"{name}: RMSE"] / rmse for run in runs for name, rmse in PUBLISHED.items())


CASE = Case(
    params={
        "schemas": list(SCHEMAS),
        "orders": list(ORDERS),
        "small": SMALL,
        "error": "RMSE over certified bound, less 1",
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=[
        Target(
            "strategy over certified bound, less 1, worst", "<=", CERTIFIED, lambda runs: max(runs[0].error.values())
        ),
        Target(
            "strategy over optimum, less 1, worst small case", "<=", FROM_OPTIMUM, _largest(": strategy over optimum")
        ),
        Target("RMSE over the published one of ResidualPlanner+, worst", "<", 1.0, over_published),
        Target("CPU seconds of a plan with its bound, worst", "<=", SECONDS, _largest(": CPU s")),
    ],
    cold=False,
)
