"""How an application is installed: in a folder of its own below build/, by its own package manager."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.interop.clients import ROOT

BUILD = ROOT / "build" / "interop-apps"
INSTALL_SECONDS_MAX = 900.0
DONE = "installed"
"""Written into the folder when everything is in it; its text is what was asked for."""
_LIBRARIES = "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib", "usr/lib/syslog-ng"


class NotInstalled(Exception):
    """The message says why."""


class Install(Protocol):
    """One way to install."""

    @property
    def how(self) -> str:
        """As a person would do it."""

    def commands(self, folder: Path) -> Sequence[Sequence[str]]:
        """Return what fills the folder. Raises NotInstalled where this machine has no such manager."""


def is_installed(install: Install, folder: Path) -> bool:
    """Return whether what is asked for is there."""
    done = folder / DONE
    return done.is_file() and done.read_text(encoding="utf-8") == repr(install)


def install_into(install: Install, folder: Path) -> None:
    """Install anew what is not there. Raises NotInstalled."""
    if is_installed(install, folder):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for command in install.commands(folder):
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS_MAX,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise NotInstalled(f"{command[0]}: {failure}") from failure
        if ended.returncode:
            words = (ended.stderr.strip() or ended.stdout.strip() or f"exit {ended.returncode}").splitlines()
            raise NotInstalled(f"{Path(command[0]).name}: {words[-1]}")
    (folder / DONE).write_text(repr(install), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Pip:
    """Into a virtual environment of its own."""

    packages: tuple[str, ...]

    @property
    def how(self) -> str:
        return f"pip install {' '.join(self.packages)}"

    def commands(self, folder: Path) -> Sequence[Sequence[str]]:
        pip = (str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *self.packages)
        return (sys.executable, "-m", "venv", str(folder)), pip


@dataclass(frozen=True, slots=True)
class Npm:
    """Into a node_modules of its own."""

    packages: tuple[str, ...]

    @property
    def how(self) -> str:
        return f"npm install {' '.join(self.packages)}"

    def commands(self, folder: Path) -> Sequence[Sequence[str]]:
        quiet = ("--silent", "--no-audit", "--no-fund", "--prefix", str(folder))
        return (("npm", "install", *quiet, *self.packages),)


@dataclass(frozen=True, slots=True)
class Debian:
    """Unpacked, not installed: the machine's own services are left alone."""

    packages: tuple[str, ...]
    libraries: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        return f"apt-get install {' '.join(self.packages)}"

    def commands(self, folder: Path) -> Sequence[Sequence[str]]:
        if not shutil.which("apt-get") or not shutil.which("dpkg"):
            raise NotInstalled("this is no Debian")
        unpack = 'for package in *.deb; do dpkg -x "$package" . && rm "$package"; done'
        return ("apt-get", "-q", "download", *self.packages, *self.libraries), ("sh", "-ec", unpack)


@dataclass(frozen=True, slots=True)
class Maven:
    """Jars into libs/. managed_by: the coordinates of BOMs that know the versions. only: the artifacts to
    keep of what these need; () keeps all."""

    packages: tuple[str, ...]
    managed_by: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        return f"Maven: {' '.join((*self.managed_by, *self.packages))}"

    def commands(self, folder: Path) -> Sequence[Sequence[str]]:
        pom = folder / "pom.xml"
        pom.write_text(_pom(self.packages, self.managed_by), encoding="utf-8")
        what = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}/libs")
        kept = (f"-DincludeArtifactIds={','.join(self.only)}",) if self.only else ()
        return (("mvn", "-q", "-B", "-f", str(pom), *what, *kept),)


@dataclass(frozen=True, slots=True)
class Both:
    """One after the other into one folder."""

    first: Install
    second: Install

    @property
    def how(self) -> str:
        return f"{self.first.how}; {self.second.how}"

    def commands(self, folder: Path) -> Sequence[Sequence[str]]:
        return *self.first.commands(folder), *self.second.commands(folder)


@dataclass(frozen=True, slots=True)
class OnPath:
    """A program of the machine."""

    program: str
    package: str

    @property
    def how(self) -> str:
        return f"apt-get install {self.package}"

    def commands(self, folder: Path) -> Sequence[Sequence[str]]:
        if shutil.which(self.program) is None:
            raise NotInstalled(self.how)
        return ()


def library_path(folder: Path) -> str:
    """Return where the libraries of unpacked Debian packages lie."""
    return os.pathsep.join(str(folder / one) for one in _LIBRARIES)


def _pom(packages: Sequence[str], managed_by: Sequence[str]) -> str:
    boms = "".join(_dependency(one, "<type>pom</type><scope>import</scope>") for one in managed_by)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>interop</groupId><artifactId>application</artifactId><version>1</version>"
        f"<dependencyManagement><dependencies>{boms}</dependencies></dependencyManagement>"
        f"<dependencies>{''.join(map(_dependency, packages))}</dependencies></project>"
    )


def _dependency(coordinates: str, more: str = "") -> str:
    group, artifact, *version = coordinates.split(":")
    number = f"<version>{version[0]}</version>" if version else ""
    names = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    return f"<dependency>{names}{number}{more}</dependency>"
