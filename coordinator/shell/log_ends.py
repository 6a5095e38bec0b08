"""Where logs end for consumers, asked of their leaders as any client asks (ListOffsets)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final, cast

import trio

from springtide.contract.updates import BrokerEndpoint
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView
from springtide.node.net import Net
from springtide.node.question import ask, connect
from springtide.wire.apis import ApiKey
from springtide.wire.codec import build, decode, encode, request_type, response_type
from springtide.wire.framing import FrameError, encode_request_frame
from springtide.wire.headers import decode_response_header, encode_request_header
from springtide.wire.primitives import MalformedRequest

_log = logging.getLogger(__name__)

VERSION: Final = 8
LATEST: Final = -1
CONSUMER: Final = -1
PARTITIONS_PER_REQUEST_MAX: Final = 2_000
"""A leader answers a request in one turn of its loop: about a microsecond a partition."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
ANSWER_MS_MAX: Final = 3_000

#: A topic's name and a partition's number.
Place = tuple[str, int]


class PartitionEnds:
    """Asks leaders for the ends of logs. client_id: this process's, in its requests."""

    def __init__(self, *, view: ClusterView, net: Net, clock: Clock, client_id: str) -> None:
        self._view = view
        self._net = net
        self._clock = clock
        self._client_id = client_id

    async def ask(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the high watermark of each of these partitions whose leader answers in time."""
        found: dict[Place, int] = {}
        by_leader: dict[int, list[Place]] = {}
        for place in places:
            if (leader := self._leader_of(place)) is not None:
                by_leader.setdefault(leader, []).append(place)
        async with trio.open_nursery() as nursery:
            for broker_id, led in by_leader.items():
                nursery.start_soon(self._ask_leader, self._view.brokers[broker_id], led, found)
        return found

    def _leader_of(self, place: Place) -> int | None:
        topic = self._view.topic_by_name(place[0])
        state = None if topic is None else self._view.state(topic.topic_id, place[1])
        return state.leader if state is not None and self._view.is_active(state.leader) else None

    async def _ask_leader(
        self, leader: BrokerEndpoint, places: Sequence[Place], found: dict[Place, int]
    ) -> None:
        try:
            channel = await connect(
                self._net, self._clock, leader.host, leader.port, timeout_ms=ANSWER_MS_MAX
            )
            try:
                for start in range(0, len(places), PARTITIONS_PER_REQUEST_MAX):
                    asked = places[start : start + PARTITIONS_PER_REQUEST_MAX]
                    with self._clock.timeout_ms(ANSWER_MS_MAX) as scope:
                        frame = await ask(channel, self._request(asked), answer_bytes_max=ANSWER_BYTES_MAX)
                        found.update(_answer(frame))
                    if scope.cancelled_caught:
                        raise TimeoutError("the leader is silent")
            finally:
                channel.close()
        except (OSError, trio.ClosedResourceError, FrameError, MalformedRequest) as error:
            _log.debug("log_ends_not_told broker_id=%d cause=%r", leader.broker_id, error)

    def _request(self, places: Sequence[Place]) -> bytes:
        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": number, "current_leader_epoch": -1, "timestamp": LATEST}
                    for _, number in of_topic
                ],
            }
            for topic, of_topic in groupby(sorted(places), key=lambda place: place[0])
        ]
        message = build(
            request_type(ApiKey.LIST_OFFSETS, VERSION),
            {"replica_id": CONSUMER, "isolation_level": 0, "topics": topics},
        )
        head = encode_request_header(
            api_key=ApiKey.LIST_OFFSETS, api_version=VERSION, correlation_id=0, client_id=self._client_id
        )
        return encode_request_frame(head, encode(message))


def _answer(frame: memoryview) -> dict[Place, int]:
    """Return the offsets of an answer. Raise MalformedRequest."""
    _, position = decode_response_header(frame, api_key=ApiKey.LIST_OFFSETS, api_version=VERSION)
    answer = cast(Any, decode(response_type(ApiKey.LIST_OFFSETS, VERSION), frame, position))
    return {
        (topic.name, partition.partition_index): partition.offset
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code and partition.offset >= 0
    }
