"""Messages by the numbers of their API and version, and by the names of their fields."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from springtide.wire.apis import APIS, ApiKey
from springtide.wire.codec import build, decode, encode, request_type, response_type, version_of
from springtide.wire.messages import MetadataRequest, MetadataResponse
from springtide.wire.typed import write_message

RandomMessage = Callable[[type[Any], random.Random], Any]
TOPIC_ID = uuid.UUID(int=7)
VALUES: dict[str, object] = {
    "brokers": [{"node_id": 1, "host": "h", "port": 9092, "rack": "r"}],
    "cluster_id": "c",
    "controller_id": 1,
    "topics": [{"name": "t", "topic_id": TOPIC_ID, "partitions": [{"leader_epoch": 5, "isr_nodes": (1,)}]}],
}


def test_each_version_that_is_served_is_read_as_it_was_written(random_message: RandomMessage) -> None:
    for spec in APIS.values():
        for version in range(spec.served_since, spec.version_max + 1):
            for kind in (request_type, response_type):
                message_type = kind(spec.api_key, version)
                message = random_message(message_type, random.Random(version))
                assert decode(message_type, encode(message)) == message
                assert encode(message) == write_message(message, version)
                assert version_of(type(message)) == version


def test_one_set_of_values_serves_every_version() -> None:
    newest = build(response_type(ApiKey.METADATA, 12), VALUES)
    assert isinstance(newest, MetadataResponse)
    assert newest.topics[0].topic_id == TOPIC_ID
    assert newest.topics[0].partitions[0].isr_nodes == (1,)
    for version in range(13):
        message_type = response_type(ApiKey.METADATA, version)
        assert encode(build(message_type, newest)) == encode(build(message_type, VALUES))
        assert encode(build(message_type, VALUES)) == write_message(newest, version)


def test_an_old_request_becomes_a_newer_one_with_the_definitions_defaults() -> None:
    old = build(request_type(ApiKey.METADATA, 1), {"topics": None})
    new = build(request_type(ApiKey.METADATA, 12), old)
    assert structs.asdict(new) == structs.asdict(MetadataRequest())


@pytest.mark.parametrize("values", [{"topic": []}, {"topics": [{"nam": "t"}]}])
def test_a_name_that_no_version_has_is_refused_in_any_depth(values: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=r"has no (topic|nam)$"):
        build(response_type(ApiKey.METADATA, 12), values)
