"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka
from kafka.admin import ConfigResource, KafkaAdminClient

from tests.interop.drivers.answer import serve

SECONDS = 30.0
Asked = dict[str, Any]


class KafkaPython:
    """One method a call of rows.py."""

    def version(self, asked: Asked) -> str:
        return str(kafka.__version__)

    def connect(self, asked: Asked) -> int:
        with _admin(asked) as admin:
            return len(admin.describe_cluster()["brokers"])

    def list_topics(self, asked: Asked) -> list[str]:
        with _admin(asked) as admin:
            return [*admin.list_topics()]

    def create(self, asked: Asked) -> None:
        new = {
            "num_partitions": asked["partitions"],
            "replication_factor": asked["replication_factor"],
        }
        with _admin(asked) as admin:
            admin.create_topics({asked["topic"]: new})

    def delete(self, asked: Asked) -> None:
        with _admin(asked) as admin:
            admin.delete_topics([asked["topic"]])

    def describe_configs(self, asked: Asked) -> str:
        with _admin(asked) as admin:
            told = admin.describe_configs([ConfigResource("TOPIC", asked["topic"])], config_filter="all")
        ((_, settings),) = next(iter(told.values())).items()
        return str(settings[asked["setting"]]["value"])

    def alter_configs(self, asked: Asked) -> None:
        change = ConfigResource("TOPIC", asked["topic"], configs={asked["setting"]: asked["value"]})
        with _admin(asked) as admin:
            admin.alter_configs([change])

    def delete_records(self, asked: Asked) -> None:
        with _admin(asked) as admin:
            admin.delete_records({kafka.TopicPartition(asked["topic"], 0): asked["offset"]})

    def produce(self, asked: Asked) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=asked["bootstrap"].split(","),
            acks="all",
            enable_idempotence=asked["idempotent"],
            compression_type=None if asked["codec"] == "none" else asked["codec"],
        )
        try:
            pending = [
                producer.send(asked["topic"], key=b"k%d" % number, value=b"value %d" % number, partition=0)
                for number in range(asked["count"])
            ]
            for future in pending:
                future.get(timeout=SECONDS)
        finally:
            producer.close()

    def fetch(self, asked: Asked) -> list[list[str]]:
        partition = kafka.TopicPartition(asked["topic"], 0)
        found: list[list[str]] = []
        deadline = time.monotonic() + SECONDS
        with _consumer(asked) as consumer:
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            while len(found) < asked["count"] and time.monotonic() < deadline:
                for message in consumer.poll(timeout_ms=200).get(partition, []):
                    found.append([message.key.decode(), message.value.decode()])
        return found

    def offset_by_time(self, asked: Asked) -> int:
        partition = kafka.TopicPartition(asked["topic"], 0)
        with _consumer(asked) as consumer:
            return int(consumer.offsets_for_times({partition: asked["timestamp_ms"]})[partition].offset)


@contextmanager
def _admin(asked: Asked) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=asked["bootstrap"].split(","))
    try:
        yield admin
    finally:
        admin.close()


@contextmanager
def _consumer(asked: Asked) -> Iterator[Any]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=asked["bootstrap"].split(","), check_crcs=True)
    try:
        yield consumer
    finally:
        consumer.close()


if __name__ == "__main__":
    serve(KafkaPython())
