"""Engines by name: their options are checked without starting anything."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from dpcore.errors import ConfigError
from jobs.config import EngineChoice
from jobs.planning.engines import check_engine, open_engine
from pipelines.engines.local import LocalEngine

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("local", {"thread": 1}, "did you mean 'threads'?"),
    ("local", {"partitions": 1}, "unknown option of engine local 'partitions'"),
    ("local", {"threads": 0}, "engine.options.threads is 0; want an integer >= 1"),
    ("local", {"threads": True}, "want an integer >= 1"),
    ("spark", {"partitions": "4"}, "engine.options.partitions is '4'; want an integer >= 1"),
    ("spark", {"settings": {"spark.executor.cores": 1}}, "want Spark settings"),
    ("beam", {"arguments": "--runner=x"}, "want Beam's command-line options"),
]


@pytest.mark.parametrize(("name", "options", "says"), BAD)
def test_a_bad_option_is_named(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_engine(EngineChoice.model_validate({"name": name, "options": options}))
    assert says in str(refused.value)


def test_the_local_engine_gets_its_options() -> None:
    choice = EngineChoice(options={"threads": 3, "rows_in_memory": 10})
    assert open_engine(choice) == LocalEngine(threads=3, rows_in_memory=10)


@pytest.mark.parametrize("name", ["spark", "beam"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, f"pipelines.engines.{name}", None)
    with pytest.raises(ConfigError, match=rf"install marquee\[{name}\]"):
        open_engine(EngineChoice.model_validate({"name": name}))
