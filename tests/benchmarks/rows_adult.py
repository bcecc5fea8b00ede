"""10 million rows of a model of Adult: rounding keeps every marginal of its 40 cliques within half a row per cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.fit import fit_model
from dpcore.estimation.model import TableRows
from dpcore.queries import Marginals
from tests.benchmarks.case import Case, Inputs, Judgement, Peer, Run, Target
from tests.benchmarks.graphical import peers
from tests.benchmarks.graphical.definition26 import counted
from tests.benchmarks.graphical.noisy_marginals import PARAMS, STDDEV, inputs, noisy_marginals
from tests.benchmarks.graphical.release_case import cpu_at_most

ROWS: Final = 10_000_000
FLOOR: Final = 1e-4
PEER_ROWS, PEER_ITERATIONS = 48_842, 50


@dataclass(frozen=True, eq=False)
class State:
    """A model fitted to the cliques, not measured, and the seed of its rows."""

    model: GraphicalModel
    queries: Marginals
    values: NDArray[np.float64]
    seed: int


def prepare(paths: Inputs, seed: int) -> State:
    noisy = noisy_marginals(paths)
    fit = fit_model(noisy.queries.domain, noisy.measurements, noisy.total)
    return State(fit.model, noisy.queries, noisy.values, seed)


def work(state: State) -> TableRows:
    return state.model.rows(ROWS, np.random.default_rng(state.seed))


def judge(state: State, rows: TableRows) -> Judgement:
    """Total variation of each clique between rows and model: the largest, the mean, and the largest over its limit.

    Beside it as many independent rows would give, in expectation: sum over cells of sqrt(p (1 - p) / (2 pi rows)).
    """
    chances = state.model.answer(state.queries) / state.model.total
    found = counted(rows, state.queries) / ROWS
    starts = np.cumsum([0, *state.queries.sizes[:-1]])
    variations = np.add.reduceat(np.abs(found - chances), starts) / 2
    sampled = np.add.reduceat(np.sqrt(chances * (1 - chances) / (2 * np.pi * ROWS)), starts)
    return Judgement(
        error=_figures(variations, state.queries),
        baselines={"independent rows, expected": _figures(sampled, state.queries)},
        facts={"rows": float(rows.codes.shape[0]), "tree_mb": state.model.tree.cells * 8 / 2**20},
    )


def _figures(variations: NDArray[np.float64], queries: Marginals) -> dict[str, float]:
    limits = np.maximum(FLOOR, np.array(queries.sizes) / (2 * ROWS))
    over = (variations / limits).max()
    return {"max": variations.max(), "mean": variations.mean(), "over_limit": over}


def with_mbi(state: State) -> dict[str, float]:
    """mbi's rounding of its own fit, to fewer rows."""
    domain = state.queries.domain
    task = {
        "name": "fit", "domain": dict(zip(domain.names, domain.sizes, strict=True)), "cliques": state.queries.cliques,
        "stddev": STDDEV, "total": state.model.total, "iterations": PEER_ITERATIONS, "rows": PEER_ROWS,
    }  # fmt: skip
    return {**peers.run_mbi(task, {"values": state.values}), "rows": PEER_ROWS}


def worst_over_limit(runs: Sequence[Run]) -> float:
    return max(run.error["over_limit"] for run in runs)


CASE = Case(
    params={**PARAMS, "rows": ROWS, "limit": "max(1e-4, cells / (2 rows)) total variation, a clique"},
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    peer=Peer(f"{peers.MBI}, {PEER_ROWS:,} rows", with_mbi, figures=dict, seeds=(1,), missing=peers.missing),
    targets=(
        cpu_at_most(60),
        Target("largest total variation over its limit", "<=", 1.0, worst_over_limit),
        Target("rows", "==", ROWS, lambda runs: min(run.facts["rows"] for run in runs)),
    ),
)
