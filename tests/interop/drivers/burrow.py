"""Burrow, which watches consumers' lag: `python -m tests.interop.drivers.burrow PROGRAM DIRECTORY`.

It lists topics and asks each partition's leader for its end, all over the protocol of Kafka 0.10; the rest of
what it does is about consumer groups. It keeps its own notes in a ZooKeeper, so it gets one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
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
kafka-version="0.10.0"
[cluster.local]
class-name="kafka"
servers=[{servers}]
client-profile="interop"
topic-refresh=1
offset-refresh=1
[httpserver.default]
address="127.0.0.1:{port}"
"""


class Burrow:
    """The calls of rows.py that it can do without groups."""

    def __init__(self, program: str, directory: Path) -> None:
        self._program, self._directory = program, directory

    def version(self, asked: Asked) -> str:
        return "of the Debian package"

    def list_topics(self, asked: Asked) -> list[str]:
        """Return the topics that it knows, once it has learnt where the one asked for ends."""
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
            return self._learn(f"http://127.0.0.1:{port}/v3/kafka/local/topic", asked["topic"])

    def _learn(self, url: str, topic: str) -> list[str]:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                if _get(f"{url}/{topic}")["offsets"]:
                    topics: list[str] = _get(url)["topics"]
                    return topics
            except OSError:  # it does not serve yet, or does not know the topic
                pass
            if time.monotonic() > deadline:
                said = (self._directory / "burrow.log").read_text(encoding="utf-8").splitlines()
                raise TimeoutError(f"{topic} is unknown after {SECONDS_MAX:g} s: {said[-1:]}")
            time.sleep(POLL_SECONDS)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:
        return json.load(answer)


if __name__ == "__main__":
    serve(Burrow(sys.argv[1], Path(sys.argv[2])))
