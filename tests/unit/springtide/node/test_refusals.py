"""What is counted and told of the errors that clients get."""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from springtide.node.refusals import (
    KINDS_MAX,
    TOLD_EVERY_MS,
    UNKNOWN_SOFTWARE,
    Refusals,
    software_of,
)
from springtide.wire import codec
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import ResponseMessage
from springtide.wire.messages import HeartbeatResponse
from springtide.wire.typed import error_codes
from tests.kit.springtide.random_message import random_message
from tests.kit.springtide.wire_classes import response_of
from tests.kit.springtide.wire_messages import as_ours

PRODUCE = int(ApiKey.PRODUCE)
INVALID, MOVED = int(ErrorCode.INVALID_RECORD), int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def client(software: str = "librdkafka 2.1") -> Any:
    return SimpleNamespace(software=software, client_id="app", principal="User:app", peer="10.0.0.7")


def counts(refusals: Refusals) -> dict[tuple[str, str, str], float]:
    return {
        (sample.labels["request"], sample.labels["error"], sample.labels["software"]): sample.value
        for sample in refusals.collect().samples
    }


def test_errors_are_counted_by_api_error_and_software(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    refusals.note(PRODUCE, (0, INVALID, MOVED, INVALID), client(), now_ms=0)
    refusals.note(PRODUCE, (INVALID,), client("franz-go 1.18"), now_ms=0)
    assert counts(refusals) == {
        ("Produce", "INVALID_RECORD", "librdkafka 2.1"): 2,
        ("Produce", "NOT_LEADER_OR_FOLLOWER", "librdkafka 2.1"): 1,
        ("Produce", "INVALID_RECORD", "franz-go 1.18"): 1,
    }
    assert "NOT_LEADER" not in caplog.text, "its client tries again and finds the leader"


def test_a_kind_is_told_once_an_hour_with_its_count(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        for now_ms in range(0, TOLD_EVERY_MS + 1, TOLD_EVERY_MS // 4):
            refusals.note(PRODUCE, (INVALID,), client(), now_ms=now_ms)
    first, second = caplog.messages
    assert "request=Produce error=INVALID_RECORD software=librdkafka 2.1 count=1 client_id=app" in first
    assert "count=4" in second


def test_how_a_group_learns_what_to_do_next_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    Refusals().note(int(ApiKey.JOIN_GROUP), (ErrorCode.MEMBER_ID_REQUIRED,), client(), now_ms=0)
    assert not caplog.messages


def test_what_sends_an_admin_client_to_another_api_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    for error in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        refusals.note(int(ApiKey.CONSUMER_GROUP_DESCRIBE), (error,), client(), now_ms=0)
    assert not caplog.messages


def test_a_client_that_begins_with_a_newer_version_of_api_versions_is_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Java 4.4 sends version 5 first and falls back by our answer (KIP-511)."""
    refusals = Refusals()
    refusals.note(int(ApiKey.API_VERSIONS), (ErrorCode.UNSUPPORTED_VERSION,), client("unknown"), now_ms=0)
    assert not caplog.messages
    assert counts(refusals) == {("ApiVersions", "UNSUPPORTED_VERSION", "unknown"): 1}


def test_the_cause_that_a_client_is_told_is_told_here_too(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    refusals.note(PRODUCE, (INVALID,), client(), now_ms=0, cause="it has no key")
    (line,) = caplog.messages
    assert line.endswith("peer=10.0.0.7 cause=it has no key")


def test_strangers_cannot_grow_it_without_bound() -> None:
    refusals = Refusals()
    for number in range(3 * KINDS_MAX):
        refusals.note(PRODUCE, (INVALID,), client(f"made-up {number}"), now_ms=0)
    told = counts(refusals)
    assert len(told) == KINDS_MAX + 1
    assert told["Produce", "INVALID_RECORD", "other"] == 2 * KINDS_MAX


@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        ("apache-kafka-java", "4.3.1", "apache-kafka-java 4.3.1"),
        ("", "1", None),
        ("a\nb", "1", None),
        ("-a", "1", None),
        ("a", "v1.0-", None),
        ("x" * 1000, "1", "x" * 64),
    ],
)
def test_software_is_named_as_kafka_takes_it(name: str, version: str, told: str | None) -> None:
    assert software_of(name, version) == told


def test_errors_are_found_in_any_depth_of_an_answer() -> None:
    fields = {
        "topics": [
            {"error_code": 3, "partitions": [{"error_code": 6}, {"error_code": 0}]},
            {"error_code": 0, "partitions": []},
        ]
    }
    message = codec.build(codec.response_type(ApiKey.METADATA, 12), fields)
    assert sorted(error_codes(message, 12)) == [3, 6]
    assert list(error_codes(HeartbeatResponse(), 4)) == []


def test_the_errors_of_every_answer_are_those_of_its_fields() -> None:
    """As a walk finds them that looks at each message by itself."""
    rng, found = random.Random(1), 0
    for spec in APIS.values():
        for version in range(spec.served_since, spec.version_max + 1):
            kios = random_message(response_of(spec.api_key, version), rng)
            message = as_ours(kios, codec.response_class(spec.api_key))
            assert isinstance(message, ResponseMessage)
            expected = sorted(_codes_in(kios))
            assert sorted(error_codes(message, version)) == expected, (spec.api_key, version)
            found += len(expected)
    assert found > len(APIS)


def _codes_in(message: Any) -> Iterator[int]:
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(one):
                yield from _codes_in(one)
            elif field.metadata.get("kafka_type") == "error_code" and one:
                yield int(one)


def test_a_client_that_never_said_is_unknown() -> None:
    refusals = Refusals()
    refusals.note(PRODUCE, (INVALID,), client(UNKNOWN_SOFTWARE), now_ms=0)
    assert counts(refusals) == {("Produce", "INVALID_RECORD", "unknown"): 1}
