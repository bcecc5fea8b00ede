"""Train on synthetic rows, test on real ones: the accuracy of five classifiers."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_SEED: Final = 0
Codes = NDArray[np.int64]


def accuracies(learned: Codes, judged: Codes) -> dict[str, float]:
    """Fraction of the labels of ``judged`` that each of five classifiers predicts which has learned from ``learned``.

    learned, judged: Codes, [rows, attributes]; the last attribute is the label, the others are ordered values.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    if len(np.unique(learned[:, -1])) < 2:
        share = float((judged[:, -1] == learned[0, -1]).mean())
        return dict.fromkeys(("logistic", "tree", "forest", "boosting", "network"), share)
    classifiers = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)),
        "tree": DecisionTreeClassifier(min_samples_leaf=20, random_state=_SEED),
        "forest": RandomForestClassifier(60, min_samples_leaf=5, random_state=_SEED),
        "boosting": HistGradientBoostingClassifier(max_iter=60, early_stopping=False, random_state=_SEED),
        "network": make_pipeline(
            StandardScaler(), MLPClassifier((64,), max_iter=15, batch_size=256, random_state=_SEED)
        ),
    }
    return {
        name: float((model.fit(learned[:, :-1], learned[:, -1]).predict(judged[:, :-1]) == judged[:, -1]).mean())
        for name, model in classifiers.items()
    }
