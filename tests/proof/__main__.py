"""`python -m tests.proof run --profile ci|full` tries everything and writes `build/proof.md` and `.json`."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.proof.part import DIRECTORY, Part, load_all
from tests.proof.plan import Profile, Step, missing, steps
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="try everything, then print the table")
    runner.add_argument("--profile", type=Profile, choices=list(Profile), default=Profile.FULL)
    runner.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    runner.add_argument("--only", action="append", help="part name; may be repeated")
    arguments = parser.parse_args()
    tree = tree_of_checkout()
    chosen = [
        step
        for step in steps(arguments.profile, tree, jobs=arguments.jobs)
        if not arguments.only or set(step.parts) & set(arguments.only)
    ]
    if not chosen:
        parser.error(f"--only {arguments.only}: no such part")
    shutil.rmtree(DIRECTORY, ignore_errors=True)  # An earlier run's figures are not this one's.
    wrong = run(chosen)
    return 0 if report(chosen, wrong, tree) else 1


if __name__ == "__main__":
    sys.exit(main())
