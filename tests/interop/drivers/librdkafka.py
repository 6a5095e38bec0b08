"""librdkafka, through confluent-kafka: the version that Python finds first."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
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
from confluent_kafka import admin as library
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.interop.drivers.answer import serve
from tests.interop.drivers.login import librdkafka_settings
from tests.interop.drivers.members import Polls, return_static, share

SECONDS = 30.0
TOKEN_SECONDS = 600.0
ANY: Any = None
Asked = dict[str, Any]
CONSUMER_SINCE = 0x020400FF
"""The first version that has group.protocol=consumer."""


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
                **_common(asked),
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

    def consumer_share(self, asked: Asked) -> dict[str, Any]:
        return self.group_share(_as_consumer(asked))

    def consumer_resume(self, asked: Asked) -> list[list[str]]:
        return self.group_resume(_as_consumer(asked))

    def consumer_static(self, asked: Asked) -> dict[str, Any]:
        return self.group_static(_as_consumer(asked))

    def _take_part(self, asked: Asked, instance: str, polls: Polls) -> None:
        consumer = self._consumer(asked, group=asked["group"], instance=instance)
        consumer.subscribe(
            [asked["topic"]],
            on_assign=lambda _, given: polls.gained([one.partition for one in given]),
            on_revoke=lambda _, gone: polls.revoked([one.partition for one in gone]),
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

    def transact(self, asked: Asked) -> None:
        producer = self._transactional(asked)
        _write(producer, asked, "lost")
        producer.abort_transaction(SECONDS)
        _write(producer, asked, "value")
        producer.commit_transaction(SECONDS)

    def fetch_committed(self, asked: Asked) -> list[list[str]]:
        return self.fetch(asked)  # What this client does unless it is told otherwise.

    def copy(self, asked: Asked) -> None:
        consumer, producer = self._consumer(asked, group=asked["group"]), self._transactional(asked)
        consumer.subscribe([asked["topic"]])
        found = consumer.consume(asked["count"], timeout=SECONDS)
        producer.begin_transaction()
        for key, value in _records(found):
            producer.produce(asked["topic"], value, key, partition=1)
        offset = TopicPartition(asked["topic"], 0, (found[-1].offset() or 0) + 1)
        producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata(), SECONDS)
        producer.commit_transaction(SECONDS)
        consumer.close()

    def take_over(self, asked: Asked) -> bool:
        first = self._transactional(asked)
        _write(first, asked, "lost")
        first.flush(SECONDS)
        second = self._transactional(asked)
        _write(second, asked, "value")
        second.commit_transaction(SECONDS)
        try:
            first.commit_transaction(SECONDS)
        except KafkaException as refused:
            return bool(refused.args[0].fatal())
        return False

    def _transactional(self, asked: Asked) -> Producer:
        producer = Producer({**_common(asked), "transactional.id": asked["group"]})
        producer.init_transactions(SECONDS)
        return producer

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

    def set_password(self, asked: Asked) -> None:
        admin = self._scram_admin(asked)
        info = library.ScramCredentialInfo(library.ScramMechanism.SCRAM_SHA_256, asked["iterations"])
        change = library.UserScramCredentialUpsertion(asked["user"], info, asked["password"].encode())
        _only(admin.alter_user_scram_credentials([change]))

    def describe_user(self, asked: Asked) -> dict[str, int]:
        admin = self._scram_admin(asked)
        told = _only(admin.describe_user_scram_credentials([asked["user"]]))
        return {one.mechanism.name.replace("_", "-"): one.iterations for one in told.scram_credential_infos}

    def delete_password(self, asked: Asked) -> None:
        admin = self._scram_admin(asked)
        change = library.UserScramCredentialDeletion(asked["user"], library.ScramMechanism.SCRAM_SHA_256)
        _only(admin.alter_user_scram_credentials([change]))

    def _scram_admin(self, asked: Asked) -> AdminClient:
        if not hasattr(AdminClient, "alter_user_scram_credentials"):
            raise NotImplementedError("since confluent-kafka 2.2")
        return self._admin(asked)

    def create_acl(self, asked: Asked) -> None:
        admin = self._admin(asked)
        what = (library.AclOperation.READ, library.AclPermissionType.ALLOW)
        _only(admin.create_acls([library.AclBinding(*_topic_of(asked), asked["principal"], "*", *what)]))

    def describe_acls(self, asked: Asked) -> list[list[str]]:
        admin = self._admin(asked)
        found = admin.describe_acls(_acls_of(asked)).result(SECONDS)
        return [[one.principal, one.operation.name] for one in found]

    def delete_acl(self, asked: Asked) -> None:
        admin = self._admin(asked)
        _only(admin.delete_acls([_acls_of(asked)]))

    def _admin(self, asked: Asked) -> AdminClient:
        return AdminClient(_common(asked))

    def _consumer(self, asked: Asked, *, group: str | None = None, instance: str = "") -> Consumer:
        return Consumer(
            {
                **_common(asked),
                "group.id": group or uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "check.crcs": True,
                **({"group.protocol": "consumer"} if "protocol" in asked else {"heartbeat.interval.ms": 500}),
                **({"group.instance.id": instance} if instance else {}),
            }
        )


def _as_consumer(asked: Asked) -> Asked:
    """Return what is asked of a group of the `consumer` protocol: the coordinator says how often its members
    send heartbeats."""
    if confluent_kafka.libversion()[1] < CONSUMER_SINCE:
        raise NotImplementedError("since librdkafka 2.4")
    return asked | {"protocol": "consumer"}


def _common(asked: Asked) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap.servers": asked["bootstrap"], **librdkafka_settings(asked)}
    if asked["login"] and asked["login"]["token"]:
        settings["oauth_cb"] = lambda _: (asked["login"]["token"], time.time() + TOKEN_SECONDS)
    return settings


def _write(producer: Producer, asked: Asked, word: str) -> None:
    producer.begin_transaction()
    for number in range(asked["count"]):
        producer.produce(asked["topic"], f"{word} {number}", f"k{number}", partition=0)


def _topic_of(asked: Asked) -> tuple[Any, str, Any]:
    return library.ResourceType.TOPIC, asked["topic"], library.ResourcePatternType.LITERAL


def _acls_of(asked: Asked) -> library.AclBindingFilter:
    what = (library.AclOperation.ANY, library.AclPermissionType.ANY)
    return library.AclBindingFilter(*_topic_of(asked), ANY, ANY, *what)


def _records(found: Sequence[Message]) -> list[list[str]]:
    for message in found:
        if message.error() is not None:
            raise KafkaException(message.error())
    return [[(one.key() or b"").decode(), (one.value() or b"").decode()] for one in found]


def _only(pending: Any) -> Any:
    """Return the only future's result; the caller's variable keeps the admin client alive until then."""
    (future,) = pending.values()
    return future.result(SECONDS)


if __name__ == "__main__":
    serve(Librdkafka())
