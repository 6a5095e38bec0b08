"""packaging/kubernetes: what Kustomize renders keeps our rules, is what Kubernetes' schemas take, and its
commands are ones that our programs take. Without kubectl, which renders, the base's files are looked at."""

from __future__ import annotations

import copy
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from admin_api.__main__ import _check_tls_files, _load_tokens
from admin_api.__main__ import _parser as controller_parser
from controller.config import load_config
from coordinator.__main__ import _parser as coordinator_parser
from coordinator.__main__ import _settings as coordinator_settings
from dataplane.__main__ import _parser as broker_parser
from dataplane.__main__ import _settings as broker_settings
from springtide.certificates import create_certificates
from springtide.cli.catalogue import COMMANDS
from springtide.cli.parser import build_parser
from springtide.cli.restarts import pod_of
from springtide.cli.rolling import RolledProcess
from springtide.version import VERSION
from tests.kit.manifests import Document, container_of, faults, is_ours, of_kind, ordinals

FOLDER = Path(__file__).parents[3] / "packaging/kubernetes"
OVERLAYS = sorted(folder.name for folder in (FOLDER / "overlays").iterdir())
KUBERNETES = "1.37.0"

each = pytest.mark.parametrize("name", ["base", *(f"overlays/{name}" for name in OVERLAYS)])


@cache
def rendered(name: str) -> list[Document]:
    """Return what Kustomize makes of a folder."""
    if shutil.which("kubectl") is None:
        if name == "base":
            return base_files()
        pytest.skip("there is no kubectl")
    answer = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER / name)], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    return list(yaml.safe_load_all(answer.stdout))


def base_files() -> list[Document]:
    """The base as it is written, with the little that Kustomize adds to it."""
    kustomization = yaml.safe_load((FOLDER / "base/kustomization.yaml").read_text(encoding="utf-8"))
    documents = [
        document
        for file in kustomization["resources"]
        for document in yaml.safe_load_all((FOLDER / "base" / file).read_text(encoding="utf-8"))
    ]
    (made,) = kustomization["configMapGenerator"]
    data = dict(literal.split("=", 1) for literal in made["literals"])
    documents.append({"kind": "ConfigMap", "metadata": {"name": made["name"]}, "data": data})
    for document in documents:
        document["metadata"].setdefault("namespace", kustomization["namespace"])
    return documents


@each
def test_what_is_rendered_keeps_our_rules(name: str) -> None:
    assert faults(rendered(name)) == []


@each
def test_what_is_rendered_is_what_kubernetes_takes(name: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for document in rendered(name):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def workload(documents: list[Document], name: str) -> Any:
    (found,) = (one for one in of_kind(documents, "StatefulSet") if one["metadata"]["name"] == name)
    return found


def named(documents: list[Document], kind: str, name: str) -> Any:
    (found,) = (one for one in of_kind(documents, kind) if one["metadata"]["name"] == name)
    return found


def container(documents: list[Document], name: str = "broker") -> Any:
    return workload(documents, name)["spec"]["template"]["spec"]["containers"][0]


def pod(documents: list[Document], name: str = "broker") -> Any:
    return workload(documents, name)["spec"]["template"]["spec"]


def argument(old: str, new: str, *, of: str = "broker") -> Callable[[list[Document]], None]:
    def change(documents: list[Document]) -> None:
        args = container(documents, of)["args"]
        args[args.index(old)] = new

    return change


Change = Callable[[list[Document]], object]
PLANTED: list[tuple[str, Change]] = [
    ("listens on", argument("--workers=2", "--workers=3")),
    ("listens on", argument("--listen=0.0.0.0:9092", "--listen=0.0.0.0:9192")),
    ("which are not set", argument("--rack=$(ZONE)", "--rack=$(RACK)")),
    ("is in no volume", argument("--data-dir=/var/lib/springtide/data", "--data-dir=/data")),
    ("is not advertised as", lambda all_: workload(all_, "broker")["spec"].update(serviceName="kafka")),
    ("have the ids [1, 2]", lambda all_: workload(all_, "coordinator")["spec"].update(ordinals={"start": 1})),
    ("those that are asked", lambda all_: workload(all_, "controller")["spec"].update(replicas=3)),
    ("is not a release's", lambda all_: container(all_).update(image="springtide:latest")),
    ("is not a release's", lambda all_: container(all_).update(image="springtide:0.1.0")),
    ("no numeric user", lambda all_: pod(all_)["securityContext"].update(runAsUser="springtide")),
    ("its user is not", lambda all_: pod(all_)["securityContext"].update(runAsUser=1000)),
    ("no seccomp", lambda all_: pod(all_)["securityContext"].pop("seccompProfile")),
    ("not its group's", lambda all_: pod(all_)["securityContext"].update(fsGroup=0)),
    ("token of the API", lambda all_: pod(all_).pop("automountServiceAccountToken")),
    ("variables", lambda all_: pod(all_).pop("enableServiceLinks")),
    ("killed before", lambda all_: pod(all_).update(terminationGracePeriodSeconds=30)),
    ("spread over zones", lambda all_: pod(all_).pop("topologySpreadConstraints")),
    (
        "by itself",
        lambda all_: workload(all_, "broker")["spec"].update(updateStrategy={"type": "RollingUpdate"}),
    ),
    (
        "waits for those",
        lambda all_: workload(all_, "broker")["spec"].update(podManagementPolicy="OrderedReady"),
    ),
    (
        "volumes go with",
        lambda all_: workload(all_, "broker")["spec"].pop("persistentVolumeClaimRetentionPolicy"),
    ),
    ("in sync", lambda all_: container(all_)["readinessProbe"]["httpGet"].update(path="/readyz")),
    ("livenessProbe", lambda all_: container(all_).pop("livenessProbe")),
    ("startupProbe", lambda all_: container(all_)["startupProbe"]["httpGet"].update(port="http")),
    ("can be written", lambda all_: container(all_)["securityContext"].update(readOnlyRootFilesystem=False)),
    ("capabilities", lambda all_: container(all_)["securityContext"].pop("capabilities")),
    ("no limit of memory", lambda all_: container(all_)["resources"].pop("limits")),
    ("mounted", lambda all_: container(all_)["volumeMounts"].pop()),
    (
        "its service has no port [9093]",
        lambda all_: named(all_, "Service", "brokers")["spec"]["ports"].pop(1),
    ),
    (
        "names only while",
        lambda all_: named(all_, "Service", "brokers")["spec"].pop("publishNotReadyAddresses"),
    ),
    ("is not the pods'", lambda all_: named(all_, "Service", "kafka")["spec"]["ports"][0].update(port=9093)),
    ("selects nothing", lambda all_: named(all_, "Service", "kafka")["spec"]["selector"].update(x="y")),
    ("no budget", lambda all_: named(all_, "PodDisruptionBudget", "broker")["spec"].update(maxUnavailable=2)),
    ("is there twice", lambda all_: all_.append(copy.deepcopy(all_[1]))),
    ("in the namespace", lambda all_: all_[1]["metadata"].update(namespace="default")),
]


@pytest.mark.parametrize(("expected", "change"), PLANTED)
def test_each_rule_finds_what_breaks_it(expected: str, change: Change) -> None:
    documents = base_files()
    change(documents)
    assert [fault for fault in faults(documents) if expected in fault], faults(documents)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of all Secrets, in one folder."""
    folder = tmp_path_factory.mktemp("secrets")
    for _ in create_certificates(folder, ["node"], days=1, now=datetime.now(UTC)):
        pass
    (folder / "ca.pem").rename(folder / "ca.crt")
    for name in ("tls.crt", "tls.key", "tls-combined.pem"):
        shutil.copy(folder / "node.pem", folder / name)
    token = "a-token-of-thirty-two-characters"
    (folder / "token").write_text(token)
    (folder / "tokens").write_text(f"processes broker {token}\nalice admin another-{token}\n")
    (folder / "controller.toml").write_text(
        'database_url = "postgresql+psycopg://a:secret@postgres/springtide"\n'
    )
    for file in folder.iterdir():
        file.chmod(0o600)
    return folder


def command_line(found: Document, settings: dict[str, str], ordinal: int, secrets: Path) -> list[str]:
    """Return the command line that a pod gets."""
    values = {
        "POD_NAME": f"{found['metadata']['name']}-{ordinal}",
        "POD_NAMESPACE": "springtide",
        "POD_INDEX": str(ordinal),
        "ZONE": "zone-a" if ordinal % 2 else "",
        **{name.upper(): value for name, value in settings.items()},
    }
    text = "\n".join((*container_of(found)["command"][1:], *container_of(found)["args"]))
    for name, value in values.items():
        text = text.replace(f"$({name})", value)
    for folder in ("controller", "node", "tls"):
        text = text.replace(f"/etc/springtide/{folder}/", f"{secrets}/")
    assert "$(" not in text
    return text.split("\n")


@each
def test_our_programs_take_the_commands(name: str, secrets: Path) -> None:
    documents = rendered(name)
    (settings,) = (one["data"] for one in of_kind(documents, "ConfigMap") if "controllers" in one["data"])
    ours = [one for one in of_kind(documents, "StatefulSet") if is_ours(one)]
    assert len(ours) == 3
    for found in ours:
        for ordinal in ordinals(found):
            line = command_line(found, settings, ordinal, secrets)
            match container_of(found)["command"][0]:
                case "controller":
                    given = {
                        key: value
                        for key, value in vars(controller_parser().parse_args(line)).items()
                        if value
                    }
                    file = given.pop("config")
                    config = load_config({k: v for k, v in given.items() if k != "command"}, {}, file=file)
                    tokens = _load_tokens(config, {})
                    assert tokens is not None
                    assert len(tokens) == 2
                    _check_tls_files(config)
                case "dataplane":
                    broker = broker_settings(broker_parser().parse_args(line))
                    assert (broker.broker_id, broker.cluster) == (ordinal, "prod")
                    assert broker.rack == ("zone-a" if ordinal % 2 else None)
                case _:
                    coordinator = coordinator_settings(coordinator_parser().parse_args(line))
                    assert coordinator.coordinator_id == ordinal
            process = RolledProcess(
                kind=found["metadata"]["name"], name=str(ordinal), host=f"controller-{ordinal}", state=""
            )
            assert pod_of(process) == f"{found['metadata']['name']}-{ordinal}"


README = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_commands_of_the_readme_are_ones_that_the_command_line_takes() -> None:
    joined = README.replace("\\\n", " ").replace("$n ", "1 ")
    lines = re.findall(r"(?m)^ *(?:admin|springtide) (.+)$", joined)
    assert len(lines) == 8
    parser = build_parser(COMMANDS, version="")
    for line in lines:
        parser.parse_args(shlex.split(line))


def test_the_overlay_of_the_readme_keeps_our_rules(tmp_path: Path) -> None:
    (overlay,) = (
        text for text in re.findall(r"(?s)```yaml\n(.*?)```", README) if "kind: Kustomization" in text
    )
    mended = overlay.replace("../packaging/kubernetes", os.path.relpath(FOLDER, tmp_path))
    assert mended != overlay
    (tmp_path / "kustomization.yaml").write_text(mended, encoding="utf-8")
    documents = rendered(str(tmp_path))
    assert faults(documents) == []
    (settings,) = (one["data"] for one in of_kind(documents, "ConfigMap"))
    assert settings["zookeeper"].startswith("zk1.example.com:2181,")
    assert container(documents)["image"] == f"REGISTRY/springtide:{VERSION}"
