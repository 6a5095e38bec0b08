"""librdkafka, through confluent-kafka: the version that Python finds first."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.interop.drivers.answer import serve
from tests.interop.drivers.members import Polls, return_static, share

SECONDS = 30.0
Asked = dict[str, Any]


class Librdkafka:
    """One method a call of rows.py."""

    def version(self, asked: Asked) -> str:
        return str(confluent_kafka.libversion()[0])

    def connect(self, asked: Asked) -> int:
        return len(self._admin(asked).list_topics(timeout=SECONDS).brokers)

    def list_topics(self, asked: Asked) -> list[str]:
        return [*self._admin(asked).list_topics(timeout=SECONDS).topics]

    def create(self, asked: Asked) -> None:
        new = NewTopic(
            asked["topic"],
            num_partitions=asked["partitions"],
            replication_factor=asked["replication_factor"],
        )
        admin = self._admin(asked)
        _only(admin.create_topics([new]))

    def delete(self, asked: Asked) -> None:
        admin = self._admin(asked)
        _only(admin.delete_topics([asked["topic"]]))

    def describe_configs(self, asked: Asked) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, asked["topic"])
        admin = self._admin(asked)
        return str(_only(admin.describe_configs([resource]))[asked["setting"]].value)

    def alter_configs(self, asked: Asked) -> None:
        admin = self._admin(asked)
        resource = ConfigResource(ConfigResource.Type.TOPIC, asked["topic"])
        if not hasattr(admin, "incremental_alter_configs"):  # before confluent-kafka 2.2
            resource.set_config(asked["setting"], asked["value"])
            _only(admin.alter_configs([resource]))
            return
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

        entry = ConfigEntry(asked["setting"], asked["value"], incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
        _only(admin.incremental_alter_configs([resource]))

    def delete_records(self, asked: Asked) -> None:
        admin = self._admin(asked)
        if not hasattr(admin, "delete_records"):
            raise NotImplementedError("since confluent-kafka 2.5")
        _only(admin.delete_records([TopicPartition(asked["topic"], 0, asked["offset"])]))

    def produce(self, asked: Asked) -> None:
        failures: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": asked["bootstrap"],
                "acks": "all",
                "compression.type": asked["codec"],
                "enable.idempotence": asked["idempotent"],
            }
        )
        for number in range(asked["count"]):
            producer.produce(
                *(asked["topic"], f"value {number}", f"k{number}"),
                partition=0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        left = producer.flush(SECONDS)
        if failures or left:
            raise RuntimeError(failures[0] if failures else f"{left} records were not acknowledged")

    def fetch(self, asked: Asked) -> list[list[str]]:
        consumer = self._consumer(asked)
        consumer.assign([TopicPartition(asked["topic"], 0, 0)])
        found = consumer.consume(asked["count"], timeout=SECONDS)
        consumer.close()
        return _records(found)

    def offset_by_time(self, asked: Asked) -> int:
        consumer = self._consumer(asked)
        wanted = TopicPartition(asked["topic"], 0, asked["timestamp_ms"])
        (found,) = consumer.offsets_for_times([wanted], timeout=SECONDS)
        consumer.close()
        return int(found.offset)

    def group_share(self, asked: Asked) -> dict[str, Any]:
        return share(lambda instance: Polls(lambda polls: self._take_part(asked, instance, polls)))

    def group_static(self, asked: Asked) -> dict[str, Any]:
        return return_static(lambda instance: Polls(lambda polls: self._take_part(asked, instance, polls)))

    def _take_part(self, asked: Asked, instance: str, polls: Polls) -> None:
        consumer = self._consumer(asked, group=asked["group"], instance=instance)
        consumer.subscribe(
            [asked["topic"]],
            on_assign=lambda _, given: polls.assigned([one.partition for one in given]),
            on_revoke=lambda _, __: polls.revoked(),
        )
        while polls.is_open:
            consumer.poll(0.1)
        consumer.close()

    def group_resume(self, asked: Asked) -> list[list[str]]:
        self._read_and_commit(asked, asked["offset"])
        return self._read_and_commit(asked, asked["count"] - asked["offset"])

    def _read_and_commit(self, asked: Asked, count: int) -> list[list[str]]:
        consumer = self._consumer(asked, group=asked["group"])
        consumer.subscribe([asked["topic"]])
        found = consumer.consume(count, timeout=SECONDS)
        next_offset = (found[-1].offset() or 0) + 1 if found else 0
        consumer.commit(offsets=[TopicPartition(asked["topic"], 0, next_offset)], asynchronous=False)
        consumer.close()
        return _records(found)

    def list_groups(self, asked: Asked) -> list[str]:
        admin = self._admin(asked)
        told = admin.list_consumer_groups().result(SECONDS)
        if told.errors:
            raise KafkaException(told.errors[0])
        return [group.group_id for group in told.valid]

    def describe_group(self, asked: Asked) -> dict[str, Any]:
        admin = self._admin(asked)
        told = _only(admin.describe_consumer_groups([asked["group"]]))
        return {"state": told.state.name.capitalize(), "members": len(told.members)}

    def group_offsets(self, asked: Asked) -> int:
        admin = self._admin(asked)
        told = _only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(asked["group"])]))
        return int(told.topic_partitions[0].offset)

    def reset_group(self, asked: Asked) -> None:
        admin = self._admin(asked)
        offset = TopicPartition(asked["topic"], 0, asked["offset"])
        _only(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(asked["group"], [offset])]))

    def delete_group(self, asked: Asked) -> None:
        admin = self._admin(asked)
        _only(admin.delete_consumer_groups([asked["group"]]))

    def _admin(self, asked: Asked) -> AdminClient:
        return AdminClient({"bootstrap.servers": asked["bootstrap"]})

    def _consumer(self, asked: Asked, *, group: str | None = None, instance: str = "") -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": asked["bootstrap"],
                "group.id": group or uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "check.crcs": True,
                "heartbeat.interval.ms": 500,
                **({"group.instance.id": instance} if instance else {}),
            }
        )


def _records(found: Sequence[Message]) -> list[list[str]]:
    for message in found:
        if message.error() is not None:
            raise KafkaException(message.error())
    return [[(one.key() or b"").decode(), (one.value() or b"").decode()] for one in found]


def _only(pending: dict[Any, Future[Any]]) -> Any:
    """Return the only future's result; the caller's variable keeps the admin client alive until then."""
    (future,) = pending.values()
    return future.result(SECONDS)


if __name__ == "__main__":
    serve(Librdkafka())
