"""`python -m tests.faults.elastic`: brokers join and leave under load; prints what came of it.

About two minutes; exit 0 when nothing was lost and nothing is wrong, 1 otherwise.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from localcluster.__main__ import Narrator, tell
from tests.faults.elastic.join_and_drain import Pace, run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.elastic", description=__doc__)
    parser.add_argument(
        "--kill-controllers",
        action="append",
        default=[],
        choices=["broker_add", "broker_drain"],
        metavar="KIND",
        help="the active one of two, at each step of broker_add or broker_drain; may be repeated",
    )
    parser.add_argument(
        "--throttle", type=int, metavar="BYTES", help="how much each broker may copy a second"
    )
    parser.add_argument("--concurrent", type=int, default=10, metavar="MOVES", help="at once (default 10)")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="also write what is printed at the end here"
    )
    options = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="springtide-elastic-"))
    pace = Pace(throttle_bytes_per_s=options.throttle, max_concurrent_moves=options.concurrent)
    report, verdict = run(directory, Narrator(), pace=pace, kills_in=options.kill_controllers)
    text = "\n".join(report.lines())
    tell(f"\n{text}")
    if options.report is not None:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(f"{text}\n", encoding="utf-8")
    if report.trouble or verdict.is_bad:
        tell(f"\n{verdict.report()}\nlogs and history are kept in {directory}")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
