"""Runs an application against a cluster, bounded in time, and compares what topics hold with its main job.

Each is first started as it comes: no topic of its is there, and the cluster makes topics on first use. If it
does not do its job so, it gets a second try with its topics made before. One that promises to do it exactly
once is killed in the middle of it, and what counts is what readers of committed records are given in the end.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from springtide.node.refusals import is_routine
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.interop.apps.app import COPY, HALF, LINES, App, Place
from tests.interop.apps.installs import BUILD, NotInstalled, install_into, is_installed

SECONDS_MAX = 60.0
"""Of one try."""
KILLED_SECONDS_MAX = 180.0
"""Of each start of one that is killed: at clients' defaults its group waits up to a minute for it."""
STOP_SECONDS_MAX = 5.0
SECONDS_AFTER = 1.0
"""What comes too much, such as a record twice, comes within it."""
POLL_SECONDS = 0.2
PROBE_SECONDS = 1.0
CLIENT_SECONDS_MAX = 10.0
REPLICATION_FACTOR = 3
PROBE = "probe"
"""Sent to an application again and again until it answers: most begin at a topic's end."""
REFUSALS = "kafka_network_requestmetrics_errors"
WORDS_CHARS_MAX = 200
_API_KEYS = {api_key.kafka_name: api_key for api_key in ApiKey}
_ERROR = re.compile(r"error|exception|fatal", re.IGNORECASE)

Verdict = Literal["works", "works after its topics are made", "fails", "not installed"]
Isolation = Literal["read_committed", "read_uncommitted"]
Refusals = dict[tuple[str, str, str], float]
"""How often, by request, error and software."""


class DidNot(Exception):
    """The application did not do its job; the message says what was seen instead."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A side of the comparison. metrics: returns the pages of all its nodes; of Kafka there are none."""

    name: str
    bootstrap: str
    metrics: Callable[[], Sequence[str]] = tuple

    def refusals(self) -> Refusals:
        """Return what clients have been refused until now."""
        found: Refusals = {}
        for page in self.metrics():
            for family in text_string_to_metric_families(page):
                if family.name != REFUSALS:
                    continue
                for sample in family.samples:
                    if sample.name.endswith("_total"):
                        labels = sample.labels
                        key = labels["request"], labels["error"], labels["software"]
                        found[key] = found.get(key, 0) + sample.value
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cell of the table. refused: what the brokers refused meanwhile, a line each."""

    side: str
    app: str
    verdict: Verdict
    seconds: float = 0.0
    detail: str = ""
    refused: list[str] = field(default_factory=list)


def run(app: App, cluster: Cluster, *, has_to_install: bool, seconds: float = SECONDS_MAX) -> Outcome:
    """Return what came of an application on one cluster."""
    home = BUILD / app.name
    try:
        if has_to_install:
            install_into(app.install, home)
        elif not is_installed(app.install, home):
            raise NotInstalled(app.install.how)
    except NotInstalled as why:
        return Outcome(cluster.name, app.name, "not installed", detail=str(why))
    before, started = cluster.refusals(), time.monotonic()
    verdict, detail = _judge(app, cluster, home, seconds)
    took = time.monotonic() - started
    return Outcome(cluster.name, app.name, verdict, took, detail, _difference(before, cluster.refusals()))


def _judge(app: App, cluster: Cluster, home: Path, seconds: float) -> tuple[Verdict, str]:
    try:
        _try(app, cluster, home, seconds=seconds, has_topics=False)
    except DidNot as first:
        try:
            _try(app, cluster, home, seconds=seconds, has_topics=True)
        except DidNot as second:
            return "fails", str(second)
        return "works after its topics are made", str(first)
    return "works", ""


def _difference(before: Refusals, after: Refusals) -> list[str]:
    """Return a line for each kind of refusal after which a client does not go on by itself."""
    return [
        f"{request}: {error} {count - before.get((request, error, software), 0):g} times ({software})"
        for (request, error, software), count in sorted(after.items())
        if count > before.get((request, error, software), 0)
        and not is_routine(_API_KEYS[request], ErrorCode[error])
    ]


def _try(app: App, cluster: Cluster, home: Path, *, seconds: float, has_topics: bool) -> None:
    """Start the application and see its job done. Raises DidNot."""
    name = f"app-{app.name}-{uuid.uuid4().hex[:6]}"
    folder = home / "runs" / f"{cluster.name.split()[-1]}-{name}"
    folder.mkdir(parents=True)
    target = f"{COPY}.{name}-source" if app.copies else f"{name}-target"
    place = Place(cluster.bootstrap, f"{name}-source", target, f"{name}-group", folder, home)
    _append(folder, LINES[:HALF] if app.exactly_once else LINES)
    # The source of what only reads is somebody else's topic.
    made = [place.source, place.target] if has_topics else [place.source] if app.kind == "read" else []
    if made:
        _make(cluster.bootstrap, made)
    if app.kind == "read":
        _write(cluster.bootstrap, place.source, LINES)
    if app.exactly_once:
        seconds = KILLED_SECONDS_MAX
        _kill_in_the_middle(app, place, seconds)
        _append(folder, LINES[HALF:])
    with _started(app, place) as process:
        deadline = time.monotonic() + seconds
        match app.kind:
            case "pipe":
                _see_pipe(app, place, process, deadline)
            case "write":
                _see_written(app, place, process, deadline)
            case "read":
                _see_printed(place, process, deadline)


@dataclass(slots=True)
class _Process:
    process: subprocess.Popen[str]
    output: Path
    errors: Path

    def kill(self) -> None:
        """Kill its whole session."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def check(self, *, may_end: bool) -> None:
        """Raise DidNot if it ended, or ended badly where it may end."""
        status = self.process.poll()
        if status is None or (may_end and status == 0):
            return
        raise DidNot(f"ended with status {status}: {self.last_words()}")

    def last_words(self) -> str:
        """Return the last line that names an error, or the last of all."""
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in (self.output, self.errors)]
        lines = [line.strip() for line in "\n".join(texts).splitlines() if line.strip()]
        about = [line for line in lines if _ERROR.search(line)] or lines or ["it said nothing"]
        return about[-1][:WORDS_CHARS_MAX]

    def printed(self) -> list[str]:
        return self.output.read_text(encoding="utf-8", errors="replace").splitlines()


@contextmanager
def _started(app: App, place: Place) -> Iterator[_Process]:
    """The application's process, which is ended with all that it started: its session has its id."""
    command = app.command(place)
    output, errors, given = (place.folder / name for name in ("stdout", "stderr", "stdin"))
    given.write_text(command.given, encoding="utf-8")
    with output.open("w") as out, errors.open("w") as err, given.open() as feed:
        process = _spawn(command.arguments, command.environment, place, (feed, out, err))
    try:
        yield _Process(process, output, errors)
    finally:
        _end(process)


def _spawn(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    place: Place,
    files: tuple[IO[str], IO[str], IO[str]],
) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            arguments,
            cwd=place.folder,
            env={**os.environ, **place.environment, **environment},
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
            text=True,
            start_new_session=True,
        )
    except OSError as failure:
        raise DidNot(str(failure)) from failure


def _end(process: subprocess.Popen[str]) -> None:
    """Ask it to end, and kill what is left of its session."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS_MAX)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _kill_in_the_middle(app: App, place: Place, seconds: float) -> None:
    """Start it, and kill it when something of the first half is in the topic, committed or not."""
    deadline = time.monotonic() + seconds
    with (
        _started(app, place) as process,
        _reading(place) as committed,
        _reading(place, "read_uncommitted") as values,
    ):
        if app.kind == "pipe":
            _probe(place, committed, process, deadline)
            _write(place.bootstrap, place.source, LINES[:HALF])
        first = _loud(app)(LINES[0])
        while first not in values():
            _check(process, deadline, f"seen: {_some(values())}")
        process.kill()


def _loud(app: App) -> Callable[[str], str]:
    """Return what a line becomes."""
    return str.upper if app.kind == "pipe" and not app.copies else str


def _probe(place: Place, values: Callable[[], Sequence[str]], process: _Process, deadline: float) -> None:
    """Send probes until the first comes back."""
    number = 0
    while not values():
        _check(process, deadline, "nothing came out")
        _write(place.bootstrap, place.source, [f"{PROBE} {number}"])
        number += 1
        until = time.monotonic() + PROBE_SECONDS
        while not values() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)


def _see_pipe(app: App, place: Place, process: _Process, deadline: float) -> None:
    """Send the lines, and find each of them once. One that was killed already has the first half, and goes on
    where it was; others are sent probes before."""
    with _reading(place) as values:
        if not app.exactly_once:
            _probe(place, values, process, deadline)
        _write(place.bootstrap, place.source, LINES[HALF:] if app.exactly_once else LINES)
        loud = _loud(app)
        expected = [loud(line) for line in LINES]

        def lines() -> list[str]:
            return [value for value in values() if not value.startswith(loud(PROBE))]

        _see(lambda: len(lines()) >= len(expected), lines, process, deadline)
        seen = lines()
        if seen != expected and (app.keeps_order or sorted(seen) != sorted(expected)):
            raise DidNot(f"came out: {_some(seen)}")


def _see_written(app: App, place: Place, process: _Process, deadline: float) -> None:
    with _reading(place) as values:
        _see(lambda: app.contents(values()), values, process, deadline, may_end=True)
        if not app.contents(values()):
            raise DidNot(f"in the topic: {_some(values())}")


def _see_printed(place: Place, process: _Process, deadline: float) -> None:
    def lines() -> list[str]:
        return [line for line in process.printed() if line in LINES]

    _see(lambda: len(lines()) >= len(LINES), lines, process, deadline, may_end=True)
    if lines() != list(LINES):
        raise DidNot(f"printed: {_some(lines())}")


def _see(
    is_so: Callable[[], bool],
    values: Callable[[], Sequence[str]],
    process: _Process,
    deadline: float,
    *,
    may_end: bool = False,
) -> None:
    """Wait until it is so, and a moment longer for what is too much."""
    while not is_so():
        _check(process, deadline, f"seen: {_some(values())}", may_end=may_end)
        time.sleep(POLL_SECONDS)
    time.sleep(SECONDS_AFTER)
    process.check(may_end=may_end)


def _check(process: _Process, deadline: float, seen: str, *, may_end: bool = False) -> None:
    process.check(may_end=may_end)
    if time.monotonic() > deadline:
        raise DidNot(f"not in time, {seen}; last words: {process.last_words()}")


def _some(values: Sequence[str]) -> str:
    return f"{len(values)} values, {list(values)!r}"[:WORDS_CHARS_MAX]


def _make(bootstrap: str, topics: Sequence[str]) -> None:
    new = [NewTopic(topic, num_partitions=1, replication_factor=REPLICATION_FACTOR) for topic in topics]
    try:
        with AdminClient({"bootstrap.servers": bootstrap}) as client:
            for pending in client.create_topics(new).values():
                pending.result(CLIENT_SECONDS_MAX)
    except (KafkaException, TimeoutError) as failure:
        raise DidNot(f"the runner could not make its topics: {failure}") from failure


def _append(folder: Path, lines: Sequence[str]) -> None:
    with (folder / "lines").open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _write(bootstrap: str, topic: str, values: Sequence[str]) -> None:
    """Write values, and make the topic by it where it is not there."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value.encode())
    if left := producer.flush(CLIENT_SECONDS_MAX):
        raise DidNot(f"the runner's own producer could not write {left} records to {topic}")


@contextmanager
def _reading(place: Place, isolation: Isolation = "read_committed") -> Iterator[Callable[[], list[str]]]:
    """A function that returns all values of the target until now; none while the topic is not there."""
    settings = {
        "bootstrap.servers": place.bootstrap,
        "group.id": f"{place.group}-runner",
        "isolation.level": isolation,
    }
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    found: list[str] = []
    assigned = False

    def values() -> list[str]:
        nonlocal assigned
        if not assigned:
            topics = consumer.list_topics(timeout=CLIENT_SECONDS_MAX).topics
            if place.target not in topics or not topics[place.target].partitions:
                return found
            where = [
                TopicPartition(place.target, number, OFFSET_BEGINNING)
                for number in topics[place.target].partitions
            ]
            consumer.assign(where)
            assigned = True
        for message in consumer.consume(1000, timeout=POLL_SECONDS):
            if message.error() is None:
                found.append((message.value() or b"").decode(errors="replace"))
        return found

    try:
        yield values
    except KafkaException as failure:
        raise DidNot(f"the runner's own client: {failure}") from failure
    finally:
        consumer.close()
