"""The three replicas of mini_cluster.py with a shard's log on them: writers that are named one after the
other, each with several batches in flight, and old ones that go on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from dataplane.core.leader import Leader
from springtide.contract.partition_state import WRITER_BATCHES_MAX, WRITER_IDS, Shard, WriterId
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.mini_cluster import MiniCluster, Node, Violation
from tests.kit.dataplane.replica import WALL_MS, batch_of

NOTHING_WRITTEN = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)


@dataclass
class Writer:
    """One opening. batches: all that it ever made, by sequence. tried: so many were sent at least
    once. acked: their sequences. is_over: it was told that it is fenced."""

    writer: WriterId
    batches: list[bytes] = field(default_factory=list)
    tried: int = 0
    acked: set[int] = field(default_factory=set)
    is_over: bool = False

    @property
    def first_open(self) -> int:
        return next(n for n in range(len(self.batches) + 1) if n not in self.acked)


class ShardCluster(MiniCluster):
    """is_epoch_reused: the bug that no controller may have, a reopening under the writer of the one before.
    It must not get far; but what it is told must be true."""

    def __init__(self, seed: int, *, is_epoch_reused: bool = False) -> None:
        self.writers: list[Writer] = []
        self.is_epoch_reused = is_epoch_reused
        super().__init__(seed)
        self._name_writer()

    def _mix(self) -> tuple[list[Callable[[], None]], list[float]]:
        steps, weights = super()._mix()
        kept = [(s, w) for s, w in zip(steps, weights, strict=True) if s != self._delete_records]
        return [*(s for s, _ in kept), self._name_writer], [*(w for _, w in kept), 1.5]

    def _name_writer(self) -> None:
        state = self.controller.state
        writer = WriterId(WRITER_IDS.start + state.partition_epoch + 1)
        if self.is_epoch_reused and self.writers:
            writer = self.writers[-1].writer
        self.controller.state = msgspec.structs.replace(
            state, shard=Shard(owner=1, writer=writer), partition_epoch=state.partition_epoch + 1
        )
        self.writers.append(Writer(writer))

    def _produce(self) -> None:
        leaders = [n for n in self.nodes.values() if n.is_up and isinstance(n.replica.role, Leader)]
        if not leaders:
            return
        node = self.random.choice(leaders)
        number = len(self.writers) - 1
        if self.random.random() < 0.3:  # one that does not know that it is over
            number = self.random.randrange(max(0, number - 3), number + 1)
        writer = self.writers[number]
        if writer.is_over:
            return
        first = writer.first_open
        if writer.tried == len(writer.batches) < first + WRITER_BATCHES_MAX:
            value = b"%d" % self.random.getrandbits(64)
            writer_id, sequence = writer.writer, len(writer.batches)
            writer.batches.append(
                batch_of(
                    [value],
                    producer_id=writer_id.producer_id,
                    producer_epoch=writer_id.producer_epoch,
                    base_sequence=sequence,
                )
            )
        sequence = writer.tried
        if writer.tried == len(writer.batches) or self.random.random() < 0.5:
            if first == writer.tried:
                return
            sequence = self.random.randrange(first, writer.tried)  # the same bytes again
        writer.tried = max(writer.tried, sequence + 1)
        self._send(node, number, sequence)

    def _send(self, node: Node, number: int, sequence: int) -> None:
        writer = self.writers[number]
        data = writer.batches[sequence]
        result, effects = node.replica.role.append(
            decode_header(data),
            memoryview(data),
            acks=-1,
            waiter=number << 32 | sequence,
            expires_ms=self.now_ms + 500,
            now_ms=self.now_ms,
            wall_ms=WALL_MS,
        )
        error = result.error
        self.reached.add(f"append {error.name}{' again' if result.log_append_time_ms >= 0 else ''}")
        self.log.append(f"{self.now_ms} {number}/{sequence} at {node.broker_id}: {error.name}")
        if error is ErrorCode.INVALID_PRODUCER_EPOCH:
            if writer is self.writers[-1]:
                raise Violation(f"I27: the writer that is named, {writer.writer}, is fenced")
            writer.is_over = True
        elif error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            writer.is_over = self.is_epoch_reused
            is_current = node.replica.leader_epoch == self.controller.state.leader_epoch
            if (
                sequence == writer.first_open
                and is_current
                and self.writers[-1] is writer
                and not writer.is_over
            ):
                raise Violation(f"I28: {number}/{sequence} out of order: what was acknowledged is gone")
        elif error is not ErrorCode.NONE and error not in NOTHING_WRITTEN:
            raise Violation(f"{number}/{sequence}: {error.name}")
        self.carry_out(node, effects)
        if error is ErrorCode.NONE and not result.is_waiting:
            self._acked(number << 32 | sequence)

    def _acked(self, sequence: int | None) -> None:
        assert sequence is not None
        number, sequence = divmod(sequence, 1 << 32)
        self.writers[number].acked.add(sequence)
        self.reached.add("acked")

    def check(self) -> None:
        super().check()
        for node in self.nodes.values():
            self._check_writers(node)

    def _check_writers(self, node: Node) -> None:
        """I27, of any log at any time: writers rise, and each one's sequences have no gap and no repeat."""
        last, expected = WriterId(-1, -1), 0
        for header, _ in node.log.batches:
            writer = WriterId(header.producer_id, header.producer_epoch)
            expected = expected if writer == last else 0
            if writer < last or header.base_sequence != expected:
                raise Violation(
                    f"I27: broker {node.broker_id} has {header.base_sequence} of {writer} behind {last}"
                )
            last, expected = writer, expected + 1

    def _check_sequences(self) -> None:
        """I28 (an answered commit survives): what was acknowledged is there, byte for byte."""
        log = self.nodes[self.controller.state.leader].log
        stored = {data[16:] for _, data in log.batches}
        for writer in self.writers:
            for sequence in writer.acked:
                if writer.batches[sequence][16:] not in stored:
                    raise Violation(f"I28: acknowledged {sequence} of {writer.writer} is not stored")
