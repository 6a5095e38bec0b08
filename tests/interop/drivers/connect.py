"""A distributed worker of Kafka Connect that copies lines from a file to a topic and from there to another
file, is killed, and goes on. It finds its place in its group and in three topics, which are compacted."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

from localcluster.ports import LOOPBACK, PortReservation
from tests.interop.drivers.command import CommandFailed

MAIN_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"
FILES = "org.apache.kafka.connect.file.FileStream"
TEXT = "org.apache.kafka.connect.storage.StringConverter"
SECONDS_MAX = 50.0
PAUSE_S = 0.2


def copy_lines(
    java: Sequence[str], *, bootstrap: str, group: str, topic: str, lines: Sequence[str], directory: Path
) -> list[str]:
    """Return what is in the second file in the end. The worker is killed when it has committed that half of
    the lines was copied. The group's id and the names of the three topics begin with `group`."""
    source, sink = directory / "source", directory / "sink"
    half = "".join(f"{line}\n" for line in lines[: len(lines) // 2])
    source.write_text(half, encoding="utf-8")
    sink.touch()
    with PortReservation() as ports:
        url = f"http://{LOOPBACK}:{ports.reserve_free()}"
        settings = _settings(bootstrap, group) | {"listeners": url}
        properties = directory / "worker.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        command = [*java, MAIN_CLASS, str(properties)]
        with _worker(command, directory / "log") as is_running:
            _wait(lambda: _ask(url, "/connectors") == [], "it serves its REST interface", is_running)
            _create(url, "source", "Source", {"file": str(source), "topic": topic})
            _create(url, "sink", "Sink", {"file": str(sink), "topics": topic})
            is_committed = {"source": len(half.encode()), "sink": len(lines) // 2}
            _wait(lambda: _committed(url) == is_committed, "half of the lines are committed", is_running)
        with source.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines[len(lines) // 2 :])
        with _worker(command, directory / "log") as is_running:
            _wait(lambda: _count(sink) >= len(lines), "the other lines are copied", is_running)
    return sink.read_text(encoding="utf-8").splitlines()


def _settings(bootstrap: str, group: str) -> dict[str, object]:
    topics = {f"{name}.storage.topic": f"{group}-{name}" for name in ("config", "offset", "status")}
    replicated = {f"{name}.storage.replication.factor": 3 for name in ("config", "offset", "status")}
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "key.converter": TEXT,
        "value.converter": TEXT,
        "offset.flush.interval.ms": 200,
        "consumer.auto.offset.reset": "earliest",
        # A worker that was killed leaves the group as soon as possible, and the next one does not wait.
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_000,
        "scheduled.rebalance.max.delay.ms": 0,
        **topics,
        **replicated,
    }


@contextmanager
def _worker(command: Sequence[str], log: Path) -> Iterator[Callable[[], bool]]:
    """A worker, which is killed at the end of the block."""
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield lambda: process.poll() is None
        except CommandFailed as failure:
            words = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
            raise CommandFailed(" ".join([str(failure), *words])) from None
        finally:
            process.kill()
            process.wait()


def _create(url: str, name: str, kind: str, settings: dict[str, str]) -> None:
    config = {"connector.class": f"{FILES}{kind}Connector", "tasks.max": "1", **settings}
    _ask(url, "/connectors", {"name": name, "config": config})


def _committed(url: str) -> dict[str, int]:
    """Return the source's position in its file and the sink's offset in its topic, as far as they are told
    (KIP-875)."""
    found: dict[str, int] = {}
    for name, unit in (("source", "position"), ("sink", "kafka_offset")):
        for one in _ask(url, f"/connectors/{name}/offsets")["offsets"]:
            found[name] = one["offset"][unit]
    return found


def _ask(url: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
        return json.load(answer)


def _count(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def _wait(is_so: Callable[[], bool], what: str, is_running: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            if is_so():
                return
        except (URLError, ConnectionError):
            pass  # it is starting, or its group is
        if not is_running():
            raise CommandFailed(f"the worker ended before {what}:")
        if time.monotonic() > deadline:
            raise CommandFailed(f"after {SECONDS_MAX:g} s still not: {what}")
        time.sleep(PAUSE_S)
