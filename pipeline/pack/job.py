"""`pipeline pack`: the file for `--archives`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.jobs.job import JobExit, JobOutcome
from pipeline.pack.archive import LEVEL_DEFAULT, check_name, write_archive
from pipeline.pack.contents import Contents, contents

if TYPE_CHECKING:
    from pipeline.jobs.context import Context

LEVEL_MIN, LEVEL_MAX = 0, 9
_MB: Final = 1e6

DESCRIPTION: Final = """\
Packs what tasks import (this project, Arrow, NumPy and what they require, as they are installed here) into
one file that Spark ships to its executors. PySpark is not in it: executors have Spark.

The file holds a virtual environment: hosts need the same operating system and the same Python at the same
path as this one (a container image has both). The same environment gives the same bytes.

Spark looks for the driver's Python on executors too, even if spark.pyspark.python is set: so the driver needs
the environment at the same relative path, env/ in the folder that it is started from."""
EXAMPLES: Final = (
    "pipeline pack env.tar.gz",
    "pipeline pack env.tar.gz --with polars   # and what your own functions import",
    "pipeline pack --dry-run env.tar.gz",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.tar.gz", help="where to write it (or .tgz)")
    parser.add_argument(
        "--with",
        dest="added",
        action="append",
        default=[],
        metavar="NAME",
        help="pack this distribution too, and what it requires; may be repeated",
    )
    parser.add_argument(
        "--without",
        dest="left_out",
        action="append",
        default=[],
        metavar="NAME",
        help="leave this one out; may be repeated",
    )
    parser.add_argument(
        "--level",
        type=int,
        choices=range(LEVEL_MIN, LEVEL_MAX + 1),
        default=LEVEL_DEFAULT,
        metavar="0-9",
        help=f"how hard gzip tries (default {LEVEL_DEFAULT})",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be packed, write nothing")


def run(options: argparse.Namespace, context: Context) -> JobOutcome:
    check_name(options.file)
    found = contents(options.added, options.left_out)
    sources = [one.source for one in found.members if one.source is not None]
    unpacked = sum(source.stat().st_size for source in sources)
    size: int | None = None
    if not options.dry_run:
        total = len(found.members)
        size = write_archive(
            options.file,
            found.members,
            level=options.level,
            done=lambda count: context.progress(count, total, "files packed"),
        )
    result = {
        "file": str(options.file),
        "bytes": size,
        "unpacked_bytes": unpacked,
        "files": len(found.members),
        "distributions": list(found.distributions),
    }
    return JobOutcome(JobExit.DONE, result, tuple(_lines(options.file, found, unpacked, size)))


def _lines(path: Path, found: Contents, unpacked: int, size: int | None) -> Sequence[str]:
    what = f"{len(found.members)} files of {len(found.distributions)} distributions, {unpacked / _MB:.0f} MB"
    if size is None:
        return [*found.distributions, f"would pack {what}; nothing was written"]
    return [
        f"{path}: {size / _MB:.0f} MB, {what} unpacked",
        f"unpack:   mkdir env && tar xzf {path} -C env   # the driver's, where it is started from",
        f"ship:     PYSPARK_PYTHON=env/bin/python spark-submit --archives {path}#env ...",
    ]
