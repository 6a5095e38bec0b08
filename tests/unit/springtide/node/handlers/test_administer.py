"""Administrators' calls on their way through a broker: every version, both ways, and what happens between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
import trio
import trio.testing

from dataplane.handlers.context import BrokerContext
from dataplane.handlers.table import HANDLERS
from springtide.contract import administration as contract
from springtide.contract.administration import AdminOutcome, AdminRequest, AdminResponse
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.updates import UpdateBatch
from springtide.node.administration import IN_FLIGHT_MAX, Administration
from springtide.node.cluster_view import ClusterView
from springtide.node.controller_client import AnswerLost, ControllerUnavailable
from springtide.node.handlers.context import Request
from springtide.node.topic_ids import topic_id_text
from springtide.wire import codec
from springtide.wire.apis import APIS, ApiKey, response_header_version
from tests.kit.springtide.asking import Forwarded

TOPIC_UUID = UUID(int=7)
TOPIC_ID = topic_id_text(TOPIC_UUID.bytes)
REFUSED = AdminOutcome(error_code=40, message="unknown setting 'x'")
DONE = AdminOutcome()


def ask(api_key: int, version: int, fields: dict[str, Any], way: Forwarded, **parts: Any) -> Any:
    """The answer's message."""
    body = codec.encode(codec.build(codec.request_type(api_key, version), fields))
    sent: list[bytes] = []
    connection = SimpleNamespace(client_id="ops", peer="10.0.0.1")

    def complete(chunks: Sequence[Any]) -> None:
        sent.append(b"".join(bytes(chunk) for chunk in chunks))

    answer = SimpleNamespace(connection=connection, complete=complete)
    request = Request(
        api_key=api_key,
        api_version=version,
        correlation_id=9,
        frame=memoryview(bytes(body)),
        body_position=0,
        answer=cast(Any, answer),
        now_ms=0,
    )
    context = cast(
        BrokerContext,
        SimpleNamespace(
            **{"administration": way, "is_view_complete": lambda: True, "may_judge": lambda: True} | parts
        ),
    )
    HANDLERS[api_key](context, request)
    assert all(who == {"client_id": "ops", "client_host": "10.0.0.1", "principal": None} for who in way.who)
    (frame,) = sent
    header_bytes = 8 + response_header_version(api_key, version)
    return codec.decode(codec.response_type(api_key, version), frame, header_bytes)


def versions(api_key: ApiKey) -> list[int]:
    return list(range(APIS[api_key].served_since, APIS[api_key].version_max + 1))


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
def test_create_topics(version: int) -> None:
    fields = {
        "topics": [
            {
                "name": "orders",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [
                    {"partition_index": 1, "broker_ids": (2, 3)},
                    {"partition_index": 0, "broker_ids": (1, 2)},
                ],
                "configs": [{"name": "retention.ms", "value": "5"}],
            },
            {
                "name": "payments",
                "num_partitions": 3,
                "replication_factor": 2,
                "assignments": [],
                "configs": [],
            },
        ],
        "timeout_ms": 5_000,
        "validate_only": True,
    }
    created = contract.CreatedTopic(topic_id=TOPIC_ID, partitions=2, replication_factor=2)
    setting = contract.DescribedConfig(
        name="retention.ms", value="5", source=contract.ConfigSource.TOPIC, type=contract.ConfigType.LONG
    )
    way = Forwarded(AdminOutcome(created=created, configs=(setting,)), REFUSED)
    answer = ask(ApiKey.CREATE_TOPICS, version, fields, way)
    (call,) = way.calls
    assert call == contract.CreateTopicsCall(
        topics=(
            contract.TopicToCreate(
                name="orders", assignments=((1, 2), (2, 3)), configs={"retention.ms": "5"}
            ),
            contract.TopicToCreate(name="payments", partitions=3, replication_factor=2),
        ),
        validate_only=True,
        wait_ms=4_500,
    )
    assert way.timeout_ms == 5_000
    one, two = answer.topics
    assert (one.name, one.error_code, one.error_message) == ("orders", 0, None)
    assert (two.name, two.error_code, two.error_message) == ("payments", 40, REFUSED.message)
    if version >= 5:
        assert (one.num_partitions, one.replication_factor, one.topic_config_error_code) == (2, 2, 0)
        assert [(config.name, config.value, config.config_source) for config in one.configs] == [
            ("retention.ms", "5", 1)
        ]
        assert (two.num_partitions, two.configs) == (-1, None)
    if version >= 7:
        assert (one.topic_id, two.topic_id) == (TOPIC_UUID, None)


@pytest.mark.parametrize(
    ("topics", "codes"),
    [
        ([("orders", ()), ("orders", ())], {"orders": 42}),
        ([("payments", (0, 2))], {"payments": 39}),
        (
            [("orders", ()), ("payments", (0, 2)), ("audit", ()), ("orders", ())],
            {"payments": 39, "orders": 42},
        ),
    ],
)
def test_topics_that_cant_be_meant_so_are_refused_once_and_the_others_asked_for(
    topics: Any, codes: dict[str, int]
) -> None:
    fields = {
        "topics": [
            {
                "name": name,
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": n, "broker_ids": (1,)} for n in numbers],
                "configs": [],
            }
            for name, numbers in topics
        ]
    }
    way = Forwarded(
        AdminOutcome(created=contract.CreatedTopic(topic_id=TOPIC_ID, partitions=1, replication_factor=1))
    )
    answer = ask(ApiKey.CREATE_TOPICS, 7, fields, way)
    good = [name for name, _ in topics if name not in codes]
    assert sorted((topic.name, topic.error_code) for topic in answer.topics) == sorted(
        [*codes.items(), *((name, 0) for name in good)]
    )
    assert [[topic.name for topic in call.topics] for call in way.calls] == ([good] if good else [])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"num_partitions": -1, "replication_factor": -1}, 0),
        ({"num_partitions": 1, "replication_factor": -1}, 42),
        ({"num_partitions": -1, "replication_factor": 1}, 42),
        ({"configs": [{"name": "flush.ms", "value": None}]}, 40),
    ],
)
def test_a_topic_that_contradicts_itself_gets_kafkas_refusal(changes: Any, code: int) -> None:
    """As ReplicationControlManager: assigned replicas beside counts, and settings that are null."""
    topic = {
        "name": "orders",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": (1,)}],
        "configs": [],
    } | changes
    way = Forwarded(
        AdminOutcome(created=contract.CreatedTopic(topic_id=TOPIC_ID, partitions=1, replication_factor=1))
    )
    (answer,) = ask(ApiKey.CREATE_TOPICS, 7, {"topics": [topic]}, way).topics
    assert answer.error_code == code
    assert len(way.calls) == (code == 0)


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
def test_delete_topics(version: int) -> None:
    fields: dict[str, Any] = {"timeout_ms": 1, "topic_names": ("orders", "nobody")}
    wanted = (contract.TopicToDelete(name="orders"), contract.TopicToDelete(name="nobody"))
    if version >= 6:
        fields = {"timeout_ms": 1, "topics": [{"name": None, "topic_id": TOPIC_UUID}, {"name": "nobody"}]}
        wanted = (contract.TopicToDelete(topic_id=TOPIC_ID), contract.TopicToDelete(name="nobody"))
    gone = AdminOutcome(topic="orders", topic_id=TOPIC_ID)
    way = Forwarded(gone, AdminOutcome(error_code=3, message="no"))
    answer = ask(ApiKey.DELETE_TOPICS, version, fields, way)
    assert way.calls == [contract.DeleteTopicsCall(topics=wanted)]
    assert [(one.name, one.error_code) for one in answer.responses] == [("orders", 0), ("nobody", 3)]
    if version >= 6:
        assert [one.topic_id for one in answer.responses] == [TOPIC_UUID, None]
        by_name = {"timeout_ms": 1, "topics": [{"name": "orders", "topic_id": None}]}
        (named,) = ask(ApiKey.DELETE_TOPICS, version, by_name, Forwarded(gone)).responses
        assert (named.name, named.topic_id) == ("orders", TOPIC_UUID)


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
def test_create_partitions(version: int) -> None:
    fields = {
        "topics": [
            {"name": "orders", "count": 4, "assignments": None},
            {"name": "payments", "count": 2, "assignments": [{"broker_ids": (1, 2)}]},
        ],
        "timeout_ms": 1,
        "validate_only": False,
    }
    way = Forwarded(DONE, REFUSED)
    answer = ask(ApiKey.CREATE_PARTITIONS, version, fields, way)
    (call,) = way.calls
    assert [(one.topic, one.count, one.assignments) for one in call.topics] == [
        ("orders", 4, None),
        ("payments", 2, ((1, 2),)),
    ]
    assert [(one.name, one.error_code) for one in answer.results] == [("orders", 0), ("payments", 40)]


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS))
def test_alter_partition_reassignments(version: int) -> None:
    fields = {
        "topics": [
            {"name": "a", "partitions": [{"partition_index": 0, "replicas": (1, 2)}]},
            {
                "name": "b",
                "partitions": [
                    {"partition_index": 3, "replicas": None},
                    {"partition_index": 4, "replicas": (2,)},
                ],
            },
        ],
        "allow_replication_factor_change": False,
    }
    way = Forwarded(DONE, AdminOutcome(error_code=85, message="none"), DONE)
    answer = ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, fields, way)
    (call,) = way.calls
    assert call.may_change_factor is (version == 0)
    if version >= 1:
        assert answer.allow_replication_factor_change is False
    assert [(one.topic, one.partition, one.replicas) for one in call.partitions] == [
        ("a", 0, (1, 2)),
        ("b", 3, None),
        ("b", 4, (2,)),
    ]
    told = [
        (topic.name, one.partition_index, one.error_code)
        for topic in answer.responses
        for one in topic.partitions
    ]
    assert (answer.error_code, told) == (0, [("a", 0, 0), ("b", 3, 85), ("b", 4, 0)])


def _moving(partition: int, **changes: Any) -> PartitionState:
    values: dict[str, Any] = {
        "replicas": (2, 1),
        "adding_replicas": (2,),
        "removing_replicas": (1,),
        "original_replicas": (1,),
    } | changes
    return PartitionState(
        topic_id=TOPIC_ID,
        topic="orders",
        partition=partition,
        leader=1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(1),
        isr=(1,),
        min_insync_replicas=1,
        **values,
    )


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, [0, 2]),
        ([{"name": "orders", "partition_indexes": (1, 2, 9)}, {"name": "x", "partition_indexes": (0,)}], [2]),
        ([], []),
    ],
)
def test_list_partition_reassignments_needs_no_controller(asked: Any, found: list[int]) -> None:
    view = ClusterView()
    still = _moving(1, replicas=(1,), adding_replicas=(), removing_replicas=(), original_replicas=())
    view.apply(
        UpdateBatch(
            full=True,
            topics=(TopicState(topic_id=TOPIC_ID, topic="orders", partitions=3, replication_factor=1),),
            partitions=(_moving(2), still, _moving(0)),
        ),
        now_ms=0,
    )
    way = Forwarded()
    answer = ask(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"topics": asked},
        way,
        view=view,
        is_view_complete=lambda: True,
    )
    told = [one for topic in answer.topics for one in topic.partitions]
    assert [one.partition_index for one in told] == found
    for one in told:
        assert (one.replicas, one.adding_replicas, one.removing_replicas) == ((2, 1), (2,), (1,))
    answer = ask(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"topics": None},
        way,
        view=view,
        is_view_complete=lambda: False,
    )
    assert (answer.error_code, answer.topics, way.calls) == (41, (), [])


@pytest.mark.parametrize("version", versions(ApiKey.ELECT_LEADERS))
def test_elect_leaders(version: int) -> None:
    fields: dict[str, Any] = {"topic_partitions": [{"topic": "a", "partitions": (1, 0)}]}
    if version >= 1:
        fields["election_type"] = 1
    way = Forwarded(DONE, AdminOutcome(error_code=84, message="led"))
    answer = ask(ApiKey.ELECT_LEADERS, version, fields, way)
    assert way.calls == [contract.ElectLeadersCall(unclean=version >= 1, partitions=(("a", 1), ("a", 0)))]
    (topic,) = answer.replica_election_results
    assert [(one.partition_id, one.error_code) for one in topic.partition_result] == [(1, 0), (0, 84)]
    everything = Forwarded(AdminOutcome(topic="b", partition=2), AdminOutcome(topic="c", partition=0))
    answer = ask(ApiKey.ELECT_LEADERS, version, {"topic_partitions": None}, everything)
    assert everything.calls == [contract.ElectLeadersCall(partitions=None)]
    assert [topic.topic for topic in answer.replica_election_results] == ["b", "c"]
    closed = Forwarded(AdminOutcome(error_code=31, message="tokens"))
    answer = ask(ApiKey.ELECT_LEADERS, version, {"topic_partitions": None}, closed)
    assert answer.replica_election_results == ()
    if version >= 1:
        assert answer.error_code == 31
        unheard_of = ask(ApiKey.ELECT_LEADERS, version, fields | {"election_type": 7}, way)
        (topic,) = unheard_of.replica_election_results
        assert {one.error_code for one in topic.partition_result} == {42}
        assert len(way.calls) == 1


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_incremental_alter_configs(version: int) -> None:
    def resource(kind: int, name: str, *configs: tuple[str, int, str | None]) -> dict[str, Any]:
        return {
            "resource_type": kind,
            "resource_name": name,
            "configs": [
                {"name": setting, "config_operation": operation, "value": value}
                for setting, operation, value in configs
            ],
        }

    fields = {
        "resources": [
            resource(8, "1", ("logger", 0, "DEBUG")),
            resource(2, "orders", ("retention.ms", 0, "5"), ("flush.ms", 1, "ignored")),
            resource(2, "lists", ("cleanup.policy", 2, "compact, delete"), ("x.replicas", 3, "0:1")),
            resource(4, "", ("num.partitions", 0, "2")),
            resource(32, "g", ("consumer.session.timeout.ms", 0, "50000")),
            resource(2, "a", ("flush.ms", 0, "1"), ("flush.ms", 1, None)),
            resource(2, "b", ("flush.ms", 0, None)),
            resource(2, "c", ("cleanup.policy", 2, None)),
            resource(2, "d", ("flush.ms", 4, "1")),
            resource(2, "twice", ("flush.ms", 0, "1")),
            resource(2, "twice", ("flush.ms", 0, "1")),
        ],
        "validate_only": True,
    }
    way = Forwarded(DONE, DONE, REFUSED, DONE)
    answer = ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, fields, way)
    (call,) = way.calls
    assert call.validate_only
    assert [(one.kind, one.name, one.configs) for one in call.resources] == [
        ("topic", "orders", {"retention.ms": "5", "flush.ms": None}),
        (
            "topic",
            "lists",
            {
                "cleanup.policy": contract.ListChange(append=("compact", "delete")),
                "x.replicas": contract.ListChange(subtract=("0:1",)),
            },
        ),
        ("broker", "", {"num.partitions": "2"}),
        ("group", "g", {"consumer.session.timeout.ms": "50000"}),
    ]
    assert [one.error_code for one in answer.responses] == [42, 0, 0, 40, 0, 42, 42, 42, 42, 42, 42]
    assert [one.resource_type for one in answer.responses] == [8, 2, 2, 4, 32, 2, 2, 2, 2, 2, 2]
    assert answer.responses[-1].error_message == "Each resource must appear at most once."


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
def test_alter_configs_replaces_what_is_set(version: int) -> None:
    def resource(kind: int, name: str, **configs: str | None) -> dict[str, Any]:
        named = [{"name": setting.replace("_", "."), "value": value} for setting, value in configs.items()]
        return {"resource_type": kind, "resource_name": name, "configs": named}

    fields = {
        "resources": [
            resource(8, "1", a="DEBUG"),
            resource(2, "orders", retention_ms="5"),
            resource(2, "payments", flush_ms=None),
            resource(4, ""),
        ],
        "validate_only": True,
    }
    way = Forwarded(DONE, REFUSED)
    answer = ask(ApiKey.ALTER_CONFIGS, version, fields, way)
    (call,) = way.calls
    assert call == contract.AlterConfigsCall(
        resources=(
            contract.ConfigsToAlter(
                kind=contract.ResourceKind.TOPIC,
                name="orders",
                configs={"retention.ms": "5"},
                replaces=True,
            ),
            contract.ConfigsToAlter(kind=contract.ResourceKind.BROKER, name="", configs={}, replaces=True),
        ),
        validate_only=True,
    )
    assert [one.error_code for one in answer.responses] == [42, 0, 42, 40]
    assert [one.resource_name for one in answer.responses] == ["1", "orders", "payments", ""]


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_describe_configs(version: int) -> None:
    topic, default = contract.ConfigSource.TOPIC, contract.ConfigSource.DEFAULT
    config = contract.DescribedConfig(
        name="retention.ms",
        value="5",
        source=topic,
        type=contract.ConfigType.LONG,
        synonyms=(
            contract.ConfigValue(name="retention.ms", value="5", source=topic),
            contract.ConfigValue(name="log.retention.ms", value="7", source=default),
        ),
        note="kept, changes nothing: it is a test",
    )
    fields: dict[str, Any] = {
        "resources": [
            {"resource_type": 16, "resource_name": "metrics", "configuration_keys": None},
            {"resource_type": 2, "resource_name": "orders", "configuration_keys": ("retention.ms",)},
        ],
        "include_synonyms": True,
    }
    if version >= 3:
        fields["include_documentation"] = True
    way = Forwarded(AdminOutcome(configs=(config,)))
    answer = ask(ApiKey.DESCRIBE_CONFIGS, version, fields, way)
    (call,) = way.calls
    assert [(one.name, one.names) for one in call.resources] == [("orders", ("retention.ms",))]
    metrics, orders = answer.results
    assert (metrics.error_code, metrics.configs) == (42, ())
    (told,) = orders.configs
    assert (told.name, told.value, told.config_source, told.read_only) == ("retention.ms", "5", 1, False)
    assert [(one.name, one.value, one.source) for one in told.synonyms] == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "7", 5),
    ]
    if version >= 3:
        assert told.documentation == config.note
        (_, unasked) = ask(
            ApiKey.DESCRIBE_CONFIGS, version, fields | {"include_documentation": False}, way
        ).results
        assert unasked.configs[0].documentation is None
    if version >= 3:
        assert told.config_type == 5
    plain = ask(ApiKey.DESCRIBE_CONFIGS, version, fields | {"include_synonyms": False}, way)
    assert plain.results[1].configs[0].synonyms == ()


DELETION = {"timeout_ms": 600_000, "topics": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ControllerError.NOT_CONTROLLER, 41),
        (ControllerError.OPERATION_NOT_ATTEMPTED, 41),
        (ControllerError.STALE_BROKER_EPOCH, 41),
        (ControllerError.OUTCOME_UNKNOWN, 7),
        (ControllerError.INVALID_REQUEST, 42),
    ],
)
def test_a_failure_of_the_whole_is_told_of_each_part(error: ControllerError, code: int) -> None:
    answer = ask(ApiKey.DELETE_TOPICS, 6, DELETION, Forwarded(error=error))
    assert [one.error_code for one in answer.responses] == [code, code]
    assert all(one.error_message for one in answer.responses)


def test_outcomes_that_dont_fit_are_no_outcomes_and_nothing_named_asks_nobody() -> None:
    answer = ask(ApiKey.DELETE_TOPICS, 6, DELETION, Forwarded(DONE))
    assert [one.error_code for one in answer.responses] == [-1, -1]
    way = Forwarded()
    assert ask(ApiKey.DELETE_TOPICS, 6, {"timeout_ms": 1, "topics": []}, way).responses == ()
    assert way.calls == []


CALL = contract.DeleteTopicsCall(topics=(contract.TopicToDelete(name="a"),))


def test_requests_wait_within_a_bound_and_end_however_the_controller_does() -> None:
    async def test() -> None:
        asked: list[tuple[AdminRequest, int]] = []
        told: list[ControllerError] = []
        go_on = trio.Event()
        failures: list[Exception | None] = [None, ControllerUnavailable("nobody"), AnswerLost("silent")]

        async def to_controller(request: AdminRequest, timeout_ms: int) -> AdminResponse:
            number = len(asked)
            asked.append((request, timeout_ms))
            await go_on.wait()
            failure = failures[number] if number < len(failures) else None
            if failure is not None:
                raise failure
            return AdminResponse(outcomes=(DONE,))

        def done(answer: AdminResponse) -> None:
            told.append(answer.error)

        async with trio.open_nursery() as nursery:

            def spawn(work: Callable[[], Awaitable[None]]) -> None:
                nursery.start_soon(work)

            administration = Administration(
                broker_id=3,
                broker_epoch=lambda: BrokerEpoch(8),
                ask=to_controller,
                spawn=spawn,
            )
            for timeout_ms in (0, 10**9, *[30_000] * (IN_FLIGHT_MAX - 2)):
                administration.start(
                    CALL,
                    client_id=None,
                    client_host="10.0.0.1",
                    principal="User:ops",
                    timeout_ms=timeout_ms,
                    done=done,
                )
                await trio.testing.wait_all_tasks_blocked()
            assert told == []
            administration.start(
                CALL, client_id=None, client_host="10.0.0.1", principal=None, timeout_ms=1, done=done
            )
            assert told == [ControllerError.OPERATION_NOT_ATTEMPTED]
            go_on.set()
        request, timeout_ms = asked[0]
        assert request == AdminRequest(
            broker_id=3, broker_epoch=BrokerEpoch(8), client_host="10.0.0.1", principal="User:ops", call=CALL
        )
        assert (timeout_ms, asked[1][1]) == (1_000, 120_000)
        assert len(asked) == IN_FLIGHT_MAX
        assert told.count(ControllerError.NOT_CONTROLLER) == 1
        assert told.count(ControllerError.OUTCOME_UNKNOWN) == 1
        assert administration.in_flight == 0

    trio.run(test)
