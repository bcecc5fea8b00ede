"""Synthetic rows against real ones, by classifiers. SENSITIVE: each figure is computed from real rows without noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from pipelines.encode import encode_batch
from pipelines.layout import TableLayout
from pipelines.partition_rows import counted_rows
from pipelines.source import Source
from pipelines.source.batches import read_batches

MOST_ROWS: Final = 20_000
"""Largest number of real rows, and of synthetic rows, that classifiers see: the first ones."""

MOST_TARGETS: Final = 6
"""Largest number of attributes that are predicted: the first ones with more than one value."""

_FOLDS: Final = 3
_SEED: Final = 0


@dataclass(frozen=True)
class Learned:
    """How well an attribute of real rows that no classifier has seen is predicted from all others. SENSITIVE.

    attribute: Name of the attribute.
    from_real: Share that a classifier predicts that has learned from other real rows.
    from_synthetic: The same for one that has learned from synthetic rows.
    majority: The share of the most frequent value.
    """

    attribute: str
    from_real: float
    from_synthetic: float
    majority: float


@dataclass(frozen=True)
class RowScores:
    """Scores of synthetic rows. SENSITIVE.

    real: Number of real rows that were used.
    synthetic: Number of synthetic rows that were used.
    auc: Area under the curve of a classifier that tells synthetic rows from real ones, on rows it has not seen: 0.5 if
        it cannot, 1 if it always can.
    propensity: Mean squared distance of its probability from the share of synthetic rows, over the largest possible: 0
        if it cannot tell them apart, 1 if it always can.
    learned: One entry per predicted attribute.
    """

    real: int
    synthetic: int
    auc: float
    propensity: float
    learned: tuple[Learned, ...]


def codes_of(source: Source) -> NDArray[np.int64]:
    """The codes of the first rows of a table, int64 [rows, attributes]. SENSITIVE for real rows."""
    parts: list[NDArray[np.int64]] = []
    remaining = MOST_ROWS
    for batch in counted_rows(_batches(source), source.layout):
        rows = encode_batch(batch, source.layout).rows.T[:remaining].astype(np.int64)  # SENSITIVE
        parts.append(rows)
        remaining -= len(rows)
        if remaining <= 0:
            break
    assert isinstance(source.layout, TableLayout)
    return np.concatenate(parts) if parts else np.empty((0, len(source.layout.schema.attributes)), np.int64)


def _batches(source: Source) -> Iterator[Any]:
    for file in source.files:
        yield from read_batches(source, file)


def scores(real: NDArray[np.int64], synthetic: NDArray[np.int64], names: tuple[str, ...]) -> RowScores:
    """Trains and judges the classifiers. SENSITIVE.

    real: Codes of real rows, int64 [rows, attributes].
    synthetic: Codes of synthetic rows, of the same attributes.
    names: Names of the attributes.

    Raises: ConfigError when scikit-learn is not installed.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import cross_val_predict
    except ModuleNotFoundError as error:
        raise ConfigError("scores of synthetic rows need 'scikit-learn'; install marquee[report]") from error
    rows = np.concatenate([real, synthetic])
    labels = np.repeat([0, 1], [len(real), len(synthetic)])
    order = np.random.default_rng(_SEED).permutation(len(rows))
    model = HistGradientBoostingClassifier(max_iter=60, random_state=_SEED)
    guessed = cross_val_predict(model, rows[order], labels[order], cv=_FOLDS, method="predict_proba")[:, 1]
    share = labels.mean()
    propensity = float(np.mean((guessed - share) ** 2) / (share * (1 - share)))
    auc = float(roc_auc_score(labels[order], guessed))
    return RowScores(len(real), len(synthetic), auc, propensity, tuple(_learned(real, synthetic, names)))


def _learned(real: NDArray[np.int64], synthetic: NDArray[np.int64], names: tuple[str, ...]) -> Iterator[Learned]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    order = np.random.default_rng(_SEED).permutation(len(real))
    known, unseen = real[order[: len(real) // 2]], real[order[len(real) // 2 :]]
    several = [column for column in range(real.shape[1]) if all(len(np.unique(part[:, column])) > 1
               for part in (known, synthetic))]  # fmt: skip
    for column in several[:MOST_TARGETS]:
        others = [other for other in range(real.shape[1]) if other != column]
        shares = []
        for rows in (known, synthetic):
            model = HistGradientBoostingClassifier(max_iter=40, random_state=_SEED, early_stopping=False)
            model.fit(rows[:, others], rows[:, column])
            shares.append(float((model.predict(unseen[:, others]) == unseen[:, column]).mean()))
        majority = float(np.bincount(unseen[:, column]).max() / len(unseen))
        yield Learned(names[column], shares[0], shares[1], majority)
