"""What the runner itself does: makes the topics and records that clients find, and looks afterwards.

It looks with a client of its own (the librdkafka of this Python), whichever client a cell is about: a cell is
`ok` when the brokers hold what the driver was asked for, not when the driver says so.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.interop.quotas import quotas_of, set_quota
from tests.interop.rows import (
    ACL_PRINCIPAL,
    ASKED_OFFSET,
    CODECS,
    COMMITTED_OFFSET,
    ITERATIONS,
    NEW_PARTITIONS,
    QUOTA,
    RATE,
    RECORDS,
    REPLICATION_FACTOR,
    SETTING,
    SETTING_AFTER,
    SETTING_BEFORE,
    TIMESTAMP_MS,
    Row,
    expected_records,
    lost_records,
)

SECONDS_MAX = 60.0
POLL_SECONDS = 0.1
LIST_COORDINATORS = frozenset({"librdkafka", "aiokafka"})
"""Clients whose drivers find coordinators among the nodes (springtide/node/core/listed_coordinators.py)."""


class NotAsAsked(Exception):
    """The client said that it was done, and the brokers show something else."""


class Reference:
    """One cluster, through the runner's own client. coordinators: nodes that serve groups and store nothing,
    which LIST_COORDINATORS are told, too. settings: how that client gets in. replicas: of each partition of
    the topics that it makes."""

    def __init__(
        self,
        bootstrap: str,
        *,
        coordinators: int = 0,
        settings: Mapping[str, str] | None = None,
        replicas: int = REPLICATION_FACTOR,
    ) -> None:
        self.bootstrap = bootstrap
        self._coordinators = coordinators
        self._replicas = replicas
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **(settings or {})}
        self._admin = AdminClient(self._settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.__exit__(kind, error, trace)

    def make_topics(self, partitions: Mapping[str, int]) -> None:
        """Create topics with so many partitions; return when every replica of each is in sync."""
        new = [
            NewTopic(
                name,
                num_partitions=count,
                replication_factor=self._replicas,
                config={SETTING: SETTING_BEFORE},
            )
            for name, count in partitions.items()
        ]
        for pending in self._admin.create_topics(new).values() if new else ():
            pending.result(SECONDS_MAX)
        self._wait(f"{len(new)} topics are in sync", lambda: all(map(self._is_in_sync, partitions)))

    def write(self, topic: str, codecs: Sequence[str] = CODECS) -> None:
        """Write the expected records, an equal part with each codec, a second from each to the next."""
        part = RECORDS // len(codecs)
        for number, codec in enumerate(codecs):
            producer = Producer({**self._settings, "compression.type": codec})
            for at in range(number * part, (number + 1) * part):
                key, value = expected_records()[at]
                producer.produce(topic, value, key, partition=0, timestamp=TIMESTAMP_MS + at * 1000)
            if producer.flush(SECONDS_MAX):
                raise TimeoutError(f"the records of {topic} could not be written in {SECONDS_MAX:g} s")

    def transact(self, topic: str) -> None:
        """Write records in a transaction that is aborted, and the expected ones in one that is committed."""
        with self.open_transaction(topic, lost_records()):
            pass
        producer = self._transactional(topic)
        producer.begin_transaction()
        for key, value in expected_records():
            producer.produce(topic, value, key, partition=0)
        producer.commit_transaction(SECONDS_MAX)

    @contextmanager
    def open_transaction(
        self, topic: str, records: Sequence[Sequence[str]] = (("k", "v"),)
    ) -> Iterator[None]:
        """A transaction of this transactional id that has written to partition 0; it is aborted after the
        `with` block."""
        producer = self._transactional(topic)
        producer.begin_transaction()
        for key, value in records:
            producer.produce(topic, value, key, partition=0)
        if producer.flush(SECONDS_MAX):
            raise TimeoutError(f"{topic} took no record of a transaction in {SECONDS_MAX:g} s")
        yield
        producer.abort_transaction(SECONDS_MAX)

    def _transactional(self, transactional_id: str) -> Producer:
        producer = Producer({**self._settings, "transactional.id": transactional_id})
        producer.init_transactions(SECONDS_MAX)
        return producer

    def commit(self, group: str, topic: str) -> None:
        """Commit COMMITTED_OFFSET of partition 0 for a group without members, which this makes."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, COMMITTED_OFFSET)])
        self._admin.alter_consumer_group_offsets([asked])[group].result(SECONDS_MAX)

    def create_acls(self, acls: Sequence[AclBinding]) -> None:
        """Create ACLs; return when a broker tells of them."""
        for pending in self._admin.create_acls(list(acls)).values() if acls else ():
            pending.result(SECONDS_MAX)
        for name in {one.name for one in acls}:
            wanted = {one for one in acls if one.name == name}
            self._wait(f"there are ACLs for {name}", lambda: wanted <= set(self._acls(name)))  # noqa: B023

    def create_user(self, user: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
        changed = self._admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"old")])
        changed[user].result(SECONDS_MAX)
        self._wait(f"there is a user {user}", lambda: self._iterations(user) == ITERATIONS)

    def set_quota(self, user: str) -> None:
        set_quota(self.bootstrap, user, QUOTA, RATE)
        self._wait(f"{user} has a quota", lambda: self._has_quota(user))

    @contextmanager
    def member(self, group: str, topic: str) -> Iterator[None]:
        """A group with one member, which has its assignment, also after the `with` block, and ends then."""
        with self._consumer(group) as consumer:
            consumer.subscribe([topic])

            def is_assigned() -> bool:
                consumer.poll(POLL_SECONDS)
                return bool(consumer.assignment())

            self._wait(f"a member of {group} has its assignment", is_assigned)
            yield
            if not is_assigned():
                raise NotAsAsked("the member that was there before has lost its assignment")

    def check(self, row: Row, client: str, topic: str, value: object) -> None:
        """Compare what the driver told and what the brokers hold with what was asked; raise NotAsAsked."""
        match row.call:
            case "connect":
                more = self._coordinators if client in LIST_COORDINATORS else 0
                _equal("nodes", value, REPLICATION_FACTOR + more)
            case "list_topics" | "list_groups":
                if isinstance(value, list) and len(set(value)) != len(value):
                    raise NotAsAsked(f"some are listed twice: {value}")
                if not (isinstance(value, list) and topic in value):
                    raise NotAsAsked(f"{topic} is not among those listed: {value}")
            case "create":
                self._wait(f"{topic} has two partitions", lambda: self._partitions(topic) == NEW_PARTITIONS)
            case "describe_configs":
                _equal(SETTING, value, SETTING_BEFORE)
            case "alter_configs":
                self._wait(f"{SETTING} is {SETTING_AFTER}", lambda: self._setting(topic) == SETTING_AFTER)
            case "produce":
                _equal("records read", self._read(topic), expected_records())
            case "fetch":
                _equal("records fetched", value, expected_records())
            case "offset_by_time":
                _equal("offset", value, ASKED_OFFSET)
            case "delete_records":
                _equal("first offset", self._first_offset(topic), ASKED_OFFSET)
            case "delete":
                self._wait(f"{topic} is gone", lambda: self._partitions(topic) == 0)
            case "set_password":
                self._wait(f"{topic} has a password", lambda: self._iterations(topic) == ITERATIONS)
            case "describe_user":
                _equal("user", value, {"SCRAM-SHA-256": ITERATIONS})
            case "delete_password":
                self._wait(f"{topic} has no password", lambda: self._iterations(topic) == 0)
            case "set_quota":
                self._wait(f"{topic} has a quota", lambda: self._has_quota(topic))
            case "describe_quotas":
                _equal("quotas", value, {QUOTA: RATE})
            case "create_acl":
                self._wait(f"{topic} has an ACL", lambda: bool(self._acls(topic)))
                ((who, what),) = ((one.principal, one.operation) for one in self._acls(topic))
                _equal("ACL", (who, what), (ACL_PRINCIPAL, AclOperation.READ))
            case "describe_acls":
                _equal("ACLs", value, [[ACL_PRINCIPAL, "READ"]])
            case "delete_acl":
                self._wait(f"{topic} has no ACL", lambda: not self._acls(topic))
            case _ if row.name.startswith("txn-"):
                self._check_transaction(row, topic, value)
            case _:
                self._check_group(row, topic, value)

    def check_refusal(self, topic: str, error: str) -> None:
        """Compare what the driver was told with what it had to be; raise NotAsAsked."""
        if "authori" not in error.lower():
            raise NotAsAsked(f"refused otherwise: {error}")
        _equal("records", self._end(topic), 0)

    def _check_transaction(self, row: Row, topic: str, value: object) -> None:
        """Compare what became of a transaction; its transactional id is its topic's name."""
        match row.call:
            case "transact":
                _equal("committed records", self._read(topic), expected_records())
            case "fetch_committed":
                _equal("records", value, expected_records())
            case "copy":
                _equal("copied records", self._read(topic, partition=1), expected_records())
                _equal("committed offset", self._committed(topic), RECORDS)
            case "take_over":
                _equal("the first is refused", value, True)
                _equal("committed records", self._read(topic), expected_records())
            case "list_transactions":
                if not (isinstance(value, list) and topic in value):
                    raise NotAsAsked(f"{topic} is not among those listed: {value}")
            case "describe_transaction":
                _equal("transaction", value, {"state": "Ongoing", "partitions": [0]})
            case other:
                raise AssertionError(other)

    def _check_group(self, row: Row, group: str, value: object) -> None:
        """Compare what became of a group; its id is its topic's name."""
        match row.call:
            case "group_share" | "consumer_share":
                _equal("partitions", value, {"together": [[0], [1]], "alone": [0, 1]})
            case "group_resume" | "consumer_resume":
                _equal("records of the second member", value, expected_records()[ASKED_OFFSET:])
                _equal("committed offset", self._committed(group), RECORDS)
            case "group_static" | "consumer_static":
                assert isinstance(value, dict)
                _equal("revocations", value["revocations"], 0)
                _equal("partitions after", value["after"], value["before"])
            case "count_words":
                counts = {"most": RECORDS, "words": RECORDS + 1}
                _equal("counts", value, {"counted": counts, "restored": counts})
                _equal("committed offset", self._committed(group), RECORDS)
            case "copy_lines":
                _equal("lines", value, [f"line {number}" for number in range(RECORDS)])
                _equal("cleanup.policy", self._setting(f"{group}-offset", "cleanup.policy"), "compact")
            case "describe_group":
                _equal("group", value, {"state": "Stable", "members": 1})
            case "group_offsets":
                _equal("committed offset", value, COMMITTED_OFFSET)
            case "reset_group":
                _equal("committed offset", self._committed(group), ASKED_OFFSET)
            case "delete_group_offsets":
                _equal("committed offset", self._committed(group), OFFSET_INVALID)
            case "delete_group":
                self._wait(f"{group} is gone", lambda: group not in self._groups())
            case other:
                raise AssertionError(other)

    def _committed(self, group: str) -> int:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(group, 0)])
        told = self._admin.list_consumer_group_offsets([asked])[group].result(SECONDS_MAX)
        committed: int = told.topic_partitions[0].offset
        return committed

    def _acls(self, name: str) -> list[AclBinding]:
        """Return those of resources of exactly this name."""
        anyone: Any = None  # the library's types do not say that it may be None
        literal, each = ResourcePatternType.LITERAL, AclOperation.ANY
        which = AclBindingFilter(ResourceType.ANY, name, literal, anyone, anyone, each, AclPermissionType.ANY)
        found: list[AclBinding] = self._admin.describe_acls(which).result(SECONDS_MAX)
        return found

    def _iterations(self, user: str) -> int:
        """Return those of the user's password; 0: there is none."""
        pending = self._admin.describe_user_scram_credentials([user])
        assert isinstance(pending, dict)
        try:
            (info,) = pending[user].result(SECONDS_MAX).scram_credential_infos
        except KafkaException as error:
            if error.args[0].code() != KafkaError.RESOURCE_NOT_FOUND:
                raise
            return 0
        iterations: int = info.iterations
        return iterations

    def _has_quota(self, user: str) -> bool:
        return quotas_of(self.bootstrap, user) == {QUOTA: RATE}

    def _end(self, topic: str) -> int:
        with self._consumer() as consumer:
            end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX)[1]
            return end

    def _groups(self) -> list[str]:
        told = self._admin.list_consumer_groups().result(SECONDS_MAX)
        return [group.group_id for group in told.valid]

    def _partitions(self, topic: str) -> int:
        told = self._admin.list_topics(timeout=SECONDS_MAX).topics.get(topic)
        return 0 if told is None else len(told.partitions)

    def _is_in_sync(self, topic: str) -> bool:
        told = self._admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
        return bool(told) and all(
            one.leader >= 0 and len(one.isrs) == self._replicas for one in told.values()
        )

    def _setting(self, topic: str, name: str = SETTING) -> str | None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found: str | None = self._admin.describe_configs([resource])[resource].result(SECONDS_MAX)[name].value
        return found

    def _first_offset(self, topic: str) -> int:
        with self._consumer() as consumer:
            first: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX)[0]
            return first

    def _read(self, topic: str, *, partition: int = 0) -> list[list[str]]:
        """Return key and value of a partition's committed records, waiting for as many as are expected."""
        deadline = time.monotonic() + SECONDS_MAX
        found: list[list[str]] = []
        with self._consumer() as consumer:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            while len(found) < RECORDS and time.monotonic() < deadline:
                found += [_text(message) for message in consumer.consume(RECORDS, timeout=0.2)]
        return found

    def _consumer(self, group: str | None = None) -> Consumer:
        own = {"group.id": group or uuid.uuid4().hex, "enable.auto.commit": False}
        return Consumer({**self._settings, **own})

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not is_so():
            if time.monotonic() > deadline:
                raise NotAsAsked(f"after {SECONDS_MAX:g} s still not: {what}")
            time.sleep(POLL_SECONDS)


def _text(message: Message) -> list[str]:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    return [(message.key() or b"").decode(), (message.value() or b"").decode()]


def _equal(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise NotAsAsked(f"{what}: {_short(found)} instead of {_short(wanted)}")


def _short(value: object) -> str:
    if isinstance(value, list):
        return f"{len(value)} ({', '.join(map(str, value[:2]))}, …)"
    return repr(value)
