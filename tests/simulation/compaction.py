"""Compaction in the simulation: the pace of its rounds, and I35.

Every replica of a compacted cluster looks at its logs now and then: a leader decides rounds, and each applies
what is committed in passes of its own, with little room for keys, so that some rounds need several. The
ghost is never compacted; what a replica holds is held against it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

from dataplane.core.compaction.rounds import CompactionOptions
from dataplane.core.log_port import SuspectBytes
from dataplane.storage.compaction import PassPutOff
from springtide.contract.partition_state import PartitionKey
from springtide.wire.markers import Outcome, read_marker
from springtide.wire.record_batch import BatchHeader
from springtide.wire.records import NewRecord, Record, iter_records
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster
    from tests.simulation.options import ClusterOptions
    from tests.simulation.oracle import Ghost

TOMBSTONES = 0.3
"""Of the records that clients produce."""
PASS_RATE = 0.5
KEYS_MAX = (2, 5, 1_000)
LAST_PASSES_MAX = 1_000
CACHED_BATCHES_MAX = 4_096

Table = dict[bytes | None, bytes]


def keyed(records: Iterable[NewRecord], first: int, random: Random) -> list[NewRecord]:
    """Return what a producer of a compacted topic writes, `first` being its first sequence: values and
    tombstones of a few keys, which change as it goes on, so that some stay deleted."""
    return [
        record._replace(
            key=b"%d" % (first // 20 + random.randrange(4)),
            value=None if random.random() < TOMBSTONES else record.value,
        )
        for record in records
    ]


def compaction_options(options: ClusterOptions) -> CompactionOptions | None:
    """Rounds come after some dozen batches of a producer, and tombstones go some dozen later: sooner than
    some replicas and coordinators come back that stood still."""
    if not options.compacted:
        return None
    return CompactionOptions(
        min_cleanable_dirty_ratio=0.2,
        min_compaction_lag_ms=3 * options.pace_ms,
        max_compaction_lag_ms=2**63 - 1,
        delete_retention_ms=20 * options.pace_ms,
    )


class Compacting:
    """The work of one life of a broker."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self.look()

    def look(self) -> None:
        node = self._node
        for key in sorted(node.replicas):
            self._decide(key)
            self._apply(key)
        node.after(5 * node.cluster.options.pace_ms * (0.5 + node.random.random()), self.look)

    def _decide(self, key: PartitionKey) -> None:
        node, replica = self._node, self._node.replicas[key]
        options, agreed_ms = replica.options.compaction, node.time.expiry_ms()
        if agreed_ms is None or options is None or (leader := replica.leading) is None:
            return
        log: Any = replica.log
        dirt = log.dirt(replica.last_stable_offset, before_ms=agreed_ms - options.min_compaction_lag_ms)
        effects = leader.decide_round(
            dirt, agreed_ms=agreed_ms, now_ms=node.now_ms, wall_ms=node.time.wall_ms()
        )
        if effects:
            node.cluster.marks.reached("round.decided")
            if replica.log.producers.transactions.open:
                node.cluster.marks.reached("transaction.open.at.a.round")
            node.run(key, effects)

    def _apply(self, key: PartitionKey) -> None:
        node, replica = self._node, self._node.replicas[key]
        log: Any = replica.log
        placed = log.rounds.due(replica.high_watermark)
        if placed is None or node.is_disk_failing or node.random.random() > PASS_RATE:
            return
        try:
            log.compact(placed, keys_max=node.random.choice(KEYS_MAX))
        except PassPutOff:
            return
        except SuspectBytes:
            node.scrubbing.check(key)
            return
        node.cluster.marks.reached("round.applied")
        check_table(node.cluster, node.name, key, log, replica.high_watermark)


def check_table(cluster: Cluster, who: str, key: PartitionKey, log: Any, high_watermark: int) -> None:
    """I35: of what is committed the newest value of each key survives, and no deleted key returns. Not of a
    log that is still being copied or has rotten bytes, nor where an operator chose such a log."""
    ghost, rounds = cluster.oracle.ghosts[key], log.rounds
    end_offset = min(high_watermark, ghost.end_offset)
    if key in cluster.oracle.torn or end_offset < rounds.compacted_to or log.at_rest:
        return
    start_offset = log.log_start_offset
    unread = uncommitted(ghost, end_offset)
    held = _table(log.batches, start_offset, end_offset, unread)
    expected = _table(zip(ghost.headers, ghost.data, strict=True), start_offset, end_offset, unread)
    if held != expected:
        wrong = {k: (held.get(k), expected.get(k)) for k in held.keys() | expected.keys()}
        found = {k: pair for k, pair in wrong.items() if pair[0] != pair[1]}
        raise Violation("I35", f"{key} on {who} holds (what it should be second): {found}")


def uncommitted(ghost: Ghost, end_offset: int) -> set[int]:
    """Return where the batches begin that are of no transaction committed below an offset."""
    opened: defaultdict[int, list[int]] = defaultdict(list)
    found: set[int] = set()
    for header, data in zip(ghost.headers, ghost.data, strict=True):
        if not header.is_transactional or header.next_offset > end_offset:
            continue
        if not header.is_control:
            opened[header.producer_id].append(header.base_offset)
            continue
        marker, batches = read_marker(data, header), opened.pop(header.producer_id, ())
        if marker is not None and marker.outcome is Outcome.ABORT:
            found.update(batches)
    return found.union(*opened.values())


def _table(batches: Any, start_offset: int, end_offset: int, unread: set[int]) -> Table:
    """Return the newest value of each key in [start_offset, end_offset) that is not deleted. unread: see
    `uncommitted`."""
    table: Table = {}
    for header, data in batches:
        if header.is_control or header.next_offset > end_offset or header.base_offset in unread:
            continue
        for record in _records(data):
            if record.offset >= start_offset:
                _put(table, record)
    return table


@lru_cache(maxsize=CACHED_BATCHES_MAX)
def _records(data: bytes) -> tuple[Record, ...]:
    """The records of a batch. The ghost and each replica hold the same ones, and all are looked at after each
    pass."""
    return tuple(iter_records(data))


def _put(table: Table, record: Record) -> None:
    if record.value is None:
        table.pop(record.key, None)
    else:
        table[record.key] = bytes(record.value)


def check_equal(cluster: Cluster, key: PartitionKey, broker_ids: Sequence[int]) -> None:
    """I35 at the end: each replica applies what it has not applied yet, and then all hold the same bytes."""
    logs = {broker_id: cluster.brokers[broker_id].disk.logs[key] for broker_id in broker_ids}
    for broker_id, log in logs.items():
        for _ in range(LAST_PASSES_MAX):
            placed = log.rounds.due(log.log_end_offset)
            if placed is None:
                break
            log.compact(placed)
        check_table(cluster, f"broker {broker_id}", key, log, log.log_end_offset)
    start_offset = max(log.log_start_offset for log in logs.values())
    contents = {
        broker_id: [data for header, data in log.batches if header.base_offset >= start_offset]
        for broker_id, log in logs.items()
    }
    first = contents[broker_ids[0]]
    for broker_id, content in contents.items():
        if content != first and key not in cluster.oracle.torn:
            raise Violation("I35", f"{key} brokers {broker_ids[0]} and {broker_id} differ after all rounds")


def unlike(
    committed: Sequence[BatchHeader], index: int, held: Sequence[BatchHeader], *, compacted_to: int
) -> tuple[int, BatchHeader | None]:
    """Return how many of the committed batches the held ones come to, counted from `index`, and the first
    held one that is not what was committed there. Below `compacted_to` a batch may have lost records, or be
    gone."""
    for header in held:
        while (
            index < len(committed)
            and committed[index].base_offset < header.base_offset
            and committed[index].base_offset < compacted_to
        ):
            index += 1
        if index >= len(committed) or not _is_left_of(header, committed[index], compacted_to):
            return index, header
        index += 1
    return index, None


def _is_left_of(header: BatchHeader, whole: BatchHeader, compacted_to: int) -> bool:
    if header == whole:
        return True
    if whole.base_offset >= compacted_to or header.record_count >= whole.record_count:
        return False
    kept = whole._replace(
        batch_length=header.batch_length,
        crc=header.crc,
        attributes=header.attributes,
        max_timestamp=header.max_timestamp,
        record_count=header.record_count,
    )
    return header == kept
