"""docker-compose.yml without an engine: well-formed, its commands are ones that our entry points take, and
its parts point at each other. The same entry points run for real in tests/faults and tests/interop."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.__main__ import _parser as controller_parser
from dataplane.__main__ import _parser as dataplane_parser

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def arguments(service: str) -> list[str]:
    return shlex.split(SERVICES[service]["command"])


@pytest.mark.parametrize("service", ["controller1", "controller2"])
def test_a_controllers_command_is_one_that_it_takes(service: str) -> None:
    program, *rest = arguments(service)
    assert program == "controller"
    chosen = controller_parser().parse_args(rest)
    port = chosen.listen.rpartition(":")[2]
    assert SERVICES[service]["environment"]["PORT"] == port
    published = [SERVICES[f"zk{n}"]["ports"][0].rpartition(":")[0] for n in (1, 2, 3)]
    assert chosen.zookeeper.split(",") == published


@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_a_brokers_command_is_one_that_it_takes(broker_id: int) -> None:
    program, *rest = arguments(f"broker{broker_id}")
    assert program == "dataplane"
    chosen = dataplane_parser().parse_args(rest)
    assert (chosen.broker_id, chosen.cluster) == (broker_id, "prod")
    assert chosen.data_dir.startswith("/var/lib/springtide/")
    urls = {
        arguments(name)[arguments(name).index("--advertise") + 1] for name in ("controller1", "controller2")
    }
    assert (
        set(chosen.controllers.split(",") if isinstance(chosen.controllers, str) else chosen.controllers)
        == urls
    )


def test_every_named_volume_and_dependency_exists() -> None:
    used = {v.split(":")[0] for service in SERVICES.values() for v in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])
    for service in SERVICES.values():
        for needed, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[needed]


def test_the_image_holds_every_package_that_is_installed() -> None:
    copied = {
        line.split()[1]
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if line.startswith("COPY ") and len(line.split()) == 3
    }
    assert copied >= {"controller", "admin_api", "dataplane", "migrations", "localcluster"}
