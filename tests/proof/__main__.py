"""`python -m tests.proof run --profile ci|full` tries everything and writes `build/proof.md` and `.json`.

`python -m tests.proof explore --minutes 60` draws new seeds on all tiers until its time is over or it is
interrupted, and lists what failed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.proof.families import render_families
from tests.proof.part import DIRECTORY, Part, load_all
from tests.proof.plan import TURNS, Profile, Step, committed_seed, drawn_seed, exploring, missing, steps
from tests.proof.running import run
from tests.proof.table import render

MARKDOWN = Path("build/proof.md")
JSON = Path("build/proof.json")


def tree_of_checkout() -> str:
    """Id of the checked-out commit's tree; of nothing but zeros outside a git checkout."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD^{tree}"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "0" * 40
    return found.stdout.strip()


def report(chosen: Sequence[Step], wrong: Sequence[str], tree: str) -> bool:
    """Writes and prints the table; True when everything ran and held."""
    parts = load_all()
    names = {part.name for part in parts}
    absent = missing(chosen, names.__contains__)
    order = [name for step in chosen for name in step.parts]
    parts.sort(key=lambda part: order.index(part.name) if part.name in order else len(order))
    text = render(parts, absent, subject=f"tree {tree[:12]}, Python {platform.python_version()}")
    text += "\n" + render_families(parts)
    if wrong:
        text += "\n" + "\n".join(f"- {line}" for line in wrong) + "\n"
    is_ok = not wrong and not absent and all(part.is_ok for part in parts)
    MARKDOWN.parent.mkdir(exist_ok=True)
    MARKDOWN.write_text(text, encoding="utf-8")
    page: dict[str, bool | str | list[str] | list[Part]] = {
        "holds": is_ok,
        "tree": tree,
        "parts": parts,
        "did_not_run": absent,
        "wrong": list(wrong),
    }
    JSON.write_bytes(msgspec.json.format(msgspec.json.encode(page), indent=2) + b"\n")
    print(text)
    return is_ok


def explore(*, minutes: float, jobs: int) -> int:
    """Run rounds of new seeds until the time is over or the user interrupts; exit status 1 if any failed."""
    ends = time.monotonic() + minutes * 60
    wrong: list[str] = []
    rounds = 0
    try:
        while time.monotonic() < ends:
            first = drawn_seed()
            rounds += 1
            left = (ends - time.monotonic()) / 60
            print(f"\n=== round {rounds}, first seed {first}, {left:.0f} minutes left, {len(wrong)} failed")
            wrong += run(exploring(first, jobs=jobs))
    except KeyboardInterrupt:
        print("interrupted; everything was stopped")
    print(f"\n{rounds} rounds, {len(wrong)} steps failed", *wrong, sep="\n")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="try everything, then print the table")
    runner.add_argument("--profile", type=Profile, choices=list(Profile), default=Profile.FULL)
    runner.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    runner.add_argument("--only", action="append", help="part name; may be repeated")
    runner.add_argument("--turn", type=int, choices=range(TURNS), help="of what is run in turns, this third")
    runner.add_argument("--first", type=int, help="first seed; default: ci: that of tests/seeds, full: drawn")
    explorer = commands.add_parser("explore", help="draw new seeds on all tiers")
    explorer.add_argument("--minutes", type=float, default=60.0)
    explorer.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.command == "explore":
        return explore(minutes=arguments.minutes, jobs=arguments.jobs)
    tree = tree_of_checkout()
    first = arguments.first
    if first is None:
        first = committed_seed() if arguments.profile is Profile.CI else drawn_seed()
    print(f"first seed: {first}", flush=True)
    chosen = [
        step
        for step in steps(arguments.profile, first, jobs=arguments.jobs, turn=arguments.turn)
        if not arguments.only or set(step.parts) & set(arguments.only)
    ]
    if not chosen:
        parser.error(f"--only {arguments.only}: no such part")
    shutil.rmtree(DIRECTORY, ignore_errors=True)  # An earlier run's figures are not this one's.
    wrong = run(chosen)
    return 0 if report(chosen, wrong, tree) else 1


if __name__ == "__main__":
    sys.exit(main())
