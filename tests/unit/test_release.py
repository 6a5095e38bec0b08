"""packaging/release: what it refuses at once. `make release` in CI shows that two builds are equal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from springtide.version import VERSION

ROOT = Path(__file__).parents[2]
FILES = (
    "packaging/release",
    "packaging/changelog.py",
    "springtide/version.py",
    "CHANGELOG.md",
    "changes/README.md",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(checkout: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example")
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True).stdout


def commit(checkout: Path) -> None:
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "x")


def release(checkout: Path, **environment: str) -> str:
    """Return what it refused with."""
    done = subprocess.run(
        ["packaging/release", sys.executable],
        cwd=checkout,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert git(checkout, "tag") in ("", f"v{VERSION}\n")
    return done.stderr


def test_a_file_that_is_not_committed_is_in_no_release(checkout: Path) -> None:
    (checkout / "new").write_text("x")
    assert "release: files are not committed" in release(checkout)


def test_a_release_is_tagged_once(checkout: Path) -> None:
    git(checkout, "tag", f"v{VERSION}")
    assert f"v{VERSION} is tagged already" in release(checkout, TAG="1")


def test_changes_are_told_before_a_release_is_tagged(checkout: Path) -> None:
    (checkout / "changes/more-speed.changed.md").write_text("All is faster.\n")
    commit(checkout)
    assert "CHANGELOG.md now has the 1 changes" in release(checkout, TAG="1")
    assert "- All is faster.\n" in (checkout / "CHANGELOG.md").read_text()
    assert [path.name for path in (checkout / "changes").iterdir()] == ["README.md"]
    assert "files are not committed" in release(checkout, TAG="1")
