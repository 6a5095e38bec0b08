"""Faults of transactions: what is said about them comes late, twice, and behind the next one's begin; and a
process dies between two steps of an end.

Clients of version 1 are spared what Kafka's protocol can't bear there (KAFKA-17754): an EndTxn or an
AddPartitionsToTxn that arrives in the next transaction is taken for its own. Markers are not spared: shards
of groups and leaders of partitions know a late one under both versions.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from coordinator.core.groups.requests import EndPendingOffsets, OffsetsReply, PendingOffsetsEnded
from coordinator.core.transactions.requests import (
    AddToTransaction,
    EndTransaction,
    EndTransactionReply,
    InitProducer,
    PartitionsReply,
    VerifyPartitions,
)
from springtide.contract.partition_state import NO_LEADER
from springtide.wire.errors import ErrorCode
from tests.simulation.clients import ProduceCall
from tests.simulation.kinds_brokers import DOWN_MS, back_after, back_down_or_not, draw_ms
from tests.simulation.network import Message
from tests.simulation.schedule import Arguments, kind
from tests.simulation.transaction_calls import BUMPS_AT_END, MarkerCall, TxnCommitCall
from tests.simulation.transaction_clients import TIMEOUT_MS

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

LATE_MS = ((5, 200), (200, 1_200), (1_200, 2 * TIMEOUT_MS))
WINDOW_MS = ((100, 800), (1_000, 4_000))
TARGETS = ("sender", "receiver")

_OF_CLIENTS: dict[str, Callable[[Any], bool]] = {
    "end": lambda one: isinstance(one, EndTransaction) and one.version >= BUMPS_AT_END,
    "add": lambda one: isinstance(one, AddToTransaction) and one.version >= BUMPS_AT_END,
    "verify": lambda one: isinstance(one, VerifyPartitions),
    "commit": lambda one: isinstance(one, TxnCommitCall),
    "init": lambda one: isinstance(one, InitProducer),
    "produce": lambda one: isinstance(one, ProduceCall) and one.txn is not None,
    "marker": lambda one: isinstance(one, MarkerCall),
    "offsets marker": lambda one: isinstance(one, EndPendingOffsets),
}


def _is(content: type, *, is_reply: bool = False) -> Callable[[Message], bool]:
    return lambda message: message.is_reply is is_reply and isinstance(message.content, content)


def _is_written(message: Message) -> bool:
    """Return whether a leader tells a coordinator what became of a marker."""
    is_told = message.source.startswith("broker") and message.target.startswith("coordinator")
    return message.is_reply and is_told and isinstance(message.content, ErrorCode)


_OF_MOMENTS: dict[str, Callable[[Message], bool]] = {
    "decided": _is(EndTransactionReply, is_reply=True),
    "marker": _is(MarkerCall),
    "marker written": _is_written,
    "offsets marker": _is(EndPendingOffsets),
    "offsets marker written": _is(PendingOffsetsEnded, is_reply=True),
    "added": _is(PartitionsReply, is_reply=True),
    "offsets": _is(OffsetsReply, is_reply=True),
}


def _draw_late(cluster: Cluster, random: Random) -> Arguments | None:
    if not cluster.options.transactions:
        return None
    what = sorted(random.sample(sorted(_OF_CLIENTS), random.choice((1, 1, 2, 3))))
    return {
        "what": what,
        "times": random.choice((1, 2, 2)),
        "late_ms": draw_ms(random, LATE_MS),
        "for_ms": draw_ms(random, WINDOW_MS),
    }


@kind(_draw_late, weight=0, family="transactions")
def repeat_messages(cluster: Cluster, *, what: list[str], times: int, late_ms: int, for_ms: int) -> bool:
    """For a while messages of these kinds arrive late; with times 2 at once, and then once more."""
    network, events = cluster.network, cluster.events

    def intercept(message: Message, arrive: Callable[[], None]) -> bool:
        if message.is_reply or not any(_OF_CLIENTS[name](message.content) for name in what):
            return False
        if times > 1:
            events.after(0.5, arrive)
        events.after(late_ms, arrive)
        cluster.marks.reached("transaction.message.late")
        return True

    network.interceptors.append(intercept)
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=lambda: network.interceptors.remove(intercept))
    return True


def _draw_moment(cluster: Cluster, random: Random) -> Arguments | None:
    if not cluster.options.transactions:
        return None
    return {
        "moment": random.choice(sorted(_OF_MOMENTS)),
        "target": random.choice(TARGETS),
        "after_us": random.choice((0, 10, 300, 3_000)),
        "for_ms": draw_ms(random, DOWN_MS),
    }


@kind(_draw_moment, weight=0, family="transactions")
def kill_at_moment(cluster: Cluster, *, moment: str, target: str, after_us: int, for_ms: int) -> bool:
    """Kill a process when the next message of this kind sets out: who sends it, or who gets it."""
    network, events = cluster.network, cluster.events
    is_struck = False

    def strike(name: str) -> None:
        nodes = [*cluster.brokers.values(), *(() if cluster.shards is None else cluster.shards.nodes)]
        node = next((node for node in nodes if node.name == name and node.is_up), None)
        if node is None:
            return
        node.crash()
        cluster.marks.reached("transaction.killed.between.steps")
        if node in cluster.brokers.values():
            back_after(cluster, cluster.brokers[int(name.rpartition("-")[2])], for_ms)
        else:
            back_down_or_not(cluster, node, for_ms, nodes=())

    def intercept(message: Message, arrive: Callable[[], None]) -> bool:
        nonlocal is_struck
        if not is_struck and _OF_MOMENTS[moment](message):
            is_struck = True
            name = message.source if target == "sender" else message.target
            events.after(after_us / 1_000, lambda: strike(name))
        return False

    network.interceptors.append(intercept)
    cluster.ongoing.begin(nodes=(), for_ms=for_ms, end=lambda: network.interceptors.remove(intercept))
    return True


def _draw_deletion(cluster: Cluster, random: Random) -> Arguments | None:
    shards: Any = cluster.shards
    if not cluster.options.transactions or cluster.options.compacted or not shards.payments_keys:
        return None
    key = random.choice(shards.payments_keys)
    state, committed = cluster.truth(key), cluster.oracle.ghosts[key].batches
    if state is None or state.leader == NO_LEADER or not committed:
        return None
    before = random.choice((-1, committed[-1].base_offset, random.choice(committed).base_offset))
    return {"topic": key[0], "partition": key[1], "broker": state.leader, "before": before}


@kind(_draw_deletion, weight=0, family="transactions")
def delete_transactions(cluster: Cluster, *, topic: str, partition: int, broker: int, before: int) -> bool:
    """A client deletes what is committed, open transactions or not, or the beginning of it (I37)."""
    cluster.clients.delete((topic, partition), broker, before)
    return True
