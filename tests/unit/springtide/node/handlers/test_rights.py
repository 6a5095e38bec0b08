"""Each API that is advertised, and each right that a client may lack: Kafka's code, and nothing done or told.

An API without a row here fails the first test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from msgspec import structs

from coordinator.handlers.table import HANDLERS as OF_COORDINATOR
from dataplane.core.fetch_session import (
    FetchPosition,
    FetchSession,
    FetchSessions,
    FollowedPartition,
    SessionRequest,
)
from dataplane.handlers import fetch as fetch_handler
from dataplane.handlers.table import HANDLERS as OF_BROKER
from dataplane.shell.divergent_logs import DivergentLogs
from dataplane.shell.fetches import Fetches
from dataplane.shell.metrics import BrokerCounters
from dataplane.shell.produces import Produces
from springtide.contract.administration import AdminOutcome, AdminResponse, CreatedTopic
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.partition_state import Shard, WriterId
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.levels import TRANSACTIONS
from springtide.node.authorization import Authorizer, ClientRights
from springtide.node.first_use import FirstUses
from springtide.node.handlers.context import Request
from springtide.node.handlers.group_lists import OUR_PREFIX
from springtide.node.missing_topics import MissingTopics
from springtide.node.sharding import GROUPS_TOPIC, shard_of
from springtide.node.topic_ids import topic_id_bytes, topic_id_text
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.clocks import ManualClock
from tests.kit.coordinator.group_desk import GROUP
from tests.kit.coordinator.group_shards import SHARDS, Coordinator
from tests.kit.springtide.acl_lines import acls
from tests.kit.springtide.asking import answers_of, error_codes

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
CLUSTER = "CLUSTER kafka-cluster"


class Names(NamedTuple):
    """What a request names."""

    topic: str
    topic_id: UUID
    group: str


KNOWN = Names("orders", UUID(int=7), GROUP)
ABSENT = Names("absent", UUID(int=8), "absent")


class Case(NamedTuple):
    """rights: each that is needed, and the error where it is missing. named_until: the last version that
    names topics; later ones have their ids. error_since: the first version with a place for the error.
    since, until: the versions with these rights."""

    key: ApiKey
    rights: Mapping[str, ErrorCode]
    fields: Callable[[Names], dict[str, Any]]
    named_until: int = 99
    error_since: int = 0
    since: int = 0
    until: int = 99

    def versions(self) -> range:
        api = APIS[self.key]
        return range(max(api.served_since, self.since), min(api.version_max, self.until) + 1)


def topics(names: Names, **partition: Any) -> list[dict[str, Any]]:
    """Return partition 0 of a topic, as any request names it."""
    place = {"partition_index": 0, "partition": 0, "index": 0, **partition}
    by_name = {"name": names.topic, "topic": names.topic, "topic_id": names.topic_id}
    return [{**by_name, "partitions": [place], "partition_data": [place]}]


def numbers(names: Names) -> list[dict[str, Any]]:
    """Return the same where partitions are bare numbers."""
    by_name = {"name": names.topic, "topic": names.topic, "topic_id": names.topic_id}
    return [{**by_name, "partitions": [0], "partition_indexes": [0]}]


def resources(of_type: int, name: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": of_type, "resource_name": name, "configuration_keys": None}]}


def member(names: Names) -> dict[str, Any]:
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    return {"group_id": names.group, "generation_id": 1, **protocol}


BINDING: dict[str, Any] = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "principal": "User:bob",
    "principal_filter": None,
    "host": "*",
    "host_filter": None,
    "operation": 3,
    "permission_type": 3,
}
OF_PRODUCER: dict[str, Any] = {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0}
QUOTAS = [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]
CASES = (
    Case(
        ApiKey.PRODUCE,
        {"WRITE TOPIC orders": NO_TOPIC},
        lambda names: {"acks": 1, "topic_data": topics(names, records=b"x" * 80)},
        named_until=12,
    ),
    Case(
        ApiKey.PRODUCE,
        {"WRITE TRANSACTIONAL_ID t": NO_TRANSACTIONAL_ID, "WRITE TOPIC orders": NO_TOPIC},
        lambda names: {"transactional_id": "t", "acks": -1, "topic_data": topics(names, records=b"x" * 80)},
        named_until=12,
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        {"WRITE TRANSACTIONAL_ID t": NO_TRANSACTIONAL_ID, "WRITE TOPIC orders": NO_TOPIC},
        lambda names: {
            "v3_and_below_transactional_id": "t",
            "v3_and_below_producer_id": 7,
            "v3_and_below_topics": numbers(names),
        },
        until=3,
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        {f"CLUSTER_ACTION {CLUSTER}": NO_CLUSTER},
        lambda names: {"transactions": [{**OF_PRODUCER, "topics": numbers(names)}]},
        since=4,
    ),
    Case(
        ApiKey.ADD_OFFSETS_TO_TXN,
        {"WRITE TRANSACTIONAL_ID t": NO_TRANSACTIONAL_ID, "READ GROUP g": NO_GROUP},
        lambda names: {**OF_PRODUCER, "group_id": names.group},
    ),
    Case(
        ApiKey.TXN_OFFSET_COMMIT,
        {
            "WRITE TRANSACTIONAL_ID t": NO_TRANSACTIONAL_ID,
            "READ GROUP g": NO_GROUP,
            "READ TOPIC orders": NO_TOPIC,
        },
        lambda names: {
            **OF_PRODUCER,
            "group_id": names.group,
            "topics": topics(names, committed_offset=5, committed_metadata=""),
        },
    ),
    Case(ApiKey.END_TXN, {"WRITE TRANSACTIONAL_ID t": NO_TRANSACTIONAL_ID}, lambda _: OF_PRODUCER),
    Case(
        ApiKey.DESCRIBE_TRANSACTIONS,
        {"DESCRIBE TRANSACTIONAL_ID t": NO_TRANSACTIONAL_ID},
        lambda _: {"transactional_ids": ["t"]},
    ),
    Case(
        ApiKey.WRITE_TXN_MARKERS,
        {f"CLUSTER_ACTION {CLUSTER}": NO_CLUSTER},
        lambda names: {"markers": [{"producer_id": 7, "producer_epoch": 0, "topics": numbers(names)}]},
    ),
    Case(
        ApiKey.FETCH,
        {"READ TOPIC orders": NO_TOPIC},
        lambda names: {"replica_id": -1, "session_epoch": -1, "topics": topics(names)},
        named_until=12,
    ),
    Case(ApiKey.LIST_OFFSETS, {"DESCRIBE TOPIC orders": NO_TOPIC}, lambda names: {"topics": topics(names)}),
    Case(
        ApiKey.METADATA,
        {"DESCRIBE TOPIC orders": NO_TOPIC},
        lambda names: {"topics": [{"name": names.topic, "topic_id": None}]},
    ),
    Case(
        ApiKey.OFFSET_COMMIT,
        {"READ GROUP g": NO_GROUP, "READ TOPIC orders": NO_TOPIC},
        lambda names: {
            "group_id": names.group,
            "generation_id_or_member_epoch": 1,
            "member_id": "a",
            "topics": topics(names, committed_offset=5),
        },
        named_until=9,
    ),
    Case(
        ApiKey.OFFSET_FETCH,
        {"DESCRIBE GROUP g": NO_GROUP, "DESCRIBE TOPIC orders": NO_TOPIC},
        lambda names: {
            "group_id": names.group,
            "topics": numbers(names),
            "groups": [{"group_id": names.group, "topics": numbers(names)}],
        },
        named_until=9,
    ),
    Case(
        ApiKey.FIND_COORDINATOR,
        {"DESCRIBE GROUP g": NO_GROUP},
        lambda names: {"key_type": 0, "key": names.group, "coordinator_keys": [names.group]},
    ),
    Case(
        ApiKey.JOIN_GROUP,
        {"READ GROUP g": NO_GROUP},
        lambda names: {**member(names), "protocols": [{"name": "range", "metadata": b""}]},
    ),
    Case(ApiKey.HEARTBEAT, {"READ GROUP g": NO_GROUP}, lambda names: {**member(names), "member_id": "a"}),
    Case(
        ApiKey.LEAVE_GROUP,
        {"READ GROUP g": NO_GROUP},
        lambda names: {**member(names), "member_id": "a", "members": [{"member_id": "a"}]},
    ),
    Case(ApiKey.SYNC_GROUP, {"READ GROUP g": NO_GROUP}, lambda names: {**member(names), "member_id": "a"}),
    Case(ApiKey.DESCRIBE_GROUPS, {"DESCRIBE GROUP g": NO_GROUP}, lambda names: {"groups": [names.group]}),
    Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        {"READ GROUP g": NO_GROUP, "DESCRIBE TOPIC orders": NO_TOPIC},
        lambda names: {
            "group_id": names.group,
            "member_id": "a",
            "rebalance_timeout_ms": 1_000,
            "subscribed_topic_names": [names.topic],
            "topic_partitions": [],
        },
    ),
    Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        {"DESCRIBE GROUP g": NO_GROUP},
        lambda names: {"group_ids": [names.group]},
    ),
    Case(ApiKey.DELETE_GROUPS, {"DELETE GROUP g": NO_GROUP}, lambda names: {"groups_names": [names.group]}),
    Case(
        ApiKey.OFFSET_DELETE,
        {"DELETE GROUP g": NO_GROUP, "READ TOPIC orders": NO_TOPIC},
        lambda names: {"group_id": names.group, "topics": topics(names)},
    ),
    Case(
        ApiKey.CREATE_TOPICS,
        {"CREATE TOPIC orders": NO_TOPIC},
        lambda names: {"topics": [{"name": names.topic, "num_partitions": 1, "replication_factor": 1}]},
    ),
    Case(
        ApiKey.DELETE_TOPICS,
        {"DELETE TOPIC orders": NO_TOPIC},
        lambda names: {"topic_names": [names.topic], "topics": [{"name": names.topic, "topic_id": None}]},
    ),
    Case(ApiKey.DELETE_RECORDS, {"DELETE TOPIC orders": NO_TOPIC}, lambda names: {"topics": topics(names)}),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        {f"IDEMPOTENT_WRITE {CLUSTER}": NO_CLUSTER},
        lambda _: {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
    ),
    Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        {"DESCRIBE TOPIC orders": NO_TOPIC},
        lambda names: {"topics": topics(names)},
    ),
    Case(
        ApiKey.DESCRIBE_CONFIGS,
        {"DESCRIBE_CONFIGS TOPIC orders": NO_TOPIC},
        lambda names: resources(2, names.topic),
    ),
    Case(ApiKey.DESCRIBE_CONFIGS, {f"DESCRIBE_CONFIGS {CLUSTER}": NO_CLUSTER}, lambda _: resources(4, "1")),
    Case(
        ApiKey.ALTER_CONFIGS,
        {"ALTER_CONFIGS TOPIC orders": NO_TOPIC},
        lambda names: resources(2, names.topic),
    ),
    Case(ApiKey.ALTER_CONFIGS, {f"ALTER_CONFIGS {CLUSTER}": NO_CLUSTER}, lambda _: resources(4, "")),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        {"ALTER_CONFIGS TOPIC orders": NO_TOPIC},
        lambda names: resources(2, names.topic),
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, {f"ALTER_CONFIGS {CLUSTER}": NO_CLUSTER}, lambda _: resources(4, "")
    ),
    Case(
        ApiKey.DESCRIBE_LOG_DIRS,
        {f"DESCRIBE {CLUSTER}": NO_CLUSTER},
        lambda names: {"topics": numbers(names)},
        error_since=3,
    ),
    Case(
        ApiKey.CREATE_PARTITIONS,
        {"ALTER TOPIC orders": NO_TOPIC},
        lambda names: {"topics": [{"name": names.topic, "count": 9, "assignments": None}]},
    ),
    Case(
        ApiKey.ELECT_LEADERS,
        {f"ALTER {CLUSTER}": NO_CLUSTER},
        lambda names: {"topic_partitions": numbers(names)},
    ),
    Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        {f"ALTER {CLUSTER}": NO_CLUSTER},
        lambda names: {"topics": topics(names, replicas=[1])},
    ),
    Case(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        {f"DESCRIBE {CLUSTER}": NO_CLUSTER},
        lambda names: {"topics": numbers(names)},
    ),
    Case(
        ApiKey.DESCRIBE_ACLS,
        {f"DESCRIBE {CLUSTER}": NO_CLUSTER},
        lambda names: {**BINDING, "resource_name_filter": names.topic},
    ),
    Case(
        ApiKey.CREATE_ACLS,
        {f"ALTER {CLUSTER}": NO_CLUSTER},
        lambda names: {"creations": [{**BINDING, "resource_name": names.topic}]},
    ),
    Case(
        ApiKey.DELETE_ACLS,
        {f"ALTER {CLUSTER}": NO_CLUSTER},
        lambda names: {"filters": [{**BINDING, "resource_name_filter": names.topic}]},
    ),
    Case(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        {f"DESCRIBE {CLUSTER}": NO_CLUSTER},
        lambda _: {"users": [{"name": "alice"}]},
    ),
    Case(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        {f"ALTER {CLUSTER}": NO_CLUSTER},
        lambda _: {"deletions": [{"name": "alice", "mechanism": 1}], "upsertions": ()},
    ),
    Case(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        {f"DESCRIBE_CONFIGS {CLUSTER}": NO_CLUSTER},
        lambda _: {"components": (), "strict": False},
    ),
    Case(
        ApiKey.LIST_CONFIG_RESOURCES,
        {f"DESCRIBE_CONFIGS {CLUSTER}": NO_CLUSTER},
        lambda _: {"resource_types": ()},
    ),
    Case(
        ApiKey.ALTER_CLIENT_QUOTAS,
        {f"ALTER_CONFIGS {CLUSTER}": NO_CLUSTER},
        lambda _: {
            "entries": [{"entity": [{"entity_type": "user", "entity_name": "alice"}], "ops": QUOTAS}],
            "validate_only": False,
        },
    ),
    Case(
        ApiKey.UPDATE_FEATURES,
        {f"ALTER {CLUSTER}": NO_CLUSTER},
        lambda _: {"feature_updates": [{"feature": "springtide.level", "max_version_level": 1}]},
    ),
    Case(
        ApiKey.DESCRIBE_PRODUCERS, {"READ TOPIC orders": NO_TOPIC}, lambda names: {"topics": numbers(names)}
    ),
    Case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        {"DESCRIBE TOPIC orders": NO_TOPIC},
        lambda names: {"topics": [{"name": names.topic}], "response_partition_limit": 9},
    ),
)
#: ListGroups, ListTransactions and DescribeCluster leave out what the client may not see. The others need no
#: right: they come before a client is known, or are refused to each.
WITHOUT_ERROR = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER}
FREE = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
}
ASKED_OF_COORDINATORS = ("group_refusals", "handlers.groups", "transaction_refusals", "handlers.transactions")
OF_COORDINATORS = {
    key for key, handle in OF_COORDINATOR.items() if OF_BROKER[key].__module__.endswith(ASKED_OF_COORDINATORS)
}
ROWS = [(case, version) for case in CASES for version in case.versions()]
LACKS = [(case, version, right) for case, version in ROWS for right in case.rights]
NEWEST = [(case, case.versions()[-1]) for case in CASES]
NAMED = [(case, min(case.versions()[-1], case.named_until)) for case in CASES]


def describe(value: object) -> str | None:
    return value.key.kafka_name if isinstance(value, Case) else None


class Reached(Exception):
    """The request came to what carries it out."""


def reach(*_: Any, **__: Any) -> None:
    raise Reached


class Untouchable:
    """A partition that nothing may be asked of."""

    topic = KNOWN.topic

    def __getattr__(self, name: str) -> Any:
        raise Reached


class World:
    """A broker with "orders", and a coordinator with the group "g" of member "a"; both with an authorizer."""

    def __init__(self) -> None:
        self.coordinator = Coordinator()
        self.coordinator.has_topic(KNOWN.topic, 1, topic_id=topic_id_text(KNOWN.topic_id.bytes))
        desk = self.coordinator.shards.desks[shard_of(GROUP, SHARDS)]
        desk.answered = dict.fromkeys(range(1, 100), lambda _: None)
        desk.form("a")
        self.view = self.coordinator.view
        self.view.is_authorizer_on = True
        self.counters, clock = BrokerCounters(), ManualClock()
        self.authorizer = Authorizer(
            self.view, inter_broker="INTERNAL", controllers=(), counters=self.counters, mono_ms=clock.mono_ms
        )
        known = {(topic_id_text(KNOWN.topic_id.bytes), 0): Untouchable(), (KNOWN.topic, 0): Untouchable()}
        self.context: Any = SimpleNamespace(
            view=self.view,
            is_view_complete=lambda: True,
            may_judge=lambda: True,
            first_uses=FirstUses(),
            missing_topics=MissingTopics(),
            broker_id=1,
            counters=self.counters,
            table=SimpleNamespace(
                get=lambda *key: known.get(key),
                get_by_name=lambda *place: known.get(place),
                served_learners=SimpleNamespace(bucket=None),
            ),
            produces=Produces(self.counters),
            config=SimpleNamespace(fetch_max_bytes=1_000),
            administration=SimpleNamespace(start=reach),
            producer_ids=SimpleNamespace(take=reach),
            divergent_logs=SimpleNamespace(list=reach, topic_of=lambda _: None),
            wall_ms=lambda: 0,
            level=lambda: TRANSACTIONS.since,
        )
        self.context.fetches = Fetches(
            sessions=FetchSessions(iter(range(1, 100))),
            evaluate=lambda session, followed, max_bytes, at_least_one, now_ms: fetch_handler.evaluate(
                self.context, session, followed, max_bytes=max_bytes, at_least_one=at_least_one, now_ms=now_ms
            ),
            respond=lambda fetch, session, answers: fetch_handler.respond(
                self.context, fetch, session, answers
            ),
            clock=clock,
            holds_lease=lambda now_ms: True,
        )

    def rights(self, *lines: str) -> ClientRights:
        """Let the ACLs be these alone, each without its principal; return those of alice."""
        version = self.view.acls.version + 1
        self.view.acls = acls(*(f"ALLOW alice@* {line}" for line in lines), version=version)
        connection: Any = SimpleNamespace(
            principal="User:alice", peer="10.0.0.1", listener="CLIENTS", certificate_names=(), rights=None
        )
        return self.authorizer.rights_of(connection)

    def rights_of_member(self) -> ClientRights:
        """Return those of a peer whose certificate names broker 1."""
        endpoint = BrokerEndpoint(broker_id=1, broker_epoch=BrokerEpoch(1), host="store1.example.com", port=9)
        self.view.apply(UpdateBatch(brokers=(endpoint,)), now_ms=0)
        connection: Any = SimpleNamespace(
            principal="User:CN=store1",
            peer="10.0.0.1",
            listener="INTERNAL",
            certificate_names=("store1.example.com",),
            rights=None,
        )
        return self.authorizer.rights_of(connection)

    def start(self, key: ApiKey, version: int, fields: dict[str, Any], rights: ClientRights) -> list[Any]:
        """Send a request; return a list that gets its answer. Raise Reached if a broker carries it out."""
        of_coordinators = key in OF_COORDINATORS
        handle: Callable[[Any, Request], None] = OF_COORDINATOR[key] if of_coordinators else OF_BROKER[key]
        context = self.coordinator.context if of_coordinators else self.context
        client_id = f"{OUR_PREFIX}broker-1" if key is ApiKey.LIST_GROUPS else "client"
        return answers_of(handle, key, version, fields, context=context, client_id=client_id, rights=rights)

    def ask(self, key: ApiKey, version: int, fields: dict[str, Any], *lines: str) -> Any:
        """Return what alice with these rights is answered at once. Raise Reached as `start` does."""
        (answer,) = self.start(key, version, fields, self.rights(*lines))
        return answer

    def state(self) -> object:
        """Return all that requests can change."""
        return [(list(desk.records), dict(desk.timers)) for desk in self.coordinator.shards.desks.values()]


@pytest.fixture
def world() -> World:
    return World()


def test_each_api_has_a_rule() -> None:
    """AM#3410: there an API was served without a rule."""
    assert set(OF_BROKER) == set(OF_COORDINATOR) == set(APIS)
    assert {case.key for case in CASES} | WITHOUT_ERROR | FREE == set(APIS)


def test_the_table_in_the_document_has_each_api_and_its_rights() -> None:
    text = (Path(__file__).parents[5] / "docs/security.md").read_text(encoding="utf-8")
    section = text.partition("## What a request needs")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w, ]+) \| (.+) \|$", section, re.MULTILINE)
    told = {api: right for apis, right in rows for api in apis.split(", ")}
    assert set(told) - {"API"} == {spec.api_key.kafka_name for spec in APIS.values()}
    for case in CASES:
        for operation, of_type, _ in (right.split(" ") for right in case.rights):
            assert f"{operation} {of_type.lower()}" in told[case.key.kafka_name]


@pytest.mark.parametrize(("case", "version", "missing"), LACKS, ids=describe)
def test_a_request_without_a_right_does_nothing(world: World, case: Case, version: int, missing: str) -> None:
    before = world.state()
    others = [right for right in case.rights if right != missing]
    answer = world.ask(case.key, version, case.fields(KNOWN), *others)
    expected = {case.rights[missing]} if version >= case.error_since else set()
    assert error_codes(answer) - {ErrorCode.NONE} == expected
    assert world.state() == before
    assert world.counters.authorizations_denied > 0


@pytest.mark.parametrize(("case", "version"), NEWEST + NAMED, ids=describe)
def test_a_request_with_all_rights_is_not_refused(world: World, case: Case, version: int) -> None:
    refused = {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTIONAL_ID}
    with suppress(Reached):
        answers = world.start(case.key, version, case.fields(KNOWN), world.rights(*case.rights))
        assert not any(error_codes(answer) & refused for answer in answers)
    assert world.counters.authorizations_denied == 0


@pytest.mark.parametrize(("case", "version"), NAMED, ids=describe)
def test_what_exists_is_refused_as_what_does_not(world: World, case: Case, version: int) -> None:
    known = repr(world.ask(case.key, version, case.fields(KNOWN)))
    absent = repr(world.ask(case.key, version, case.fields(ABSENT)))
    assert known.replace("orders", "absent").replace("'g'", "'absent'") == absent


@pytest.mark.parametrize(("case", "version"), NEWEST, ids=describe)
def test_a_process_refuses_what_is_the_others_to_each_alike(world: World, case: Case, version: int) -> None:
    tables: tuple[Any, ...] = (OF_BROKER, OF_COORDINATOR)
    for handle in (table[case.key] for table in tables):
        if handle.__module__.endswith(("group_refusals", "no_records")):
            told = [
                answers_of(
                    handle,
                    case.key,
                    version,
                    case.fields(KNOWN),
                    context=world.context,
                    rights=world.rights(*lines),
                )
                for lines in ((), case.rights)
            ]
            assert told[0] == told[1]


@pytest.mark.parametrize(
    ("key", "right"),
    [
        (ApiKey.CREATE_TOPICS, f"CREATE {CLUSTER}"),
        (ApiKey.DELETE_TOPICS, f"ALL {CLUSTER}"),
        (ApiKey.INIT_PRODUCER_ID, "WRITE TOPIC anything"),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, f"CLUSTER_ACTION {CLUSTER}"),
    ],
)
def test_another_right_does_as_well(world: World, key: ApiKey, right: str) -> None:
    (case,) = (case for case in CASES if case.key == key)
    with pytest.raises(Reached):
        world.ask(key, APIS[key].version_max, case.fields(KNOWN), right)


# What a client may not see is left out


@pytest.mark.parametrize(("version", "every"), [(0, ()), (1, None), (13, None)])
def test_all_topics_are_those_that_the_client_may_describe(world: World, version: int, every: Any) -> None:
    assert world.ask(ApiKey.METADATA, version, {"topics": every}).topics == ()
    (topic,) = world.ask(ApiKey.METADATA, version, {"topics": every}, "WRITE TOPIC ord~").topics
    assert topic.name == "orders"
    assert world.counters.authorizations_denied == 0, "nothing was refused"


def test_pages_of_topics_do_not_name_what_the_client_may_not_describe(world: World) -> None:
    world.coordinator.has_topic("zeta", 1)
    asked = {"topics": (), "response_partition_limit": 1}
    answer = world.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, asked, "READ TOPIC orders")
    assert ([topic.name for topic in answer.topics], answer.next_cursor) == (["orders"], None)
    answer = world.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, asked, "READ TOPIC orders", "READ TOPIC zeta")
    assert answer.next_cursor.topic_name == "zeta"


@pytest.mark.parametrize(
    ("right", "groups"), [("READ GROUP x", []), ("READ GROUP g", ["g"]), (f"DESCRIBE {CLUSTER}", ["g"])]
)
def test_groups_are_listed_that_the_client_may_describe(world: World, right: str, groups: list[str]) -> None:
    answer = world.ask(ApiKey.LIST_GROUPS, 5, {}, right)
    assert (answer.error_code, [group.group_id for group in answer.groups]) == (ErrorCode.NONE, groups)


@pytest.mark.parametrize("version", [7, 9])
def test_all_offsets_are_those_of_topics_that_the_client_may_describe(world: World, version: int) -> None:
    (commit,) = (case for case in CASES if case.key == ApiKey.OFFSET_COMMIT)
    world.ask(ApiKey.OFFSET_COMMIT, 9, commit.fields(KNOWN), *commit.rights)
    asked = {"group_id": GROUP, "topics": None, "groups": [{"group_id": GROUP, "topics": None}]}

    def told(*lines: str) -> list[str]:
        answer = world.ask(ApiKey.OFFSET_FETCH, version, asked, "READ GROUP g", *lines)
        (group,) = answer.groups or (answer,)
        return [topic.name for topic in group.topics]

    assert (told(), told("DESCRIBE TOPIC orders")) == ([], ["orders"])


def test_a_client_is_told_which_operations_it_may_do(world: World) -> None:
    asked = {
        "topics": [{"name": "orders", "topic_id": None}],
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    answer = world.ask(ApiKey.METADATA, 10, asked, "READ TOPIC orders", f"CREATE {CLUSTER}")
    assert answer.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8
    assert answer.cluster_authorized_operations == 0, "it may not describe the cluster"
    answer = world.ask(ApiKey.DESCRIBE_CLUSTER, 2, {**asked, "endpoint_type": 1}, f"ALTER {CLUSTER}")
    assert answer.cluster_authorized_operations == 1 << 7 | 1 << 8
    asked = {"groups": ["g"], "include_authorized_operations": True}
    (group,) = world.ask(ApiKey.DESCRIBE_GROUPS, 6, asked, "DELETE GROUP g").groups
    assert group.authorized_operations == 1 << 6 | 1 << 8


# Topics by id


def test_a_topic_is_refused_by_its_id_without_its_name(world: World) -> None:
    by_id = {"topics": [{"name": None, "topic_id": KNOWN.topic_id}]}
    (topic,) = world.ask(ApiKey.METADATA, 13, by_id).topics
    assert (topic.error_code, topic.name or "", topic.topic_id) == (NO_TOPIC, "", KNOWN.topic_id)
    (topic,) = world.ask(ApiKey.DELETE_TOPICS, 6, by_id).responses
    assert (topic.error_code, topic.name, topic.topic_id) == (NO_TOPIC, None, KNOWN.topic_id)
    (topic,) = world.ask(ApiKey.DELETE_TOPICS, 6, by_id, "READ TOPIC orders").responses
    assert (topic.error_code, topic.name, topic.topic_id) == (NO_TOPIC, "orders", KNOWN.topic_id)


def test_an_id_that_this_process_does_not_know_is_not_sent_to_the_controller(world: World) -> None:
    by_id = {"topics": [{"name": None, "topic_id": ABSENT.topic_id}]}
    (topic,) = world.ask(ApiKey.DELETE_TOPICS, 6, by_id, "DELETE TOPIC *").responses
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    answer = world.ask(ApiKey.PRODUCE, 13, {"acks": 1, "topic_data": topics(ABSENT)}, "WRITE TOPIC *")
    assert error_codes(answer) == {ErrorCode.UNKNOWN_TOPIC_ID}


def test_a_client_that_may_describe_a_topic_is_told_that_it_does_not_exist(world: World) -> None:
    named = {"topic_names": ["absent"]}
    (topic,) = world.ask(ApiKey.DELETE_TOPICS, 5, named, "READ TOPIC absent").responses
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Administrators' calls


def test_the_controller_is_asked_about_what_the_client_may_do_and_told_who_it_is(world: World) -> None:
    calls: list[Any] = []

    def start(call: Any, *, done: Callable[[AdminResponse], None], principal: str, **_: Any) -> None:
        calls.append((call, principal))
        created = CreatedTopic(
            topic_id=topic_id_text(KNOWN.topic_id.bytes), partitions=3, replication_factor=1
        )
        done(AdminResponse(outcomes=tuple(AdminOutcome(created=created) for _ in call.topics)))

    world.context.administration.start = start
    asked = {"topics": [{"name": name, "num_partitions": 3} for name in ("a", "b", "c")]}
    answer = world.ask(ApiKey.CREATE_TOPICS, 7, asked, "CREATE TOPIC a", "ALL TOPIC c")
    ((call, principal),) = calls
    assert ([topic.name for topic in call.topics], principal) == (["a", "c"], "User:alice")
    told = {
        topic.name: (topic.error_code, topic.topic_config_error_code, topic.num_partitions)
        for topic in answer.topics
    }
    assert told == {"a": (0, NO_TOPIC, -1), "b": (NO_TOPIC, 0, -1), "c": (0, 0, 3)}, "KIP-525"
    partitions = {"topics": [{"name": name, "count": 9, "assignments": None} for name in ("b", "c")]}
    (b, c) = world.ask(ApiKey.CREATE_PARTITIONS, 3, partitions, "ALTER TOPIC c").results
    assert ((b.name, b.error_code), (c.name, c.error_code)) == (("b", NO_TOPIC), ("c", 0))


@pytest.mark.parametrize("right", ["CREATE TOPIC absent", f"CREATE {CLUSTER}"])
def test_a_first_use_makes_a_topic_only_for_a_client_that_may_create_it(world: World, right: str) -> None:
    calls: list[Any] = []
    world.context.administration.start = lambda call, *, principal, **_: calls.append((call, principal))
    world.view.cluster_configs["auto.create.topics.enable"] = "true"
    asked = {"topics": [{"name": "absent", "topic_id": None}], "allow_auto_topic_creation": True}
    (topic,) = world.ask(ApiKey.METADATA, 13, asked, "DESCRIBE TOPIC absent").topics
    assert (topic.error_code, calls) == (NO_TOPIC, [])
    (topic,) = world.ask(ApiKey.METADATA, 13, asked, right).topics
    assert (topic.error_code, calls) == (NO_TOPIC, []), "it may not see whether the topic is there"
    (topic,) = world.ask(ApiKey.METADATA, 13, asked, "DESCRIBE TOPIC absent", right).topics
    ((call, principal),) = calls
    assert (topic.error_code, principal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "User:alice")
    assert [one.name for one in call.topics] == ["absent"]


def test_before_the_first_full_state_nothing_is_done_or_told_that_acls_may_forbid(world: World) -> None:
    world.view.is_authorizer_on = False
    world.context.is_view_complete = world.context.may_judge = lambda: False
    everything: Any = None
    copy = f"orders-0.{'A' * 22}.{3:020}-{8:020}.0"
    for key, fields, told in (
        (ApiKey.DELETE_TOPICS, {"topics": [{"name": "orders", "topic_id": None}]}, ErrorCode.NOT_CONTROLLER),
        (ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, ErrorCode.BROKER_NOT_AVAILABLE),
    ):
        (answer,) = world.start(key, APIS[key].version_max, fields, everything)
        assert error_codes(answer) == {told}
    asked = {"session_epoch": -1, "replica_id": -2, "topics": topics(KNOWN._replace(topic=copy))}
    (answer,) = world.start(ApiKey.FETCH, 12, asked, everything)
    assert error_codes(answer) - {ErrorCode.NONE} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_without_its_lease_a_broker_asks_and_tells_nothing_that_the_acls_of_now_may_forbid(
    world: World,
) -> None:
    """It stood still while they changed: what it knows allows the calls."""
    world.context.may_judge = lambda: False
    for key, fields, right in (
        (ApiKey.DELETE_TOPICS, {"topics": [{"name": "orders", "topic_id": None}]}, "DELETE TOPIC orders"),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}, f"DESCRIBE {CLUSTER}"),
    ):
        answer = world.ask(key, APIS[key].version_max, fields, "DESCRIBE TOPIC orders", right)
        assert error_codes(answer) == {ErrorCode.NOT_CONTROLLER}


# Records


def test_without_acks_the_connection_of_a_client_without_the_right_is_closed(world: World) -> None:
    fields = {"acks": 0, "topic_data": topics(KNOWN, records=b"x" * 80)}
    assert world.ask(ApiKey.PRODUCE, 9, fields) is None


def test_each_topic_of_a_request_is_decided_about_once(world: World) -> None:
    (topic,) = topics(KNOWN, records=b"x" * 80)
    fields = {"acks": 1, "topic_data": [{**topic, "partition_data": topic["partition_data"] * 50}]}
    answer = world.ask(ApiKey.PRODUCE, 9, fields)
    assert len(answer.responses[0].partition_responses) == 50
    assert (error_codes(answer), world.counters.authorizations_denied) == ({NO_TOPIC}, 1)


def test_coordinators_alone_write_to_their_topics(world: World) -> None:
    shards = world.view.topic_by_name(GROUPS_TOPIC)
    assert shards is not None
    state = world.view.state(shards.topic_id, 0)
    assert state is not None
    state = structs.replace(state, partition_epoch=2, shard=Shard(owner=5, writer=WriterId(1, 1)))
    world.view.apply(UpdateBatch(partitions=(state,)), now_ms=0)
    names = Names(GROUPS_TOPIC, UUID(bytes=topic_id_bytes(shards.topic_id)), GROUP)
    fields = {"acks": 1, "topic_data": topics(names, records=b"x" * 80)}
    for version in (12, 13):
        answer = world.ask(ApiKey.PRODUCE, version, fields, "WRITE TOPIC *")
        assert error_codes(answer) == {ErrorCode.INVALID_TOPIC_EXCEPTION}


@pytest.mark.parametrize("version", range(APIS[ApiKey.FETCH].version_min, APIS[ApiKey.FETCH].version_max + 1))
def test_only_members_of_the_cluster_fetch_as_followers(world: World, version: int) -> None:
    asked = {"replica_id": 2, "replica_state": {"replica_id": 2, "replica_epoch": 1}, "topics": topics(KNOWN)}
    answer = world.ask(ApiKey.FETCH, version, asked, "ALL TOPIC *", f"ALL {CLUSTER}")
    assert error_codes(answer) - {ErrorCode.NONE} == {NO_TOPIC}
    assert len(world.context.fetches.sessions) == 0
    if version >= 7:
        asked_on = {**asked, "session_id": 1, "session_epoch": 1}
        answer = world.ask(ApiKey.FETCH, version, asked_on, "ALL TOPIC *")
        assert error_codes(answer) == {ErrorCode.FETCH_SESSION_ID_NOT_FOUND}
    with pytest.raises(Reached):
        world.start(ApiKey.FETCH, version, asked, world.rights_of_member())


def test_a_fetch_session_is_of_the_principal_that_began_it(world: World) -> None:
    asked = {"session_epoch": 0, "replica_id": -1, "topics": topics(ABSENT)}
    begun = world.ask(ApiKey.FETCH, 12, asked, "READ TOPIC absent")
    assert begun.session_id > 0
    goes_on = {"session_id": begun.session_id, "session_epoch": 1, "replica_id": -1}
    stranger = world.rights("READ TOPIC absent")
    stranger.principal = "User:mallory"
    (answer,) = world.start(ApiKey.FETCH, 12, goes_on, stranger)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert world.ask(ApiKey.FETCH, 12, goes_on, "READ TOPIC absent").error_code == ErrorCode.NONE


def test_a_right_that_is_given_or_taken_acts_within_a_session(world: World) -> None:
    asked = {"session_epoch": 0, "replica_id": -1, "topics": topics(ABSENT)}
    begun = world.ask(ApiKey.FETCH, 12, asked)
    assert error_codes(begun) - {ErrorCode.NONE} == {NO_TOPIC}
    goes_on = {"session_id": begun.session_id, "session_epoch": 1, "replica_id": -1}
    answer = world.ask(ApiKey.FETCH, 12, goes_on, "READ TOPIC absent")
    assert error_codes(answer) - {ErrorCode.NONE} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_consumer_that_has_waited_since_before_acls_decided_asks_again(world: World) -> None:
    session = FetchSession(0, SessionRequest(session_id=0, session_epoch=-1), now_ms=0)
    followed = FollowedPartition(
        (topic_id_text(KNOWN.topic_id.bytes), 0), FetchPosition(0, LeaderEpoch(-1), LeaderEpoch(-1))
    )

    def told() -> ErrorCode:
        result = fetch_handler.evaluate(
            world.context, session, followed, max_bytes=1, at_least_one=True, now_ms=0
        )
        return result.error

    assert told() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    session.rights = world.rights()
    assert told() is NO_TOPIC


def test_what_a_truncation_dropped_is_its_topics(world: World) -> None:
    copy = f"orders-0.{'A' * 22}.{3:020}-{8:020}.0"
    world.context.divergent_logs.topic_of = DivergentLogs.topic_of
    world.context.divergent_logs.fetch = reach
    asked = {"session_epoch": -1, "replica_id": -2, "topics": topics(KNOWN._replace(topic=copy))}
    answer = world.ask(ApiKey.FETCH, 12, asked, "READ TOPIC orders-~")
    assert error_codes(answer) - {ErrorCode.NONE} == {NO_TOPIC}
    with pytest.raises(Reached):
        world.ask(ApiKey.FETCH, 12, asked, "READ TOPIC orders")
