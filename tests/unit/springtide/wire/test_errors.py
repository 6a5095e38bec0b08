"""Our error codes against kio's list, which is generated from Kafka's sources."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as SchemaErrorCode

from springtide.wire.errors import ErrorCode

LAST_CODE_OF_4_3 = 133


def test_the_codes_are_those_of_kafka_4_3_with_its_names_and_its_retriable_ones() -> None:
    theirs = {
        (code.name.upper(), int(code), code.retriable) for code in SchemaErrorCode if code <= LAST_CODE_OF_4_3
    }
    assert {(code.name, int(code), code.is_retriable) for code in ErrorCode} == theirs
