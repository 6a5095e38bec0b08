"""Kafka's own Java client in the place of confluent-kafka's transactional producer: it speaks version 2 of
transactions, which librdkafka does not (KIP-890).

One Java process holds the producers of one application, each under a number. It takes one call at a time.
"""

from __future__ import annotations

import itertools
import subprocess
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from localcluster.java import find_java

SOURCE = Path(__file__).with_name("JavaProducers.java")
OPTIONS = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
SETTINGS = {"max.block.ms": 5_000, "request.timeout.ms": 10_000, "delivery.timeout.ms": 20_000}
"""A call of the client ends as soon as one of librdkafka's; what is not delivered within two of the
transaction's times never will be."""
TAKEN = ("bootstrap.servers", "transactional.id", "transaction.timeout.ms", "linger.ms")

Delivered = Callable[[KafkaError | None, Any], None]


class Acknowledged(NamedTuple):
    place: int

    def offset(self) -> int:
        return self.place


class JavaProcess:
    """kafka_home: the folder above the client's libs/."""

    def __init__(self, kafka_home: Path) -> None:
        libraries = f"{kafka_home.resolve()}/libs/*"
        self._numbers = itertools.count()
        self._waiting: dict[str, Delivered] = {}
        self._process = subprocess.Popen(
            [str(find_java().executable), *OPTIONS, QUIET, "-cp", libraries, str(SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,  # what ends an application first lets it end its transaction
        )

    def new_producer(self, config: Mapping[str, Any]) -> JavaProducer:
        """Return a producer with those of confluent-kafka's settings that Java's client has, too."""
        return JavaProducer(self, str(next(self._numbers)), config)

    def expect(self, value: str, on_delivery: Delivered) -> None:
        self._waiting[value] = on_delivery

    def call(self, *words: object) -> None:
        """Raise KafkaException as confluent-kafka does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        for line in self._process.stdout:
            kind, *told = line.rstrip("\n").split("\t")
            if kind == "acknowledged":
                if on_delivery := self._waiting.pop(told[0], None):
                    on_delivery(None, Acknowledged(int(told[1])))
            elif kind == "done":
                return
            else:
                fate, name, text = told
                raise KafkaException(
                    KafkaError(
                        getattr(KafkaError, name, KafkaError._FAIL),
                        text,
                        fatal=fate == "over",
                        retriable=fate == "again",
                        txn_requires_abort=fate == "abort",
                    )
                )
        raise EOFError("the Java process has ended")

    def close(self) -> None:
        """End it. What is open stays open."""
        with self._process:  # closes its pipes and waits
            pass


class JavaProducer:
    """What RecordedTransactions asks of a confluent-kafka Producer. The producer that is forgotten is dropped
    without a word to its coordinator, as there."""

    def __init__(self, process: JavaProcess, number: str, config: Mapping[str, Any]) -> None:
        self._process = process
        self._number = number
        settings = {name: config[name] for name in TAKEN if name in config} | SETTINGS
        self._call("open", *(f"{name}={value}" for name, value in settings.items()))
        weakref.finalize(self, process.call, number, "drop").atexit = False

    def init_transactions(self, seconds: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Delivered) -> None:
        text = value.decode("ascii")
        self._process.expect(text, on_delivery)
        self._call("send", topic, partition, text)

    def poll(self, seconds: float) -> None:
        """Acknowledgements come with the answers of calls."""

    def flush(self) -> None:
        """Wait until each record is acknowledged, or has failed."""
        self._call("flush")

    def send_offsets_to_transaction(
        self, offsets: Sequence[TopicPartition], group: str, seconds: float
    ) -> None:
        self._call(
            "offsets",
            group,
            *itertools.chain.from_iterable((one.topic, one.partition, one.offset) for one in offsets),
        )

    def commit_transaction(self, seconds: float) -> None:
        self._call("commit")

    def abort_transaction(self, seconds: float) -> None:
        self._call("abort")

    def _call(self, *words: object) -> None:
        self._process.call(self._number, *words)
