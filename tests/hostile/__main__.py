"""Valid and invalid requests by the thousand, drawn from the OpenAPI document; figures, and what was wrong.

    python -m tests.hostile                              10,000 cases or more, over all operations
    python -m tests.hostile --only "POST /topics"        one operation, for a closer look

Exit status: 0 nothing was wrong, 1 something was.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.hostile.report import print_report
from tests.hostile.sweep import sweep


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", type=int, default=10_000, help="at least so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", metavar="LABEL", action="append", default=[], help="such as 'POST /topics'")
    chosen = parser.parse_args(arguments)
    result = sweep(cases=chosen.cases, seed=chosen.seed, jobs=chosen.jobs, only=chosen.only)
    return print_report(result)


if __name__ == "__main__":
    sys.exit(main())
