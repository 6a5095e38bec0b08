"""The last release, built from the repository and installed beside this one: `make last-release`.

The commit that the file `last_release` names is exported, built as a wheel, and installed into a virtual
environment of its own. Packages that both releases want in the same version are not installed again (PySpark
alone has 500 MB): the environment looks for them, after its own, in the one that runs this. What the last
release's requirements.lock has in another version is installed beside it and comes first.

    python -m tests.upgrade.last_release

Exit status: 0 it is there; 1 it can't be built, with what to do about it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
NAMED = Path(__file__).with_name("last_release")
PLACE = ROOT / "build" / "last-release"
MADE = "made"
"""The file that says what a finished environment was made of."""
LOCK, DEV_LOCK = "requirements.lock", "requirements-dev.lock"
OUTPUT_LINES_SHOWN = 20


LEFT_OUT = "LAST_RELEASE_LEFT_OUT"


def is_left_out() -> bool:
    """Return whether `.ci/run` found that its clone lacks the last release's commit and can't fetch it. What
    needs it is then left out, and the end of the run says so."""
    return os.environ.get(LEFT_OUT) == "1"


class LastReleaseUnavailable(RuntimeError):
    """The last release can't be built here. The message says what to do."""


class LastRelease(NamedTuple):
    """commit: its full name. level: the highest that it knows."""

    commit: str
    level: int


def named(text: str) -> LastRelease:
    """Read the file that names it. Raise ValueError if it has not exactly a commit and a level."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    values = {line[0]: line[1] for line in lines if len(line) == 2}
    if len(lines) != 2 or values.keys() != {"commit", "level"}:
        raise ValueError("last_release has to have one line 'commit HASH' and one 'level NUMBER'")
    if not re.fullmatch("[0-9a-f]{40}", values["commit"]):
        raise ValueError("last_release has to name its commit in full: 40 hexadecimal digits")
    return LastRelease(values["commit"], int(values["level"]))


def differing(theirs: str, ours: str) -> str:
    """Return the entries of a lock file that another does not have in the same version."""

    def entries(text: str) -> dict[str, str]:
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith(("#", "-r "))]
        starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
        blocks = ["".join(lines[a:b]) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]
        return {block.split()[0]: block for block in blocks if block.strip()}

    known = entries(ours)
    return "".join(block for pin, block in entries(theirs).items() if pin not in known)


def python() -> Path:
    """Return the interpreter whose `-m controller`, `-m dataplane`, ... are those of the last release; build
    it if it is not there yet.

    Raises:
        LastReleaseUnavailable: with what to do.
    """
    release = named(NAMED.read_text(encoding="utf-8"))
    interpreter = PLACE / "bin" / "python"
    wanted = f"{release.commit} {sys.version} {sys.prefix}\n"
    PLACE.parent.mkdir(exist_ok=True)
    with _alone(PLACE.with_name("last-release.lock")):
        made = PLACE / MADE
        if not made.is_file() or made.read_text(encoding="utf-8") != wanted:
            _build(release)
            made.write_text(wanted, encoding="utf-8")
    return interpreter


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two tests that need it at one time build it once."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(release: LastRelease) -> None:
    archive = exported(release.commit)
    shutil.rmtree(PLACE, ignore_errors=True)
    source = PLACE / "source"
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(source, filter="data")
    venv.create(PLACE, with_pip=False, symlinks=True)
    interpreter = PLACE / "bin" / "python"
    # After its own site-packages. The .pth files in a folder that a .pth file names are not read: so the
    # editable install of this release is not seen, if there is one.
    (own,) = PLACE.glob("lib/python3*/site-packages")
    (own / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    ours = "".join((ROOT / name).read_text(encoding="utf-8") for name in (LOCK, DEV_LOCK))
    others = differing((source / LOCK).read_text(encoding="utf-8"), ours)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    into = (*pip, "--python", str(interpreter), "install", "--no-deps")
    if others:
        (PLACE / "differing.lock").write_text(others, encoding="utf-8")
        _run([*into, "--require-hashes", "--ignore-installed", "-r", str(PLACE / "differing.lock")])
    wheels = PLACE / "wheel"
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(wheels), str(source)])
    (wheel,) = wheels.glob("*.whl")
    _run([*into, "--no-index", "--ignore-installed", str(wheel)])
    shutil.rmtree(source)


def exported(commit: str, *paths: str) -> bytes:
    """Return the commit's files, or these, as a tar archive. It is fetched where a shallow clone lacks it."""
    is_checkout = shutil.which("git") and _ask_git("rev-parse", "--git-dir").returncode == 0
    if not is_checkout:
        raise LastReleaseUnavailable(
            "the last release is a commit of the repository: a git checkout is needed"
        )
    archived = _ask_git("archive", commit, *paths)
    if archived.returncode:
        fetched = _ask_git("fetch", "--quiet", "--depth", "1", "origin", commit)
        archived = _ask_git("archive", commit, *paths)
        if archived.returncode:
            said = fetched.stderr.decode(errors="replace").strip() or "origin does not have it"
            raise LastReleaseUnavailable(
                f"commit {commit}, the last release, is not in this clone and could not be fetched"
                f" ({said}); `git fetch --unshallow`, or `git fetch --depth 1 REMOTE {commit}` from a"
                " remote that has it"
            )
    return archived.stdout


def _ask_git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)


def _run(command: Sequence[str]) -> None:
    # Not PYTHONPATH: the environment's own packages are meant.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment
    )
    if ended.returncode:
        tail = "\n".join(ended.stdout.splitlines()[-OUTPUT_LINES_SHOWN:])
        raise LastReleaseUnavailable(f"{' '.join(command)} ended with {ended.returncode}:\n{tail}")


def main() -> int:
    argparse.ArgumentParser(
        prog="python -m tests.upgrade.last_release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    began = time.monotonic()
    try:
        interpreter = python()
    except LastReleaseUnavailable as reason:
        print(f"no last release: {reason}", file=sys.stderr)
        return 1
    release = named(NAMED.read_text(encoding="utf-8"))
    print(f"{interpreter}: {release.commit[:8]}, level {release.level} ({time.monotonic() - began:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
