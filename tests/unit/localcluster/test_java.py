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


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    chosen = write_java(tmp_path / "home", prints='openjdk version "21.0.1"')
    other = write_java(tmp_path / "path", prints='openjdk version "17.0.1"')
    java = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{other.parent}:/bin"})
    assert (java.executable, java.major) == (chosen, 21)


def test_java_is_found_on_path_without_java_home(tmp_path: Path) -> None:
    executable = write_java(tmp_path, prints='openjdk version "17.0.15"')
    assert find_java({"PATH": f"{executable.parent}:/bin"}).executable == executable


def test_a_java_home_without_java_is_an_error_even_when_path_has_one(tmp_path: Path) -> None:
    executable = write_java(tmp_path / "path", prints='openjdk version "17.0.15"')
    with pytest.raises(JavaNotFound, match="JAVA_HOME is /nowhere"):
        find_java({"JAVA_HOME": "/nowhere", "PATH": str(executable.parent)})


def test_no_java_at_all_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFound, match=r"no java on PATH.*openjdk-17"):
        find_java({"PATH": str(tmp_path)})


def test_an_old_java_is_refused_by_its_version(tmp_path: Path) -> None:
    write_java(tmp_path, prints='openjdk version "11.0.2"')
    with pytest.raises(JavaNotFound, match="is Java 11; Java 17 or newer is needed"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_that_fails_is_reported_with_its_first_line(tmp_path: Path) -> None:
    write_java(tmp_path, prints="Error: could not find libjava.so", exits=2)
    with pytest.raises(JavaNotFound, match=r"failed with 2: Error: could not find libjava\.so"):
        find_java({"JAVA_HOME": str(tmp_path)})
