"""Fetch between brokers of two releases: Kafka's frames, by the follower's and the leader's own codecs, in
the highest version that both speak (dataplane/shell/fetch_encoder.py, dataplane/handlers/fetch.py)."""

from __future__ import annotations

from typing import Any

from tests.simulation.network import Unreadable
from tests.simulation.releases.translation import Release, release_of

WAIT_MS = 500


class Wire:
    """What one release has of Fetch."""

    def __init__(self, release: Release) -> None:
        self.requests = release.module("springtide.wire.fetch_request")
        self.responses = release.module("springtide.wire.fetch_response")
        self.version: int = release.module("springtide.wire.apis").REPLICA_FETCH_VERSION
        self.malformed: Any = release.module("springtide.wire.primitives").MalformedRequest
        self.errors = release.module("springtide.wire.errors")
        self.calls = release.module("tests.simulation.broker_requests")
        self.sessions = release.module("dataplane.core.fetch_session")
        self.results = release.module("dataplane.core.results")
        self.ids = release.module("springtide.node.topic_ids")


def received(message: Any, release: Release, wires: dict[Release, Wire]) -> Any:
    """Return the FetchCall or FetchAnswer as a broker of that release reads it. Raise Unreadable."""
    sender = release_of(type(message))
    assert sender is not None
    ours, theirs = wires[sender], wires[release]
    version = min(ours.version, theirs.version)
    is_answer = isinstance(message, dict)
    frame = _encoded_answer(message, version, ours) if is_answer else _encoded_call(message, version, ours)
    try:
        return _answer(frame, version, theirs) if is_answer else _call(frame, version, theirs)
    except theirs.malformed as error:
        what = "answer to a fetch" if is_answer else "fetch"
        raise Unreadable(f"the {release.name.lower()} release can't read a {what}: {error}") from error


def _encoded_call(call: Any, version: int, wire: Wire) -> bytes:
    asked, text = call.asked, wire.ids.topic_id_bytes
    request = wire.requests.FetchRequest(
        replica_id=call.broker_id,
        broker_epoch=call.broker_epoch,
        max_wait_ms=0 if asked.has_more else WAIT_MS,
        session_id=asked.session_id,
        session_epoch=asked.session_epoch,
        partitions=[
            wire.requests.FetchPartition(
                text(key[0]),
                key[1],
                position.leader_epoch,
                position.fetch_offset,
                position.last_fetched_epoch,
                position.log_start_offset,
                position.max_bytes,
                call.marks.get(key),
                position.wants_producers,
            )
            for key, position in asked.partitions
        ],
        forgotten=[(text(key[0]), key[1]) for key in asked.forgotten],
    )
    encoded: bytes = wire.requests.encode_fetch_request(version, request)
    return encoded


def _call(frame: bytes, version: int, wire: Wire) -> Any:
    read = wire.requests.decode_fetch_request(version, frame, 0)
    text = wire.ids.topic_id_text
    asked = wire.sessions.FollowerRequest(
        session_id=read.session_id,
        session_epoch=read.session_epoch,
        partitions=tuple(
            (
                (text(one.topic), one.partition),
                wire.sessions.FetchPosition(
                    one.fetch_offset,
                    one.last_fetched_epoch,
                    one.leader_epoch,
                    one.log_start_offset,
                    one.max_bytes,
                    one.wants_producers,
                ),
            )
            for one in read.partitions
        ),
        forgotten=tuple((text(topic), partition) for topic, partition in read.forgotten),
        has_more=not read.max_wait_ms,
    )
    marks = {(text(one.topic), one.partition): one.mark for one in read.partitions if one.mark is not None}
    return wire.calls.FetchCall(read.replica_id, read.broker_epoch, asked, marks)


def _encoded_answer(answer: Any, version: int, wire: Wire) -> bytes:
    partitions = [
        wire.responses.FetchedPartition(
            wire.ids.topic_id_bytes(key[0]),
            key[1],
            int(one.error),
            one.high_watermark,
            one.high_watermark,
            one.log_start_offset,
            (bytes(one.records),) if one.records else (),
            diverging_epoch=one.diverging,
            compacted=one.compacted,
            producers=one.producers,
        )
        for key, one in answer.items()
    ]
    chunks = wire.responses.encode_fetch_response(
        version, partitions, error_code=int(answer.error), session_id=answer.session_id
    )
    return b"".join(chunks)


def _answer(frame: bytes, version: int, wire: Wire) -> Any:
    read = wire.responses.decode_fetch_response(version, memoryview(frame), 0)
    return wire.calls.FetchAnswer(
        read.error,
        read.session_id,
        {
            (wire.ids.topic_id_text(one.topic), one.partition): wire.results.LeaderAnswer(
                error=one.error,
                high_watermark=one.high_watermark,
                log_start_offset=one.log_start_offset,
                diverging=one.diverging_epoch,
                records=bytes(one.view),
                compacted=one.compacted,
                producers=bytes(one.producers),
            )
            for one in read.partitions
        },
    )
