"""docker-compose.yml without an engine: well-formed, its commands are ones that our entry points take, and
its parts point at each other. What it describes runs in tests/integration/compose."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from admin_api.__main__ import _parser as controller_parser
from coordinator.__main__ import _parser as coordinator_parser
from dataplane.__main__ import _parser as dataplane_parser
from tests.kit.image import copied_sources, entry_points, install_image

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PACKAGES = (
    "controller",
    "admin_api",
    "dataplane",
    "coordinator",
    "migrations",
    "localcluster",
    "springtide",
    "pipeline",
    "pyspark_springtide",
)


#: Services that end.
ONCE = ("passwords",)


def arguments(service: str) -> list[str]:
    return shlex.split(SERVICES[service]["command"])


def test_images_of_others_are_named_by_their_whole_version() -> None:
    """A tag with less (`postgres:16`) is another release a month later."""
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    bases = {line.split()[1] for line in dockerfile.splitlines() if line.startswith("FROM ")}
    assert len(bases) == 1
    named = {*bases, *(service["image"] for service in SERVICES.values() if "build" not in service)}
    numbers = {"python": 3, "zookeeper": 3, "postgres": 2}
    assert {name.partition(":")[0] for name in named} == set(numbers)
    for name, _, tag in (image.partition(":") for image in named):
        version = tag.partition("-")[0].split(".")
        assert len(version) == numbers[name], tag
        assert all(part.isdigit() for part in version), tag


def test_the_image_installs_what_was_tested() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    locked, ours = (line for line in dockerfile.splitlines() if "/opt/springtide install" in line)
    assert "--require-hashes -r requirements.lock" in locked
    assert "--no-deps --no-build-isolation ." in ours
    assert "requirements.lock" in copied_sources()


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
    assert named_controllers(chosen.controllers) == advertised_controllers()


@pytest.mark.parametrize("number", [1, 2])
def test_a_coordinators_command_is_one_that_it_takes(number: int) -> None:
    program, *rest = arguments(f"coordinator{number}")
    assert program == "coordinator"
    chosen = coordinator_parser().parse_args(rest)
    assert (chosen.coordinator_id, chosen.cluster) == (1000 + number, "prod")
    assert named_controllers(chosen.controllers) == advertised_controllers()
    assert (
        chosen.metrics_listen
        == f"127.0.0.1:{SERVICES[f'coordinator{number}']['environment']['METRICS_PORT']}"
    )


def named_controllers(chosen: str | list[str]) -> set[str]:
    return set(chosen.split(",") if isinstance(chosen, str) else chosen)


def advertised_controllers() -> set[str]:
    return {
        arguments(name)[arguments(name).index("--advertise") + 1] for name in ("controller1", "controller2")
    }


def test_every_named_volume_and_dependency_exists() -> None:
    used = {v.split(":")[0] for service in SERVICES.values() for v in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])
    for service in SERVICES.values():
        for needed, condition in service.get("depends_on", {}).items():
            ends = "service_completed_successfully" if needed in ONCE else "service_healthy"
            assert condition == {"condition": ends}
            assert needed in ONCE or "healthcheck" in SERVICES[needed]


def test_whatever_runs_here_tells_whether_it_is_healthy() -> None:
    assert [name for name, service in SERVICES.items() if "healthcheck" not in service] == list(ONCE)


@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_a_brokers_health_is_asked_where_it_tells_it(broker_id: int) -> None:
    service = SERVICES[f"broker{broker_id}"]
    chosen = dataplane_parser().parse_args(arguments(f"broker{broker_id}")[1:])
    assert chosen.metrics_listen == f"127.0.0.1:{service['environment']['METRICS_PORT']}"


def test_the_zookeepers_are_one_ensemble_and_answer_their_health_check() -> None:
    for server_id in (1, 2, 3):
        service = SERVICES[f"zk{server_id}"]
        environment = service["environment"]
        members = dict(member.split("=") for member in environment["ZOO_SERVERS"].split())
        assert members[f"server.{environment['ZOO_MY_ID']}"].startswith(f"{service['hostname']}:")
        asked = shlex.split(service["healthcheck"]["test"][1])[1]
        assert asked in environment["ZOO_4LW_COMMANDS_WHITELIST"].split(",")


def test_the_database_and_the_controllers_read_a_password_that_was_drawn(tmp_path: Path) -> None:
    kind, options, script = SERVICES["passwords"]["command"]
    drawn: list[str] = []
    for _ in range(2):
        subprocess.run(
            [kind, options, script.replace("$$", "$")], cwd=tmp_path, env=python_on_path(), check=True
        )
        drawn.append((tmp_path / "pgpass").read_text())
        assert (tmp_path / "pgpass").stat().st_mode & 0o777 == 0o600  # libpq reads no other
    assert drawn[0] == drawn[1], "only the first start draws one"
    host, port, database, user, password = drawn[0].rstrip("\n").split(":")
    stated = SERVICES["postgres"]["environment"]
    assert (tmp_path / "postgres").read_text() == password
    assert len(password) >= 32
    assert stated["POSTGRES_PASSWORD_FILE"] == "/run/passwords/postgres"
    for name in ("controller1", "controller2"):
        environment = SERVICES[name]["environment"]
        url = sa.make_url(environment["SPRINGTIDE_DATABASE_URL"])
        assert (url.username, url.database, url.password) == (
            stated["POSTGRES_USER"],
            stated["POSTGRES_DB"],
            None,
        )
        assert (host, port, database, user) == (url.host, "*", url.database, url.username)
        assert environment["PGPASSFILE"] == "/run/passwords/pgpass"
    for name in ("postgres", "controller1", "controller2"):
        assert "passwords:/run/passwords:ro" in SERVICES[name]["volumes"]


def python_on_path() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_no_secret_stands_in_the_file_and_no_process_may_more_than_it_needs() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            is_file = variable.endswith(("_FILE", "PGPASSFILE"))
            assert is_file or not any(word in variable for word in ("PASSWORD", "SECRET", "TOKEN")), name
            assert "@" not in str(value) or ":" not in str(value).partition("://")[2].partition("@")[0], name
        if "build" in service:
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
            assert service["security_opt"] == ["no-new-privileges:true"]


def test_no_two_services_share_a_port_of_the_host() -> None:
    taken = [port.rpartition(":")[0] for service in SERVICES.values() for port in service.get("ports", [])]
    for service in SERVICES.values():
        command = service.get("command", "")
        words = shlex.split(command) if isinstance(command, str) else command
        taken += [words[at + 1] for at, word in enumerate(words) if word in ("--listen", "--metrics-listen")]
    assert sorted(set(taken)) == sorted(taken)
    assert len(taken) == 16


def test_the_image_holds_all_of_our_code_and_every_file_that_it_reads(tmp_path: Path) -> None:
    installed = install_image(tmp_path)
    found = {str(file.relative_to(installed)) for file in installed.rglob("*") if file.is_file()}
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    assert len(tracked) > 300
    built_from = {path for path in tracked if path.endswith(".c")}
    assert sorted(set(tracked) - built_from - found) == []
    assert all((tmp_path / "context" / path).is_file() for path in built_from)


def test_every_command_that_is_installed_exists_in_the_image(tmp_path: Path) -> None:
    installed = install_image(tmp_path)
    for target in entry_points().values():
        module, _, function = target.partition(":")
        source = (installed / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
        assert f"def {function}(" in source


def test_the_container_may_write_where_its_volume_is_and_runs_as_nobody_special() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    # A number: Kubernetes refuses a name where runAsNonRoot is asked for.
    assert lines.index("USER 10001:10001") > max(
        at for at, line in enumerate(lines) if line.startswith("RUN ")
    )
    volume = next(line.split()[1] for line in lines if line.startswith("VOLUME "))
    assert any(line.startswith("HEALTHCHECK ") for line in lines)
    assert any(
        f"install --directory --owner 10001 --group 10001 --mode 0750 {volume}" in line for line in lines
    )


def test_nothing_is_installed_in_the_last_stage_and_it_has_nothing_to_install_with() -> None:
    stages = (ROOT / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")
    assert len(stages) == 3
    last = stages[-1]
    assert "apt-get" not in last
    assert "install --no-cache-dir" not in last
    version = last.partition(":")[2].split(".")
    for gone in ("/usr/local/bin/pip*", f"/usr/local/lib/python3.{version[1]}/site-packages/pip*"):
        assert f"{gone} " in last


def test_the_context_holds_what_is_copied_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == set(copied_sources())


def test_a_broker_keeps_its_data_where_the_container_may_write() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    volume = next(line.split()[1] for line in lines if line.startswith("VOLUME "))
    for name in ("broker1", "broker2", "broker3"):
        assert SERVICES[name]["volumes"] == [f"{name}:{volume}"]
