"""Where logs end for consumers, asked of their leaders as any client asks (ListOffsets)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import trio

from springtide.contract.updates import BrokerEndpoint
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView
from springtide.node.net import Net
from springtide.node.peer_requests import ask, connect
from springtide.wire.apis import ApiKey
from springtide.wire.client import WireClient, request_body
from springtide.wire.errors import ErrorCode
from springtide.wire.framing import FrameError
from springtide.wire.primitives import MalformedRequest
from springtide.wire.questions import Place, list_offsets, listed_offsets

_log = logging.getLogger(__name__)

VERSION: Final = 8
LATEST: Final = -1
PARTITIONS_PER_REQUEST_MAX: Final = 2_000
"""A leader answers a request in one turn of its loop: about a microsecond a partition."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
ANSWER_MS_MAX: Final = 3_000


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
            client: WireClient[None] = WireClient(self._client_id, answer_bytes_max=ANSWER_BYTES_MAX)
            try:
                for start in range(0, len(places), PARTITIONS_PER_REQUEST_MAX):
                    asked = sorted(places[start : start + PARTITIONS_PER_REQUEST_MAX])
                    fields = list_offsets(dict.fromkeys(asked, LATEST))
                    body = request_body(ApiKey.LIST_OFFSETS, VERSION, fields)
                    with self._clock.timeout_ms(ANSWER_MS_MAX) as scope:
                        answer = await ask(channel, client, ApiKey.LIST_OFFSETS, VERSION, [body])
                        found |= {
                            place: one.offset
                            for place, one in listed_offsets(answer.message()).items()
                            if one.error is ErrorCode.NONE and one.offset >= 0
                        }
                    if scope.cancelled_caught:
                        raise TimeoutError("the leader is silent")
            finally:
                channel.close()
        except (OSError, trio.ClosedResourceError, FrameError, MalformedRequest) as error:
            _log.debug("log_ends_not_told broker_id=%d cause=%r", leader.broker_id, error)
