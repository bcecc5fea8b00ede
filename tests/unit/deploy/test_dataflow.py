"""The options for Dataflow: Beam and the script understand each of them, and none contradicts another."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from apache_beam.options.pipeline_options import PipelineOptions

from jobs import beam_release, exit_codes
from pipelines.engines.beam import BeamEngine
from tests.support.datasets import ROOT

pytestmark = pytest.mark.beam
FOLDER = ROOT / "deploy" / "dataflow"
OPTIONS = (FOLDER / "options.txt").read_text().split()
README = (FOLDER / "README.md").read_text()
# Workers would fetch these from outside.
INSTALLS = {"extra_packages", "requirements_file", "setup_file"}


def of_the_job() -> tuple[list[str], str]:
    """The arguments of the pod, and its image."""
    (container,) = yaml.safe_load((FOLDER / "job.yaml").read_text())["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "/opt/marquee/jobs/beam_release.py"]
    return container["args"], container["image"]


def of_the_readme() -> tuple[list[str], str]:
    """The arguments of the command in the README, and its image."""
    (image,) = re.findall(r"^\$ IMAGE=(\S+)$", README, re.MULTILINE)
    (command,) = re.findall(r"beam_release\.py (.*?)\n```", README, re.DOTALL)
    text = command.replace("\\\n", " ").replace("$(cat deploy/dataflow/options.txt)", " ".join(OPTIONS))
    return shlex.split(text.replace("$IMAGE", image)), image


def beams(arguments: list[str]) -> list[str]:
    """The arguments that are Beam's, because the script does not know them."""
    own = {"--config", "--log-format"}
    found, skip = [], False
    for word in arguments:
        if word in own:
            skip = True
        elif not skip and word.split("=")[0] not in own:
            found.append(word)
        else:
            skip = False
    return found


@pytest.mark.parametrize("source", [of_the_job, of_the_readme], ids=["job", "readme"])
def test_beam_understands_every_option_and_none_contradicts_another(
    source: type[object], caplog: pytest.LogCaptureFixture
) -> None:
    arguments, image = source()  # type: ignore[misc]
    options = beams(arguments)
    assert set(OPTIONS) <= set(options)
    parsed = PipelineOptions(options).get_all_options(drop_default=True)
    assert "unparseable" not in caplog.text
    assert len(parsed) == len(options)
    assert parsed["use_public_ips"] is False
    assert parsed["sdk_container_image"] == image
    assert parsed["temp_location"].startswith("gs://")
    assert INSTALLS & parsed.keys() == set()
    assert BeamEngine(options).name == "beam"


def test_an_option_that_beam_does_not_know_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    parsed = PipelineOptions(["--max_num_wrokers", "16"]).get_all_options(drop_default=True)
    assert "unparseable" in caplog.text or "max_num_workers" not in parsed


@pytest.mark.parametrize("source", [of_the_job, of_the_readme], ids=["job", "readme"])
def test_the_script_understands_its_own_options(
    source: type[object], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is parsed, and the config is the first thing that is missing."""
    monkeypatch.chdir(tmp_path)
    arguments, _ = source()  # type: ignore[misc]
    assert beam_release.main(arguments) == exit_codes.CONFIG
    assert "people.yaml does not exist" in capsys.readouterr().err


def test_the_image_has_the_locked_beam() -> None:
    (base,) = re.findall(r"^FROM apache/beam_python3\.11_sdk:(\S+)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    locks = ROOT / "deploy" / "requirements"
    for name in ("beam.txt", "test.txt"):
        assert re.findall(r"^apache-beam==(\S+)", (locks / name).read_text(), re.MULTILINE) == [base], name
