"""A client that holds its produce requests back until the rate allows them.

A task sends one batch to each of several partitions at a time. They leave together, when the slowest of their
brokers has room, so no broker gets more than its rate.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from pipeline.client.client import ACKS_ALL, PRODUCE_TIMEOUT_MS, Client
from pipeline.client.config import ClientConfig
from pipeline.client.values import ProduceResult, TopicPartition, Unsettled
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

    def produce_once(
        self,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = ACKS_ALL,
        timeout_ms: int = PRODUCE_TIMEOUT_MS,
    ) -> dict[TopicPartition, ProduceResult | Unsettled]:
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
        return super().produce_once(batches, acks=acks, timeout_ms=timeout_ms)
