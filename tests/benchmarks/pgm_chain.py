"""A chain of 1,000 attributes of 10 values, with a clique on every three neighbours (thesis, Figure 4.2b).

The junction tree is built within a CPU second. Its marginals take less than 50 ms, with nothing to compile for the
structure. mbi builds its junction tree for comparison; `MARQUEE_PEER_ORACLE=1` adds its oracle, which compiles for most
of a minute.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.benchmarks.case import Case, Inputs, Judgement, Peer, Run, Target
from tests.benchmarks.graphical import peers

ATTRIBUTES, SIZE, ORDER = 1_000, 10, 3
CALLS = 5


@dataclass(frozen=True, eq=False)
class State:
    """theta: Log-potentials of all cliques, one after the other, in C order."""

    domain: Domain
    cliques: tuple[Clique, ...]
    theta: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Made:
    """CPU seconds of each step: the tree, the plan of the oracle, its first call, and the calls after it."""

    marginals: NDArray[np.float64]
    tree: JunctionTree
    tree_seconds: float
    plan_seconds: float
    first_seconds: float
    call_seconds: tuple[float, ...]


def inputs(data: Path) -> Inputs:
    return {}


def prepare(paths: Inputs, seed: int) -> State:
    names = tuple(f"x{place}" for place in range(ATTRIBUTES))
    cliques = tuple(names[start : start + ORDER] for start in range(ATTRIBUTES - ORDER + 1))
    theta = np.random.default_rng(seed).normal(size=len(cliques) * SIZE**ORDER)
    return State(Domain(names, (SIZE,) * ATTRIBUTES), cliques, theta)


def work(state: State) -> Made:
    start = time.process_time()
    tree = JunctionTree.of(state.domain, state.cliques)
    with_tree = time.process_time()
    inference = Inference(tree, state.cliques)
    calls = [time.process_time()]
    for _ in range(1 + CALLS):
        marginals = inference.marginals(state.theta)
        calls.append(time.process_time())
    planned, first, *rest = np.diff([with_tree, *calls]).tolist()
    return Made(marginals, tree, with_tree - start, planned, first, tuple(rest))


def judge(state: State, made: Made) -> Judgement:
    """Largest difference of a cell's probability to sums of products along the chain, and to uniform cells."""
    exact = along_the_chain(state)
    uniform = 1 / SIZE**ORDER
    return Judgement(
        error={"max": np.abs(made.marginals - exact).max()},
        baselines={"uniform": {"max": np.abs(uniform - exact).max()}},
        facts={
            "tree_cpu_seconds": made.tree_seconds,
            "plan_cpu_seconds": made.plan_seconds,
            "first_call_cpu_seconds": made.first_seconds,
            "call_cpu_seconds": statistics.median(made.call_seconds),
            "cells_of_the_tree": made.tree.cells,
        },
    )


def along_the_chain(state: State) -> NDArray[np.float64]:
    """The same marginals by the recursion for a chain alone, in logarithms, without a junction tree."""
    tables = state.theta.reshape(-1, SIZE, SIZE, SIZE)
    before, after = np.zeros((len(tables), SIZE, SIZE)), np.zeros((len(tables), SIZE, SIZE))
    for place in range(1, len(tables)):
        before[place] = _log_sum(before[place - 1][:, :, None] + tables[place - 1], 0)
        last = len(tables) - 1 - place
        after[last] = _log_sum(after[last + 1][None] + tables[last + 1], 2)
    joint = before[:, :, :, None] + tables + after[:, None]
    joint -= joint.max(axis=(1, 2, 3), keepdims=True)
    chances = np.exp(joint)
    return np.asarray(chances / chances.sum(axis=(1, 2, 3), keepdims=True)).ravel()


def _log_sum(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """logsumexp, less a constant: a message means the same without it."""
    sums = np.log(np.exp(values - values.max()).sum(axis=axis))
    return np.asarray(sums - sums.max())


def with_mbi(state: State) -> dict[str, float]:
    oracle = os.environ.get("MARQUEE_PEER_ORACLE") == "1"
    domain = dict(zip(state.domain.names, state.domain.sizes, strict=True))
    task = {"name": "tree", "domain": domain, "cliques": state.cliques, "oracle": oracle}
    return peers.run_mbi(task, {"theta": state.theta})


def slowest(fact: str) -> Callable[[Sequence[Run]], float]:
    return lambda runs: max(run.facts[fact] for run in runs)


CASE = Case(
    params={"attributes": ATTRIBUTES, "size": SIZE, "order": ORDER, "calls": CALLS, "fractions_of": "probability"},
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    peer=Peer(peers.MBI, with_mbi, figures=dict, seeds=(1,), missing=peers.missing),
    targets=(
        Target("CPU seconds of the junction tree, worst of 3", "<=", 1.0, slowest("tree_cpu_seconds")),
        Target("CPU seconds of one oracle call, worst of 3", "<=", 0.05, slowest("call_cpu_seconds")),
        Target(
            "largest difference to the chain's own recursion",
            "<=",
            1e-9,
            lambda runs: max(run.error["max"] for run in runs),
        ),
    ),
)
