"""What names the last release, and which of its packages are installed beside this one's."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from springtide.levels import NEWEST, SUPPORTED
from tests.upgrade import last_release
from tests.upgrade.last_release import NAMED, LastRelease, LastReleaseUnavailable, differing, exported, named

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OURS = "# a comment\na==1 \\\n    --hash=sha256:aa\nb==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:bc\n"


def test_the_last_release_is_of_a_level_that_this_one_still_runs_at() -> None:
    assert named(NAMED.read_text(encoding="utf-8")).level in {SUPPORTED.lowest, NEWEST}


def test_a_commit_and_a_level_name_it() -> None:
    assert named(f"# why\n\ncommit {COMMIT}\nlevel 3\n") == LastRelease(COMMIT, 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"commit {COMMIT}\n",
        f"commit {COMMIT[:8]}\nlevel 1\n",
        f"commit {COMMIT}\nlevel 1\nlevel 2\n",
        f"commit {COMMIT} x\nlevel 1\n",
    ],
)
def test_anything_else_does_not(text: str) -> None:
    with pytest.raises(ValueError, match="last_release has to"):
        named(text)


def test_packages_of_the_same_version_are_shared_and_others_are_installed_with_their_hashes() -> None:
    theirs = "a==1 \\\n    --hash=sha256:aa\nb==1 \\\n    --hash=sha256:b1\nc==1 \\\n    --hash=sha256:cc\n"
    assert differing(theirs, OURS) == "b==1 \\\n    --hash=sha256:b1\nc==1 \\\n    --hash=sha256:cc\n"
    assert differing(OURS, OURS) == ""


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def shallow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A clone that has the last commit only, and the one before."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q")
    for content in ("last", "this"):
        (origin / "release").write_text(content)
        git(origin, "add", "release")
        git(origin, "commit", "-q", "-m", content)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{origin}", str(clone))
    monkeypatch.setattr(last_release, "ROOT", clone)
    return clone, git(origin, "rev-parse", "HEAD~1")


def test_a_shallow_clone_fetches_the_commit_that_it_lacks(shallow: tuple[Path, str]) -> None:
    _, commit = shallow
    with tarfile.open(fileobj=io.BytesIO(exported(commit))) as files:
        found = files.extractfile("release")
        assert found is not None
        assert found.read() == b"last"


def test_a_clone_that_can_not_fetch_it_says_what_to_do(shallow: tuple[Path, str]) -> None:
    clone, commit = shallow
    git(clone, "remote", "remove", "origin")
    with pytest.raises(LastReleaseUnavailable, match="git fetch --unshallow"):
        exported(commit)


def test_without_a_checkout_it_says_that_one_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_release, "ROOT", tmp_path)
    with pytest.raises(LastReleaseUnavailable, match="a git checkout is needed"):
        exported(COMMIT)
