"""packaging/changelog.py: a file a change becomes a bullet of the release."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from springtide.version import VERSION

ROOT = Path(__file__).parents[3]
BEFORE = "# Changelog\n\nWords.\n\n## [0.2.0] - 2026-11-30\n\n### Added\n- One.\n\n### Fixed\n- Two.\n"


@pytest.fixture(scope="module")
def changelog() -> ModuleType:
    spec = spec_from_file_location("packaging_changelog", ROOT / "packaging/changelog.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_that_lie_in_changes_are_right(changelog: ModuleType) -> None:
    changelog.read_fragments(ROOT / "changes")


def test_a_release_that_has_an_entry_gets_the_bullets_into_it(changelog: ModuleType) -> None:
    after = changelog.with_release(BEFORE, "0.2.0", {"added": ["Three."], "changed": ["Four."]}, day="-")
    assert after == BEFORE.replace("- One.\n", "- One.\n- Three.\n\n### Changed\n- Four.\n")


def test_the_next_release_gets_an_entry_above_the_others(changelog: ModuleType) -> None:
    after = changelog.with_release(BEFORE, "0.3.0", {"fixed": ["Five."]}, day="2027-01-02")
    added = "## [0.3.0] - 2027-01-02\n\n### Fixed\n- Five.\n\n"
    assert after == BEFORE.replace("## [0.2.0]", f"{added}## [0.2.0]")


def test_without_a_change_nothing_changes(changelog: ModuleType) -> None:
    assert changelog.with_release(BEFORE, "0.2.0", {}, day="-") == BEFORE


def test_a_long_bullet_is_wrapped_and_never_within_a_word(changelog: ModuleType) -> None:
    after = changelog.with_release(BEFORE, "0.2.0", {"fixed": ["word " * 30 + "x" * 120]}, day="-")
    lines = after.splitlines()
    assert ("  " + "x" * 120) in lines
    assert max(len(line) for line in lines if "x" * 120 not in line) <= 100


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.other.md", "A.", "the name must be"),
        ("x.fixed.txt", "A.", "the name must be"),
        ("x.fixed.md", " \n", "has 0 characters"),
        ("x.fixed.md", "a" * 401, "has 401 characters"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    changelog: ModuleType, tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(changelog.ChangeInvalid, match=said) as caught:
        changelog.read_fragments(tmp_path)
    assert name in str(caught.value)


def test_files_are_read_by_kind_and_in_order(changelog: ModuleType, tmp_path: Path) -> None:
    for name, text in (
        ("b.fixed.md", "B\nb."),
        ("a.fixed.md", "- A."),
        ("c.added.md", "C."),
        ("README.md", ""),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert changelog.read_fragments(tmp_path) == {"fixed": ["A.", "B b."], "added": ["C."]}


def test_the_newest_entry_is_of_this_release_and_short(changelog: ModuleType) -> None:
    entry = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    assert entry.startswith(f"[{VERSION}]")
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changelog.with_release(text, VERSION, {}, day="-") == text
    assert len(text.splitlines()) < 400
