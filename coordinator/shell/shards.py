"""The shards of one coordinator topic in a process: which it owns and which it follows, as the controller
says, and a host for each.

The partitions' states say who owns a shard and who stands by. A shard that closes while it is still this
process's begins anew, after a pause: what closed it may not be over.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import trio

from coordinator.core.machine import Machine
from coordinator.core.shard import ShardPhase
from coordinator.shell.shard_host import ShardCounters, ShardHost, ShardParts, WriterNamer
from coordinator.shell.timers import Spawn
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import NO_EPOCH, PartitionKey, PartitionState, WriterId
from springtide.contract.session import LevelShards
from springtide.contract.updates import NameWriterResponse
from springtide.node.clock import BrokerClock
from springtide.node.cluster_view import ClusterView
from springtide.node.net import Net
from springtide.wire.errors import ErrorCode

BEGIN_ANEW_MS = 100
ASKED_AT_ONCE_MAX = 16
"""Shards for which the controller is asked at once: a start opens all of them together."""


class Shards:
    """topic: the coordinator topic's name. coordinator_id, coordinator_epoch: as the controller knows this
    process. new_machine: makes an empty machine. name_writer: asks the controller. is_current: as
    ShardRuntime has it. spawn: starts a task of the process's. end_turn: sends the answers that are
    complete. on_stepped: called after steps of a shard."""

    def __init__(
        self,
        *,
        topic: str,
        coordinator_id: int,
        coordinator_epoch: Callable[[], BrokerEpoch],
        view: ClusterView,
        net: Net,
        clock: BrokerClock,
        rng: random.Random,
        new_machine: Callable[[], Machine],
        name_writer: WriterNamer,
        is_current: Callable[[int], bool],
        spawn: Spawn,
        end_turn: Callable[[], None],
        on_stepped: Callable[[ShardHost], None] | None = None,
    ) -> None:
        self.topic = topic
        self.counters = ShardCounters()
        self._coordinator_id = coordinator_id
        self._coordinator_epoch = coordinator_epoch
        self._name_writer = name_writer
        self._asking = trio.CapacityLimiter(ASKED_AT_ONCE_MAX)
        self._parts = ShardParts(
            view=view,
            net=net,
            clock=clock,
            rng=rng,
            spawn=spawn,
            client_id=f"coordinator-{coordinator_id}",
            topic=topic,
            given_writer=self._given_writer,
            new_machine=new_machine,
            name_writer=self._ask_controller,
            is_current=is_current,
            end_turn=end_turn,
            on_stepped=on_stepped,
            in_turn={},
            counters=self.counters,
        )
        self._topic_id = ""
        self._hosts: dict[int, ShardHost] = {}
        #: The last writer that came with each shard and was taken for an opening.
        self._taken: dict[PartitionKey, WriterId] = {}
        #: Shards that have closed a moment ago.
        self._resting: set[int] = set()
        self._is_stopped = False
        self._news: object = None

    # ShardDesk

    def submit(self, shard: int, make: Callable[[int], object], answered: Callable[[object], None]) -> None:
        """Have the shard answer make(token). answered: called once, on the loop, with the machine's message
        or an ErrorCode. The caller ends the turn."""
        host = self._hosts.get(shard)
        if host is not None:
            host.submit(make, answered)
        elif self._owns(self._parts.view.state(self._topic_id, shard)):
            answered(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            answered(ErrorCode.NOT_COORDINATOR)

    def send_written(self) -> None:
        """Send what the turn's requests have written, in one batch a shard."""
        in_turn = self._parts.in_turn
        while in_turn:
            in_turn.popitem()[0].send_written()

    def owned(self) -> Sequence[int]:
        states = self._parts.view.partitions_of(self._topic_id)
        return sorted(partition for partition, state in states.items() if self._owns(state))

    def hosts(self) -> Sequence[ShardHost]:
        """Return the hosts of the shards that are owned or followed, for metrics."""
        return tuple(self._hosts.values())

    def served(self) -> dict[int, Machine]:
        """Return the machines of the shards that are served now, by number."""
        hosts = ((shard, self._hosts[shard].runtime) for shard in sorted(self._hosts))
        return {shard: runtime.machine for shard, runtime in hosts if runtime.phase is ShardPhase.SERVING}

    # The session

    def tell(self, news: object) -> None:
        """Tell each machine what it has to know of the cluster (MachineTold), those of later shards too. The
        caller ends the turn."""
        self._news = news
        for host in self.hosts():
            host.tell(news)

    def on_view_changed(self) -> None:
        """Take in a batch that was applied to the view: owners, standbys, leaders."""
        if self._is_stopped:
            return
        topic = self._parts.view.topic_by_name(self.topic)
        topic_id = "" if topic is None or topic.deleting else topic.topic_id
        if topic_id != self._topic_id:
            self._stop_hosts()
            self._topic_id = topic_id
        for partition in self._parts.view.partitions_of(topic_id):
            self._look_at(partition)
        self._parts.end_turn()

    def notes(self) -> Iterator[str]:
        """Yield why shards are not served that are of another release."""
        return (host.unread for host in self._hosts.values() if host.unread)

    def level(self) -> tuple[LevelShards, ...]:
        """Return the shards that this process could take over now, for its heartbeats."""
        partitions = tuple(sorted(partition for partition, host in self._hosts.items() if host.is_level))
        return (LevelShards(topic_id=self._topic_id, partitions=partitions),) if partitions else ()

    def stop(self) -> None:
        """End all shards. Those that wait are answered; nothing is asked of a broker any more."""
        self._is_stopped = True
        self._topic_id = ""
        self._stop_hosts()
        self._parts.end_turn()

    # Hosts

    def _look_at(self, partition: int) -> None:
        """Begin, go on with, or end one shard, as its state says."""
        state = self._parts.view.state(self._topic_id, partition)
        if state is None or state.shard is None or self._is_stopped:
            return
        is_owner = self._owns(state)
        is_wanted = is_owner or state.shard.standby == self._coordinator_id
        host = self._hosts.get(partition)
        if host is not None:
            host.on_state(state, is_owner=is_owner)
            if partition in self._hosts and not host.is_of_use(state.shard.writer, is_wanted=is_wanted):
                del self._hosts[partition]
                host.stop()
        if is_wanted and partition not in self._hosts and partition not in self._resting:
            host = ShardHost((self._topic_id, partition), self._parts, self._on_closed)
            self._hosts[partition] = host
            if self._news is not None:
                host.tell(self._news)
            host.on_state(state, is_owner=is_owner)

    def _on_closed(self, host: ShardHost) -> None:
        partition = host.key[1]
        del self._hosts[partition]
        self._resting.add(partition)
        self._parts.spawn(partial(self._begin_anew, partition))

    async def _begin_anew(self, partition: int) -> None:
        await self._parts.clock.sleep_ms(BEGIN_ANEW_MS)
        self._resting.discard(partition)
        self._look_at(partition)

    def _stop_hosts(self) -> None:
        hosts, self._hosts = self._hosts, {}
        for host in hosts.values():
            host.stop()

    def _owns(self, state: PartitionState | None) -> bool:
        shard = None if state is None else state.shard
        return shard is not None and shard.owner == self._coordinator_id

    def _given_writer(self, state: PartitionState) -> WriterId | None:
        """Return the writer that this process was given with the shard, the first time only: a writer opens
        once."""
        shard, key = state.shard, (state.topic_id, state.partition)
        if shard is None or shard.opener_epoch == NO_EPOCH:
            return None
        if shard.opener_epoch != self._coordinator_epoch() or self._taken.get(key) == shard.writer:
            return None
        self._taken[key] = shard.writer
        return shard.writer

    async def _ask_controller(
        self, topic_id: str, partition: int, found: WriterId | None
    ) -> NameWriterResponse:
        async with self._asking:
            return await self._name_writer(topic_id, partition, found)
