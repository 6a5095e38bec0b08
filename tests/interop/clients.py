"""The columns of the matrix: each client, the driver that runs it, and what its machine has to have."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.java import find_java
from tests.interop.drivers.answer import first_line

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "interop"
OLD_LIBRDKAFKA = "2.0.2"
"""The oldest release with wheels for Python 3.11."""
KAFKAJS = "2.2.4"
KAFKA_HOME = "KAFKA_HOME=DIR, where DIR/libs holds the jars of an Apache Kafka 4"
KAFKA_TOOLS = ROOT / "build" / "kafka-tools"
"""Where `make kafka-tools` puts jars."""
DRIVERS = Path(__file__).parent / "drivers"
GO_BUILD_SECONDS_MAX = 600.0
"""The first time, Go downloads and compiles what the driver imports."""


NO_JARS = "no jars of Apache Kafka: `make kafka-tools` gets them where Maven can; KAFKA_HOME=DIR"


def kafka_home() -> Path | None:
    """Return the folder above the libs/ with Kafka's jars, if there is one."""
    home = Path(os.environ.get("KAFKA_HOME") or KAFKA_TOOLS)
    return home if list((home / "libs").glob("kafka-tools-*.jar")) else None


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


def _burrow() -> Driver:
    unpacked = BUILD / "burrow" / "usr" / "bin" / "Burrow"
    program = shutil.which("Burrow") or (str(unpacked) if unpacked.is_file() else None)
    if program is None:
        get = f"mkdir -p {BUILD} && cd {BUILD} && apt-get -q download burrow && dpkg -x burrow_*.deb burrow"
        has_debian = shutil.which("apt-get") and shutil.which("dpkg")
        raise Missing("apt-get install burrow", ["sh", "-c", get] if has_debian else None)
    return _python("burrow", program, str(BUILD / "burrow-work"))


def _go(package: str) -> Callable[[], Driver]:
    def find() -> Driver:
        if shutil.which("go") is None:
            raise Missing("install Go (go.dev)")
        command = ["go", "build", "-C", str(DRIVERS / "go"), "-o", f"{BUILD}/{package}", f"./{package}"]
        built = subprocess.run(
            command, capture_output=True, text=True, timeout=GO_BUILD_SECONDS_MAX, check=False
        )
        if built.returncode:
            raise Missing(f"go build: {first_line(built.stderr)}")
        return Driver([f"{BUILD}/{package}"])

    return find


def _kafkajs() -> Driver:
    folder = BUILD / "kafkajs"
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise Missing("apt-get install nodejs npm, then make interop")
    if not (folder / "node_modules" / "kafkajs").is_dir():
        what = ["--silent", "--no-audit", "--no-fund", "--prefix", str(folder), f"kafkajs@{KAFKAJS}"]
        raise Missing("make interop installs it", ["npm", "install", *what])
    return Driver(["node", str(DRIVERS / "kafkajs.js")], {"NODE_PATH": str(folder / "node_modules")})


def _java_tools(kafka_home: Path | None) -> Callable[[], Driver]:
    def find() -> Driver:
        if kafka_home is None:
            raise Missing(KAFKA_HOME)
        return _python("java_tools", str(kafka_home.resolve()))

    return find


def _java_client(kafka_home: Path | None) -> Callable[[], Driver]:
    def find() -> Driver:
        if kafka_home is None:
            raise Missing(KAFKA_HOME)
        java = str(find_java().executable)
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return Driver(
            [java, quiet, "-cp", f"{kafka_home.resolve()}/libs/*", str(DRIVERS / "JavaClient.java")]
        )

    return find


def clients(kafka_home: Path | None) -> tuple[Client, ...]:
    """Return every column, installed or not."""
    return (
        Client("librdkafka", _installed("confluent_kafka", "confluent-kafka", "librdkafka")),
        Client("librdkafka-old", _old_librdkafka),
        Client("kafka-python", _installed("kafka", "kafka-python", "kafka_python")),
        Client("aiokafka", _installed("aiokafka", "aiokafka", "aiokafka_client")),
        Client("kcat", _kcat),
        Client("burrow", _burrow),
        Client("franz-go", _go("franz")),
        Client("sarama", _go("sarama")),
        Client("kafkajs", _kafkajs),
        Client("java", _java_client(kafka_home)),
        Client("java-tools", _java_tools(kafka_home)),
    )
