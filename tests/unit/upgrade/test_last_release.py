"""What names the last release, and which of its packages are installed beside this one's."""

from __future__ import annotations

import pytest

from springtide.levels import NEWEST
from tests.upgrade.last_release import NAMED, LastRelease, differing, named

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OURS = "# a comment\na==1 \\\n    --hash=sha256:aa\nb==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:bc\n"


def test_the_last_release_is_of_a_level_that_this_one_still_runs_at() -> None:
    assert named(NAMED.read_text(encoding="utf-8")).level in {NEWEST - 1, NEWEST}


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
