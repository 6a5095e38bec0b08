"""The sending of transaction markers: each partition that a transaction wrote to is told how it ended.

    machine: the end is decided --order--> waiting for its leader --WriteTxnMarkers--> written --> machine
                                               ^                        |
                                               +-------- rests <--------+  not written, or no answer

What is decided stays so: a marker is sent until its partition has it or the topic is gone for good. Leaders
take a marker twice; by the number of its request, and the leadership that it was sent to, they know one that
comes behind the next transaction's begin. Those of one leader leave together; a marker of a partition of
`__consumer_offsets` goes to the coordinator of the shard, which ends the transaction's offsets there.

A partition refuses a marker of an older opening of the shard (TRANSACTION_COORDINATOR_FENCED): the shard is
elsewhere, or will be opened again. Markers of a shard that closed are forgotten: whoever opens it next sends
them. A partition that knows a later epoch of the producer (INVALID_PRODUCER_EPOCH) has nothing of this
transaction open, so its marker counts as written.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from prometheus_client.metrics_core import Metric

from coordinator.core.transaction_records import TransactionPartition
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.core.transactions.markers import MarkerOrder
from coordinator.core.transactions.requests import MarkersWritten
from coordinator.shell.shard_host import ShardHost
from coordinator.shell.timers import ShardTimers, Spawn
from springtide.contract.epochs import NO_LEADER_EPOCH
from springtide.contract.partition_state import coordinator_epoch
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView
from springtide.node.peer_links import PeerBatches, PeerLinks
from springtide.node.sharding import GROUPS_TOPIC
from springtide.node.status import counter, gauge
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersWritableTxnMarker,
    WriteTxnMarkersWritableTxnMarkerTopic,
)

_log = logging.getLogger(__name__)

VERSION: Final = 2
ANSWER_MS_MAX: Final = 10_000
"""A leader waits for its followers meanwhile."""
REQUESTS_MAX: Final = 8
"""Under way to one leader: a partition that waits for its followers holds up one of them."""
MARKERS_PER_REQUEST_MAX: Final = 500
REST_MS: Final = (20, 2_000)
"""The pause before a marker is sent again, and what it grows to. A new leader ends it."""
ABSENT_MS_MAX: Final = 10_000
"""After so long a topic that this process never knew counts as gone: longer than a lease, within which a
process that has one has heard of everything."""

_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})
_EXPECTED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors that pass; others are logged."""


class _Target(NamedTuple):
    """A process in a leadership; a coordinator has none."""

    broker_id: int
    broker_epoch: int
    leader_epoch: int


@dataclass(slots=True, eq=False)
class _Due:
    """A marker of one partition that is due. topic_id: "" if this process never knew the topic. target: to
    whom it was last sent; None: there was nobody."""

    host: ShardHost
    order: MarkerOrder
    coordinator_epoch: int
    place: TransactionPartition
    topic_id: str
    since_ms: int
    target: _Target | None = None
    tries: int = 0


@dataclass(slots=True, eq=False)
class _Report:
    """Partitions with their markers, of which the machine is to be told."""

    host: ShardHost
    order: MarkerOrder
    places: tuple[TransactionPartition, ...]


class MarkerSender:
    """is_current: whether all is known here that happened before the last lease, as Lease has it."""

    def __init__(
        self,
        *,
        view: ClusterView,
        links: PeerLinks,
        clock: Clock,
        rng: random.Random,
        spawn: Spawn,
        is_current: Callable[[int], bool],
    ) -> None:
        self._view = view
        self._links = links
        self._clock = clock
        self._rng = rng
        self._is_current = is_current
        # A partition that waits for its followers holds up others that are tried again, and none that is new.
        self._fresh, self._again = (
            PeerBatches[_Due](
                self._carry, spawn=spawn, requests_max=REQUESTS_MAX, items_max=MARKERS_PER_REQUEST_MAX
            )
            for _ in range(2)
        )
        self._timers = ShardTimers(clock=clock, spawn=spawn, fire=self._on_rested)
        self._resting: dict[_Due, None] = {}
        self._due = 0
        #: How many requests were sent: who takes a marker tells one that is late from the next one's by it.
        self._attempts = 0
        self._written = 0
        self._failed = 0
        self._passed_over = 0

    # What the process brings

    def take(self, host: ShardHost) -> None:
        """Take the orders that the last step of a shard of transactions has left."""
        runtime = host.runtime
        machine, writer = runtime.machine, runtime.writer
        if not (host.is_serving and isinstance(machine, TransactionMachine) and machine.markers.has_new):
            return
        assert writer is not None
        epoch = coordinator_epoch(writer.writer)
        now_ms = self._clock.mono_ms()
        for order in machine.markers.take_new():
            for place in order.partitions:
                topic = self._view.topic_by_name(place.topic)
                topic_id = "" if topic is None else topic.topic_id
                self._due += 1
                self._place(_Due(host, order, epoch, place, topic_id, now_ms))

    def on_view_changed(self) -> None:
        """Try those again whose partitions have other leaders now, or are gone."""
        for due in list(self._resting):
            is_gone = self._is_gone(due)  # or the topic is known from now on
            target = self._target_of(due)
            if is_gone or target not in (None, due.target):
                self._timers.hasten(due)

    # Markers

    def _place(self, due: _Due) -> None:
        if not due.host.is_serving:
            self._due -= 1
        elif self._is_gone(due):
            self._passed_over += 1
            self._due -= 1
            _log.info("marker_not_needed topic=%s partition=%d cause=deleted", *due.place)
            self._report(_Report(due.host, due.order, (due.place,)))
        elif (target := self._target_of(due)) is None:
            self._rest(due)
        else:
            due.target = target
            (self._again if due.tries else self._fresh).put(target.broker_id, due)

    def _is_gone(self, due: _Due) -> bool:
        """Return whether the topic that the transaction wrote to is gone for good. One that was never known
        here may be younger than what is known."""
        topic = self._view.topic_by_name(due.place.topic)
        if topic is not None and not due.topic_id:
            due.topic_id = topic.topic_id
        if topic is not None and not topic.deleting:
            return topic.topic_id != due.topic_id
        now_ms = self._clock.mono_ms()
        return bool(due.topic_id) or (now_ms - due.since_ms > ABSENT_MS_MAX and self._is_current(now_ms))

    def _target_of(self, due: _Due) -> _Target | None:
        topic, partition = due.place
        if topic == GROUPS_TOPIC:
            owner = self._view.shard_owner(topic, partition)
            return None if owner is None else _Target(owner.broker_id, owner.broker_epoch, NO_LEADER_EPOCH)
        state = self._view.state(due.topic_id, partition)
        leader = None if state is None else self._view.brokers.get(state.leader)
        if state is None or leader is None or not leader.active:
            return None
        return _Target(leader.broker_id, leader.broker_epoch, state.leader_epoch)

    def _rest(self, due: _Due) -> None:
        due.tries += 1
        pause_ms = min(REST_MS[0] * 2 ** min(due.tries, 10), REST_MS[1]) * self._rng.uniform(0.5, 1.0)
        self._resting[due] = None
        self._timers.set(due, self._clock.mono_ms() + int(pause_ms))

    def _on_rested(self, what: object) -> None:
        if isinstance(what, _Due):
            del self._resting[what]
            self._place(what)
        elif isinstance(what, _Report):
            self._report(what)

    async def _carry(self, peer_id: int, batch: Sequence[_Due]) -> None:
        served = [due for due in batch if due.host.is_serving]
        self._due -= len(batch) - len(served)
        if not served:
            return
        peer = self._view.brokers.get(peer_id) or self._view.coordinators.get(peer_id)
        answer = None
        if peer is not None:
            self._attempts += 1
            message = _request(served, self._attempts)
            answer = await self._links.ask(
                peer, message, WriteTxnMarkersResponse, version=VERSION, timeout_ms=ANSWER_MS_MAX
            )
        self._take_in(served, {} if answer is None else _errors_of(answer))

    def _take_in(self, sent: Sequence[_Due], errors: dict[tuple[int, str, int], ErrorCode]) -> None:
        written: dict[tuple[ShardHost, str], list[_Due]] = {}
        for due in sent:
            error = errors.get((due.order.producer_id, *due.place), ErrorCode.NETWORK_EXCEPTION)
            if error in _WRITTEN:
                self._due -= 1
                self._written += 1
                written.setdefault((due.host, due.order.transactional_id), []).append(due)
            else:
                self._failed += 1
                self._rest(due)
            if error not in _EXPECTED and error is not ErrorCode.NONE:
                told = (error.name, *due.place, due.order.producer_id, due.order.producer_epoch)
                _log.warning(
                    "marker_refused error=%s topic=%s partition=%d producer_id=%d producer_epoch=%d", *told
                )
        for of_order in written.values():
            first = of_order[0]
            self._report(_Report(first.host, first.order, tuple(due.place for due in of_order)))

    # The machine

    def _report(self, report: _Report) -> None:
        order = report.order

        def answered(reply: object) -> None:
            if isinstance(reply, ErrorCode) and report.host.is_serving:
                self._timers.set(report, self._clock.mono_ms() + REST_MS[1] // 4)

        report.host.submit(
            lambda token: MarkersWritten(
                token=token,
                transactional_id=order.transactional_id,
                producer_id=order.producer_id,
                producer_epoch=order.producer_epoch,
                partitions=report.places,
            ),
            answered,
        )

    # Metrics

    def collect(self) -> Iterator[Metric]:
        prefix = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
        homeless = sum(self._target_of(due) is None for due in self._resting)
        yield gauge(
            f"{prefix}_unknowndestinationqueuesize", "Markers whose partition has no leader", homeless
        )
        yield gauge(
            f"{prefix}_logappendretryqueuesize", "Markers that are to be sent again", len(self._resting)
        )
        yield gauge("springtide_transaction_markers_due", "Markers that are not written yet", self._due)
        yield counter("springtide_transaction_markers_written", "Markers that leaders have", self._written)
        yield counter("springtide_transaction_markers_failed", "Markers not written when sent", self._failed)
        yield counter(
            "springtide_transaction_markers_passed_over",
            "Markers that were not needed because their topic was deleted",
            self._passed_over,
        )


def _request(sent: Sequence[_Due], attempt: int) -> WriteTxnMarkersRequest:
    markers: dict[int, dict[str, list[tuple[int, int]]]] = {}
    firsts: dict[int, _Due] = {}
    for due in sent:
        producer_id = due.order.producer_id
        firsts.setdefault(producer_id, due)
        assert due.target is not None
        place = (due.place.partition, due.target.leader_epoch)
        markers.setdefault(producer_id, {}).setdefault(due.place.topic, []).append(place)
    return WriteTxnMarkersRequest(
        markers=tuple(
            WriteTxnMarkersWritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=firsts[producer_id].order.producer_epoch,
                transaction_result=firsts[producer_id].order.is_commit,
                topics=tuple(
                    WriteTxnMarkersWritableTxnMarkerTopic(
                        name=name,
                        partition_indexes=tuple(partition for partition, _ in places),
                        leader_epochs=tuple(epoch for _, epoch in places),
                    )
                    for name, places in topics.items()
                ),
                coordinator_epoch=firsts[producer_id].coordinator_epoch,
                transaction_version=firsts[producer_id].order.version,
                attempt=attempt,
            )
            for producer_id, topics in markers.items()
        )
    )


def _errors_of(answer: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], ErrorCode]:
    return {
        (marker.producer_id, topic.name, partition.partition_index): partition.error_code
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
