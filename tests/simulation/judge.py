"""The last acts of a run: a fresh consumer reads everything, every replica's log is opened, and the checker
judges the history.

It stands beside the oracle in cluster.py, which knows what the cluster believes; the checker knows only what
clients were told. What both overlook, no client can see either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataplane.core.fetch import ConsumerFetch
from dataplane.core.fetch_session import FetchPosition
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from tests.checker.check import STRICT, check
from tests.checker.options import CheckOptions
from tests.checker.verdict import Verdict as CheckerVerdict

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

READER = "final-reader"
FETCH_BYTES_MAX = 1 << 20


class Unreadable(Exception):
    """The final read got an error where everything was healed and settled."""


def final_read(cluster: Cluster) -> None:
    """A consumer that has seen nothing reads each partition from beginning to end, from whoever leads.

    It asks the leaders directly: the network is healed by now, and its delays would prove nothing. Raises
    Unreadable when a leader refuses. The shard's log has a judge of its own (shards.py).
    """
    for key in cluster.keys:
        if cluster.shards is not None and cluster.shards.judges(key):
            continue
        state = cluster.truth(key)
        replica = None if state is None else cluster.brokers[state.leader].replicas.get(key)
        if state is None or replica is None:
            raise Unreadable(f"{key} has no leader to read from")
        offset = replica.log.log_start_offset
        cluster.history.assigned(READER, key, from_offset=offset)
        is_read = False
        while not is_read:  # an answer without records tells where a log begins that was deleted to its end
            now_ns = cluster.events.now_ns
            fetch = ConsumerFetch(FetchPosition(offset, LeaderEpoch(-1), LeaderEpoch(-1)), FETCH_BYTES_MAX)
            now_ms = cluster.brokers[state.leader].now_ms
            result, _ = replica.role.on_consumer_fetch(fetch, now_ms=now_ms)
            if result.error != ErrorCode.NONE or result.records is None:
                raise Unreadable(f"{key} at offset {offset}: {result.error.name}")
            next_offset = cluster.history.polled(
                READER,
                key,
                from_offset=offset,
                parts=result.records.parts,
                invoked_ns=now_ns,
                high_watermark=result.high_watermark,
                log_start_offset=result.log_start_offset,
                final=True,
            )
            if next_offset == offset and offset < result.high_watermark:
                raise Unreadable(f"{key} gives nothing at offset {offset} of {result.high_watermark}")
            offset = next_offset
            is_read = offset >= result.high_watermark


def dump_replicas(cluster: Cluster) -> None:
    """The contents of every log on every disk, of replicas that run and of those that do not."""
    for broker in cluster.brokers.values():
        for key, log in sorted(broker.disk.logs.items()):
            if cluster.shards is not None and cluster.shards.judges(key):
                continue
            replica = broker.replicas.get(key)
            high_watermark = None if replica is None else replica.high_watermark
            cluster.history.dumped(broker.name, key, log, high_watermark=high_watermark)


def judge(cluster: Cluster) -> CheckerVerdict:
    """Ends the history with a final read and dumps, and has it checked. Raises Unreadable."""
    options = CheckOptions(retention=True) if cluster.oracle.deletable else STRICT
    cluster.history.close_sends()
    cluster.history.place_old_duplicates(cluster.oracle.place_of)
    final_read(cluster)
    dump_replicas(cluster)
    return check(cluster.history.history(), options)


def failure_of(verdict: CheckerVerdict) -> tuple[str, str] | None:
    """The first bad anomaly as rule and detail; None when the history is clean."""
    for anomaly in verdict.anomalies:
        if anomaly.severity == "bad":
            return anomaly.kind.value, anomaly.explanation
    return None
