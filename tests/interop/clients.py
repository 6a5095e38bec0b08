"""The columns of the matrix: each client, the driver that runs it, and what its machine has to have."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "interop"
OLD_LIBRDKAFKA = "2.0.2"
"""The oldest release with wheels for Python 3.11."""


class Missing(Exception):
    """The client is not installed here; the message says how to install it.

    `install` is the command that does so below build/, where that is possible without touching the machine.
    """

    def __init__(self, how: str, install: list[str] | None = None) -> None:
        super().__init__(how)
        self.install = install


@dataclass(frozen=True, slots=True)
class Driver:
    """How to start the client's driver."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Client:
    """A column: its name, and `find`, which returns the driver or raises Missing."""

    name: str
    find: Callable[[], Driver]


def _python(module: str, *arguments: str, first: Path | None = None) -> Driver:
    """Return a driver written in Python; packages in `first` win over the installed ones."""
    paths = [str(path) for path in (first, ROOT) if path is not None]
    environment = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
    return Driver([sys.executable, "-m", f"tests.interop.drivers.{module}", *arguments], environment)


def _installed(package: str, distribution: str, module: str) -> Callable[[], Driver]:
    def find() -> Driver:
        if importlib.util.find_spec(package) is None:
            raise Missing(f"pip install {distribution}")
        return _python(module)

    return find


def _old_librdkafka() -> Driver:
    folder = BUILD / f"confluent-kafka-{OLD_LIBRDKAFKA}"
    if not (folder / "confluent_kafka").is_dir():
        what = ["install", "-q", "--no-deps", "-t", str(folder), f"confluent-kafka=={OLD_LIBRDKAFKA}"]
        raise Missing("make interop installs it", [sys.executable, "-m", "pip", *what])
    return _python("librdkafka", first=folder)


def _kcat() -> Driver:
    if shutil.which("kcat") is None:
        raise Missing("apt-get install kcat")
    return _python("kcat")


def _java_tools(kafka_home: Path | None) -> Callable[[], Driver]:
    def find() -> Driver:
        if kafka_home is None:
            raise Missing("KAFKA_HOME=DIR, where DIR/libs holds the jars of an Apache Kafka 4")
        return _python("java_tools", str(kafka_home))

    return find


def clients(kafka_home: Path | None) -> tuple[Client, ...]:
    """Return every column, installed or not."""
    return (
        Client("librdkafka", _installed("confluent_kafka", "confluent-kafka", "librdkafka")),
        Client("librdkafka-old", _old_librdkafka),
        Client("kafka-python", _installed("kafka", "kafka-python", "kafka_python")),
        Client("aiokafka", _installed("aiokafka", "aiokafka", "aiokafka_client")),
        Client("kcat", _kcat),
        Client("java-tools", _java_tools(kafka_home)),
    )
