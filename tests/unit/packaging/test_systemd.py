"""packaging/systemd, packaging/etc: systemd takes the units, closed up; our programs take their commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from admin_api.__main__ import _parser as controller_parser
from controller.config import load_config
from coordinator.__main__ import _parser as coordinator_parser
from dataplane.__main__ import _parser as broker_parser
from dataplane.__main__ import _settings as broker_settings

ROOT = Path(__file__).parents[3]
UNITS = sorted((ROOT / "packaging/systemd").glob("*.service"))
ETC = ROOT / "packaging/etc"
PARSERS = {"controller": controller_parser, "coordinator": coordinator_parser, "dataplane": broker_parser}
#: In tenths, as systemd-analyze counts: 20 is 2.0 of 10, where 10 is a service that may do everything.
EXPOSURE_MAX = 20

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None and not os.environ.get("CI_REQUIRED"),
    reason="there is no systemd",
)
each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)


def directives(unit: Path) -> list[tuple[str, str]]:
    lines = unit.read_text(encoding="utf-8").splitlines()
    pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
    return [(name, value) for name, _, value in pairs]


def variables(file: Path) -> dict[str, str]:
    """Return a file's variables as EnvironmentFile= reads it, and those of its commented examples with #."""
    pairs = (line.partition("=") for line in file.read_text(encoding="utf-8").splitlines() if "=" in line)
    return {name: value for name, _, value in pairs}


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "--no-pager", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_there_is_a_unit_for_each_process() -> None:
    assert [unit.stem for unit in UNITS] == [
        "springtide-broker@",
        "springtide-controller",
        "springtide-coordinator@",
    ]


@needs_systemd
@each_unit
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in PARSERS:
        (programs / program).write_text("#!/bin/sh\n")
        (programs / program).chmod(0o755)
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/springtide/bin", str(programs)))
    verified = analyze("verify", copy)
    ours = [line for line in verified.stderr.splitlines() if "springtide" in line]
    assert (ours, verified.returncode) == ([], 0)


@needs_systemd
@each_unit
def test_the_unit_is_closed_up(unit: Path) -> None:
    judged = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit)
    assert judged.returncode == 0, judged.stdout[-300:]


@needs_systemd
def test_an_open_unit_would_be_found(tmp_path: Path) -> None:
    unit = tmp_path / "open.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit).returncode != 0


def test_all_units_are_closed_up_alike() -> None:
    """From the comment on: a copy in each, so that each can be read and copied alone."""
    assert len({unit.read_text().partition("\n# It may do what it is for")[2] for unit in UNITS}) == 1


@each_unit
def test_the_boot_id_stays_visible(unit: Path) -> None:
    """Without it, a broker's stop counts as a crash of the machine."""
    assert "ProcSubset" not in dict(directives(unit))


@each_unit
def test_systemd_hears_from_the_process_and_waits_for_its_hand_over(unit: Path) -> None:
    found = dict(directives(unit))
    assert found["Type"] == "notify"
    assert (found["KillMode"], found["TimeoutStopSec"], found["WatchdogSec"]) == ("mixed", "60", "60")
    if "broker" in unit.name:  # its workers tell that they serve
        assert found["NotifyAccess"] == "all"


def command(unit: Path, environment: dict[str, str]) -> list[str]:
    """Return the command of instance 7 as systemd starts it: $NAME is split into words, ${NAME} is not."""
    (line,) = (value for name, value in directives(unit) if name == "ExecStart")
    for specifier, value in (("%i", "7"), ("%S", "/var/lib"), ("%d", str(ETC))):
        line = line.replace(specifier, value)
    words: list[str] = []
    for word in shlex.split(line):
        named = re.fullmatch(r"\$(\w+)", word)
        if named is not None:
            words += shlex.split(environment[named.group(1)])
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda found: environment[found.group(1)], word))
    assert "%" not in "".join(words)
    return words


@each_unit
@pytest.mark.parametrize("mark", ["", "# "])
def test_the_program_takes_the_command_with_the_files_that_are_installed(unit: Path, mark: str) -> None:
    """With their settings, and with those that their comments show for other hosts (mark)."""
    environment: dict[str, str] = {}
    for name, value in directives(unit):
        if name == "EnvironmentFile" and "%i" not in value:
            file = ETC / Path(value).name
            found = variables(file)
            environment |= {name: found.get(f"{mark}{name}", found.get(name, "")) for name in found}
    program, *rest = command(unit, environment)
    chosen = PARSERS[Path(program).name]().parse_args(rest)
    assert chosen.command == "serve"
    if Path(program).name == "dataplane" and not mark:
        assert broker_settings(chosen).broker_id == 7


def test_the_controllers_file_has_settings_that_it_knows(tmp_path: Path) -> None:
    text = (ETC / "controller.toml").read_text(encoding="utf-8")
    shown = re.sub(r"(?m)^# (?=\w+ = )", "", text)
    file = tmp_path / "controller.toml"
    for content in (
        text,
        "\n".join({line.split(" = ")[0]: line for line in shown.splitlines()}.values()),
    ):
        file.write_text(content, encoding="utf-8")
        file.chmod(0o600)
        assert load_config({}, {}, file=file).zookeeper == "127.0.0.1:2181"


def test_the_user_and_the_folders_of_the_units_are_made() -> None:
    users = (ROOT / "packaging/systemd/sysusers.conf").read_text(encoding="utf-8")
    folders = (ROOT / "packaging/systemd/tmpfiles.conf").read_text(encoding="utf-8")
    for unit in UNITS:
        found = directives(unit)
        assert f"\nu {dict(found)['User']} " in users
        for name, value in found:
            folder = value.partition(":")[2]
            if name == "LoadCredential" and not (ETC / Path(folder).name).is_file():
                assert f"\nd {folder} 0700 root root" in folders
