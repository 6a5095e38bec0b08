"""`python -m tests.interop`: every client against every row, on Springtide and, with --kafka-home, on Kafka.

The table is printed and written to build/interop.md and build/interop.json. The exit status is 1 if a cell
failed.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from bench import sides
from bench.__main__ import Narrator
from bench.kafka import Kafka, KafkaNotUsable
from localcluster.__main__ import COORDINATORS
from localcluster.java import JavaNotFound
from localcluster.processes import ProcessFailed
from localcluster.rest import RestFailed
from localcluster.zookeeper import ZooKeeperJarsNotFound
from tests.interop import table
from tests.interop.clients import BUILD, ROOT, Client, Missing, clients
from tests.interop.matrix import Matrix, Side
from tests.interop.rows import ROWS, WAITING

JSON = Path("build/interop.json")
MARKDOWN = Path("build/interop.md")
INSTALL_SECONDS_MAX = 300.0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.interop", description="Which Kafka client can do what here."
    )
    names = [client.name for client in clients(None)]
    parser.add_argument("--kafka-home", type=Path, metavar="DIR", help="the Kafka whose jars are in DIR/libs")
    parser.add_argument("--install", action="store_true", help="install into build/interop what can be")
    parser.add_argument("--client", action="append", choices=names, help="only this one")
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS], help="only this one")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit with 0 when no cell failed, 1 when one did or a cluster could not be started."""
    options = build_parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    tell = Narrator()
    home: Path | None = options.kafka_home
    columns = [one for one in clients(home) if options.client is None or one.name in options.client]
    if options.install:
        install(columns, tell)
    rows = [row for row in ROWS if options.row is None or row.name in options.row]
    matrix = Matrix(rows, BUILD / "logs", tell)
    try:
        for start in (_springtide, _kafka) if home is not None else (_springtide,):
            with start(home, tell) as side:
                matrix.run(side, columns)
    except (
        JavaNotFound,
        ZooKeeperJarsNotFound,
        KafkaNotUsable,
        ProcessFailed,
        RestFailed,
        TimeoutError,
    ) as failure:
        sys.stderr.write(f"interop: {failure}\n")
        sys.exit(1)
    sys.stdout.write(write(matrix))
    sys.exit(any(cell.state == "failed" for cell in matrix.cells))


def install(columns: Sequence[Client], tell: Narrator) -> None:
    """Install what is missing and has a way to be; what cannot be installed stays missing."""
    for client in columns:
        try:
            client.find()
        except Missing as missing:
            if missing.install is None:
                continue
            tell(f"installing {client.name}")
            try:
                subprocess.run(missing.install, cwd=ROOT, timeout=INSTALL_SECONDS_MAX, check=True)
            except (OSError, subprocess.SubprocessError) as failure:
                tell(f"{client.name} could not be installed: {failure}")


def write(matrix: Matrix) -> str:
    """Write both files; return the page."""
    page = table.render(matrix.cells, matrix.versions)
    JSON.parent.mkdir(exist_ok=True)
    document = {
        "versions": matrix.versions,
        "cells": [asdict(cell) for cell in matrix.cells],
        "waiting": WAITING,
    }
    JSON.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    MARKDOWN.write_text(page, encoding="utf-8")
    return page


@contextmanager
def _springtide(home: Path | None, tell: Narrator) -> Iterator[Side]:
    with sides.Springtide(tell, coordinators=COORDINATORS) as cluster:
        yield Side("Springtide", cluster.bootstrap_servers, COORDINATORS)


@contextmanager
def _kafka(home: Path | None, tell: Narrator) -> Iterator[Side]:
    assert home is not None
    with Kafka(home, tell) as cluster:
        yield Side(f"Apache Kafka {cluster.version}", cluster.bootstrap_servers)


def _exit_on_sigterm(number: int, frame: FrameType | None) -> None:
    """Let `with` blocks stop what they started."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
