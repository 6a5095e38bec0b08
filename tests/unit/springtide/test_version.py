"""The release is named in one place; what else names one agrees with it."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from springtide.version import VERSION

ROOT = Path(__file__).parents[3]


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    return [ROOT / name for name in listed]


def test_it_is_a_release_of_three_numbers() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


def test_the_package_reads_it() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["dynamic"] == ["version"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "springtide.version.VERSION"}


def test_the_apis_description_has_it() -> None:
    document = json.loads((ROOT / "openapi/springtide.json").read_text(encoding="utf-8"))
    assert document["info"]["version"] == VERSION


#: What a file that is installed or published is called, or an image's tag.
NAMED = re.compile(r"springtide[-_:](\d+\.\d+\.\d+)")


@pytest.mark.parametrize(
    "pattern", ["*.md", "Dockerfile", "docker-compose.yml", "Makefile", "packaging/**", ".ci/*"]
)
def test_no_other_file_names_another_release_of_ours(pattern: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {found}"
        for path in tracked(pattern)
        if path.is_file() and path.name != "CHANGELOG.md"
        for found in NAMED.findall(path.read_text(encoding="utf-8", errors="replace"))
        if found != VERSION
    }
    assert wrong == set()
