"""The next upgrade, rehearsed: this tree is the last release, and a next one is made of it in `build/`.

    python -m tests.simulation.releases.rehearsal sweep --seeds 20
    python -m tests.simulation.releases.rehearsal teeth

That this release keeps to its levels, and that what is new can come beside it, would show only with the next
release. So a tree is made that is this one with a higher level and a word in rows that is new with it, and
the family `mixed` is swept there (tests/simulation/releases/mixed.py), or its bugs are hunted that only a
release with levels can have.

Exit status: that of the command, or 2 if the tree can't be made.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.simulation.releases.source import PACKAGES
from tests.upgrade.last_release import NAMED, ROOT

PLACE = ROOT / "build" / "next-release"
WORD: Final = "isr_shrunk_since_the_next_release"
#: What is different in the next release: (file, what stands there, what stands there then).
EDITS: Final = (
    ("springtide/levels.py", "NEWEST: Final = Level(3)", "NEWEST: Final = Level(4)"),
    ("springtide/levels.py", 'Level(3): "0.3"}', 'Level(3): "0.3", Level(4): "0.4"}'),
    (
        "controller/core/records.py",
        '    ISR_SHRUNK = "isr_shrunk"\n',
        f'    ISR_SHRUNK = "isr_shrunk"\n    NEXT = "{WORD}"\n',
    ),
    (
        "controller/core/draft.py",
        "        return Change(cause=cause, at_ms",
        "        if cause is Cause.ISR_SHRUNK and self.image.level > 3:\n"
        "            cause = Cause.NEXT\n"
        "        return Change(cause=cause, at_ms",
    ),
)
BUGS: Final = ("old_controller_stands", "level_read_after_rows")


class NoRehearsal(RuntimeError):
    """The next release's tree can't be made. The message says why."""


def make() -> Path:
    """Return the next release's tree, made anew; the last release is the commit that is checked out here.

    Raises:
        NoRehearsal: a place that EDITS names has changed, or this is no git checkout.
    """
    head = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    if head.returncode:
        raise NoRehearsal("a git checkout is needed, whose commit is the last release then")
    shutil.rmtree(PLACE, ignore_errors=True)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, PLACE / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", PLACE)
    for name, before, after in EDITS:
        path = PLACE / name
        text = path.read_text(encoding="utf-8")
        if text.count(before) != 1:
            raise NoRehearsal(f"{name} does not have {before!r} once: what is to be changed there?")
        path.write_text(text.replace(before, after), encoding="utf-8")
    named = f"commit {head.stdout.strip()}\nlevel 3\n"
    (PLACE / NAMED.relative_to(ROOT)).write_text(named, encoding="utf-8")
    return PLACE


def run(command: Sequence[str]) -> int:
    """Run a module of the next release's tree; return its exit status. Raises NoRehearsal."""
    where = make()
    git = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--absolute-git-dir"],
        capture_output=True,
        text=True,
        check=True,
    )
    environment = os.environ | {"PYTHONPATH": str(where), "GIT_DIR": git.stdout.strip()}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=where, env=environment, check=False
    ).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.releases.rehearsal",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    sweep = commands.add_parser("sweep", help="sweep the family mixed")
    sweep.add_argument("--seeds", type=int, default=20)
    sweep.add_argument("--first", type=int, default=0)
    sweep.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    commands.add_parser("teeth", help="hunt the bugs that only a release with levels can have")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "teeth":
            return run(["tests.simulation.teeth", "--jobs", "1", *BUGS])
        seeds = ["--seeds", str(asked.seeds), "--first", str(asked.first), "--jobs", str(asked.jobs)]
        return run(["tests.simulation", "sweep", "--family", "mixed", *seeds])
    except NoRehearsal as reason:
        print(f"no rehearsal: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
