"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka
import kafka.admin
from kafka.admin import ConfigResource, KafkaAdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider

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
            **_common(asked),
            acks="all",
            enable_idempotence=asked["idempotent"],
            compression_type=None if asked["codec"] == "none" else asked["codec"],
        )
        try:
            pending = []
            for number in range(asked["count"]):
                one = producer.send(asked["topic"], b"value %d" % number, b"k%d" % number, partition=0)
                if one.failed():  # before it was sent: each further one waits for metadata
                    one.get()
                pending.append(one)
            for future in pending:
                future.get(timeout=SECONDS)
        finally:
            producer.close()

    def fetch(self, asked: Asked, **settings: Any) -> list[list[str]]:
        partition = kafka.TopicPartition(asked["topic"], 0)
        found: list[list[str]] = []
        deadline = time.monotonic() + SECONDS
        with _consumer(asked, **settings) as consumer:
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

    def transact(self, asked: Asked) -> None:
        with _transactional(asked) as producer:
            _write(producer, asked, b"lost")
            producer.flush(SECONDS)
            producer.abort_transaction()
            _write(producer, asked, b"value")
            producer.commit_transaction()

    def fetch_committed(self, asked: Asked) -> list[list[str]]:
        return self.fetch(asked, isolation_level="read_committed")

    def copy(self, asked: Asked) -> None:
        partition = kafka.TopicPartition(asked["topic"], 0)
        deadline = time.monotonic() + SECONDS
        with _consumer(asked, group_id=asked["group"]) as consumer, _transactional(asked) as producer:
            consumer.subscribe([asked["topic"]])
            producer.begin_transaction()
            copied = 0
            while copied < asked["count"] and time.monotonic() < deadline:
                for message in consumer.poll(timeout_ms=200).get(partition, []):
                    producer.send(asked["topic"], message.value, message.key, partition=1)
                    copied += 1
            offset = kafka.structs.OffsetAndMetadata(consumer.position(partition), "", -1)
            producer.send_offsets_to_transaction({partition: offset}, consumer.group_metadata())
            producer.commit_transaction()

    def take_over(self, asked: Asked) -> bool:
        with _transactional(asked) as first, _transactional(asked, is_open=False) as second:
            _write(first, asked, b"lost")
            first.flush(SECONDS)
            second.init_transactions()
            _write(second, asked, b"value")
            second.commit_transaction()
            try:
                first.commit_transaction()
            except kafka.errors.KafkaError:
                return True
            return False

    def list_transactions(self, asked: Asked) -> list[str]:
        with _admin(asked) as admin:
            told = admin.list_transactions()
        return [one.transactional_id for of_node in told.values() for one in of_node]

    def describe_transaction(self, asked: Asked) -> dict[str, Any]:
        with _admin(asked) as admin:
            told = admin.describe_transactions([asked["group"]])[asked["group"]]
        return {
            "state": str(getattr(told.state, "value", told.state)),
            "partitions": [one.partition for one in told.topic_partitions],
        }

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

    def set_password(self, asked: Asked) -> None:
        mechanism = kafka.admin.ScramMechanism.SCRAM_SHA_256
        change = kafka.admin.UserScramCredentialUpsertion(
            asked["user"], mechanism, asked["password"], iterations=asked["iterations"]
        )
        self._alter_user(asked, change)

    def describe_user(self, asked: Asked) -> dict[str, int]:
        with _admin(asked) as admin:
            told = admin.describe_user_scram_credentials([asked["user"]])[asked["user"]]
        return {
            one["mechanism"].name.replace("_", "-"): one["iterations"] for one in told["credential_infos"]
        }

    def delete_password(self, asked: Asked) -> None:
        mechanism = kafka.admin.ScramMechanism.SCRAM_SHA_256
        self._alter_user(asked, kafka.admin.UserScramCredentialDeletion(asked["user"], mechanism))

    def _alter_user(self, asked: Asked, change: Any) -> None:
        with _admin(asked) as admin:
            error = admin.alter_user_scram_credentials([change])[asked["user"]]
        if error is not None:
            raise RuntimeError(error)

    def create_acl(self, asked: Asked) -> None:
        new = kafka.admin.ACL(
            principal=asked["principal"],
            host="*",
            operation=kafka.admin.ACLOperation.READ,
            permission_type=kafka.admin.ACLPermissionType.ALLOW,
            resource_pattern=kafka.admin.ResourcePattern(kafka.admin.ResourceType.TOPIC, asked["topic"]),
        )
        with _admin(asked) as admin:
            for error in admin.create_acls([new])["failed"]:
                _check(error)

    def describe_acls(self, asked: Asked) -> list[list[str]]:
        with _admin(asked) as admin:
            found, error = admin.describe_acls(_acls_of(asked))
        _check(error)
        return [[one.principal, one.operation.name] for one in found]

    def delete_acl(self, asked: Asked) -> None:
        with _admin(asked) as admin:
            for _, _, error in admin.delete_acls([_acls_of(asked)]):
                _check(error)


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def _common(asked: Asked) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": asked["bootstrap"].split(",")}
    login = asked["login"]
    if not login:
        return settings
    settings |= {"security_protocol": login["protocol"], "ssl_cafile": login["ca"]}
    if login["identity"]:
        settings["ssl_certfile"] = login["identity"]
    if login["mechanism"]:
        settings["sasl_mechanism"] = login["mechanism"]
    if login["token"]:
        settings["sasl_oauth_token_provider"] = _Token(login["token"])
    elif login["mechanism"]:
        settings |= {"sasl_plain_username": login["user"], "sasl_plain_password": login["password"]}
    return settings


def _acls_of(asked: Asked) -> Any:
    return kafka.admin.ACLFilter(
        principal=None,
        host=None,
        operation=kafka.admin.ACLOperation.ANY,
        permission_type=kafka.admin.ACLPermissionType.ANY,
        resource_pattern=kafka.admin.ResourcePatternFilter(
            kafka.admin.ResourceType.TOPIC, asked["topic"], kafka.admin.ACLResourcePatternType.LITERAL
        ),
    )


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
def _transactional(asked: Asked, *, is_open: bool = True) -> Iterator[Any]:
    producer = kafka.KafkaProducer(**_common(asked), transactional_id=asked["group"])
    try:
        if is_open:
            producer.init_transactions()
        yield producer
    finally:
        producer.close(timeout=SECONDS)


def _write(producer: Any, asked: Asked, word: bytes) -> None:
    producer.begin_transaction()
    for number in range(asked["count"]):
        producer.send(asked["topic"], b"%s %d" % (word, number), b"k%d" % number, partition=0)


@contextmanager
def _admin(asked: Asked) -> Iterator[Any]:
    admin = KafkaAdminClient(**_common(asked))
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
    consumer = kafka.KafkaConsumer(**_common(asked), check_crcs=True, **settings)
    try:
        yield consumer
    finally:
        consumer.close()


if __name__ == "__main__":
    serve(KafkaPython())
