"""Consumers' metadata and assignments, against kio's schemas."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from coordinator.core.groups.subscription import (
    MemberAssignment,
    Subscription,
    read_assignment,
    read_subscription,
    subscribed_topics,
    write_assignment,
)

SUBSCRIPTION = "kio.schema.consumer_protocol_subscription.v{}.data"
ASSIGNMENT = "kio.schema.consumer_protocol_assignment.v{}.data"


def encoded(version: int, message: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return version.to_bytes(2) + out.getvalue()


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_of_each_version_is_read(version: int) -> None:
    schema = import_module(SUBSCRIPTION.format(version))
    fields: dict[str, Any] = {"topics": ("u", "t"), "user_data": b"x"}
    if version >= 1:
        fields["owned_partitions"] = (schema.TopicPartition(topic="t", partitions=(3, 1)),)
    if version >= 2:
        fields["generation_id"] = 5
    if version >= 3:
        fields["rack_id"] = "r"
    raw = encoded(version, schema.ConsumerProtocolSubscription(**fields))
    owned = frozenset({("t", 1), ("t", 3)} if version >= 1 else ())
    expected = Subscription(version, frozenset("tu"), owned, "r" if version >= 3 else None)
    assert read_subscription(raw) == expected
    assert subscribed_topics(raw) == frozenset("tu")
    later = (9).to_bytes(2) + raw[2:] + b"later"
    assert version < 3 or read_subscription(later) == expected._replace(version=9)
    for end in range(len(raw)):
        assert read_subscription(raw[:end]) is None


@pytest.mark.parametrize("version", [0, 1, 2, 3, 7])
def test_an_assignment_is_written_in_the_members_version(version: int) -> None:
    raw = write_assignment([("t", 1), ("u", 0), ("t", 0)], version)
    written = min(version, 3)
    schema = import_module(ASSIGNMENT.format(written))
    parts = tuple(
        schema.TopicPartition(topic=name, partitions=numbers)
        for name, numbers in (("t", (0, 1)), ("u", (0,)))
    )
    message = schema.ConsumerProtocolAssignment(assigned_partitions=parts, user_data=None)
    assert raw == encoded(written, message)
    assert entity_reader(type(message))(memoryview(raw), 2)[0] == message
    assert read_assignment(raw) == MemberAssignment(frozenset({("t", 0), ("t", 1), ("u", 0)}), b"")


def test_no_bytes_assign_nothing_and_others_are_no_assignment() -> None:
    assert read_assignment(b"") == MemberAssignment(frozenset(), b"")
    assert read_assignment(b"zz") is None
