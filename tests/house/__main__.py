"""Print the seams of this checkout as a table: `make house`, or `python -m tests.house`.

With --base REVISION this same program measures an earlier revision, too, in a copy of it. With --processes it
builds the wheel and starts real processes.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.house.measures import requirements, seams, seconds, sizes
from tests.house.walks import take_walks

HERE = Path(__file__).parent
#: Built into the checkout: without it functions in Python run, which a walk would count.
NATIVE = "springtide/native"


def measured(*, with_processes: bool) -> dict[str, object]:
    walks = {
        f"{name}: {what}": count for name, found in take_walks().items() for what, count in found.items()
    }
    figures = {**walks, **seams(), **sizes(), **seconds()}
    if with_processes:
        from tests.house.processes import installation, processes  # it needs all that a cluster needs

        figures |= {**installation(requirements()), **processes()}
    return figures


def measured_at(revision: str, *, with_processes: bool) -> dict[str, object]:
    """Return the figures of a revision, from a copy of it that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="springtide-house-") as folder:
        packed = subprocess.run(("git", "archive", revision), check=True, stdout=subprocess.PIPE)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        shutil.copytree(HERE, Path(folder) / "tests/house", dirs_exist_ok=True)
        for built in Path(NATIVE).glob("*.so"):
            shutil.copy(built, Path(folder) / NATIVE)
        command = [sys.executable, "-m", "tests.house", "--json"]
        command += ["--processes"] if with_processes else []
        answer = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
    figures: dict[str, object] = json.loads(answer.stdout)
    return figures


def table(columns: Mapping[str, Mapping[str, object]]) -> str:
    names = dict.fromkeys(name for figures in columns.values() for name in figures)
    head = ["| what | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    rows = [(name, *(str(figures.get(name, "")) for figures in columns.values())) for name in names]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--base", metavar="REVISION", help="measure this revision, too")
    parser.add_argument("--processes", action="store_true", help="build the wheel, start real processes")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    columns = {}
    if given.base:
        columns[given.base] = measured_at(given.base, with_processes=given.processes)
    columns["now"] = measured(with_processes=given.processes)
    print(json.dumps(columns["now"], indent=1) if given.json else table(columns))


if __name__ == "__main__":
    main()
