"""Our error codes against kio's list, which is generated from Kafka's sources."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as SchemaErrorCode

from springtide.wire.errors import ErrorCode

LAST_CODE_OF_4_3 = 133
NEW_IN_4_4 = {
    ("GROUP_DELETION_FAILED", 134, False),
    ("STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", 135, False),
    ("CONTROLLER_ID_NOT_REGISTERED", 136, False),
}
"""As Kafka 4.4.0's own `Errors` lists them; kio's list may be older."""


def test_the_codes_are_those_of_kafka_4_4_with_its_names_and_its_retriable_ones() -> None:
    theirs = {
        (code.name.upper(), int(code), code.retriable) for code in SchemaErrorCode if code <= LAST_CODE_OF_4_3
    }
    assert {(code.name, int(code), code.is_retriable) for code in ErrorCode} == theirs | NEW_IN_4_4
