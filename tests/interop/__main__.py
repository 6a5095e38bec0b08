"""`python -m tests.interop`: every client against every row, on Springtide and, with --kafka-home, on Kafka.

The table is printed and written to build/interop.md and build/interop.json. The exit status is 1 if a cell
failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench import sides
from bench.command import Narrator
from bench.kafka import Kafka, KafkaNotUsable, find_version
from localcluster.__main__ import COORDINATORS
from localcluster.cluster import CANNOT_RUN
from localcluster.processes import exit_on_sigterm
from tests.interop import table
from tests.interop.clients import BUILD, ROOT, Client, Missing, clients
from tests.interop.matrix import Cell, Matrix, Side
from tests.interop.rows import ADMINISTRATOR, ROWS, WAITING, Row
from tests.interop.security import secured_cluster

SPRINGTIDE = "Springtide"
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
    """Exit with 1 when a cell failed here and not on a Kafka beside us, or a cluster could not be started."""
    options = build_parser().parse_args(arguments)
    exit_on_sigterm()
    tell = Narrator()
    home: Path | None = options.kafka_home
    columns = [one for one in clients(home) if options.client is None or one.name in options.client]
    if options.install:
        install(columns, tell)
    rows = [row for row in ROWS if options.row is None or row.name in options.row]
    matrix = Matrix(rows, BUILD / "logs", tell)
    try:
        fill(matrix, rows, columns, home, tell)
    except (*CANNOT_RUN, KafkaNotUsable) as failure:
        sys.stderr.write(f"interop: {failure}\n")
        sys.exit(1)
    sys.stdout.write(write(matrix))
    sys.exit(bool(failures_of_ours(matrix.cells)))


def failures_of_ours(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Return client and row of each cell that failed here and, where a Kafka ran it, not there."""
    theirs = {(one.client, one.row): one.state for one in cells if one.side != SPRINGTIDE}
    return [
        (one.client, one.row)
        for one in cells
        if one.side == SPRINGTIDE and one.state == "failed" and theirs.get((one.client, one.row)) != "failed"
    ]


def fill(
    matrix: Matrix, rows: Sequence[Row], columns: Sequence[Client], home: Path | None, tell: Narrator
) -> None:
    """Run the rows on each side that gets one of them."""
    has_plain, has_secured = (any(bool(row.login) is kind for row in rows) for kind in (False, True))
    if has_plain:
        with _springtide(tell) as side:
            matrix.run(side, columns)
    if has_secured:
        with _secured(tell) as side:
            matrix.run(side, columns)
    if home is not None:
        kafka = f"Apache Kafka {find_version(home)}"
        if has_plain:
            with Kafka(home, tell) as cluster:
                matrix.run(Side(kafka, cluster.bootstrap_servers), columns)
        matrix.leave_out(kafka, columns)


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
def _springtide(tell: Narrator) -> Iterator[Side]:
    with sides.Springtide(tell, coordinators=COORDINATORS) as cluster:
        yield Side(SPRINGTIDE, cluster.bootstrap_servers, COORDINATORS)


@contextmanager
def _secured(tell: Narrator) -> Iterator[Side]:
    with secured_cluster(coordinators=COORDINATORS, tell=tell) as logins:
        yield Side(SPRINGTIDE, logins[ADMINISTRATOR].bootstrap, COORDINATORS, logins)


if __name__ == "__main__":
    main()
