"""What the roles did is what the pages say now, and none of their steps failed."""

from __future__ import annotations

import json

import pytest

from tests.roles.__main__ import RESULTS, ROLES, steps_for
from tests.roles.steps import Step, steps_of

PLAYED = json.loads(RESULTS.read_text())["roles"]


def test_a_page_is_taken_apart_in_order() -> None:
    console = "```console\n$ marquee plan a.yaml  # says\n$ make demo\n$ cat q.csv\nquery\n```\n"
    assert steps_of(f"{console}```yaml\n# a.yaml\nx: 1\n```\n") == [
        Step("command", "marquee plan a.yaml"),
        Step("file", "q.csv", "query\n"),
        Step("file", "a.yaml", "# a.yaml\nx: 1\n"),
    ]
    both = steps_of("```python\na = 1\n```\n```python\nprint(a)\n```\n")
    assert [step.text for step in both] == ["a = 1\n", "a = 1\nprint(a)\n"]


@pytest.mark.parametrize("role", ROLES)
def test_every_step_was_played_without_a_failure(role: str) -> None:
    assert PLAYED[role]["failed"] == []
    shown = [step.name for step in steps_for(ROLES[role]) if step.kind == "command"]
    assert [step["runs"] for step in PLAYED[role]["steps"] if step.get("runs", "").startswith("marquee ")] == shown
