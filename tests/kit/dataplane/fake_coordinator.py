"""A transaction coordinator that says what a test has it say, on a socket; brokers take it for the owner of
all transactional ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from dataplane.broker import StorageBroker
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, Shard, TopicState, WriterId
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.sharding import TRANSACTIONS_TOPIC
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.framing import FrameReader, encode_response_frame
from springtide.wire.headers import decode_request_header
from springtide.wire.messages import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from springtide.wire.typed import read_message, write_message

COORDINATOR_ID = 1001
TOPIC_ID = "T" * 22


class FakeCoordinator:
    """asked: each transaction of each request, in order. errors: what is said of a transactional id, else
    NONE; a list is said one after the other, the last one for ever. refusal: of the whole request. While
    `gate` is not set nothing is answered. is_broken: it closes connections instead."""

    def __init__(self) -> None:
        self.asked: list[AddPartitionsToTxnTransaction] = []
        self.requests = 0
        self.errors: dict[str, ErrorCode | list[ErrorCode]] = {}
        self.gate = trio.Event()
        self.gate.set()
        self.is_broken = False
        self.refusal = ErrorCode.NONE
        self.port = 0

    def of(self, transactional_id: str) -> list[tuple[int, int, bool]]:
        """Return what was asked about an id: (producer id, epoch, whether to verify only)."""
        return [
            (one.producer_id, one.producer_epoch, one.verify_only)
            for one in self.asked
            if one.transactional_id == transactional_id
        ]

    async def until_asked(self, count: int) -> None:
        with trio.fail_after(30):
            while len(self.asked) < count:  # noqa: ASYNC110 - a test's own polling
                await trio.sleep(0.005)

    async def serve(self, stream: trio.SocketStream) -> None:
        reader = FrameReader()
        try:
            async with stream:
                while True:
                    while (frame := reader.next_frame()) is None:
                        received = await stream.receive_some(1 << 16)
                        if not received or self.is_broken:
                            return
                        view = memoryview(received)
                        while view:
                            room = reader.writable()
                            count = min(len(room), len(view))
                            room[:count] = view[:count]
                            reader.received(count)
                            view = view[count:]
                    await stream.send_all(await self._answer(frame))
        except trio.BrokenResourceError:
            pass

    async def _answer(self, frame: memoryview) -> bytes:
        header = decode_request_header(frame)
        if header.api_key != ApiKey.ADD_PARTITIONS_TO_TXN:  # a client that has found it in Metadata
            raise trio.BrokenResourceError
        asked = read_message(AddPartitionsToTxnRequest, header.api_version, frame, header.body_position)
        self.asked += asked.transactions
        self.requests += 1
        await self.gate.wait()
        answer = AddPartitionsToTxnResponse(
            error_code=self.refusal,
            results_by_transaction=tuple(self._result(one) for one in asked.transactions),
        )
        body = write_message(answer, header.api_version)
        return b"".join(
            bytes(chunk)  # type: ignore[arg-type]
            for chunk in encode_response_frame(header.correlation_id, [body], has_flexible_header=True)
        )

    def _result(self, asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        errors = self.errors.get(asked.transactional_id, ErrorCode.NONE)
        if isinstance(errors, list):
            errors = errors.pop(0) if len(errors) > 1 else errors[0]
        return AddPartitionsToTxnResult(
            transactional_id=asked.transactional_id,
            topic_results=tuple(
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=errors)
                        for number in topic.partitions
                    ),
                )
                for topic in asked.topics
            ),
        )


def tell_of_coordinator(broker: StorageBroker, port: int) -> None:
    """Have a broker believe that a coordinator at this port owns the one shard of transactions; 0: that it
    has no owner."""
    broker.view.apply(
        UpdateBatch(
            coordinators=(
                BrokerEndpoint(
                    broker_id=COORDINATOR_ID,
                    broker_epoch=BrokerEpoch(1),
                    host="127.0.0.1",
                    port=port,
                    active=port > 0,
                ),
            ),
            topics=(
                TopicState(topic_id=TOPIC_ID, topic=TRANSACTIONS_TOPIC, partitions=1, replication_factor=1),
            ),
            partitions=(
                PartitionState(
                    topic_id=TOPIC_ID,
                    topic=TRANSACTIONS_TOPIC,
                    partition=0,
                    replicas=(1,),
                    leader=1,
                    leader_epoch=LeaderEpoch(0),
                    partition_epoch=PartitionEpoch(1),
                    isr=(1,),
                    min_insync_replicas=1,
                    shard=Shard(owner=COORDINATOR_ID, writer=WriterId(7)),
                ),
            ),
        ),
        now_ms=0,
    )


@asynccontextmanager
async def fake_coordinator(*brokers: StorageBroker) -> AsyncIterator[FakeCoordinator]:
    coordinator = FakeCoordinator()
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        coordinator.port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, coordinator.serve, [listener])
        for broker in brokers:
            tell_of_coordinator(broker, coordinator.port)
        yield coordinator
        nursery.cancel_scope.cancel()
