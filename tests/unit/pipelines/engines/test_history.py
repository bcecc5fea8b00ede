"""The steps so far: no later row is counted, and the counts of earlier steps are compared before any table returns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import ConfigError, IntegrityError
from dpcore.exact_statistics import Contribution, QueryAnswers, Shape
from dpcore.queries import Marginals, UnitCount
from dpcore.testing.tiny_statistics import TinyTable
from pipelines.engines.history import NoRows, StepsSoFar

DOMAIN = Domain.of({"cell": 2, "day": 3})
CODES = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [1, 1], [0, 2]])
REQUEST = QueryAnswers(Marginals(DOMAIN, (("cell", "day"),)))
KEY = bytes(16)


def read(codes: np.ndarray, step: int, key: bytes = KEY) -> tuple[np.ndarray, list[tuple[str, str]]]:
    seen: list[tuple[str, str]] = []
    steps = StepsSoFar(TinyTable(DOMAIN, codes), "day", step, key, lambda *digests: seen.append(digests))
    return steps.aggregate(REQUEST).reshape(2, 3), seen


def test_later_steps_are_not_counted() -> None:
    whole = TinyTable(DOMAIN, CODES).aggregate(REQUEST).reshape(2, 3)
    for step in range(3):
        table, _ = read(CODES, step)
        assert table[:, : step + 1].tolist() == whole[:, : step + 1].tolist()
        assert not table[:, step + 1 :].any()


def test_what_a_step_has_read_is_what_the_next_one_compares() -> None:
    digests = [read(CODES[CODES[:, 1] <= step], step)[1] for step in range(3)]
    assert all(len(seen) == 1 for seen in digests)
    for (before,), (after,) in pairwise(digests):
        assert after[0] == before[1]
    assert len({digest for (seen,) in digests for digest in seen}) == 4


@pytest.mark.parametrize("change", [[0, 0], [1, 1]])
def test_one_more_row_of_an_earlier_step_is_seen_and_one_of_a_later_step_is_not(change: list[int]) -> None:
    changed = np.concatenate([CODES, [change]])
    (before,) = read(CODES, 1)[1]
    (after,) = read(changed, 2)[1]
    assert after[0] != before[1]
    (later,) = read(np.concatenate([CODES, [[1, 2]]]), 1)[1]
    assert later == before


def test_the_key_is_part_of_the_digests() -> None:
    assert read(CODES, 1)[1] != read(CODES, 1, bytes([1] * 16))[1]


def test_nothing_returns_where_the_comparison_fails() -> None:
    def refuse(before: str, so_far: str) -> None:
        raise IntegrityError("other rows")

    with pytest.raises(IntegrityError, match="other rows"):
        StepsSoFar(TinyTable(DOMAIN, CODES), "day", 1, KEY, refuse).aggregate(REQUEST)


OTHER_MARGINALS = [Marginals(DOMAIN, (("cell",),)), Marginals(DOMAIN, (("day",), ("cell", "day")))]


@pytest.mark.parametrize("request_", [UnitCount(), *map(QueryAnswers, OTHER_MARGINALS)])
def test_anything_else_is_refused(request_: object) -> None:
    steps = StepsSoFar(TinyTable(DOMAIN, CODES), "day", 1, KEY, lambda *_: None)
    with pytest.raises(ConfigError, match="one table of its steps"):
        steps.aggregate(request_)  # type: ignore[arg-type]


def test_replayed_steps_have_no_rows() -> None:
    with pytest.raises(IntegrityError, match="restore"):
        NoRows(Contribution(Shape.TABLE, 1), "restore").aggregate(REQUEST)
