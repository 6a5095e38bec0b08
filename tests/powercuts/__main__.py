"""`python -m tests.powercuts states|ext4|teeth`: crash states in memory, real power cuts, planted bugs."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from tests.powercuts.crash_states import explore
from tests.powercuts.ext4 import sweep as cut_power
from tests.powercuts.sweep import sweep
from tests.powercuts.teeth import find_planted
from tests.powercuts.volume import enter_own_mounts
from tests.proof.part import Part


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.powercuts", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    states = commands.add_parser("states", help="crash states of the storage engine, in memory")
    states.add_argument("--states", type=int, default=50_000)
    states.add_argument("--first", type=int, default=0, help="first seed")
    states.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    states.add_argument("--seed", type=int, help="this one alone, all that is wrong with it")
    ext4 = commands.add_parser("ext4", help="power cuts on a real file system; needs root and loop devices")
    ext4.add_argument("--cuts", type=int, default=1_000)
    ext4.add_argument("--first", type=int, default=0, help="first seed")
    teeth = commands.add_parser("teeth", help="whether planted bugs of the storage engine are found")
    teeth.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.command == "ext4":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # what was mounted is unmounted
        enter_own_mounts()
        return _shown(cut_power(cuts=arguments.cuts, first=arguments.first))
    if arguments.command == "teeth":
        return _shown(find_planted(jobs=arguments.jobs))
    if arguments.seed is not None:
        explored = explore(arguments.seed)
        print(f"{explored.states} states, {len(explored.failures)} bad", *explored.failures, sep="\n")
        return 1 if explored.failures else 0
    return _shown(sweep(states=arguments.states, first=arguments.first, jobs=arguments.jobs))


def _shown(part: Part) -> int:
    for name, figure in part.figures.items():
        print(f"{name}: {figure:,}" if isinstance(figure, int) else f"{name}: {figure}")
    for failure in part.failures:
        print(failure)
    print("holds" if part.is_ok else "DOES NOT HOLD")
    return 0 if part.is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
