"""SynthEval: utility beside distances and a membership classifier."""

from __future__ import annotations

import numpy as np
from question import Question, answer
from syntheval import SynthEval

ROWS = 3000
METRICS = {
    "h_dist": {}, "p_mse": {"k_folds": 5, "max_iter": 100, "solver": "liblinear"},
    "cls_acc": {"cls_models": ["logreg", "rf"], "F1_type": "micro", "k_folds": 5, "full_output": False},
    "nnaa": {"n_resample": 10}, "mia": {"num_eval_iter": 5},
}  # fmt: skip
asked = Question(ROWS)
np.random.seed(asked.seed)  # noqa: NPY002 - its metrics draw from it
evaluator = SynthEval(
    asked.released,
    holdout_dataframe=asked.held_out,
    cat_cols=asked.named,
    verbose=False,
    enable_plots=False,
    console="off",
)
evaluator.evaluate(asked.synthetic, analysis_target=asked.secret, **METRICS)
raw = evaluator._raw_results
answer({
    "hellinger distance": raw["h_dist"]["avg"],
    "propensity": raw["p_mse"]["avg pMSE"],
    "accuracy lost": -raw["cls_acc"]["avg diff hout"],
    "neighbour privacy loss": raw["nnaa"]["priv_loss"],
    "membership precision": raw["mia"]["MIA precision"],
    "membership precision, standard error": raw["mia"]["MIA precision se"],
    "membership recall": raw["mia"]["MIA recall"],
})  # fmt: skip
