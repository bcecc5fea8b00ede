"""The "restricted" profile of Kubernetes' Pod Security Standards, as a function that lists what a pod breaks.

It follows the published table (https://kubernetes.io/docs/concepts/security/pod-security-standards/), baseline and
restricted controls together, for pods that run on Linux.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Fields = Mapping[str, Any]

VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
}  # fmt: skip
PROFILES = ("RuntimeDefault", "Localhost")
SELINUX_TYPES = (None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def violations(pod: Fields) -> list[str]:
    """What a pod breaks, one sentence per field; empty for a pod that the profile admits.

    pod: A pod, or the template of one, with the keys metadata and spec.
    """
    return [*_of_annotations(pod.get("metadata", {})), *_of_pod(pod["spec"])]


def _of_annotations(metadata: Fields) -> Iterator[str]:
    for name, value in metadata.get("annotations", {}).items():
        if name.startswith(APPARMOR) and value != "runtime/default" and not value.startswith("localhost/"):
            yield f"annotation {name} is {value!r}; want runtime/default or localhost/*"


def _of_pod(spec: Fields) -> Iterator[str]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield f"{name} is true; want false"
    for volume in spec.get("volumes", []):
        for kind in sorted(set(volume) - {"name"} - VOLUMES):
            yield f"volume {volume['name']} is of the type {kind}; want one of {sorted(VOLUMES)}"
    context = spec.get("securityContext", {})
    yield from _of_any_context("the pod", context)
    for sysctl in context.get("sysctls", []):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']} is not safe; want one of {sorted(SYSCTLS)}"
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(group, []):
            yield from _of_container(container, context)


def _of_container(container: Fields, of_the_pod: Fields) -> Iterator[str]:
    name = f"container {container['name']}"
    own = container.get("securityContext", {})
    yield from _of_any_context(name, own)
    if own.get("privileged"):
        yield f"{name}: privileged is true; want false"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: allowPrivilegeEscalation is {own.get('allowPrivilegeEscalation')}; want false"
    if own.get("runAsNonRoot", of_the_pod.get("runAsNonRoot")) is not True:
        yield f"{name}: runAsNonRoot is neither true for the container nor for the pod; want true"
    if "type" not in own.get("seccompProfile", of_the_pod.get("seccompProfile", {})):
        yield f"{name}: there is no seccompProfile; want one of {PROFILES}"
    if own.get("procMount", "Default") != "Default":
        yield f"{name}: procMount is {own['procMount']}; want Default"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield f"{name}: capabilities.drop is {capabilities.get('drop', [])}; want ALL"
    if added := sorted(set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}):
        yield f"{name}: capabilities.add has {added}; want NET_BIND_SERVICE at most"
    for port in container.get("ports", []):
        if port.get("hostPort", 0):
            yield f"{name}: hostPort is {port['hostPort']}; want none"
    for handler, action in _handlers(container):
        if action.get("httpGet", {}).get("host") or action.get("tcpSocket", {}).get("host"):
            yield f"{name}: {handler} names a host; want none"


def _of_any_context(name: str, context: Fields) -> Iterator[str]:
    """The controls of fields that pods and containers both have."""
    if context.get("runAsUser") == 0:
        yield f"{name}: runAsUser is 0; want a user that is not root"
    for field in ("seccompProfile", "appArmorProfile"):
        if (chosen := context.get(field, {}).get("type", PROFILES[0])) not in PROFILES:
            yield f"{name}: {field} is {chosen}; want one of {PROFILES}"
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield f"{name}: windowsOptions.hostProcess is true; want false"
    options = context.get("seLinuxOptions", {})
    if options.get("type") not in SELINUX_TYPES or options.get("user") or options.get("role"):
        yield f"{name}: seLinuxOptions are {options}; want a container's type, and neither user nor role"


def _handlers(container: Fields) -> Iterator[tuple[str, Fields]]:
    for probe in PROBES:
        yield probe, container.get(probe, {})
    yield from container.get("lifecycle", {}).items()
