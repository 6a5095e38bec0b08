"""The file that spark-submit runs: `spark-submit ... $(python -m pipeline.submit --path) JOB ...`.

It only calls the package that is installed on the driver; what executors need is shipped beside it
(`--archives`), never by this file.
"""

from __future__ import annotations

import sys
from pathlib import Path


def run() -> int:
    if sys.argv[1:] == ["--path"]:
        print(Path(__file__).resolve())
        return 0
    # spark-submit puts this file's folder first, where `client` and `records` would be top-level modules.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    from pipeline.jobs.cli import main  # noqa: PLC0415 - not from this file's folder

    return main()


if __name__ == "__main__":
    sys.exit(run())
