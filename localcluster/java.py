"""Finds the Java virtual machine that ZooKeeper (and Spark) need, or says in one sentence why there is none.

`JAVA_HOME` wins over `PATH`, as everywhere in the Java world; a `JAVA_HOME` that points at nothing is
reported and never silently skipped, because the operator meant something by it. The version is asked of the
binary itself: folder names lie.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

JAVA_MAJOR_MIN = 17
"""Spark 4 is compiled for Java 17, so the ZooKeeper jars beside it are only tested from there on."""

VERSION_ANSWER_SECONDS_MAX = 20.0
"""A cold JVM on a loaded machine takes a second or two to print its version; more means that it hangs."""

_VERSION = re.compile(r'version "(?P<major>\d+)(?:\.(?P<minor>\d+))?')


class JavaNotFound(RuntimeError):
    """No usable Java; the message says what was looked at and what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """One Java launcher and the major version it answered with."""

    executable: Path
    major: int


def parse_java_major(version_output: str) -> int | None:
    """Return the major version from `java -version`; None when the text is not of that form.

    Up to Java 8 the first number is always 1 and the second is the version (`1.8.0_292`), from 9 on (JEP
    223) the first number is it (`17.0.15`, `21-ea`).
    """
    found = _VERSION.search(version_output)
    if found is None:
        return None
    major = int(found["major"])
    if major == 1 and found["minor"] is not None:
        return int(found["minor"])
    return major


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java launcher to use.

    Raises:
        JavaNotFound: when there is none, it does not run, or it is older than `JAVA_MAJOR_MIN`.
    """
    environment = os.environ if environment is None else environment
    executable = _locate(environment)
    try:
        answer = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_ANSWER_SECONDS_MAX,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaNotFound(f"{executable} does not run: {error}. {_advice()}") from error
    printed = answer.stderr + answer.stdout
    major = parse_java_major(printed)
    if answer.returncode != 0 or major is None:
        first_line = printed.strip().partition("\n")[0]
        raise JavaNotFound(
            f"{executable} -version failed with {answer.returncode}: {first_line}. {_advice()}"
        )
    if major < JAVA_MAJOR_MIN:
        raise JavaNotFound(
            f"{executable} is Java {major}; Java {JAVA_MAJOR_MIN} or newer is needed. {_advice()}"
        )
    return Java(executable=executable, major=major)


def _locate(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise JavaNotFound(f"JAVA_HOME is {home}, but {executable} is not an executable. {_advice()}")
        return executable
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is None:
        raise JavaNotFound(f"JAVA_HOME is not set and there is no java on PATH. {_advice()}")
    return Path(on_path)


def _advice() -> str:
    return (
        f"ZooKeeper runs on Java {JAVA_MAJOR_MIN}+: install one "
        "(Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it."
    )
