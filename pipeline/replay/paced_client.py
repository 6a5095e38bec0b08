"""A client that holds its produce requests back until the rate allows them.

A task sends batches to several leaders at a time. They leave together, when the slowest of these has room, so
no broker gets more than its rate.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.values import TopicPartition
from pipeline.replay.pacing import Pace, SendRates, SentLoad
from springtide.wire.compression import Buffer

_RECORD_COUNT_AT = 57
"""The last field of a record batch's header (KIP-98's format 2)."""
_COUNT = struct.Struct(">i")


class PacedClient(Client):
    """A Client that keeps to `rates` for each broker."""

    def __init__(self, config: ClientConfig, rates: SendRates, **rest: Any) -> None:
        super().__init__(config, **rest)
        self._pace = Pace(rates)

    def keep_pace(self, batches: Mapping[TopicPartition, Buffer]) -> None:
        """Wait until the slowest of the leaders has room for its batches."""
        loads: dict[int, SentLoad] = {}
        for where, batch in batches.items():
            leader = self.known_metadata().leader_of(where)
            if leader is not None:  # else it is not sent: the leader will be asked for first
                load = loads.get(leader.broker_id, SentLoad())
                (records,) = _COUNT.unpack_from(batch, _RECORD_COUNT_AT)
                loads[leader.broker_id] = SentLoad(load.records + records, load.bytes + len(batch))
        wait_ms = self._pace.wait_ms(loads, now_ms=self.now_ms())
        if wait_ms:
            self.pause(wait_ms)
        self._pace.on_sent(loads, now_ms=self.now_ms())
