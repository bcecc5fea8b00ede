"""What the Spark operator accepts as a SparkApplication, and the pods that Spark starts for one.

``SCHEMA`` is written from the Go types of the operator's version v1beta2. It lists every scalar field of the operator's
own, and stops at what is Kubernetes' own (volumes, security contexts), which ``pods`` turns into pods for Kubernetes'
schemas. The operator's CustomResourceDefinition itself is not in any package registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]

_TEXT, _FLAG, _NUMBER, _OBJECT = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}, {"type": "object"}
_FROM_1, _FROM_0 = {"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 0}
_TEXTS, _OBJECTS = {"type": "array", "items": _TEXT}, {"type": "array", "items": _OBJECT}
_MAP = {"type": "object", "additionalProperties": _TEXT}


def _closed(properties: Fields, *required: str) -> dict[str, Any]:
    return {
        "type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False,
    }  # fmt: skip


_POD = {
    "template": _OBJECT, "cores": _FROM_1, "coreLimit": _TEXT, "coreRequest": _TEXT, "memory": _TEXT,
    "memoryOverhead": _TEXT, "gpu": _closed({"name": _TEXT, "quantity": _NUMBER}, "name", "quantity"), "image": _TEXT,
    "configMaps": _OBJECTS, "secrets": _OBJECTS, "env": _OBJECTS, "envVars": _MAP, "envFrom": _OBJECTS,
    "envSecretKeyRefs": _OBJECT, "labels": _MAP, "annotations": _MAP, "volumeMounts": _OBJECTS, "affinity": _OBJECT,
    "tolerations": _OBJECTS, "podSecurityContext": _OBJECT, "securityContext": _OBJECT, "schedulerName": _TEXT,
    "sidecars": _OBJECTS, "initContainers": _OBJECTS, "hostNetwork": _FLAG, "nodeSelector": _MAP, "dnsConfig": _OBJECT,
    "terminationGracePeriodSeconds": _NUMBER, "serviceAccount": _TEXT, "hostAliases": _OBJECTS,
    "shareProcessNamespace": _FLAG, "runtimeClassName": _TEXT, "javaOptions": _TEXT, "lifecycle": _OBJECT,
    "ports": _OBJECTS, "priorityClassName": _TEXT,
}  # fmt: skip
_DRIVER = {**_POD, "podName": _TEXT, "kubernetesMaster": _TEXT, "serviceAnnotations": _MAP, "serviceLabels": _MAP}
_EXECUTOR = {**_POD, "instances": _FROM_1, "deleteOnTermination": _FLAG}
_RESTARTS = {
    "type": {"enum": ["Never", "Always", "OnFailure"]}, "onSubmissionFailureRetries": _FROM_0,
    "onFailureRetries": _FROM_0, "onSubmissionFailureRetryInterval": _FROM_1, "onFailureRetryInterval": _FROM_1,
}  # fmt: skip
_DEPENDENCIES = ("jars", "files", "pyFiles", "packages", "excludePackages", "repositories", "archives")
_SPEC = {
    "type": {"enum": ["Java", "Python", "Scala", "R"]}, "sparkVersion": _TEXT, "mode": {"enum": ["cluster", "client"]},
    "proxyUser": _TEXT, "image": _TEXT, "imagePullPolicy": _TEXT, "imagePullSecrets": _TEXTS, "mainClass": _TEXT,
    "mainApplicationFile": _TEXT, "arguments": _TEXTS, "sparkConf": _MAP, "hadoopConf": _MAP, "sparkConfigMap": _TEXT,
    "hadoopConfigMap": _TEXT, "volumes": _OBJECTS, "driver": _closed(_DRIVER), "executor": _closed(_EXECUTOR),
    "deps": _closed(dict.fromkeys(_DEPENDENCIES, _TEXTS)), "restartPolicy": _closed(_RESTARTS), "nodeSelector": _MAP,
    "failureRetries": _NUMBER, "retryInterval": _NUMBER, "pythonVersion": {"enum": ["2", "3"]},
    "memoryOverheadFactor": _TEXT, "monitoring": _OBJECT, "batchScheduler": _TEXT, "timeToLiveSeconds": _NUMBER,
    "batchSchedulerOptions": _OBJECT, "sparkUIOptions": _OBJECT, "driverIngressOptions": _OBJECTS,
    "dynamicAllocation": _OBJECT,
}  # fmt: skip
SCHEMA = _closed(
    {
        "apiVersion": {"const": "sparkoperator.k8s.io/v1beta2"},
        "kind": {"const": "SparkApplication"},
        "metadata": _OBJECT,
        "spec": _closed(_SPEC, "type", "sparkVersion", "mainApplicationFile", "driver", "executor"),
    },
    "apiVersion", "kind", "metadata", "spec",
)  # fmt: skip


def pods(application: Fields) -> dict[str, dict[str, Any]]:
    """The driver's pod and an executor's, by these names, with the fields that the application sets."""
    spec = application["spec"]
    return {role: _pod(role, spec, application["metadata"]["namespace"]) for role in ("driver", "executor")}


def _pod(role: str, application: Fields, namespace: str) -> dict[str, Any]:
    given = application[role]
    container = {"name": f"spark-kubernetes-{role}", "image": application["image"], "args": [role]}
    container |= {name: given[name] for name in ("env", "envFrom", "ports", "securityContext") if name in given}
    container["volumeMounts"] = given.get("volumeMounts", [])
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": given["serviceAccount"],
        "containers": [container, *given.get("sidecars", [])],
        "initContainers": given.get("initContainers", []),
        "hostNetwork": given.get("hostNetwork", False),
        "securityContext": given.get("podSecurityContext", {}),
        "volumes": [volume for volume in application.get("volumes", []) if volume["name"] in mounted],
    }
    metadata = {"name": role, "namespace": namespace, "annotations": given.get("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
