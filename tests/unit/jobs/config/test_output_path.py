"""Placeholders of output.path: what they stand for, and values that would lead elsewhere."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import yaml

from dpcore.errors import ConfigError
from jobs.config import Config, parse_config
from jobs.config.output_path import PLACEHOLDERS, expanded_output
from jobs.config.release import Output
from jobs.planning.job import job_of
from tests.support.releases import SCHEMA, TABLE

ID = "0123456789abcdef" * 4


def with_output(path: str, **dataset: str) -> Config:
    document = copy.deepcopy(TABLE)
    document["dataset"] |= dataset
    document["output"]["path"] = path
    return parse_config(document)


@pytest.mark.parametrize(("path", "expanded"), [
    ("out/people", "out/people"),
    ("out/{dataset.name}/{dataset.snapshot}", "out/people/2026-11"),
    ("out/{mechanism.name}-{release_id}", "out/mwem-0123456789ab"),
    ("{dataset.snapshot}", "2026-11"),
    ("out/{{x}}/{{{dataset.name}}}", "out/{x}/{people}"),
    ("out/{dataset.name}{dataset.name}", "out/peoplepeople"),
])  # fmt: skip
def test_a_placeholder_stands_for_a_public_value(path: str, expanded: str) -> None:
    assert expanded_output(with_output(path), ID) == expanded


@pytest.mark.parametrize(("path", "says"), [
    ("out/{dataset.snapsht}", "output.path: unknown placeholder 'dataset.snapsht'; did you mean 'dataset.snapshot'?"),
    ("out/{}", "output.path: unknown placeholder ''; want ["),
    ("out/{dataset.path}", "output.path: unknown placeholder 'dataset.path'"),
    ("out/{dataset", "output.path is a path with a brace that has no partner"),
    ("out/x}", "output.path is a path with a brace that has no partner"),
])  # fmt: skip
def test_other_braces_are_refused(path: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        with_output(path)


@pytest.mark.parametrize("value", ["..", "../x", "a/b", "/etc", ".", ".marquee", "~", "~root", "a\\b", "a\0b", "a\nb"])
@pytest.mark.parametrize("name", ["dataset.name", "dataset.snapshot"])
def test_a_value_that_would_lead_elsewhere_is_refused(name: str, value: str) -> None:
    config = with_output(f"{{{name}}}", **{name.removeprefix("dataset."): value})
    with pytest.raises(ConfigError, match=re.escape(f"output.path contains {{{name}}}, but {name} is {value!r}")):
        expanded_output(config, ID)
    assert expanded_output(config.model_copy(update={"output": Output(path="out")}), ID) == "out"


def test_every_placeholder_is_described() -> None:
    described = Output.model_fields["path"].description or ""
    assert set(re.findall(r"\{([a-z_.]+)\}", described)) == set(PLACEHOLDERS)


def test_braces_of_the_config_s_own_folder_stay(tmp_path: Path) -> None:
    folder = tmp_path / "{x} {{y}}"
    folder.mkdir()
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    job = job_of(with_output("out/{dataset.snapshot}/{release_id}"), folder)
    assert job.output == folder / "out" / "2026-11" / job.release_id[:12]
