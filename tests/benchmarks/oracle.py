"""Best-response oracles compared with enumeration: 1,000 random instances of each class, of at most 18 columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView, Domain
from dpcore.oracles.annealing.anneal import Annealing
from dpcore.oracles.best_response import BestResponseOracle
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.exact.mip import Highs
from dpcore.oracles.objective import game_of
from dpcore.oracles.protocol import Oracle
from dpcore.queries import CountingQueries, Marginals
from dpcore.queries.generation import random_conjunctions, random_parities
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.support.oracle_cases import with_gains

COLUMNS, INSTANCES = (6, 18), 1_000
ORACLES: dict[str, Oracle] = {
    "mip": Highs(),
    "annealing": Annealing(sweeps=16, restarts=100),  # Parities are golf courses: short runs from many places.
    "best_response": BestResponseOracle(),
    "best_response_loose": BestResponseOracle(tolerance=0.01, node_limit=0, sweeps=20),
}
CLASSES: dict[str, Callable[[np.random.Generator], CountingQueries]] = {
    "conjunctions": lambda generator: conjunctions(baskets(generator), generator, negate=False),
    "conjunctions_negated": lambda generator: conjunctions(baskets(generator), generator, negate=True),
    "table": lambda generator: conjunctions(table(generator), generator, negate=False),
    "table_negated": lambda generator: conjunctions(table(generator), generator, negate=True),
    "marginals": lambda generator: marginals(table(generator)),
    "parities": lambda generator: random_parities(baskets(generator), 40, 3, generator),
}
GAINED = {f"{name}_gains": name for name in CLASSES}


@dataclass(frozen=True, eq=False)
class Instance:
    clauses: SignedClauses
    preferences: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Found:
    """values, bounds: int64 [instances]. cpu_seconds: Of all instances."""

    values: NDArray[np.int64]
    bounds: NDArray[np.int64]
    cpu_seconds: float


Instances = dict[str, list[Instance]]
Responses = dict[str, dict[str, Found]]


def baskets(generator: np.random.Generator) -> BinaryView:
    return BinaryView(int(generator.integers(COLUMNS[0], COLUMNS[1] + 1)))


def table(generator: np.random.Generator) -> BinaryView:
    """4 to 6 attributes of 2 to 5 values, 18 columns at most."""
    while True:
        sizes = generator.integers(2, 6, size=generator.integers(4, 7))
        if sizes.sum() <= COLUMNS[1]:
            return BinaryView.one_hot(Domain.of({f"a{axis}": int(size) for axis, size in enumerate(sizes)}))


def conjunctions(view: BinaryView, generator: np.random.Generator, *, negate: bool) -> CountingQueries:
    return random_conjunctions(view, 2 * view.columns, int(generator.integers(2, 4)), generator, negate=negate)


def marginals(view: BinaryView) -> Marginals:
    """All cells of all pairs and triples of attributes."""
    assert view.domain is not None
    names = view.domain.names
    return Marginals(view.domain, (*combinations(names, 2), *combinations(names, 3)))


def instance(name: str, seed: int) -> Instance:
    """Half a sample to 8 samples a column; gains of every column, of the size of some samples."""
    generator = np.random.default_rng([seed, list(CLASSES).index(GAINED.get(name, name)), name in GAINED])
    game = game_of(CLASSES[GAINED.get(name, name)](generator))
    columns = game.view.columns
    samples = int(columns * generator.choice([0.5, 1, 2, 4, 8]))
    clauses = game.objective(generator.integers(0, 2 * game.size, size=samples))
    if name in GAINED:
        clauses = with_gains(clauses, np.rint(generator.laplace(scale=2.0, size=columns)).astype(np.int64))
    return Instance(clauses, generator.standard_normal(game.view.columns))


def inputs(data: Path) -> Inputs:
    return {}


def prepare(paths: Inputs, seed: int) -> Instances:
    return {
        name: [instance(name, seed * INSTANCES + number) for number in range(INSTANCES)] for name in (*CLASSES, *GAINED)
    }


def work(instances: Instances) -> Responses:
    return {
        name: {kind: responses(oracle, listed) for kind, listed in instances.items()}
        for name, oracle in ORACLES.items()
    }


def responses(oracle: Oracle, instances: Sequence[Instance]) -> Found:
    start = time.process_time()
    found = [oracle.respond(each.clauses, each.preferences) for each in instances]
    seconds = time.process_time() - start
    return Found(np.array([best.value for best in found]), np.array([best.bound for best in found]), seconds)


def judge(instances: Instances, found: Responses) -> Judgement:
    """error: share of the instances on which an oracle is not optimal, in its worst class."""
    facts: dict[str, float] = {}
    wrong: dict[str, float] = dict.fromkeys(found, 0.0)
    for kind, listed in instances.items():
        optima = np.array([optimum(each.clauses) for each in listed])
        for name, of_kind in found.items():
            best = of_kind[kind]
            if (best.values > optima).any() or (best.bounds < optima).any():
                raise AssertionError(f"{name} on {kind}: a value above or a bound below the optimum")
            missed = float((best.values < optima).mean())
            facts[f"{name}.{kind}.optimal"] = 1.0 - missed
            facts[f"{name}.{kind}.proved"] = float((best.bounds == optima).mean())
            facts[f"{name}.{kind}.cpu_ms"] = 1e3 * best.cpu_seconds / len(listed)
            wrong[name] = max(wrong[name], missed)
    return Judgement({f"missed.{name}": share for name, share in wrong.items()}, {}, facts)


def optimum(clauses: SignedClauses) -> int:
    """The largest objective of any record, one by one: a clause is a mask of columns and the bits it wants there."""
    view, bits = clauses.view, np.int64(1) << clauses.columns.astype(np.int64)
    masks = bits[clauses.literals].sum(axis=1, dtype=np.int64)
    wanted = (bits[clauses.literals] * ~clauses.negated).sum(axis=1, dtype=np.int64)
    gains = np.zeros(view.columns, dtype=np.int64)
    gains[clauses.columns] = clauses.gains
    groups = view.groups or tuple((column, column + 2) for column in range(view.columns))
    choices = [1 << np.arange(start, stop) for start, stop in groups]
    if not view.groups:
        choices = [np.array([0, 1 << column]) for column in range(view.columns)]
    records = np.zeros(1, dtype=np.int64)
    for choice in choices:
        records = (records[:, None] | choice).ravel()
    return clauses.constant + int(_best(records, masks, wanted, clauses.weights, gains))


@compiled
def _best(
    records: NDArray[np.int64],
    masks: NDArray[np.int64],
    wanted: NDArray[np.int64],
    weights: NDArray[np.int64],
    gains: NDArray[np.int64],
) -> int:
    best = -(2**62)
    for record in records:
        value = 0
        for clause in range(masks.size):
            if record & masks[clause] == wanted[clause]:
                value += weights[clause]
        for column in range(gains.size):
            if (record >> column) & 1:
                value += gains[column]
        best = max(best, value)
    return best


def least(name: str, figure: str) -> Callable[[Sequence[Run]], float]:
    return lambda runs: min(run.facts[f"{name}.{kind}.{figure}"] for run in runs for kind in (*CLASSES, *GAINED))


CASE = Case(
    params={"instances_a_class": INSTANCES, "classes": [*CLASSES, *GAINED], "columns": COLUMNS},
    seeds=(1,),
    cold=False,
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("mip: optimal, least share of a class", ">=", 1.0, least("mip", "optimal")),
        Target("mip: proved, least share of a class", ">=", 1.0, least("mip", "proved")),
        Target("annealing: optimal, least share of a class", ">=", 0.99, least("annealing", "optimal")),
        Target("best_response: optimal, least share of a class", ">=", 1.0, least("best_response", "optimal")),
        Target("best_response: proved, least share of a class", ">=", 1.0, least("best_response", "proved")),
    ),
)
