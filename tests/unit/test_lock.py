"""requirements*.lock: what `make` and the image install is what pyproject.toml asks for, on every Python."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
#: Exact, with the hashes of its files, and without the address of any index.
PIN = re.compile(r"[a-z0-9-]+==[0-9][a-z0-9.]*(    --hash=sha256:[0-9a-f]{64})+")


def read(name: str) -> dict[str, str]:
    """Return the version of each package that the file pins. Each line is a pin, its hash, or a reason."""
    text = (ROOT / name).read_text(encoding="utf-8").removesuffix("\n").replace(" \\\n", "")
    pins = [line for line in text.splitlines() if not line.startswith(("#", "-r "))]
    assert [pin for pin in pins if not PIN.fullmatch(pin)] == []
    return dict(pin.split()[0].split("==") for pin in pins)


IMAGE = read("requirements.lock")
LOCKED = IMAGE | read("requirements-dev.lock")
FUZZ = read("requirements-fuzz.lock")
"""Beside the others: not every machine has builds of it."""
RELEASE = read("requirements-release.lock")
"""Beside the others: only releases need it."""
BUILD = {"setuptools"}
"""Where a package is built, and not where it runs."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")


def asked_by(name: str, extra: str) -> list[Requirement]:
    """Return what a package asks for, or what one extra of it adds; markers are not looked at yet."""
    if name == "springtide":
        return [
            Requirement(line)
            for line in (PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"])
        ]
    return [Requirement(line) for line in metadata.requires(name) or []]


def needed(python: str, machine: str, root: str = "dev") -> list[Requirement]:
    """Return every requirement of the extra `root` there: its own, and those of what it brings."""
    there: dict[str, str] = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": machine,
    }
    seen: set[tuple[str, str]] = set()
    found, waiting = [], [Requirement(f"springtide[{root}]")]
    while waiting:
        one = waiting.pop()
        found.append(one)
        name = canonicalize_name(one.name)
        for extra in ("", *one.extras):
            if (name, extra) not in seen and (name in LOCKED or name == "springtide"):
                seen.add((name, extra))
                environment: dict[str, Any] = {**default_environment(), **there, "extra": extra}
                waiting += [
                    each
                    for each in asked_by(name, extra)
                    if each.marker is None or each.marker.evaluate(environment)
                ]
    return [one for one in found if one.name != "springtide"]


def satisfied(one: Requirement) -> bool:
    return one.specifier.contains((LOCKED | FUZZ | RELEASE).get(canonicalize_name(one.name), "0.dev0"))


def test_the_lock_has_a_version_within_each_range_of_ours() -> None:
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    ours = [Requirement(line) for line in (*lines, *PYPROJECT["build-system"]["requires"])]
    assert [str(one) for one in ours if one.name != "springtide" and not satisfied(one)] == []


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_is_whole_and_has_nothing_else(python: str, machine: str) -> None:
    installed: dict[str, str] = {canonicalize_name(one.name): one.version for one in metadata.distributions()}
    if any(installed.get(name) != LOCKED[name] for name in set(LOCKED) - BUILD):
        pytest.skip("this environment has other versions than the lock (LOCKED=0)")
    asked = needed(python, machine)
    assert [str(one) for one in asked if not satisfied(one)] == []
    assert {canonicalize_name(one.name) for one in asked} == set(LOCKED) - BUILD
    image = needed(python, machine, "postgres")
    assert {canonicalize_name(one.name) for one in image} == set(IMAGE) - BUILD


def test_the_tools_of_a_release_fit_beside_the_others() -> None:
    assert set(RELEASE) & set(LOCKED | FUZZ) == set()
