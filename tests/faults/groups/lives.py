"""The members of the group: processes that are struck and started again, each life with its diary."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from localcluster.java import find_java
from localcluster.processes import ProcessCommand, SupervisedProcess
from tests.checker.group_diary import Committed, Entry, read_diary
from tests.checker.group_judge import Life, Span
from tests.faults.groups.member import (
    AIOKAFKA,
    CLASSIC,
    CONSUMER,
    EXIT_GAVE_UP,
    KAFKA_PYTHON,
    LIBRDKAFKA,
)

ROOT = Path(__file__).resolve().parents[3]
JAVA = "java"
JAVA_SOURCE = Path(__file__).with_name("JavaMember.java")
JAVA_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JAVA_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
Kind = tuple[str, str]
"""A client, and the protocol that it speaks."""
ALL_CLASSIC: tuple[Kind, ...] = (
    *((LIBRDKAFKA, CLASSIC), (LIBRDKAFKA, CLASSIC)),
    *((KAFKA_PYTHON, CLASSIC), (AIOKAFKA, CLASSIC)),
)
MIXED: tuple[Kind, ...] = (
    *((LIBRDKAFKA, CONSUMER), (KAFKA_PYTHON, CLASSIC), (JAVA, CONSUMER)),
    *((AIOKAFKA, CLASSIC), (LIBRDKAFKA, CONSUMER), (LIBRDKAFKA, CLASSIC)),
)
"""In turn. Without the jars of Kafka, librdkafka is in the place of Java."""
STATIC_EVERY = 5
"""Each so many-th member is a static one (KIP-345)."""
STOP_SECONDS_MAX = 30.0


class Member:
    """One member over its lives. kafka_home: the folder above Java's libs/. hold: see member.py."""

    def __init__(
        self,
        number: int,
        *,
        directory: Path,
        bootstrap: str,
        topic: str,
        group: str,
        kinds: Sequence[Kind] = ALL_CLASSIC,
        kafka_home: Path | None = None,
        hold: Path | None = None,
    ) -> None:
        client, protocol = kinds[number % len(kinds)]
        if client == JAVA and kafka_home is None:
            client = LIBRDKAFKA
        self.name = f"{group}-{client}-{number}"
        self._directory = directory
        self._arguments = [
            *_program(client, kafka_home),
            *("--bootstrap", bootstrap),
            *("--topic", topic),
            *("--group", group),
            *("--name", self.name),
            *("--protocol", protocol),
            *(("--instance", self.name) if number % STATIC_EVERY == 0 else ()),
            *(() if hold is None else ("--hold", str(hold))),
        ]
        self._ended: list[tuple[Path, int]] = []
        self._stood: list[Span] = []
        self._since_ns = 0
        self._begin_life()

    def _begin_life(self) -> None:
        number = len(self._ended) + 1
        self._diary = self._directory / f"{self.name}-{number}.jsonl"
        self._diary.touch()
        self.process = SupervisedProcess(
            name=self.name,
            command=ProcessCommand(
                arguments=[*self._arguments, "--diary", str(self._diary)], working_directory=ROOT
            ),
            log_path=self._directory / "logs" / f"{self.name}.log",
        )

    def start(self) -> None:
        self.process.start()

    def pause(self) -> None:
        self._since_ns = time.monotonic_ns()
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()
        self._stood.append(Span(self._since_ns, time.monotonic_ns()))

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def start_again(self) -> bool:
        """Do as a supervisor does where the client has given up by a fault of its own; return whether it
        had."""
        if self.process.is_running or self.process.exit_code != EXIT_GAVE_UP:
            return False
        self._end()
        self.start()
        return True

    def stop(self) -> bool:
        """End it as an operator does; return whether it went by itself."""
        is_sound = self.process.stop(timeout_seconds=STOP_SECONDS_MAX)
        self._end()
        return is_sound

    def _end(self) -> None:
        self._ended.append((self._diary, time.monotonic_ns()))
        self._begin_life()

    def lives(self, coordinators_stood: Sequence[Span]) -> Iterator[Life]:
        """Return the lives that have ended."""
        stood = (*self._stood, *coordinators_stood)
        for number, (path, ended_ns) in enumerate(self._ended, 1):
            yield Life(f"{self.name} (life {number})", read_diary(path), ended_ns, stood)

    def entries(self) -> list[Entry]:
        """Return what the present life has written until now."""
        return read_diary(self._diary)

    def committed_ns(self) -> list[int]:
        """Return when the commits of the present life were answered."""
        return [entry.at_ns for entry in self.entries() if isinstance(entry, Committed)]


def _program(client: str, kafka_home: Path | None) -> list[str]:
    if client != JAVA or kafka_home is None:
        return [sys.executable, "-m", "tests.faults.groups.member", client]
    libraries = f"{kafka_home.resolve()}/libs/*"
    return [str(find_java().executable), *JAVA_OPTIONS, JAVA_QUIET, "-cp", libraries, str(JAVA_SOURCE)]
