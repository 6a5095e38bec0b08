"""Fills the matrix: asks each client's driver for each row, bounded in time, and checks what came of it.

A driver is a process in a session of its own. One that gives no answer in time is killed with everything that
it started, and a new one is started for the next row.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from confluent_kafka import KafkaException

from tests.interop.checks import NotAsAsked, Reference
from tests.interop.clients import ROOT, Client, Driver, Missing
from tests.interop.drivers.answer import first_line
from tests.interop.rows import CODECS, Row

CELL_SECONDS_MAX = 120.0
FIND_RECORDS = ("fetch", "offset_by_time", "delete_records")
FIND_SIMPLE_RECORDS = ("group_resume", "describe_group", "reset_group", "count_words")
"""Not compressed: not every client with groups has each codec."""
FIND_A_GROUP = (
    *("list_groups", "describe_group", "group_offsets"),
    *("reset_group", "delete_group_offsets", "delete_group"),
)
State = Literal["ok", "failed", "missing", "not in this client"]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """What came of one client and one row. `detail`: an error, or how to install."""

    side: str
    client: str
    row: str
    state: State
    detail: str = ""


class DriverGone(RuntimeError):
    """The driver ended, or was ended, before it answered."""


class RunningDriver:
    """A driver's process; it is started when it is first asked. A context manager that ends it."""

    def __init__(self, driver: Driver, log: Path) -> None:
        self._driver, self._log = driver, log
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def ask(self, request: dict[str, object], *, seconds: float = CELL_SECONDS_MAX) -> dict[str, Any]:
        """Return the answer; raise DriverGone when there is none in time."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        bound = threading.Timer(seconds, _kill, (process,))
        bound.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        is_late = not bound.is_alive()
        bound.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self._end()
        raise DriverGone(
            f"no answer in {seconds:g} s" if is_late else f"the driver ended: {self._last_words()}"
        )

    def _start(self) -> subprocess.Popen[str]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                self._driver.command,
                cwd=ROOT,
                env={**os.environ, **self._driver.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        return self._process

    def _end(self) -> None:
        if self._process is None:
            return
        _kill(self._process)
        self._process.communicate()
        self._process = None

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"see {self._log}"


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the process and what it started: its session has its id."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Side:
    """A cluster under test, as the matrix names it. coordinators: how many serve groups, beside brokers."""

    name: str
    bootstrap: str
    coordinators: int = 0


class Matrix:
    """The cells of the chosen clients and rows on one side after the other."""

    def __init__(self, rows: Sequence[Row], logs: Path, tell: Tell) -> None:
        self._rows, self._logs, self._tell = rows, logs, tell
        self.cells: list[Cell] = []
        self.versions: dict[str, str] = {}

    def run(self, side: Side, clients: Sequence[Client]) -> None:
        """Fill every client's column of a side."""
        reference = Reference(side.bootstrap, coordinators=side.coordinators)
        for client in clients:
            self._run_client(side, client, reference)

    def _run_client(self, side: Side, client: Client, reference: Reference) -> None:
        try:
            driver = client.find()
        except Missing as missing:
            self._tell(f"{side.name}: {client.name} is missing ({missing})")
            self.cells += [
                Cell(side.name, client.name, row.name, "missing", str(missing)) for row in self._rows
            ]
            return
        mark = uuid.uuid4().hex[:6]
        topics = {row.name: f"interop-{client.name}-{row.name}-{mark}" for row in self._rows}
        reference.make_topics(
            {topics[row.name]: row.partitions for row in self._rows if row.call not in ("connect", "create")}
        )
        for row in self._rows:
            if row.call in FIND_RECORDS:
                reference.write(topics[row.name])
            if row.call in FIND_SIMPLE_RECORDS:
                reference.write(topics[row.name], CODECS[:1])
            if row.call in FIND_A_GROUP:
                reference.commit(topics[row.name], topics[row.name])
        with RunningDriver(driver, self._logs / f"{side.name}-{client.name}.log") as running:
            self._learn_version(client, running)
            for row in self._rows:
                state, detail = self._fill(reference, row, topics[row.name], running)
                self.cells.append(Cell(side.name, client.name, row.name, state, detail))
                self._tell(f"{side.name}: {client.name}, {row.title}: {state}{_after(detail)}")

    def _learn_version(self, client: Client, running: RunningDriver) -> None:
        try:
            told = running.ask({"call": "version"})
        except DriverGone as gone:
            told = {"error": str(gone)}
        self.versions[client.name] = str(told.get("value", told))

    def _fill(self, reference: Reference, row: Row, topic: str, running: RunningDriver) -> tuple[State, str]:
        there = reference.member(topic, topic) if row.call == "describe_group" else nullcontext()
        try:
            with there:
                answer = running.ask(row.request(bootstrap=reference.bootstrap, topic=topic))
            if "absent" in answer:
                return "not in this client", answer["absent"]
            if "error" in answer:
                return "failed", answer["error"]
            reference.check(row, topic, answer["value"])
        except (DriverGone, NotAsAsked, KafkaException) as failure:
            return "failed", first_line(failure)
        return "ok", ""


def _after(detail: str) -> str:
    return f" ({detail})" if detail else ""
