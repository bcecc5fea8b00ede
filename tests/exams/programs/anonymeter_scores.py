"""Anonymeter: three attacks, each on the released people and on as many others."""

from __future__ import annotations

import random

import numpy as np
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
from question import Question, answer

ATTACKS = 100
ATTEMPTS = 50_000  # Among few attributes, hardly any predicate may be true of one row alone.
asked = Question()
np.random.seed(asked.seed)  # noqa: NPY002 - the attacks draw from it
random.seed(asked.seed)
known = [name for name in asked.names if name != asked.secret]
half = len(known) // 2
data = {"ori": asked.released, "syn": asked.synthetic, "control": asked.held_out}
attacks = {
    "singling out": SinglingOutEvaluator(**data, n_attacks=50, n_cols=4, max_attempts=ATTEMPTS),
    "linkability": LinkabilityEvaluator(
        **data, n_attacks=ATTACKS, aux_cols=(known[:half], known[half:]), n_neighbors=1
    ),
    "inference": InferenceEvaluator(**data, aux_cols=known, secret=asked.secret, n_attacks=ATTACKS),
}
scores = {}
for name, attack in attacks.items():
    attack.evaluate(**({"mode": "multivariate"} if name == "singling out" else {"n_jobs": 1}))
    results = attack.results()
    risk = results.risk()
    scores[f"{name}: risk"] = risk.value
    scores[f"{name}: risk, lower"], scores[f"{name}: risk, upper"] = risk.ci
    scores[f"{name}: success on released"] = results.attack_rate.value
    scores[f"{name}: success on others"] = results.control_rate.value
answer(scores)
