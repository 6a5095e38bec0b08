"""What a client above a quota is answered: how long it has to wait, and which changes of topics it may not
make now (KIP-219, KIP-599)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from springtide.contract.administration import AdminOutcome, AdminResponse
from springtide.contract.partition_state import TopicState
from springtide.contract.updates import UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers import create_partitions, create_topics, delete_topics
from springtide.node.handlers.context import Request
from springtide.node.topic_ids import topic_id_bytes
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.codec import response_class
from springtide.wire.compiler import fields_of
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.node import OTHER_ID, state
from tests.kit.springtide.asking import answers_of

OWN_CODECS = {ApiKey.PRODUCE, ApiKey.FETCH}
TOPIC_UUID = UUID(bytes=topic_id_bytes(OTHER_ID))

ANSWERS = [
    (api_key, version)
    for api_key, spec in APIS.items()
    if api_key not in OWN_CODECS
    for version in range(spec.served_since, spec.version_max + 1)
    if any(field.name == "throttle_time_ms" for field in fields_of(response_class(api_key), version))
]


class StubAccount:
    """Has a client that may change `partitions` of topics, and waits for 1.5 s."""

    def __init__(self, partitions: int = 0) -> None:
        self.partitions = partitions
        self.charged: list[tuple[int, bool]] = []

    def throttle_time_ms(self) -> int:
        return 1_500

    def may_mutate(self, partitions: int, *, is_strict: bool) -> bool:
        self.charged.append((partitions, is_strict))
        self.partitions -= partitions
        return not is_strict or self.partitions >= 0


@pytest.mark.parametrize(("api_key", "version"), ANSWERS)
def test_each_answer_that_can_tell_the_wait_tells_it(api_key: int, version: int) -> None:
    def reply(_context: object, request: Request) -> None:
        request.reply(response_class(api_key)())

    (answer,) = answers_of(reply, api_key, version, {}, context=None, account=StubAccount())
    assert answer.throttle_time_ms == 1_500


def context(calls: list[Any]) -> Any:
    """A node that knows the topic `orders` of three partitions, and the way to a controller that does all."""
    view = ClusterView()
    view.apply(
        UpdateBatch(
            cluster_configs={"num.partitions": "6"},
            topics=(TopicState(topic_id=OTHER_ID, topic="orders", partitions=3, replication_factor=1),),
            partitions=tuple(state(topic_id=OTHER_ID, partition=number) for number in range(3)),
        ),
        now_ms=0,
    )

    def start(call: Any, *, done: Any, **_who: object) -> None:
        calls.append(call)
        named = call.topics
        done(AdminResponse(outcomes=tuple(AdminOutcome() for _ in named)))

    way = SimpleNamespace(start=start)
    return SimpleNamespace(
        view=view, is_view_complete=lambda: True, may_judge=lambda: True, administration=way
    )


def new_topic(name: str, partitions: int, *assigned: int) -> dict[str, object]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": -1 if assigned else 1,
        "assignments": [{"partition_index": number, "broker_ids": (1,)} for number in assigned],
        "configs": [],
    }


def test_topics_beyond_the_quota_are_refused_one_by_one() -> None:
    calls: list[Any] = []
    account = StubAccount(partitions=10)
    topics = [new_topic("a", 2), new_topic("b", -1), new_topic("c", -1, 0, 1), new_topic("d", 1)]
    (answer,) = answers_of(
        create_topics.handle,
        ApiKey.CREATE_TOPICS,
        6,
        {"topics": topics, "timeout_ms": 1_000, "validate_only": False},
        context=context(calls),
        account=account,
    )
    assert account.charged == [(2, True), (6, True), (2, True), (1, True)]
    assert {topic.name: topic.error_code for topic in answer.topics} == {
        "a": ErrorCode.NONE,
        "b": ErrorCode.NONE,
        "c": ErrorCode.NONE,
        "d": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
    assert [topic.name for topic in calls[0].topics] == ["a", "b", "c"]
    assert answer.throttle_time_ms == 1_500


def test_new_partitions_are_charged_and_not_those_that_exist() -> None:
    calls: list[Any] = []
    account = StubAccount(partitions=4)
    topics = [
        {"name": "orders", "count": 7, "assignments": None},
        {"name": "x", "count": 7, "assignments": None},
    ]
    fields = {"topics": topics, "timeout_ms": 1_000, "validate_only": False}
    for error in (ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        (answer,) = answers_of(
            create_partitions.handle,
            ApiKey.CREATE_PARTITIONS,
            3,
            fields,
            context=context(calls),
            account=account,
        )
        assert [result.error_code for result in answer.results] == [error, error]
    assert account.charged[:2] == [(4, True), (0, True)]
    assert len(calls) == 1


@pytest.mark.parametrize(
    "topic", [{"name": "orders", "topic_id": None}, {"name": None, "topic_id": TOPIC_UUID}]
)
def test_deleted_partitions_are_charged_by_name_and_by_id(topic: dict[str, object]) -> None:
    calls: list[Any] = []
    account = StubAccount(partitions=2)
    (answer,) = answers_of(
        delete_topics.handle,
        ApiKey.DELETE_TOPICS,
        6,
        {"topics": [topic], "timeout_ms": 1_000},
        context=context(calls),
        account=account,
    )
    assert account.charged == [(3, True)]
    assert answer.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert calls == []


@pytest.mark.parametrize(
    ("handle", "api_key", "version", "fields"),
    [
        (
            create_topics.handle,
            ApiKey.CREATE_TOPICS,
            5,
            {"topics": [new_topic("a", 9)], "validate_only": False},
        ),
        (
            create_partitions.handle,
            ApiKey.CREATE_PARTITIONS,
            2,
            {"topics": [{"name": "orders", "count": 12, "assignments": None}], "validate_only": False},
        ),
        (delete_topics.handle, ApiKey.DELETE_TOPICS, 4, {"topic_names": ("orders",)}),
    ],
)
def test_versions_without_the_error_have_their_call_carried_out(
    handle: Any, api_key: int, version: int, fields: dict[str, Any]
) -> None:
    calls: list[Any] = []
    account = StubAccount(partitions=0)
    (answer,) = answers_of(
        handle, api_key, version, {**fields, "timeout_ms": 1_000}, context=context(calls), account=account
    )
    assert len(calls) == 1
    assert not account.charged[0][1]
    assert answer.throttle_time_ms == 1_500
