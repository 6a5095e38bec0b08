"""Requests become bytes and bytes answers; what an asked node may send and must not."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.wire import codec
from springtide.wire.apis import ApiKey
from springtide.wire.client import (
    TooManyInFlight,
    WireAnswer,
    WireClient,
    answer_size,
    request_body,
    speaks,
    spoken_versions,
)
from springtide.wire.compression import Buffer
from springtide.wire.framing import FrameError, encode_response_frame
from springtide.wire.headers import decode_request_header
from springtide.wire.primitives import MalformedRequest

LIST_GROUPS = (ApiKey.LIST_GROUPS, 4)
ANSWER_BYTES_MAX = 4_096


def client_of(**more: int) -> WireClient[str]:
    return WireClient("test", answer_bytes_max=ANSWER_BYTES_MAX, **more)


def asking(client: WireClient[str], note: str = "first") -> bytes:
    return b"".join(client.ask(*LIST_GROUPS, [request_body(*LIST_GROUPS, {})], note))


def answering(correlation_id: int, *groups: str) -> bytes:
    body = codec.encode(
        codec.build(codec.response_type(*LIST_GROUPS), {"groups": [{"group_id": one} for one in groups]})
    )
    chunks: Sequence[object] = encode_response_frame(correlation_id, [body], has_flexible_header=True)
    return b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))


def hear(client: WireClient[str], data: bytes) -> None:
    while data:
        room = client.frames.writable()
        taken = min(len(room), len(data))
        room[:taken] = data[:taken]
        client.received(taken)
        data = data[taken:]


def answers(client: WireClient[str]) -> list[WireAnswer[str]]:
    return list(iter(client.next_answer, None))


def test_a_request_is_framed_and_its_answer_comes_back_with_the_owners_mark() -> None:
    client = client_of()
    sent = asking(client, "groups of 1001")
    assert struct.unpack_from(">i", sent) == (len(sent) - 4,)
    header = decode_request_header(sent[4:])
    assert (header.api_key, header.api_version, header.client_id) == (*LIST_GROUPS, "test")
    hear(client, answering(header.correlation_id, "billing"))
    (answer,) = answers(client)
    assert answer.asked.note == "groups of 1001"
    assert [group.group_id for group in answer.message().groups] == ["billing"]
    assert not client.in_flight


def test_pieces_of_a_body_are_not_copied() -> None:
    batch = memoryview(b"records")
    pieces: list[Buffer] = client_of().ask(ApiKey.PRODUCE, 9, [b"head", batch], "")
    assert pieces[-1] is batch
    assert struct.unpack_from(">i", pieces[0]) == (sum(map(len, pieces)) - 4,)


@given(st.lists(st.integers(1, 40), max_size=40), st.integers(1, 8))
def test_answers_are_the_same_however_the_bytes_are_cut(cuts: list[int], count: int) -> None:
    client = client_of()
    ids = [decode_request_header(asking(client, str(number))[4:]).correlation_id for number in range(count)]
    data = b"".join(answering(one, f"group-{one}") for one in ids)
    found = []
    for cut in [*cuts, len(data)]:
        hear(client, data[:cut])
        data = data[cut:]
        found += answers(client)
    assert [answer.asked.note for answer in found] == [str(number) for number in range(count)]
    assert [answer.message().groups[0].group_id for answer in found] == [f"group-{one}" for one in ids]


def test_the_answer_to_another_request_is_refused() -> None:
    client = client_of()
    asking(client)
    asking(client, "second")
    hear(client, answering(2))
    with pytest.raises(MalformedRequest, match="answer 2 where 1 is due"):
        client.next_answer()
    assert [asked.note for asked in client.in_flight] == ["first", "second"]  # both are lost


def test_an_answer_that_nothing_asked_for_is_refused() -> None:
    client = client_of()
    asking(client)
    hear(client, answering(1) + answering(1))
    assert client.next_answer() is not None
    with pytest.raises(MalformedRequest, match="an answer to nothing"):
        client.next_answer()


@pytest.mark.parametrize("claimed", [-1, 0, ANSWER_BYTES_MAX + 1, 2**31 - 1])
def test_a_size_that_no_answer_can_have_is_refused_before_its_bytes_come(claimed: int) -> None:
    client = client_of()
    asking(client)
    hear(client, struct.pack(">i", claimed))
    with pytest.raises(FrameError):
        client.next_answer()
    with pytest.raises(FrameError):
        answer_size(struct.pack(">i", claimed), answer_bytes_max=ANSWER_BYTES_MAX)


def test_a_claim_buys_no_memory() -> None:
    client: WireClient[str] = WireClient("test", answer_bytes_max=2**30)
    asking(client)
    hear(client, struct.pack(">i", 2**30) + bytes(8))
    assert client.next_answer() is None
    assert client.frames.buffer_bytes < 10_000


@pytest.mark.parametrize("cut", [0, 3, 4, 6, 9])
def test_a_connection_that_ends_inside_an_answer_or_before_it_says_so(cut: int) -> None:
    client = client_of()
    asking(client)
    hear(client, answering(1, "billing")[:cut])
    assert client.next_answer() is None
    with pytest.raises(ConnectionResetError, match="in the middle of" if cut else "without"):
        client.received(0)


@pytest.mark.parametrize("frame", [b"\0", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\xff\xff\xff\xff\xff"])
def test_a_frame_without_a_whole_header_is_refused(frame: bytes) -> None:
    client = client_of()
    asking(client)
    with pytest.raises(MalformedRequest):
        client.answer_in(memoryview(frame))


@pytest.mark.parametrize("body", [b"", b"\xff" * 20, answering(1, "billing")[9:-1]])
def test_a_body_of_another_version_or_a_cut_one_is_refused(body: bytes) -> None:
    client = client_of()
    asking(client)
    hear(client, struct.pack(">iib", 5 + len(body), 1, 0) + body)
    answer = client.next_answer()
    assert answer is not None
    with pytest.raises(MalformedRequest):
        answer.message()


def test_no_more_requests_are_under_way_than_the_limit() -> None:
    client = client_of(in_flight_max=2)
    asking(client)
    asking(client)
    with pytest.raises(TooManyInFlight, match="2 requests"):
        asking(client)
    hear(client, answering(1))
    assert client.next_answer() is not None
    assert decode_request_header(asking(client)[4:]).correlation_id == 3


def test_a_node_speaks_what_it_told_and_nothing_else() -> None:
    """Also one that was asked in a version which it does not know, and answers in the oldest (KIP-511)."""
    told = codec.build(
        codec.response_type(ApiKey.API_VERSIONS, 0),
        {
            "error_code": 35,
            "api_keys": [
                {"api_key": ApiKey.FETCH, "min_version": 4, "max_version": 12},
                {"api_key": 9_999, "min_version": 0, "max_version": 1},
            ],
        },
    )
    versions = spoken_versions(told)
    assert [version for version in range(20) if speaks(versions, ApiKey.FETCH, version)] == [*range(4, 13)]
    assert not speaks(versions, ApiKey.PRODUCE, 0)
