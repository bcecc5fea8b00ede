"""A small adaptive run by a fast rule: what a mechanism would record of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.selection_rounds import SelectionRound
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from tests.support.drawn_noise import measured, one_table

DOMAIN = Domain.of({"a": 4, "b": 3, "c": 3})
PAIRS = Marginals(DOMAIN, (("a", "b"), ("a", "c"), ("b", "c")))
ASKED: tuple[Clique, ...] = (("a", "b"), ("a", "c"), ("b", "c"), ("c",), (), ("a", "b", "c"))
JOINT = np.random.default_rng(1).integers(0, 200, DOMAIN.sizes).astype(np.float64) ** 2 // 400
WEIGHTS = np.array([2.0, 1.0, 3.0])


def table(joint: NDArray[np.float64], clique: Clique) -> NDArray[np.float64]:
    others = tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)
    return np.asarray(joint.sum(axis=others)).ravel()


def exact(queries: Marginals) -> NDArray[np.float64]:
    return np.concatenate([table(JOINT, clique) for clique in queries.cliques])


def adaptive_run(
    noise: Noise, scale: float, generator: np.random.Generator, length: int = 2
) -> tuple[GraphicalModel, list[Measurement], list[SelectionRound]]:
    """One-way marginals, then rounds; a model mixes what was measured last into the product of the one-way ones."""
    found = [
        measured(Marginals(DOMAIN, (("a",), ("b",))), exact(PAIRS.only([("a",), ("b",)])), noise, scale, generator)
    ]
    start = np.maximum(found[0].values, 1.0)
    joint = start[:4, None, None] * start[None, 4:, None] * np.ones(3) / start[4:].sum() / 3
    rounds = []
    for _ in range(length):
        model = one_table(DOMAIN, joint)
        distances = np.abs(exact(PAIRS) - model.answer(PAIRS))
        penalties = 0.8 * scale * np.array(PAIRS.sizes)
        scores = WEIGHTS * (np.add.reduceat(distances, [0, 12, 24]) - penalties)
        noisy = generator.exponential(size=3) if noise is Noise.LAPLACE else generator.gumbel(size=3)
        chosen = int(np.argmax(scores + 5.0 * noisy))
        only = PAIRS.only([PAIRS.cliques[chosen]])
        found.append(measured(only, exact(only), noise, scale, generator))
        rounds.append(SelectionRound(PAIRS, chosen, WEIGHTS, penalties, model, 5.0, found[-1]))
        along = [
            size if name in PAIRS.cliques[chosen] else 1 for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)
        ]
        wanted, now = np.maximum(found[-1].values, 0.5), table(joint, PAIRS.cliques[chosen])
        joint = joint * (wanted / now).reshape(along)
    return one_table(DOMAIN, joint), found, rounds
