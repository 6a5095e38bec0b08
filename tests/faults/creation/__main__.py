"""`python -m tests.faults.creation [--size ci|full]`: many partitions, a failover of controller and broker.

About a minute for 1,500 partitions, a few for 10,000; exit 0 when all came to be led and nothing was lost.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from localcluster.__main__ import Narrator, tell
from tests.faults.creation.story import run
from tests.proof.part import Part, save

SIZES = {"ci": (1_500, 120.0), "full": (10_000, 420.0)}
"""Partitions, and seconds within which they must be usable."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.creation", description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="ci")
    parser.add_argument("--partitions", type=int, metavar="N", help="instead of the size's")
    options = parser.parse_args(arguments)
    partitions, seconds_max = SIZES[options.size]
    partitions = options.partitions or partitions
    directory = Path(tempfile.mkdtemp(prefix="springtide-creation-"))
    begun = time.monotonic()
    figures = run(directory, Narrator(), partitions=partitions, usable_seconds_max=seconds_max)
    tell("\n" + "\n".join(figures.lines()))
    save(
        Part(
            name="real-creation",
            seconds=round(time.monotonic() - begun, 1),
            figures={
                "partitions created": figures.partitions,
                "seconds to 201": round(figures.to_201, 1),
                "seconds to all usable, with both kills": round(figures.to_usable, 1),
                "stall ms of existing partitions, quiet": round(figures.stall_quiet * 1000),
                "stall ms of existing partitions, during the creation": round(figures.stall_creating * 1000),
                "records acknowledged": figures.acknowledged,
            },
            faults={"kill_controller": 1, "kill_broker": 2},
            failures=figures.failures,
            lost=figures.lost,
        )
    )
    if figures.failures:
        tell(f"logs are kept in {directory}")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
