"""APIs of groups on brokers, in every version: each answer has the refusal in its shape."""

from __future__ import annotations

import random
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from dataplane.handlers.table import HANDLERS
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.levels import CONSUMER_GROUPS, Level
from springtide.node.cluster_view import ClusterView
from springtide.wire import codec
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.asking import answer_of, error_codes, fields_of
from tests.kit.springtide.random_message import random_message

REFUSED = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
)
EACH = [
    (key, version) for key in REFUSED for version in range(APIS[key].version_min, APIS[key].version_max + 1)
]
TOPIC_ID = uuid.UUID(int=7)


def ask(
    key: int,
    version: int,
    *,
    has_groups: bool = True,
    is_view_complete: bool = True,
    level: Level = CONSUMER_GROUPS.since,
    **fields: Any,
) -> Any:
    view = ClusterView()
    if has_groups:
        coordinator = BrokerEndpoint(broker_id=1001, broker_epoch=BrokerEpoch(1), host="coord", port=9192)
        view.apply(UpdateBatch(coordinators=(coordinator,)), now_ms=0)
    context = SimpleNamespace(
        view=view,
        level=lambda: level,
        is_view_complete=lambda: is_view_complete,
        coordinator_calls=SimpleNamespace(
            start=lambda _type, _version, calls, done: done([None] * len(calls))
        ),
    )
    return answer_of(HANDLERS[key], key, version, fields, context=context)


@pytest.mark.parametrize(("key", "version"), EACH)
def test_any_request_is_answered_with_the_way_to_the_coordinator(key: ApiKey, version: int) -> None:
    told: set[int] = set()
    for seed in range(20):
        asked = random_message(codec.request_type(key, version), random.Random(seed))
        told |= error_codes(ask(key, version, **fields_of(asked)))
    assert told == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize(("key", "version"), EACH)
def test_where_there_never_was_a_coordinator_clients_are_told_to_stop(key: ApiKey, version: int) -> None:
    asked = fields_of(random_message(codec.request_type(key, version), random.Random(1)))
    final = error_codes(ask(key, version, has_groups=False, **asked))
    assert final <= {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    not_known_yet = error_codes(ask(key, version, has_groups=False, is_view_complete=False, **asked))
    assert not_known_yet <= {ErrorCode.NOT_COORDINATOR}
    assert bool(final) is bool(not_known_yet)


@pytest.mark.parametrize("version", [0, 1])
def test_below_its_level_members_of_the_newer_protocol_are_told_which_one_there_is(version: int) -> None:
    below = Level(CONSUMER_GROUPS.since - 1)
    answer = ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, level=below, group_id="g", member_id="m")
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNSUPPORTED_VERSION, None)
    assert "group.protocol=classic" in answer.error_message


def test_each_thing_that_was_named_has_its_error() -> None:
    topics = [{"topic_id": TOPIC_ID, "partitions": [{"partition_index": 3, "committed_offset": 1}]}]
    (topic,) = ask(ApiKey.OFFSET_COMMIT, 10, group_id="g", member_id="", topics=topics).topics
    assert (topic.topic_id, topic.partitions[0].partition_index) == (TOPIC_ID, 3)
    groups = ask(ApiKey.OFFSET_FETCH, 10, groups=[{"group_id": "g"}, {"group_id": "h"}]).groups
    assert [(group.group_id, group.error_code) for group in groups] == [("g", 16), ("h", 16)]
    assert [one.group_id for one in ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["g", "h"]).groups] == ["g", "h"]
    assert [one.group_id for one in ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"]).results] == ["g"]
    assert ask(ApiKey.JOIN_GROUP, 9, group_id="g", member_id="m-1").member_id == "m-1"


@pytest.mark.parametrize("version", [1, 2, 3, 5])
def test_offsets_are_refused_in_the_words_that_the_client_reads(version: int) -> None:
    """aiokafka 0.14 (version 3) reads the partitions only: without them it takes an error for "nothing
    committed", and begins at auto.offset.reset."""
    topics = [{"name": "t", "partition_indexes": [3]}]
    answer = ask(ApiKey.OFFSET_FETCH, version, group_id="g", topics=topics)
    told = [
        (topic.name, one.partition_index, one.committed_offset, one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    ]
    assert told == ([("t", 3, -1, ErrorCode.NOT_COORDINATOR)] if version <= 3 else [])
    assert answer.error_code == (ErrorCode.NOT_COORDINATOR if version >= 2 else ErrorCode.NONE)
