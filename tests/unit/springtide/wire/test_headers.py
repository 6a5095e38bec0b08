"""Request and response headers, and the table of what we advertise."""

from __future__ import annotations

import io
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.index import schema_name_map
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from springtide.wire.apis import (
    APIS,
    UNSTABLE_VERSIONS,
    ApiKey,
    UnsupportedApi,
    response_header_version,
)
from springtide.wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from springtide.wire.primitives import MalformedRequest
from tests.kit.springtide.wire_classes import request_of, response_of


def test_the_table_agrees_with_the_definitions_on_header_versions() -> None:
    for spec in APIS.values():
        for version in range(spec.served_since, spec.version_max + 1):
            request, response = request_of(spec.api_key, version), response_of(spec.api_key, version)
            assert request.__flexible__ is spec.is_flexible(version)
            assert request.__header_schema__.__version__ == (2 if spec.is_flexible(version) else 1)
            assert response.__header_schema__.__version__ == response_header_version(spec.api_key, version)


def test_no_definition_lies_below_what_we_serve_so_none_is_left_out_by_mistake() -> None:
    for spec in APIS.values():
        lowest = 0 if spec.api_key is ApiKey.LIST_OFFSETS else min(schema_name_map[spec.api_key.name.lower()])
        assert lowest == spec.served_since


def test_the_newest_versions_are_those_of_one_kafka_release() -> None:
    """KAFKA-20739: InitProducerId 6 asks for a two-phase commit that no broker has. It is not listed."""
    for spec in APIS.values():
        defined = set(schema_name_map[spec.api_key.name.lower()]) - UNSTABLE_VERSIONS.get(spec.api_key, set())
        assert spec.version_max == max(defined)


def test_produce_is_advertised_below_what_is_served_and_nothing_else_is() -> None:
    assert {spec.api_key for spec in APIS.values() if spec.version_min != spec.served_since} == {
        ApiKey.PRODUCE
    }
    assert (APIS[ApiKey.PRODUCE].version_min, APIS[ApiKey.PRODUCE].version_max) == (0, 13)
    assert APIS[ApiKey.FETCH].version_min == 4


def test_the_api_versions_response_keeps_the_header_a_newcomer_can_read() -> None:
    assert [response_header_version(ApiKey.API_VERSIONS, version) for version in range(5)] == [0] * 5


@given(
    st.sampled_from(sorted(APIS)),
    st.data(),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=50),
)
def test_a_header_is_read_as_it_was_written(
    api_key: int, data: st.DataObject, correlation_id: int, client_id: str | None
) -> None:
    spec = APIS[api_key]
    version = data.draw(st.integers(spec.version_min, spec.version_max))
    head = encode_request_header(
        api_key=api_key, api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    expected = RequestHeader(api_key, version, correlation_id, client_id, len(head))
    assert decode_request_header(memoryview(head + b"body")) == expected


def test_a_flexible_header_is_the_one_kio_writes() -> None:
    out = io.BytesIO()
    header = FlexibleHeader(
        request_api_key=i16(3), request_api_version=i16(12), correlation_id=i32(9), client_id="me"
    )
    entity_writer(FlexibleHeader)(out, header)
    assert out.getvalue() == encode_request_header(
        api_key=3, api_version=12, correlation_id=9, client_id="me"
    )


def test_tags_in_a_header_are_skipped() -> None:
    head = struct.pack(">hhih", 3, 12, 1, -1) + b"\x01\x09\x02ab"
    assert decode_request_header(head + b"body").body_position == len(head)


@pytest.mark.parametrize(("api_key", "version"), [(99, 0), (-1, 0), (0, 14), (1, 3), (3, -1), (18, 5)])
def test_what_is_not_advertised_is_named_with_the_id_to_answer_to(api_key: int, version: int) -> None:
    with pytest.raises(UnsupportedApi) as caught:
        decode_request_header(struct.pack(">hhih", api_key, version, 77, -1))
    assert (caught.value.api_key, caught.value.api_version) == (api_key, version)
    assert caught.value.correlation_id == 77
    assert caught.value.is_api_versions is (api_key == 18)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        struct.pack(">hhi", 3, 12, 1),
        struct.pack(">hhih", 3, 12, 1, -1),  # no tag section
        struct.pack(">hhih", 3, 12, 1, -2) + b"\0",
        struct.pack(">hhih", 3, 12, 1, 5) + b"abc",
        struct.pack(">hhih", 3, 0, 1, 5) + b"abc",
        struct.pack(">hhih", 3, 0, 1, 2) + b"\xff\xff",
        struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\x0f",
    ],
)
def test_a_broken_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decode_request_header(memoryview(frame))


def test_random_frames_fail_only_in_named_ways() -> None:
    rng = random.Random(5)
    for _ in range(20_000):
        frame = rng.randbytes(rng.randrange(20))
        if rng.random() < 0.5:
            spec = rng.choice(list(APIS.values()))
            frame = struct.pack(">hh", spec.api_key, rng.randint(spec.version_min, spec.version_max)) + frame
        try:
            decode_request_header(memoryview(frame))
        except (MalformedRequest, UnsupportedApi):
            continue


def test_a_response_header_gives_the_id_and_where_the_body_begins() -> None:
    assert decode_response_header(b"\x00\x00\x00\x07body", api_key=1, api_version=11) == (7, 4)
    assert decode_response_header(b"\x00\x00\x00\x07\x00body", api_key=1, api_version=12) == (7, 5)
    assert decode_response_header(b"\x00\x00\x00\x07body", api_key=18, api_version=3) == (7, 4)
    with pytest.raises(MalformedRequest):
        decode_response_header(b"\x00\x00\x00\x07", api_key=1, api_version=12)
    with pytest.raises(MalformedRequest):
        decode_response_header(b"\x00", api_key=1, api_version=4)
