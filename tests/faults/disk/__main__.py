"""`python -m tests.faults.disk [--size ci|full]`: a broker's volume goes without a flush and comes back.

The machine runs on, under the same boot id. What was acknowledged must not be lost, and nothing silently.
Needs root: the brokers' disks are ext4 on loop devices. Exit 0 when everything held, 1 when not, 3 where no
hosts can be made.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from localcluster.processes import ProcessFailed
from tests.faults.disk.story import ROUNDS, Tale, tell_all
from tests.faults.hosts.sandbox import enter_or_say_why_not
from tests.proof.part import DIRECTORY, Part, save

EXIT_OK, EXIT_FAILED, EXIT_UNAVAILABLE = 0, 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.disk", description=__doc__)
    parser.add_argument(
        "--size", choices=sorted(ROUNDS), default="full", help="how many rounds (default full)"
    )
    parser.add_argument("--part", type=Path, default=DIRECTORY, help="where the figures go")
    options = parser.parse_args(arguments)
    if not enter_or_say_why_not():
        return EXIT_UNAVAILABLE
    started_at = time.monotonic()

    def tell(line: str) -> None:
        print(f"[{time.monotonic() - started_at:6.1f} s] {line}", flush=True)

    directory = Path(tempfile.mkdtemp(prefix="springtide-disk-"))
    tale = Tale(tell)
    try:
        tell_all(tale, directory, rounds=ROUNDS[options.size])
    except (ProcessFailed, TimeoutError, AssertionError) as failure:
        tale.failures.append(f"{type(failure).__name__}: {failure}")
    part = Part(
        name="real-disk",
        seconds=time.monotonic() - started_at,
        figures={"records acknowledged": tale.acknowledged, "records read": tale.read},
        faults={"reattach_disk": tale.strikes},
        failures=tale.failures,
        lost=tale.lost,
    )
    print(f"figures: {save(part, options.part)}")
    for line in part.failures:
        print(f"FAILED {line}")
    if not part.is_ok:
        print(f"logs: {directory}")
        return EXIT_FAILED
    shutil.rmtree(directory, ignore_errors=True)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
