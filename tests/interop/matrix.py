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
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from confluent_kafka import KafkaException

from tests.interop.checks import NotAsAsked, Reference
from tests.interop.clients import ROOT, Client, Driver, Missing
from tests.interop.drivers.answer import first_line
from tests.interop.drivers.login import librdkafka_settings
from tests.interop.rows import ADMINISTRATOR, CODECS, REPLICATION_FACTOR, Row
from tests.interop.security import Logins, acls_of

CELL_SECONDS_MAX = 120.0
FIND_RECORDS = ("fetch", "offset_by_time", "delete_records")
FIND_SIMPLE_RECORDS = (
    *("group_resume", "consumer_resume", "describe_group"),
    *("reset_group", "count_words", "copy"),
)
"""Not compressed: not every client with groups has each codec."""
FIND_A_GROUP = (
    *("list_groups", "describe_group", "group_offsets"),
    *("reset_group", "delete_group_offsets", "delete_group"),
)
FIND_A_USER = ("describe_user", "delete_password")
OTHERS = "-others"
"""The topic of a group's classic member."""
State = Literal["ok", "failed", "missing", "not in this client", "not compared"]
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
        finally:
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
    """A cluster under test, as the matrix names it. coordinators: how many serve groups, beside brokers.
    logins: how clients get into a secured one, which gets the rows that have a login; None: it is plain, and
    gets the others. replicas: of each partition."""

    name: str
    bootstrap: str
    coordinators: int = 0
    logins: Logins | None = None
    replicas: int = REPLICATION_FACTOR

    def reference(self) -> Reference:
        """Return the runner's own client."""
        settings = None
        if self.logins is not None:
            settings = librdkafka_settings({"login": self.logins[ADMINISTRATOR].asked()})
        return Reference(
            self.bootstrap, coordinators=self.coordinators, settings=settings, replicas=self.replicas
        )

    def gets(self, row: Row) -> bool:
        return bool(row.login) == (self.logins is not None)


class Matrix:
    """The cells of the chosen clients and rows on one side after the other."""

    def __init__(self, rows: Sequence[Row], logs: Path, tell: Tell) -> None:
        self._rows, self._logs, self._tell = rows, logs, tell
        self.cells: list[Cell] = []
        self.versions: dict[str, str] = {}

    def run(self, side: Side, clients: Sequence[Client]) -> None:
        """Fill the rows that the side gets in every client's column."""
        rows = [row for row in self._rows if side.gets(row)]
        with side.reference() as reference:
            for client in clients:
                self._run_client(side, client, reference, rows)

    def leave_out(self, side_name: str, clients: Sequence[Client]) -> None:
        """Say that the rows of a secured cluster are not run on a side."""
        self.cells += [
            Cell(side_name, client.name, row.name, "not compared")
            for client in clients
            for row in self._rows
            if row.login
        ]

    def _run_client(self, side: Side, client: Client, reference: Reference, rows: Sequence[Row]) -> None:
        try:
            driver = client.find()
        except Missing as missing:
            self._tell(f"{side.name}: {client.name} is missing ({missing})")
            self.cells += [Cell(side.name, client.name, row.name, "missing", str(missing)) for row in rows]
            return
        mark = uuid.uuid4().hex[:6]
        topics = {row.name: f"interop-{client.name}-{row.name}-{mark}" for row in rows}
        _prepare(side, reference, rows, topics)
        kind = "plain" if side.logins is None else "secured"
        with RunningDriver(driver, self._logs / f"{side.name}-{client.name}-{kind}.log") as running:
            self._learn_version(client, running)
            for row in rows:
                state, detail = self._fill(side, client.name, reference, row, topics[row.name], running)
                self.cells.append(Cell(side.name, client.name, row.name, state, detail))
                self._tell(f"{side.name}: {client.name}, {row.title}: {state}{_after(detail)}")

    def _learn_version(self, client: Client, running: RunningDriver) -> None:
        try:
            told = running.ask({"call": "version"})
        except DriverGone as gone:
            told = {"error": str(gone)}
        self.versions[client.name] = str(told.get("value", told))

    def _fill(
        self,
        side: Side,
        client: str,
        reference: Reference,
        row: Row,
        topic: str,
        running: RunningDriver,
    ) -> tuple[State, str]:
        login = None if side.logins is None else side.logins[row.login].asked()
        bootstrap = side.bootstrap if login is None else login["bootstrap"]
        there: AbstractContextManager[None]
        match row.call:
            case "describe_group":
                there = reference.member(topic, topic)
            case "consumer_share" if row.beside_classic:
                there = reference.member(topic, f"{topic}{OTHERS}")
            case "list_transactions" | "describe_transaction":
                there = reference.open_transaction(topic)
            case _:
                there = nullcontext()
        try:
            with there:
                answer = running.ask(row.request(bootstrap=bootstrap, topic=topic, login=login))
            if "absent" in answer:
                return "not in this client", answer["absent"]
            if "missing" in answer:
                return "missing", answer["missing"]
            if row.is_refused:
                reference.check_refusal(topic, str(answer.get("error", "not refused")))
            elif "error" in answer:
                return "failed", answer["error"]
            else:
                reference.check(row, client, topic, answer["value"])
        except (DriverGone, NotAsAsked, KafkaException) as failure:
            return "failed", first_line(failure)
        return "ok", ""


def _prepare(side: Side, reference: Reference, rows: Sequence[Row], topics: Mapping[str, str]) -> None:
    """Make what the rows find."""
    reference.make_topics(
        {topics[row.name]: row.partitions for row in rows if row.call not in ("connect", "create")}
        | {f"{topics[row.name]}{OTHERS}": 1 for row in rows if row.beside_classic}
    )
    for row in rows:
        topic = topics[row.name]
        if row.call in FIND_RECORDS:
            reference.write(topic)
        if row.call in FIND_SIMPLE_RECORDS:
            reference.write(topic, CODECS[:1])
        if row.call == "fetch_committed":
            reference.transact(topic)
        if row.call in FIND_A_GROUP:
            reference.commit(topic, topic)
        if row.call in FIND_A_USER:
            reference.create_user(topic)
        if row.call == "describe_quotas":
            reference.set_quota(topic)
    if side.logins is not None:
        logins = side.logins
        reference.create_acls(
            [one for row in rows for one in acls_of(row, topics[row.name], logins[row.login])]
        )


def _after(detail: str) -> str:
    return f" ({detail})" if detail else ""
