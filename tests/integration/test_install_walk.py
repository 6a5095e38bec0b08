"""docs/install.md: its commands are ones that programs take, and what can be walked here is walked."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from admin_api.__main__ import _parser as controller_parser
from coordinator.__main__ import _parser as coordinator_parser
from dataplane.__main__ import _parser as broker_parser
from localcluster.java import find_java
from localcluster.ports import PortReservation
from localcluster.zookeeper import ZooKeeper, ZooKeeperPorts
from springtide.cli.catalogue import COMMANDS
from springtide.cli.parser import build_parser
from springtide.version import VERSION
from tests.kit.image import copy_context
from tests.kit.walks import blocks, needs

ROOT = Path(__file__).parents[2]
PAGE = "docs/install.md"
SECTIONS = ("pip", "Debian package", "systemd", "Image", "Kubernetes")
IMAGE = f"springtide:{VERSION}"
SERVERS = {"controller": controller_parser, "dataplane": broker_parser, "coordinator": coordinator_parser}
WALK_SECONDS_MAX = 300.0


def commands() -> Iterator[list[str]]:
    """Yield the words of each command of the page, without what a shell redirects."""
    for section in SECTIONS:
        for block in blocks(PAGE, f"## {section}"):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line.partition(" 2>")[0].removesuffix("&"), comments=True)
                if words:
                    yield words


def ours(words: list[str]) -> list[str]:
    """Return the command of a program of ours: as typed, of a container, or none."""
    if words[0] == "docker" and IMAGE in words and "run" in words:
        return words[words.index(IMAGE) + 1 :]
    program = Path(words[0]).name
    return [program, *words[1:]] if program in {*SERVERS, "springtide"} else []


def test_each_command_of_ours_is_one_that_its_program_takes() -> None:
    found = [command for words in commands() if (command := ours(words))]
    assert {program for program, *_ in found} == {*SERVERS, "springtide"}
    for program, *rest in found:
        if rest == ["--version"]:
            continue
        if program == "springtide":
            build_parser(COMMANDS, version=VERSION).parse_args(rest)
        else:
            assert SERVERS[program]().parse_args(rest).command == "serve"


def test_each_unit_that_is_started_and_each_folder_that_is_named_is_there() -> None:
    units = {path.stem for path in (ROOT / "packaging/systemd").glob("*.service")}
    for words in commands():
        if words[:2] == ["systemctl", "enable"]:
            name, at, _ = words[-1].partition("@")
            assert name + at in units
        if words[0] == "kubectl":
            assert (ROOT / words[-1] / "kustomization.yaml").is_file()


def test_containers_have_a_root_that_is_read_only_and_no_rights() -> None:
    runs = [words for words in commands() if words[:2] == ["docker", "run"]]
    assert runs
    for words in runs:
        assert "--read-only" in words
        assert words[words.index("--cap-drop") + 1] == "ALL"
        assert words[words.index("--volume") + 1].endswith(":/var/lib/springtide")


@needs("systemd-sysusers", "systemd-tmpfiles")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes users")
def test_what_systemd_needs_is_installed_as_the_page_says(tmp_path: Path) -> None:
    there = tmp_path / "root"
    (there / "etc").mkdir(parents=True)
    with tarfile.open(tmp_path / f"springtide-{VERSION}.tar.gz", "w:gz") as sdist:
        sdist.add(ROOT / "packaging", f"springtide-{VERSION}/packaging")
    first, _ = blocks(PAGE, "## systemd")
    script = first.replace(" /etc", f" {there}/etc")
    for program in ("systemd-sysusers", "systemd-tmpfiles"):
        script = script.replace(f"\n{program} ", f"\n{program} --root={there} ")
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True, timeout=60)
    assert re.search(r"^springtide:x:\d+:\d+:.*/usr/sbin/nologin$", (there / "etc/passwd").read_text(), re.M)
    modes = {
        str(path.relative_to(there)): path.stat().st_mode & 0o777
        for path in (there / "etc/springtide").iterdir()
    }
    assert modes == {
        "etc/springtide/controller.toml": 0o600,
        "etc/springtide/broker.env": 0o644,
        "etc/springtide/coordinator.env": 0o644,
        "etc/springtide/secrets": 0o700,
        "etc/springtide/tls": 0o750,
    }
    assert len([*(there / "etc/systemd/system").glob("springtide-*.service")]) == 3


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs("curl")
def test_the_way_of_pip_leads_to_a_cluster(tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.mkdir()
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run([*pip, "-w", release, copy_context(tmp_path)], check=True, timeout=WALK_SECONDS_MAX)
    shutil.copy(ROOT / "requirements.lock", release)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in release.iterdir()]
    (release / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")

    install, cluster = blocks(PAGE, "## pip")
    venv = str(tmp_path / "venv")
    installed = typed(install.replace("/opt/springtide", venv), release)
    assert f"springtide {VERSION}" in installed

    with ExitStack() as stack:
        ports = stack.enter_context(PortReservation())
        mapped = {str(port): str(ports.reserve_free()) for port in (2181, 8080, 9092, 9192)}
        zookeeper = ZooKeeper(
            directory=tmp_path / "zookeeper",
            ports=[ZooKeeperPorts(int(mapped["2181"]), ports.reserve_free(), ports.reserve_free())],
            java=find_java(),
            log_directory=tmp_path / "logs",
            force_sync=False,
        )
        stack.callback(zookeeper.stop)
        zookeeper.start()
        here = re.sub(r"\b(2181|8080|9092|9192)\b", lambda found: mapped[found[1]], cluster)
        told = typed(f"trap 'kill $(jobs -p); wait' EXIT\n{here.replace('/opt/springtide', venv)}", tmp_path)
    assert re.search(r"^ *1\b.*active", told, re.M), told


def typed(script: str, folder: Path) -> str:
    """Return what the script prints, typed in that folder."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPRINGTIDE"))
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        timeout=WALK_SECONDS_MAX,
        check=False,
    )
    logs = "".join(path.read_text()[-1000:] for path in folder.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return done.stdout
