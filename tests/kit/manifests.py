"""Our own rules for Kubernetes manifests: what a schema can't know. A fault is a line of where and what.

Documents are those that Kustomize renders: whole, with their namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final

from springtide.version import VERSION

Document = dict[str, Any]

PROGRAMS: Final = ("controller", "dataplane", "coordinator")
USER: Final = 10001
#: What SIGTERM may take (controlled.shutdown.timeout.ms), and time to close the logs after it.
STOP_SECONDS_MIN: Final = {"controller": 20, "dataplane": 60, "coordinator": 45}
#: A worker of a broker has each port + its number.
KAFKA_LISTENER: Final = re.compile(r"(?:^|,)(?:[A-Z]+://)?0\.0\.0\.0:(\d+)")


def faults(documents: Iterable[Document]) -> list[str]:
    """Return all faults of rendered documents."""
    known = list(documents)
    return sorted(fault for find in (_names, _workloads, _services, _budgets, _ids) for fault in find(known))


def of_kind(documents: Iterable[Document], kind: str) -> list[Document]:
    return [one for one in documents if one["kind"] == kind]


def container_of(workload: Document) -> Document:
    """Return the only container of a workload's pods."""
    (container,) = pod_of(workload)["containers"]
    return dict(container)


def pod_of(workload: Document) -> Document:
    return dict(workload["spec"]["template"]["spec"])


def is_ours(workload: Document) -> bool:
    return container_of(workload).get("command", [""])[0] in PROGRAMS


def option(workload: Document, name: str) -> str | None:
    """Return the value of `--name=value` among the arguments; None if it is not there."""
    found = [arg for arg in container_of(workload)["args"] if arg.partition("=")[0] == f"--{name}"]
    return found[0].partition("=")[2] if found else None


def configs(workload: Document) -> Mapping[str, str]:
    """Return the `--config=key=value` of a broker or coordinator."""
    pairs = [arg.split("=", 2)[1:] for arg in container_of(workload)["args"] if arg.startswith("--config=")]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def listening(workload: Document) -> set[int]:
    """Return the ports that a pod of ours listens on, of all its workers."""
    listen = option(workload, "listen") or configs(workload)["listeners"]
    bound = [listen, option(workload, "metrics-listen") or ""]
    first = {int(port) for text in bound for port in KAFKA_LISTENER.findall(text)}
    return {port + worker for port in first for worker in range(int(option(workload, "workers") or 1))}


def advertised(workload: Document) -> str:
    return option(workload, "advertise") or configs(workload).get("advertised.listeners", "")


def _outside(workload: Document) -> set[int]:
    """Return the ports that are advertised under other names than the pods' own."""
    hosts = re.findall(r"([^/,]+):(\d+)", advertised(workload))
    first = [int(port) for host, port in hosts if not host.endswith(".svc")]
    return {port + worker for port in first for worker in range(int(option(workload, "workers") or 1))}


def ordinals(workload: Document) -> list[int]:
    spec = workload["spec"]
    start = spec.get("ordinals", {}).get("start", 0)
    return list(range(start, start + spec["replicas"]))


def _names(documents: list[Document]) -> Iterator[str]:
    seen = [(one["kind"], one["metadata"]["name"]) for one in documents]
    yield from (f"{kind} {name}: is there twice" for kind, name in set(seen) if seen.count((kind, name)) > 1)
    made = {
        (one["kind"], one["metadata"].get("namespace")) for one in documents if one["kind"] != "Namespace"
    }
    yield from (f"{kind}: in the namespace {where}" for kind, where in made if where != "springtide")


def _workloads(documents: list[Document]) -> Iterator[str]:
    for workload in of_kind(documents, "StatefulSet"):
        name = workload["metadata"]["name"]
        found = [*_pod(workload), *_container(workload)]
        if is_ours(workload):
            found += [*_our_pod(workload), *_arguments(workload)]
        yield from (f"{name}: {fault}" for fault in found)


def _pod(workload: Document) -> Iterator[str]:
    pod, spec = pod_of(workload), workload["spec"]
    security = pod.get("securityContext", {})
    if spec["selector"]["matchLabels"] != spec["template"]["metadata"]["labels"]:
        yield "its selector is not its pods' labels"
    if security.get("runAsNonRoot") is not True or not isinstance(security.get("runAsUser"), int):
        yield "no numeric user that is not root"
    if security.get("fsGroup") != security.get("runAsGroup"):
        yield "its volumes are not its group's"
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "no seccomp profile"
    if pod.get("automountServiceAccountToken") is not False:
        yield "it gets a token of the API server"
    if pod.get("enableServiceLinks") is not False:
        yield "services' variables come among its settings"


def _our_pod(workload: Document) -> Iterator[str]:
    pod, spec = pod_of(workload), workload["spec"]
    program = container_of(workload)["command"][0]
    if pod["securityContext"]["runAsUser"] != USER:
        yield f"its user is not {USER}"
    if spec["updateStrategy"] != {"type": "OnDelete"}:
        yield "Kubernetes restarts its pods by itself"
    if spec["podManagementPolicy"] != "Parallel":
        yield "a pod waits for those before it"
    if pod["terminationGracePeriodSeconds"] < STOP_SECONDS_MIN[program]:
        yield "it is killed before it has stopped"
    zones = [one["topologyKey"] for one in pod.get("topologySpreadConstraints", ())]
    if zones != ["topology.kubernetes.io/zone"]:
        yield "it is not spread over zones"
    if program == "dataplane":
        if spec.get("persistentVolumeClaimRetentionPolicy") != {
            "whenDeleted": "Retain",
            "whenScaled": "Retain",
        }:
            yield "its volumes go with it"
        if not container_of(workload)["readinessProbe"]["httpGet"]["path"].startswith("/readyz?in-sync"):
            yield "its readiness does not ask whether it is in sync"


def _container(workload: Document) -> Iterator[str]:
    container = container_of(workload)
    security = container.get("securityContext", {})
    if (
        security.get("readOnlyRootFilesystem") is not True
        or security.get("allowPrivilegeEscalation") is not False
    ):
        yield "its root can be written, or it may get more rights"
    if security.get("capabilities") != {"drop": ["ALL"]}:
        yield "it has capabilities"
    image, _, tag = container["image"].partition(":")
    if not re.match(r"\d+\.\d+", tag) or (image == "springtide" and tag != VERSION):
        yield f"the image {container['image']} is not a release's"
    resources = container.get("resources", {})
    if not {"cpu", "memory"} <= set(resources.get("requests", {})) or "memory" not in resources.get(
        "limits", {}
    ):
        yield "it asks for no CPU and memory, or has no limit of memory"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    if len(set(ports.values())) < len(container["ports"]):
        yield "a name or number of a port is there twice"
    probes = ("startupProbe", "readinessProbe", "livenessProbe") if is_ours(workload) else ("readinessProbe",)
    for probe in probes:
        asked = container.get(probe, {})
        if "exec" not in asked and asked.get("httpGet", {}).get("port") not in ports:
            yield f"its {probe} asks no port that it has"
    claims = workload["spec"].get("volumeClaimTemplates", ())
    volumes = {one["name"] for one in pod_of(workload).get("volumes", ())} | {
        claim["metadata"]["name"] for claim in claims
    }
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    if mounted != volumes:
        yield f"volumes {sorted(volumes)}, mounted {sorted(mounted)}"


def _arguments(workload: Document) -> Iterator[str]:
    container = container_of(workload)
    if listening(workload) != (has := {port["containerPort"] for port in container["ports"]}):
        yield f"it listens on {sorted(listening(workload))}, its ports are {sorted(has)}"
    named = {variable["name"] for variable in container["env"]}
    text = "\n".join(container["args"])
    unknown = set(re.findall(r"\$\((\w+)\)", text)) - named
    if unknown:
        yield f"its arguments name {sorted(unknown)}, which are not set"
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    for path in re.findall(r"=(/[^,\s]+)", text):
        if not any(path.startswith(f"{mount}/") for mount in mounts):
            yield f"{path} is in no volume"
    own = f"$(POD_NAME).{workload['spec']['serviceName']}.$(POD_NAMESPACE).svc:"
    if own not in advertised(workload):
        yield f"it is not advertised as {own}PORT"
    for port in re.findall(r":(\d+)", advertised(workload)):
        if int(port) not in has:
            yield f"it is advertised at port {port}, which it has not"


def _services(documents: list[Document]) -> Iterator[str]:
    workloads = of_kind(documents, "StatefulSet")
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(documents, "Service")}
    for name, spec in services.items():
        chosen = [one for one in workloads if _selects(spec["selector"], one)]
        if not chosen:
            yield f"service {name}: selects nothing"
        for workload in chosen:
            ports = {port["name"]: port["containerPort"] for port in container_of(workload)["ports"]}
            for port in spec["ports"]:
                if ports.get(port["targetPort"]) != port["port"]:
                    yield f"service {name}: port {port['port']} is not the pods' {port['targetPort']}"
    for workload in filter(is_ours, workloads):
        governing = services.get(workload["spec"]["serviceName"], {})
        name = workload["metadata"]["name"]
        if governing.get("clusterIP") != "None" or governing.get("publishNotReadyAddresses") is not True:
            yield f"{name}: its pods have names only while they are ready, or none"
        told = {port["port"] for port in governing.get("ports", ())}
        missing = listening(workload) - _outside(workload) - told
        if missing:
            yield f"{name}: its service has no port {sorted(missing)}"


def _selects(selector: Mapping[str, str], workload: Document) -> bool:
    labels = workload["spec"]["template"]["metadata"]["labels"]
    pod = selector.get("statefulset.kubernetes.io/pod-name")
    if pod is not None:
        return pod in {f"{workload['metadata']['name']}-{number}" for number in ordinals(workload)}
    return all(labels.get(key) == value for key, value in selector.items())


def _budgets(documents: list[Document]) -> Iterator[str]:
    budgets = of_kind(documents, "PodDisruptionBudget")
    for workload in filter(is_ours, of_kind(documents, "StatefulSet")):
        found = [one for one in budgets if _selects(one["spec"]["selector"]["matchLabels"], workload)]
        if [one["spec"].get("maxUnavailable") for one in found] != [1]:
            yield f"{workload['metadata']['name']}: no budget of one pod at a time"


def _ids(documents: list[Document]) -> Iterator[str]:
    """Ids of brokers and coordinators, which are their pods' ordinals; and whom they ask."""
    ours = {one["metadata"]["name"]: one for one in of_kind(documents, "StatefulSet") if is_ours(one)}
    ids = {name: set(ordinals(ours[name])) for name in ours if name != "controller"}
    for (one, some), (other, others) in combinations(ids.items(), 2):
        if some & others:
            yield f"{one} and {other} have the ids {sorted(some & others)}"
    (settings,) = (one["data"] for one in of_kind(documents, "ConfigMap") if "controllers" in one["data"])
    url = advertised(ours["controller"])
    urls = [
        url.replace("$(POD_NAME)", f"controller-{number}").replace("$(POD_NAMESPACE)", "springtide")
        for number in ordinals(ours["controller"])
    ]
    if settings["controllers"].split(",") != urls:
        yield f"controllers are {urls}, those that are asked {settings['controllers']}"
