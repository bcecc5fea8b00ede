"""The deployment files fit the project: versions, paths, exit codes, and the container's entry point."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from jobs import exit_codes
from jobs.version import VERSION
from tests.support.datasets import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text()
BEAM_DOCKERFILE = (DEPLOY / "dataflow" / "Dockerfile").read_text()
EXECUTOR = {
    "SPARK_HOME": "/opt/spark",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_APPLICATION_ID": "spark-17",
    "SPARK_EXECUTOR_POD_IP": "192.0.2.7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "pod-3",
    "SPARK_JAVA_OPT_0": "-Dspark.a=with space",
    "SPARK_JAVA_OPT_1": "-Dspark.b=2",
}


def manifest(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes" / name).read_text())
    return document


def entry(*arguments: str, folder: Path, **environment: str) -> list[str]:
    """The command that the entry point executes: a program that prints its own name and arguments replaces it."""
    for name in ("java", "marquee", "spark-submit"):
        program = folder / name
        program.write_text('#!/bin/sh\nprintf \'%s\\n\' "$(basename "$0")" "$@"\n')
        program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    command = [str(DEPLOY / "docker" / "entrypoint.sh"), *arguments]
    finished = subprocess.run(command, env={**environment, "PATH": path}, capture_output=True, text=True, check=True)
    return finished.stdout.splitlines()


def test_the_container_runs_marquee(tmp_path: Path) -> None:
    assert entry("run", "a b.yaml", folder=tmp_path) == ["marquee", "run", "a b.yaml"]


def test_the_container_is_a_driver(tmp_path: Path) -> None:
    said = entry("driver", "--class", "X", "local:///x.py", folder=tmp_path, SPARK_DRIVER_BIND_ADDRESS="192.0.2.1")
    bind = ["--conf", "spark.driver.bindAddress=192.0.2.1"]
    assert said == ["spark-submit", "--deploy-mode", "client", *bind, "--class", "X", "local:///x.py"]


def test_the_container_is_an_executor(tmp_path: Path) -> None:
    program, *said = entry("executor", folder=tmp_path, **EXECUTOR)
    assert program == "java"
    assert said[:4] == ["-Dspark.a=with space", "-Dspark.b=2", "-Xms2g", "-Xmx2g"]
    assert said[said.index("-cp") + 1] == "/opt/spark/conf:/opt/spark/jars/*"
    start = said.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend") + 1
    wanted = {
        "--driver-url": EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-17",
        "--hostname": "192.0.2.7",
        "--resourceProfileId": "0",
        "--podName": "pod-3",
    }
    assert dict(zip(said[start::2], said[start + 1 :: 2], strict=True)) == wanted


def test_the_image_copies_what_exists_and_manifests_name_this_version() -> None:
    for dockerfile in (DOCKERFILE, BEAM_DOCKERFILE):
        copied = [line.split()[1:-1] for line in dockerfile.splitlines() if line.startswith("COPY")]
        assert copied
        for source in (name for names in copied for name in names):
            assert (ROOT / source).exists(), source
    images = {manifest("spark-application.yaml")["spec"]["image"], _container()["image"]}
    assert images == {f"marquee:{VERSION}"}
    assert f"-t marquee:{VERSION} " in DOCKERFILE
    for place in ("Dockerfile", "README.md", "job.yaml"):
        assert f"/marquee/marquee-beam:{VERSION}" in (DEPLOY / "dataflow" / place).read_text(), place


def test_the_spark_application_runs_the_script_of_the_image_on_its_spark() -> None:
    spec = manifest("spark-application.yaml")["spec"]
    script = spec["mainApplicationFile"].removeprefix("local:///opt/marquee/")
    assert (ROOT / script).is_file()
    pinned = re.search(r"^pyspark==(\S+)", (DEPLOY / "requirements" / "spark.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert spec["sparkVersion"] == pinned[1]


def test_the_job_gives_up_on_what_cannot_pass() -> None:
    for place in ("kubernetes", "dataflow"):
        job = yaml.safe_load((DEPLOY / place / "job.yaml").read_text())["spec"]
        rules, (container,) = job["podFailurePolicy"]["rules"], job["template"]["spec"]["containers"]
        codes = rules[0]["onExitCodes"]
        assert rules[0]["action"] == "FailJob"
        assert codes["containerName"] == container["name"]
        assert codes["values"] == [exit_codes.CONFIG, exit_codes.INPUT, exit_codes.BUDGET, exit_codes.INTEGRITY]


def _container() -> dict[str, Any]:
    containers: list[dict[str, Any]] = manifest("job.yaml")["spec"]["template"]["spec"]["containers"]
    return containers[0]
