"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka
from kafka.admin import ConfigResource, KafkaAdminClient

from tests.interop.drivers.answer import serve
from tests.interop.drivers.members import Polls, return_static, share

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

    def group_share(self, asked: Asked) -> dict[str, Any]:
        return share(lambda instance: Polls(lambda polls: _take_part(asked, instance, polls)))

    def group_static(self, asked: Asked) -> dict[str, Any]:
        return return_static(lambda instance: Polls(lambda polls: _take_part(asked, instance, polls)))

    def group_resume(self, asked: Asked) -> list[list[str]]:
        _read_and_commit(asked, asked["offset"])
        return _read_and_commit(asked, asked["count"] - asked["offset"])

    def list_groups(self, asked: Asked) -> list[str]:
        with _admin(asked) as admin:
            return [group["group_id"] for group in admin.list_groups()]

    def describe_group(self, asked: Asked) -> dict[str, Any]:
        with _admin(asked) as admin:
            told = admin.describe_groups([asked["group"]])[asked["group"]]
        return {"state": told["group_state"], "members": len(told["members"])}

    def group_offsets(self, asked: Asked) -> int:
        with _admin(asked) as admin:
            told = admin.list_group_offsets([asked["group"]])[asked["group"]]
        return int(told[kafka.TopicPartition(asked["topic"], 0)].offset)

    def reset_group(self, asked: Asked) -> None:
        partition = kafka.TopicPartition(asked["topic"], 0)
        with _admin(asked) as admin:
            told = admin.alter_group_offsets(
                asked["group"], {partition: kafka.OffsetAndMetadata(asked["offset"], "", -1)}
            )
        _check(told[partition])

    def delete_group_offsets(self, asked: Asked) -> None:
        partition = kafka.TopicPartition(asked["topic"], 0)
        with _admin(asked) as admin:
            _check(admin.delete_group_offsets(asked["group"], [partition])[partition])

    def delete_group(self, asked: Asked) -> None:
        with _admin(asked) as admin:
            told = admin.delete_groups([asked["group"]])[asked["group"]]
        if told != "OK":
            raise RuntimeError(told)


def _check(error: Any) -> None:
    """Raise the client's error if it is one."""
    if error is not kafka.errors.NoError:
        raise error()


def _take_part(asked: Asked, instance: str, polls: Polls) -> None:
    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            polls.assigned([one.partition for one in assigned])

        def on_partitions_revoked(self, revoked: Any) -> None:
            polls.revoked()

    with _consumer(asked, group_id=asked["group"], group_instance_id=instance or None) as consumer:
        consumer.subscribe([asked["topic"]], listener=Listener())
        while polls.is_open:
            consumer.poll(timeout_ms=100)


def _read_and_commit(asked: Asked, count: int) -> list[list[str]]:
    partition = kafka.TopicPartition(asked["topic"], 0)
    found: list[list[str]] = []
    deadline = time.monotonic() + SECONDS
    with _consumer(asked, group_id=asked["group"]) as consumer:
        consumer.subscribe([asked["topic"]])
        while len(found) < count and time.monotonic() < deadline:
            told = consumer.poll(timeout_ms=200, max_records=count - len(found))
            for message in told.get(partition, []):
                found.append([message.key.decode(), message.value.decode()])
        consumer.commit()
    return found


@contextmanager
def _admin(asked: Asked) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=asked["bootstrap"].split(","))
    try:
        yield admin
    finally:
        admin.close()


@contextmanager
def _consumer(asked: Asked, **settings: Any) -> Iterator[Any]:
    if settings:
        settings |= {
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 500,
        }
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=asked["bootstrap"].split(","), check_crcs=True, **settings
    )
    try:
        yield consumer
    finally:
        consumer.close()


if __name__ == "__main__":
    serve(KafkaPython())
