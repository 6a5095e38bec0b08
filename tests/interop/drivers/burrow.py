"""Burrow, which watches consumers' lag: `python -m tests.interop.drivers.burrow PROGRAM DIRECTORY`.

It lists topics and asks each partition's leader for its end, with requests that it makes itself. Groups'
offsets it reads from the records of `__consumer_offsets`. It keeps its own notes in a ZooKeeper, so it gets
one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from localcluster.java import find_java
from localcluster.ports import PortReservation
from localcluster.zookeeper import ZooKeeper, ZooKeeperPorts
from tests.interop.drivers.answer import serve

Asked = dict[str, Any]
SECONDS_MAX = 60.0
POLL_SECONDS = 0.2
ANSWER_SECONDS_MAX = 5.0
NOTHING: dict[str, Any] = {"offsets": [], "topics": {}}
TOO_NEW = re.compile('"failed to decode".*"message_type":"offset".*"reason":"value version"')
CONFIG = """
[general]
pidfile="{directory}/burrow.pid"
[logging]
filename="{directory}/burrow.log"
[zookeeper]
servers=["{zookeeper}"]
root-path="/burrow"
[client-profile.interop]
client-id="burrow"
kafka-version="2.0.0"
[cluster.local]
class-name="kafka"
servers=[{servers}]
client-profile="interop"
topic-refresh=1
offset-refresh=1
[consumer.local]
class-name="kafka"
cluster="local"
servers=[{servers}]
client-profile="interop"
[httpserver.default]
address="127.0.0.1:{port}"
"""


class Burrow:
    """The calls of rows.py that it can do."""

    def __init__(self, program: str, directory: Path) -> None:
        self._program, self._directory = program, directory

    def version(self, asked: Asked) -> str:
        return "of the Debian package"

    def list_topics(self, asked: Asked) -> list[str]:
        """Return the topics that it knows, once it has learnt where the one asked for ends."""
        with self._running(asked) as url:
            self._learn(f"{url}/topic/{asked['topic']}", lambda told: told["offsets"])
            topics: list[str] = _get(f"{url}/topic")["topics"]
            return topics

    def group_offsets(self, asked: Asked) -> int:
        """Return what the group has committed, as the record says."""

        def is_known(told: Any) -> object:
            if TOO_NEW.search(self._log()):
                raise NotImplementedError("it does not read offsets in version 4, as Kafka 4.3 writes them")
            return told["topics"]

        with self._running(asked) as url:
            told = self._learn(f"{url}/consumer/{asked['group']}", is_known)
            offsets = [one["offset"] for one in told["topics"][asked["topic"]][0]["offsets"] if one]
            return int(offsets[-1])

    @contextmanager
    def _running(self, asked: Asked) -> Iterator[str]:
        """A Burrow that watches the brokers, at this URL."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        with ExitStack() as running:
            ports = running.enter_context(PortReservation())
            zookeeper = ZooKeeper(
                directory=self._directory,
                ports=[ZooKeeperPorts(ports.reserve_free(), ports.reserve_free(), ports.reserve_free())],
                java=find_java(),
                log_directory=self._directory,
            )
            running.callback(zookeeper.stop)
            zookeeper.start()
            port = ports.reserve_free()
            config = CONFIG.format(
                directory=self._directory,
                zookeeper=zookeeper.connection_string,
                servers=",".join(f'"{server}"' for server in asked["bootstrap"].split(",")),
                port=port,
            )
            (self._directory / "burrow.toml").write_text(config, encoding="utf-8")
            with (self._directory / "burrow.out").open("w", encoding="utf-8") as out:
                command = [self._program, "--config-dir", str(self._directory)]
                process = running.enter_context(subprocess.Popen(command, stdout=out, stderr=out))
            running.callback(process.kill)
            yield f"http://127.0.0.1:{port}/v3/kafka/local"

    def _learn(self, url: str, is_known: Callable[[Any], object]) -> Any:
        """Return what it tells there, once it knows."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                told = _get(url)
            except OSError:  # it does not serve yet, or does not know it
                told = NOTHING
            if is_known(told):
                return told
            if time.monotonic() > deadline:
                raise TimeoutError(f"{url} is unknown after {SECONDS_MAX:g} s: {self._log()[-200:]}")
            time.sleep(POLL_SECONDS)

    def _log(self) -> str:
        log = self._directory / "burrow.log"
        return log.read_text(encoding="utf-8") if log.exists() else ""


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:
        return json.load(answer)


if __name__ == "__main__":
    serve(Burrow(sys.argv[1], Path(sys.argv[2])))
