"""docker-compose.yml without an engine: well-formed, its commands are ones that our entry points take, and
its parts point at each other. What it describes runs in tests/integration/compose."""

from __future__ import annotations

import shlex
import subprocess
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


def arguments(service: str) -> list[str]:
    return shlex.split(SERVICES[service]["command"])


def test_images_of_others_are_named_by_their_whole_version() -> None:
    """A tag with less (`postgres:16`) is another release a month later."""
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (base,) = (line.split()[1] for line in dockerfile.splitlines() if line.startswith("FROM "))
    named = {base, *(service["image"] for service in SERVICES.values() if "build" not in service)}
    numbers = {"python": 3, "zookeeper": 3, "postgres": 2}
    assert {name.partition(":")[0] for name in named} == set(numbers)
    for name, _, tag in (image.partition(":") for image in named):
        version = tag.partition("-")[0].split(".")
        assert len(version) == numbers[name], tag
        assert all(part.isdigit() for part in version), tag


def test_the_image_installs_what_was_tested() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    locked, ours = (line for line in dockerfile.splitlines() if "pip install" in line)
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
            assert condition == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[needed]


def test_whatever_runs_here_tells_whether_it_is_healthy() -> None:
    assert [name for name, service in SERVICES.items() if "healthcheck" not in service] == []


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


def test_the_controllers_know_the_databases_user_and_password() -> None:
    stated = SERVICES["postgres"]["environment"]
    for name in ("controller1", "controller2"):
        url = sa.make_url(SERVICES[name]["environment"]["SPRINGTIDE_DATABASE_URL"])
        assert (url.username, url.password, url.database) == (
            stated["POSTGRES_USER"],
            stated["POSTGRES_PASSWORD"],
            stated["POSTGRES_DB"],
        )


def test_no_two_services_share_a_port_of_the_host() -> None:
    taken = [port.rpartition(":")[0] for service in SERVICES.values() for port in service.get("ports", [])]
    for service in SERVICES.values():
        words = shlex.split(service.get("command", ""))
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
    assert lines.index("USER springtide") > max(
        at for at, line in enumerate(lines) if line.startswith("RUN ")
    )
    volume = next(line.split()[1] for line in lines if line.startswith("VOLUME "))
    assert lines[-1].startswith("EXPOSE ")
    for name in ("broker1", "broker2", "broker3"):
        assert SERVICES[name]["volumes"] == [f"{name}:{volume}"]
