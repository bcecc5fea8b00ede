"""The columns of two estimates of conjunctions of baskets, as answers.parquet has them."""

from __future__ import annotations

from typing import Any, Final

ESTIMATE_COLUMNS: Final[dict[str, list[Any]]] = {
    "query": ["3 & 7", "4 & 9"],
    "kind": ["conjunction", "conjunction"],
    "answer": [0.0, 12.0],
    "measured": [-3.5, None],
    "stddev": [4.0, None],
    "lower": [0.0, 12.0],
    "upper": [5.0, 17.0],
    "q_value": [0.75, None],
    "guaranteed_lower": [0.0, 0.0],
    "guaranteed_upper": [30.0, 40.0],
}
