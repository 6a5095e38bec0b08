"""Finding Java: what is said when it is absent, broken or too old."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster.java import JavaNotFound, find_java, parse_java_major


def write_java(home: Path, *, prints: str, exits: int = 0) -> Path:
    """A launcher that answers like some Java would."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{prints}' >&2\nexit {exits}\n", encoding="utf-8")
    executable.chmod(0o755)
    return executable


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('openjdk version "24" 2025-03-18', 24),
        ("Unrecognized option: -version", None),
        ("", None),
    ],
)
def test_the_major_version_is_read_from_old_and_new_version_strings(printed: str, major: int | None) -> None:
    assert parse_java_major(printed) == major


def test_no_java_at_all_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFound, match=r"no java on PATH.*openjdk-17"):
        find_java({"PATH": str(tmp_path)})


def test_an_old_java_is_refused_by_its_version(tmp_path: Path) -> None:
    write_java(tmp_path, prints='openjdk version "11.0.2"')
    with pytest.raises(JavaNotFound, match="is Java 11; Java 17 or newer is needed"):
        find_java({"JAVA_HOME": str(tmp_path)})
