"""The work of a simulated broker on its own, at the simulation's pace: ticks, flushes, seals, retention."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataplane.storage.retention import UNLIMITED, SegmentView, segments_to_delete
from dataplane.storage.seal import Seal
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import PartitionKey
from tests.kit.memory.log import MemoryLog
from tests.simulation.compaction import Compacting
from tests.simulation.scrubbing import PASS_MS

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

RETENTION_LOOK_MS = 1_000
BATCHES_EXPIRED_MAX = 8


class BrokerUpkeep:
    """Of one life. directory_failed: a write has failed, and the directory is given up. chain_epoch: of the
    registration."""

    def __init__(self, node: BrokerNode) -> None:
        self.node = node
        self.directory_failed = False
        self.chain_epoch = -1
        #: Where the logs ended in the last round of sealing.
        self.seen_ends: dict[PartitionKey, int] = {}

    def start(self) -> None:
        node, options = self.node, self.node.cluster.options
        node.after(options.checkpoint_ms, self._checkpoint)
        node.after(options.flush_ms * node.random.random(), self._flush)
        node.after(PASS_MS, node.scrubbing.scrub)
        node.after(options.tick_ms, self._tick)
        node.after(options.flush_ms, self._seal_idle)
        if options.compacted:
            Compacting(node)
        if options.retention_ms:
            node.after(RETENTION_LOOK_MS, self._apply_retention)

    def _seal_idle(self) -> None:
        """See dataplane/shell/seals.py: what was not written to since the last round, and has a seat."""
        node = self.node
        seen, self.seen_ends = self.seen_ends, {}
        for key, replica in sorted(node.replicas.items()):
            log, state = node.disk.logs.get(key), replica.state
            if log is None or state is None or node.disk.failing is not None or node.disk.hung:
                continue
            self.seen_ends[key] = log.log_end_offset
            if (
                seen.get(key) == log.log_end_offset
                and not log.is_sealed
                and self.chain_epoch >= 0
                and (node.broker_id in state.isr or node.broker_id in state.elr)
            ):
                log.begin_seal(BrokerEpoch(self.chain_epoch))
                node.after(node.random.randint(1, 30), partial(self._store_seal, key, log, log.seal))
        node.after(node.cluster.options.flush_ms, self._seal_idle)

    def _store_seal(self, key: PartitionKey, log: MemoryLog, seal: Seal | None) -> None:
        node = self.node
        if log.seal is seal and node.disk.failing is None and node.disk.logs.get(key) is log:
            log.store_seal()
            node.cluster.marks.reached("seal.stored")

    def _tick(self) -> None:
        node = self.node
        now_ms = node.now_ms
        for key, replica in sorted(node.replicas.items()):
            node.cluster.marks.on_tick(node, replica)
            node.cluster.oracle.on_replica_touched(node, key)
        node.carry_out(node.core.on_tick(now_ms=now_ms))
        node.requests.check_owed(now_ms)
        node.after(node.cluster.options.tick_ms, self._tick)

    def on_directory_failed(self) -> None:
        """The first failed write ends the directory for this process's life: all its replicas go offline, and
        the heartbeats say so (S28)."""
        node = self.node
        if self.directory_failed:
            return
        self.directory_failed = True
        node.events.note(f"{node.name} gives its directory up")
        for key, replica in sorted(node.replicas.items()):
            node.run(key, replica.go_offline("the directory has failed"))
            node.cluster.oracle.on_replica_touched(node, key)

    def _checkpoint(self) -> None:
        node = self.node
        for key, replica in node.replicas.items():
            node.disk.high_watermarks[key] = replica.high_watermark
            log = node.disk.logs.get(key)
            if log is not None and node.disk.failing is None:
                log.store_log_start(log.log_start_offset)
        node.after(node.cluster.options.checkpoint_ms, self._checkpoint)

    def _flush(self) -> None:
        node = self.node
        for _, log in sorted(node.disk.logs.items()):
            if node.random.random() < 0.5 and not node.disk.hung and node.disk.failing is None:
                log.flush()
        node.after(node.cluster.options.flush_ms, self._flush)

    def _apply_retention(self) -> None:
        """As the shell does, with a batch a segment, a few at a look."""
        node = self.node
        expiry_ms = node.time.expiry_ms()
        for key, replica in sorted(node.replicas.items()):
            log = node.disk.logs[key]
            if not replica.role.may_serve(node.now_ms) or not log.batches:
                continue
            segments = [
                SegmentView(header.base_offset, header.next_offset, len(data), header.max_timestamp)
                for header, data in log.batches[:BATCHES_EXPIRED_MAX]
            ]
            count = segments_to_delete(
                segments,
                expiry_ms=expiry_ms,
                retention_ms=node.cluster.options.retention_ms,
                retention_bytes=UNLIMITED,
                high_watermark=replica.high_watermark,
            )
            if count:
                node.cluster.oracle.on_expired(node, key, segments[:count])
        node.after(RETENTION_LOOK_MS, self._apply_retention)
