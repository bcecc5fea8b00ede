"""What has no proof is refused by every command. ``test_bad_input_table`` holds all other wrong inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.releases import World, table_world


def without_a_proof(world: World) -> None:
    """No proof bounds the draws of DualQuery where a unit has several rows."""
    world.set("dataset.max_rows_per_unit", 2)
    world.config["workload"] = {"conjunctions": {"count": 5, "order": 2}}
    world.set("mechanism", {"name": "dual_query"})


def replaced_in_private(world: World) -> None:
    """Replacing a unit needs a public number of units; a private number is refused."""
    world.set("privacy.neighbours", "replace_one_unit")


@pytest.mark.parametrize(("spoil", "names"), [
    (without_a_proof, "has a proof for units of one row"), (replaced_in_private, "needs a public number"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_what_has_no_proof_is_refused_by_every_command(
    command: str,
    spoil: Callable[[World], None],
    names: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    spoil(world)
    code, out, err = world.marquee(command, "release.yaml")
    assert (code, out, names in err) == (2, "", True), err
    assert world.charges() == 0
