"""What a simulated broker does against rot: it reads its logs again at a fast pace, tells, and mends (5.7,
scrubbing).

The rules are the product's: what a rotten replica may do, and what may be written over a hole. This is the
shell's part of it, as in dataplane/shell/scrubber.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataplane.core.effects import MendLog
from dataplane.core.log_port import RottenRange
from dataplane.core.results import LeaderAnswer
from dataplane.core.role import Offline
from dataplane.core.scrubbing import Unfit, committed_position, fitting_bytes, mend_position
from springtide.contract.partition_state import PartitionKey
from springtide.wire.errors import ErrorCode
from tests.kit.memory.log import MemoryLog
from tests.simulation.clients import MendCall, ReadAnswer, ReadCall
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

PASS_MS = 1_500
RETRY_MS = 300


class Scrubbing:
    """Of one life of a broker."""

    def __init__(self, broker: BrokerNode) -> None:
        self._broker = broker
        self._mending: set[PartitionKey] = set()
        self._rotten: set[PartitionKey] = set()

    def scrub(self) -> None:
        """One pass over everything; then the next."""
        self._forget_what_was_deleted()
        for key in sorted(self._broker.replicas):
            self.check(key)
        self._broker.after(PASS_MS, self.scrub)

    def check(self, key: PartitionKey) -> None:
        broker = self._broker
        replica = broker.replicas.get(key)
        if replica is None or isinstance(replica.role, Offline) or broker.is_disk_failing:
            return
        log = broker.disk.logs[key]
        for found in log.scrub(replica.scrub_end):
            broker.events.note(f"{broker.name} {key[0][:4]}-{key[1]} finds rot at {found.first_offset}")
            broker.cluster.marks.reached("rot.found")
            log.note_rotten(found)
            broker.run(key, replica.on_rotten())
        if log.rotten:  # found now, or by an earlier process
            self._rotten.add(key)

    def _forget_what_was_deleted(self) -> None:
        """Rot may go with what retention, DeleteRecords or a truncation takes away, at a leader too."""
        for key in sorted(self._rotten):
            log = self._broker.disk.logs.get(key)
            replica = self._broker.replicas.get(key)
            if log is None or replica is None or not log.rotten:
                self._rotten.discard(key)
                if replica is not None:
                    self._broker.run(key, replica.on_mended())

    def mend(self, key: PartitionKey, effect: MendLog) -> None:
        if key not in self._mending:
            self._mending.add(key)
            self._mend(key, effect)

    def _mend(self, key: PartitionKey, effect: MendLog) -> None:
        broker = self._broker
        log = broker.disk.logs.get(key)
        if log is None or not log.rotten:
            self._end(key)
            return
        hole = log.rotten[0]
        leader = f"broker-{effect.leader_id}"

        def is_over() -> bool:
            return broker.disk.logs.get(key) is not log or hole not in log.rotten

        def lost() -> None:
            broker.after(RETRY_MS, lambda: self._end(key))

        def on_filled() -> None:
            broker.cluster.marks.reached("rot.mended")
            broker.events.note(f"{broker.name} {key[0][:4]}-{key[1]} is mended at {hole.first_offset}")
            self._mend(key, effect)

        def as_consumer(answer: ReadAnswer) -> None:
            if is_over():
                self._end(key)
            elif (
                answer.error is ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset > hole.first_offset
            ):
                replica = broker.replicas[key]
                if (follower := replica.following) is not None:
                    broker.run(key, follower.on_deleted_at_leader(answer.log_start_offset))
                if hole in log.rotten:
                    lost()
                else:
                    broker.cluster.marks.reached("rot.deleted.at.the.leader")
                    self._mend(key, effect)
            elif answer.error is not ErrorCode.NONE:
                lost()
            elif self._is_filled(log, hole, b"".join(answer.parts)):
                on_filled()
            else:
                position = mend_position(log, hole.first_offset, effect.leader_epoch)
                call = MendCall(broker.broker_id, broker.broker_epoch, key, position)
                broker.call(leader, call, as_follower, lost)

        def as_follower(answer: LeaderAnswer) -> None:
            if is_over():
                self._end(key)
            elif answer.error is ErrorCode.NONE and self._is_filled(log, hole, bytes(answer.records)):
                broker.cluster.marks.reached("rot.mended.as.a.follower")
                on_filled()
            elif answer.error is ErrorCode.NONE:
                watermark = broker.replicas[key].high_watermark
                position = committed_position(log, watermark, effect.leader_epoch)
                call = ReadCall(key, effect.leader_epoch, watermark, False, position.last_fetched_epoch)
                broker.call(leader, call, partial(at_high_watermark, answer), lost)
            else:
                lost()

        def at_high_watermark(fetched: LeaderAnswer, answer: ReadAnswer) -> None:
            committed = LeaderAnswer(error=answer.error, diverging=answer.diverging)
            if (follower := broker.replicas[key].following) is not None:
                epoch = effect.leader_epoch
                unfit = follower.on_unfit(fetched, at_high_watermark=committed, leader_epoch=epoch)
                broker.run(key, unfit)
            lost()

        request = ReadCall(key, effect.leader_epoch, hole.first_offset, False)
        broker.call(leader, request, as_consumer, lost)

    def _is_filled(self, log: MemoryLog, hole: RottenRange, records: bytes) -> bool:
        if self._broker.is_disk_failing:
            return False
        if [one.base_offset for one in log.headers(hole.first_offset, hole.next_offset)][:1] != [
            hole.first_offset
        ]:
            return False  # the log was cut while its leader was asked
        size_bytes = log.size_of(hole.first_offset)
        try:
            found, next_offset = fitting_bytes(
                memoryview(records),
                first_offset=hole.first_offset,
                next_offset=hole.next_offset,
                size_bytes=size_bytes,
                epoch_at=log.epochs.epoch_at,
            )
        except Unfit:
            return False
        assert (found, next_offset) == (size_bytes, hole.next_offset)
        log.mend(hole, records[:found])
        if hole.first_offset in log.at_rest:
            raise Violation("5.7", f"{self._broker.name} mended {hole.first_offset} with other bytes")
        return True

    def _end(self, key: PartitionKey) -> None:
        """Mended, or to be tried again if the replica still wants that."""
        self._mending.discard(key)
        log = self._broker.disk.logs.get(key)
        if log is None or not log.rotten:
            self._rotten.discard(key)
        replica = self._broker.replicas.get(key)
        if replica is not None:
            self._broker.run(key, replica.on_mended())
