"""The packed Produce answer against the general encoder."""

from __future__ import annotations

import pytest

from dataplane.handlers.produce_answer import encode_success
from springtide.wire.apis import ApiKey, response_header_version
from springtide.wire.framing import encode_response_frame
from springtide.wire.produce import ProduceOutcome, encode_produce_response


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("topic", ["orders", "ö", "t" * 249])
def test_the_packed_answer_is_the_general_one(version: int, topic: str) -> None:
    outcome = ProduceOutcome(topic, 7, 0, 2**40, -1, 12)
    general = encode_response_frame(
        -5,
        [encode_produce_response(version, [outcome])],
        has_flexible_header=bool(response_header_version(ApiKey.PRODUCE, version)),
    )
    packed = encode_success(
        version,
        correlation_id=-5,
        topic=topic,
        partition=7,
        base_offset=2**40,
        log_append_time_ms=-1,
        log_start_offset=12,
    )
    assert packed == b"".join(bytes(chunk) for chunk in general)  # type: ignore[arg-type]
