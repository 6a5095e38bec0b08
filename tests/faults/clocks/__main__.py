"""`python -m tests.faults.clocks`: wall clocks of real brokers leap by days, and delete nothing.

Exit code 0: everything acknowledged was there at the end, each leap was an alarm while it lasted, and records
that were really old were deleted; 1: something of it did not hold; 3: this machine can't run simulated hosts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from localcluster.__main__ import Narrator
from localcluster.processes import ProcessFailed
from localcluster.rest import RestFailed
from tests.faults.clocks.story import LEAPS, run
from tests.faults.hosts.sandbox import enter_or_say_why_not
from tests.proof.part import DIRECTORY, Part, save

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_UNAVAILABLE = 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.clocks", description=__doc__)
    parser.add_argument("--size", choices=sorted(LEAPS), default="full", help="how many leaps (default full)")
    parser.add_argument("--part", type=Path, default=DIRECTORY, help="where the figures go")
    options = parser.parse_args(arguments)
    if not enter_or_say_why_not():
        return EXIT_UNAVAILABLE
    tell = Narrator()
    began_at = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="springtide-clocks-"))
    try:
        part = run(directory, LEAPS[options.size], tell)
    except (KafkaException, ProcessFailed, RestFailed, TimeoutError) as failure:
        seconds = time.monotonic() - began_at
        part = Part(name="real-clocks", seconds=seconds, figures={}, failures=[str(failure)])
    for name, figure in part.figures.items():
        print(f"{name:<34} {figure}")
    for failed in part.failures:
        print(f"FAILED {failed}")
    print(f"figures: {save(part, options.part)}")
    return EXIT_OK if part.is_ok else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
