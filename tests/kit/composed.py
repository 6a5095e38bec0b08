"""docker-compose.yml's services as processes on this machine: its commands, its health checks, its order.

What an engine adds is left out, namely the images. Springtide's own image is what tests/kit/image.py makes of
the Dockerfile; ZooKeeper and PostgreSQL are this machine's. Ports and volumes are mapped to free ones.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from localcluster.processes import ProcessCommand, SupervisedProcess
from tests.kit.image import ROOT, entry_points

VOLUME = "/var/lib/springtide"
POSTGRES_PORT = 5432
HEALTH_SECONDS_MAX = 20.0

_PORT = re.compile(r"(?<=:)\d{4}\b")


def load_services() -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = yaml.safe_load(
        (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    )["services"]
    return services


def commands_in_comment() -> str:
    """The shell commands that the file's first comment tells to type, those for the engine left out."""
    lines = (ROOT / "docker-compose.yml").read_text(encoding="utf-8").splitlines()
    comment = [line for line in lines[: lines.index("x-zookeeper: &zookeeper")] if line.startswith("#   ")]
    return "\n".join(line.removeprefix("#   ") for line in comment if "docker compose" not in line)


class Remapped:
    """Text of the file with other ports and folders in it.

    ports: what stands in the file to what is free here. volumes: the folder that holds them.
    """

    def __init__(self, ports: Mapping[int, int], volumes: Path) -> None:
        self.ports = ports
        self.volumes = volumes

    def text(self, text: str) -> str:
        """Return the text with the ports of this machine. Raise KeyError for a port that is not published."""
        shown = text.replace("@127.0.0.1/", f"@127.0.0.1:{POSTGRES_PORT}/")
        return _PORT.sub(lambda found: str(self.ports[int(found.group())]), shown)

    def volume(self, service: str) -> Path:
        return self.volumes / service


def container(
    name: str, service: Mapping[str, Any], *, site_packages: Path, remapped: Remapped, logs: Path
) -> SupervisedProcess:
    """One of our services as its container would run it: installed code, in the same working directory."""
    volume = remapped.volume(name)
    command = remapped.text(service["command"]).replace(VOLUME, str(volume))
    program, *arguments = shlex.split(command)
    module, _, function = entry_points()[program].partition(":")
    return SupervisedProcess(
        name=name,
        command=ProcessCommand(
            arguments=[sys.executable, "-c", f"from {module} import {function}; {function}()", *arguments],
            working_directory=volume,
            environment=_environment(service, site_packages, remapped),
        ),
        log_path=logs / f"{name}.log",
    )


def is_healthy(service: Mapping[str, Any], *, remapped: Remapped) -> bool:
    """Runs the service's health check as the engine would."""
    kind, line = service["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    found = subprocess.run(
        ["sh", "-c", line.replace("$$", "$")],
        env=_environment(service, None, remapped),
        capture_output=True,
        timeout=HEALTH_SECONDS_MAX,
        check=False,
    )
    return found.returncode == 0


def _environment(
    service: Mapping[str, Any], site_packages: Path | None, remapped: Remapped
) -> dict[str, str]:
    """Return the service's own environment, with `python` on the path as in the image."""
    stated = {
        key: str(remapped.ports.get(int(value), value)) if value.isdecimal() else remapped.text(value)
        for key, value in service.get("environment", {}).items()
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        "PATH": path,
        "PYTHONPATH": "" if site_packages is None else str(site_packages),
        "PYTHONSAFEPATH": "1",
        **stated,
    }
