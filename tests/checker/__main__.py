"""`python -m tests.checker FILE.jsonl`: prints the verdict; exit 0 clean, 1 bad, 2 no history."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from .check import check
from .history import HistoryError, read_history
from .options import CheckOptions

CLEAN, BAD, UNUSABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.checker", description=__doc__)
    parser.add_argument("file", type=Path, help="history, one JSON operation a line")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the verdict there, with its series"
    )
    parser.add_argument("--without-final-read", action="store_true", help="the history need not end with one")
    parser.add_argument("--retention", action="store_true", help="logs may lose their beginnings")
    parser.add_argument(
        "--stall-ms-max", type=int, metavar="MS", help="longest time without an acknowledgement"
    )
    parser.add_argument("--lag-ms-max", type=int, metavar="MS", help="largest staleness of a reader")
    parser.add_argument(
        "--version-1", action="store_true", help="clients spoke version 1 of Kafka's transactions"
    )
    asked = parser.parse_args(arguments)
    options = CheckOptions(
        final_read=not asked.without_final_read,
        retention=asked.retention,
        stall_ms_max=asked.stall_ms_max,
        real_time_lag_ms_max=asked.lag_ms_max,
        version_1=asked.version_1,
    )
    gc.disable()  # Millions of small tuples, none in a cycle: collecting would only walk them again.
    try:
        with asked.file.open("rb") as stream:
            history = read_history(stream, name=str(asked.file))
        verdict = check(history, options)
        if asked.json is not None:
            asked.json.write_bytes(verdict.to_json())
    except (HistoryError, OSError) as error:
        print(f"no verdict: {error}", file=sys.stderr)
        return UNUSABLE
    print(verdict.report())
    return BAD if verdict.is_bad else CLEAN


if __name__ == "__main__":
    sys.exit(main())
