"""Kubernetes' manifests: every pod is of the "restricted" profile, and every document fits its schema."""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.support import spark_application
from tests.support.datasets import ROOT
from tests.support.environments import environment
from tests.support.pod_security import violations

MANIFESTS = ROOT / "deploy" / "kubernetes"
# The oldest version with pods that alone may mount a volume, and the newest one that the schemas know.
OLDEST, NEWEST = "1.29", "1.37"


def documents() -> Iterator[dict[str, Any]]:
    for path in [*sorted(MANIFESTS.glob("*.yaml")), MANIFESTS.parent / "dataflow" / "job.yaml"]:
        yield from yaml.safe_load_all(path.read_text())


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [document for document in documents() if document["kind"] == kind]


def pods() -> dict[str, dict[str, Any]]:
    """Every pod that the manifests lead to, by a name."""
    found = {job["metadata"]["name"]: job["spec"]["template"] for job in of_kind("Job")}
    for application in of_kind("SparkApplication"):
        for role, pod in spark_application.pods(application).items():
            found[f"{application['metadata']['name']}-{role}"] = pod
    return found


PODS = pods()


def test_every_kind_of_pod_is_known() -> None:
    """A manifest of a kind whose pods the other tests do not see would pass unread."""
    without_pods = {"Namespace", "ServiceAccount", "Role", "RoleBinding", "PersistentVolumeClaim"}
    assert {document["kind"] for document in documents()} == {"Job", "SparkApplication"} | without_pods
    assert len(PODS) == 4


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_of_the_restricted_profile(name: str) -> None:
    assert violations(PODS[name]) == []


@pytest.mark.parametrize("name", PODS)
def test_a_pod_writes_only_into_its_volumes(name: str) -> None:
    spec = PODS[name]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for container in spec["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert {mount["name"] for mount in mounts.values()} <= set(volumes)
        assert "emptyDir" in volumes[mounts["/tmp"]["name"]]
        assert all(mount.get("readOnly") for path, mount in mounts.items() if path in ("/data", "/etc/marquee"))
        (cache,) = [one["value"] for one in container["env"] if one["name"] == "XDG_CACHE_HOME"]
        assert cache.startswith("/tmp/")


BREAKS: list[tuple[str, Any, str]] = [
    ("metadata.annotations", {"container.apparmor.security.beta.kubernetes.io/marquee": "unconfined"}, "apparmor"),
    ("spec.hostNetwork", True, "hostNetwork"),
    ("spec.hostPID", True, "hostPID"),
    ("spec.hostIPC", True, "hostIPC"),
    ("spec.volumes.0", {"name": "config", "hostPath": {"path": "/etc"}}, "hostPath"),
    ("spec.securityContext.runAsUser", 0, "runAsUser"),
    ("spec.securityContext.runAsNonRoot", False, "runAsNonRoot"),
    ("spec.securityContext.seccompProfile", {"type": "Unconfined"}, "seccompProfile is Unconfined"),
    ("spec.securityContext.seccompProfile", {}, "no seccompProfile"),
    ("spec.securityContext.appArmorProfile", {"type": "Unconfined"}, "appArmorProfile"),
    ("spec.securityContext.seLinuxOptions", {"type": "spc_t"}, "seLinuxOptions"),
    ("spec.securityContext.seLinuxOptions", {"user": "root"}, "seLinuxOptions"),
    ("spec.securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}], "kernel.msgmax"),
    ("spec.securityContext.windowsOptions", {"hostProcess": True}, "hostProcess"),
    ("spec.containers.0.securityContext", {}, "allowPrivilegeEscalation"),
    ("spec.containers.0.securityContext.allowPrivilegeEscalation", True, "allowPrivilegeEscalation"),
    ("spec.containers.0.securityContext.capabilities", {"drop": ["NET_RAW"]}, "want ALL"),
    ("spec.containers.0.securityContext.capabilities.add", ["SYS_ADMIN"], "SYS_ADMIN"),
    ("spec.containers.0.securityContext.privileged", True, "privileged"),
    ("spec.containers.0.securityContext.runAsNonRoot", False, "runAsNonRoot"),
    ("spec.containers.0.securityContext.runAsUser", 0, "runAsUser"),
    ("spec.containers.0.securityContext.seccompProfile", {"type": "Unconfined"}, "seccompProfile is Unconfined"),
    ("spec.containers.0.securityContext.procMount", "Unmasked", "procMount"),
    ("spec.containers.0.ports", [{"containerPort": 80, "hostPort": 80}], "hostPort"),
    ("spec.containers.0.livenessProbe", {"httpGet": {"port": 80, "host": "192.0.2.1"}}, "livenessProbe"),
    ("spec.containers.0.lifecycle", {"preStop": {"tcpSocket": {"port": 80, "host": "192.0.2.1"}}}, "preStop"),
    ("spec.initContainers", [{"name": "early"}], "container early"),
    ("spec.ephemeralContainers", [{"name": "late"}], "container late"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "said"), BREAKS)
def test_a_pod_that_breaks_one_control_is_found(field: str, value: object, said: str) -> None:
    pod: Any = {"metadata": {}, **copy.deepcopy(PODS["marquee-adult-local"])}
    *outer, last = field.split(".")
    place = pod
    for key in outer:
        place = place[int(key)] if key.isdecimal() else place[key]
    place[int(last) if last.isdecimal() else last] = value
    found = violations(pod)
    assert any(said in sentence for sentence in found), found
    assert all(field.split(".")[-1] == "securityContext" or said in sentence for sentence in found), found


def test_the_namespace_enforces_the_profile() -> None:
    (namespace,) = of_kind("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    others = [document["metadata"]["namespace"] for document in documents() if document["kind"] != "Namespace"]
    assert set(others) == {namespace["metadata"]["name"]}


def test_pods_use_accounts_and_claims_that_the_manifests_make() -> None:
    accounts = {account["metadata"]["name"]: account for account in of_kind("ServiceAccount")}
    claims = {claim["metadata"]["name"]: claim["spec"]["accessModes"] for claim in of_kind("PersistentVolumeClaim")}
    for name, pod in PODS.items():
        account = accounts[pod["spec"]["serviceAccountName"]]
        assert account.get("automountServiceAccountToken", True) == name.endswith("-driver")
        mounted = [volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"]]
        assert {claim["claimName"] for claim in mounted if claim} <= set(claims)
    # Where several pods at a time mount a claim, its access mode lets them.
    assert claims == {"marquee-work": ["ReadWriteOncePod"], "marquee-data": ["ReadWriteMany"]}
    (executor,) = [pod for name, pod in PODS.items() if name.endswith("-executor")]
    assert "work" not in {volume["name"] for volume in executor["spec"]["volumes"]}


def test_only_the_driver_may_talk_to_kubernetes_and_only_about_its_executors() -> None:
    (role,), (binding,) = of_kind("Role"), of_kind("RoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == ["marquee-spark-driver"]
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {
        "configmaps", "persistentvolumeclaims", "pods", "services",
    }  # fmt: skip
    assert all(rule["apiGroups"] == [""] and "*" not in rule["verbs"] for rule in role["rules"])


def test_the_spark_application_is_one_that_the_operator_accepts() -> None:
    (application,) = of_kind("SparkApplication")
    check = Draft202012Validator(spark_application.SCHEMA)
    assert [error.message for error in check.iter_errors(application)] == []
    application["spec"]["driver"]["serviceAccountName"] = "spark"
    application["spec"]["executor"]["instances"] = 0
    found = " ".join(error.message for error in check.iter_errors(application))
    assert "'serviceAccountName' was unexpected" in found
    assert "0 is less than the minimum" in found


def schema_errors(folder: Path, found: list[dict[str, Any]], version: str) -> tuple[int, str]:
    """Exit code and output of kubernetes-validate, which warns of kinds without a schema."""
    path = folder / "documents.yaml"
    path.write_text(yaml.safe_dump_all(found))
    command = [environment("kubernetes") / "kubernetes-validate", "--strict", "-k", version, path]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_document_fits_the_schema_of_kubernetes(tmp_path: Path, version: str) -> None:
    """Of a SparkApplication, the pods that Spark starts for it."""
    (application,) = of_kind("SparkApplication")
    found = [document for document in documents() if document != application]
    found += spark_application.pods(application).values()
    code, said = schema_errors(tmp_path, found, version)
    assert code == 0, said
    assert said.count(" passed for resource ") == len(found) >= 10
    found[-1]["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalate"] = False
    code, said = schema_errors(tmp_path, found, version)
    assert code == 1
    assert "allowPrivilegeEscalate" in said
