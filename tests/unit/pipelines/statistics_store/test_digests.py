"""What identifies requests, layouts and code: equal values have equal digests, others never."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

from dpcore.queries import Marginals, UnitCount
from pipelines.aggregators import aggregator_for
from pipelines.statistics_store.digests import code_digest, digest_of
from tests.support import engine_cases
from tests.support.checks import ROOT


class _Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class _Pair:
    first: object
    second: object


@dataclass(frozen=True)
class _OtherPair:
    first: object
    second: object


VALUES = [
    None, True, False, 0, 1, 1.0, -0.0, 0.0, float("inf"), "", "a", "1", b"", b"a", (), [], (1,), (1, 2), ((1,), 2),
    (1, (2,)), [1], ("a", "b"), ("ab",), _Colour.RED, _Colour.BLUE, _Pair(1, 2), _Pair(2, 1), _OtherPair(1, 2),
    np.array([1, 2]), np.array([1, 2], dtype=np.int32), np.array([[1, 2]]), np.array([1, 3]), np.array([1.0, 2.0]),
    np.int64(1), np.int32(1), np.array([True, False]), "\ud800",
]  # fmt: skip


def test_no_two_values_have_the_same_digest() -> None:
    assert len({digest_of(value) for value in VALUES}) == len(VALUES)
    assert [digest_of(value) for value in VALUES] == [digest_of(value) for value in VALUES]


@pytest.mark.parametrize("value", [object(), {1: 2}, {1}, len, np.array([object()])])
def test_what_nothing_is_known_about_has_no_digest(value: object) -> None:
    with pytest.raises(TypeError, match="has no digest"):
        digest_of(value)


def test_every_request_and_every_layout_has_a_digest_of_its_own() -> None:
    for case in engine_cases.cases():
        aggregators = [aggregator_for(request, case.layout) for request in case.requests]
        assert len({digest_of(aggregator) for aggregator in aggregators}) == len(aggregators)
    table, baskets = engine_cases.messy_table().layout, engine_cases.messy_baskets().layout
    layouts = [
        table, replace(table, clustered_by_unit=True), replace(table, max_rows_per_unit=3),
        replace(table, unit="colour"),
        replace(table, schema=replace(table.schema, attributes=table.schema.attributes[::-1])), baskets,
        replace(baskets, items=13), replace(baskets, max_items_per_unit=None),
    ]  # fmt: skip
    assert len({digest_of(layout) for layout in layouts}) == len(layouts)


def test_the_same_request_has_the_same_digest_in_another_process() -> None:
    layout = engine_cases.messy_table().layout
    names = layout.schema.domain.names
    marginals = Marginals(layout.schema.domain, (names[:2], names[1:3]))
    program = (
        "from dpcore.queries import Marginals, UnitCount; from pipelines.aggregators import aggregator_for\n"
        "from dpcore.exact_statistics import QueryAnswers\n"
        "from pipelines.statistics_store.digests import *; from tests.support import engine_cases\n"
        "layout = engine_cases.messy_table().layout; names = layout.schema.domain.names\n"
        "marginals = Marginals(layout.schema.domain, (names[:2], names[1:3]))\n"
        "requests = QueryAnswers(marginals), UnitCount()\n"
        "print(*(digest_of(aggregator_for(request, layout)).hex() for request in requests), code_digest().hex())"
    )
    printed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    from dpcore.exact_statistics import QueryAnswers

    own = [digest_of(aggregator_for(request, layout)).hex() for request in (QueryAnswers(marginals), UnitCount())]
    assert printed.stdout.split() == [*own, code_digest().hex()]


def test_code_in_an_archive_has_a_digest_that_follows_from_the_archive(tmp_path: Path) -> None:
    digests = []
    for comment in ("", "# changed\n"):
        archive = tmp_path / f"code{len(comment)}.zip"
        with zipfile.ZipFile(archive, "w") as content:
            for package in ("dpcore", "pipelines"):
                for path in (ROOT / package).rglob("*.py"):
                    text = path.read_text() + (comment if path.name == "encode.py" else "")
                    content.writestr(str(path.relative_to(ROOT)), text)
        program = (
            f"import sys; sys.path.insert(0, {str(archive)!r})\nimport pipelines\nassert '.zip' in pipelines.__file__\n"
        )
        program += "from pipelines.statistics_store.digests import code_digest; print(code_digest().hex())"
        command = [sys.executable, "-I", "-c", program]
        digests.append(subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout)
    assert len({*digests, code_digest().hex()}) == 3
