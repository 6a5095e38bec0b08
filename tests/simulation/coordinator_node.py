"""One simulated coordinator: a session with the controllers, a network, and the shards that it takes part in.

It has no disk. Of the shards that the controller gives it runs those of `seats`; no client asks for others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from controller.core.records import partition_key
from coordinator.core.shard import ShardRuntime
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.session import LevelShards
from springtide.node.core.session import MemberSession
from springtide.node.sharding import GROUPS_TOPIC
from tests.kit.coordinator.counter import TICK, CounterMachine
from tests.simulation.clients import REQUEST_TIMEOUT_MS
from tests.simulation.controller_node import process_name
from tests.simulation.coordinator_link import CoordinatorLink
from tests.simulation.events import keyed_random
from tests.simulation.process import Process
from tests.simulation.shard_seat import ShardSeat

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.shards import Shards

#: Small, so that a tick of the counter's cells needs two.
BATCH_BYTES_MAX = 230
#: Partitions of each topic of coordinators: spread, and moved to be spread. Clients use the first; none
#: writes to the others.
SHARDS_SIMULATED = 2
TICK_MS_MAX = 1_000


class CoordinatorNode(Process):
    """seats: by the name of their topic, of its first shard."""

    def __init__(self, coordinator_id: int, cluster: Cluster, shards: Shards) -> None:
        super().__init__(process_name(coordinator_id), cluster.events, cluster.network)
        self.coordinator_id = coordinator_id
        self.cluster = cluster
        self.shards = shards
        self.random = keyed_random(cluster.seed, self.name)
        self.link = CoordinatorLink(self)
        self.seats = shards.seats_of(self)
        #: The partitions that it has heard of, in this life.
        self.states: dict[PartitionKey, PartitionState] = {}

    @property
    def session(self) -> MemberSession:
        return self.link.session

    @property
    def wants_shutdown(self) -> bool:
        return self.session.wants_shutdown

    @wants_shutdown.setter
    def wants_shutdown(self, is_wanted: bool) -> None:
        self.session.wants_shutdown = is_wanted

    @property
    def seat(self) -> ShardSeat:
        """Return that of groups."""
        return self.seats[GROUPS_TOPIC]

    @property
    def runtime(self) -> ShardRuntime | None:
        return self.seat.runtime

    @property
    def machine(self) -> CounterMachine:
        # No assertion: where releases are mixed, the class may be that of the other one.
        return cast(CounterMachine, self.seat.machine)

    @property
    def is_busy(self) -> bool:
        """Whether it has something to write, now or soon."""
        return any(seat.is_writing or seat.has_timer(TICK) for seat in self.seats.values())

    @property
    def is_level(self) -> bool:
        return self.seat.is_level

    @property
    def told_level(self) -> set[int]:
        return self.seat.told_level

    @told_level.setter
    def told_level(self, epochs: set[int]) -> None:
        self.seat.told_level = epochs

    # --- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.begin_life()
        self.states.clear()
        for seat in self.seats.values():
            seat.begin_life()
        self.events.note(f"{self.name} starts")
        self.link = CoordinatorLink(self)
        self.link.register()

    def listen(self) -> None:
        if not self.network.is_listening(self.name):
            self.network.listen(self.name, self._on_request)

    def crash(self) -> None:
        self.end_life()
        for seat in self.seats.values():
            seat.end()
        self.events.note(f"{self.name} is killed")
        self.cluster.on_process_down(self.name, self.coordinator_id, self.session.broker_epoch)

    def finish_shutdown(self) -> None:
        """It has leave to stop, and does so once it has given its shards away."""
        if not any(seat.is_owner for seat in self.seats.values()):
            self.cluster.marks.reached("coordinator.stopped")
            self.crash()

    def ask(
        self,
        target: str,
        request: Any,
        answered: Callable[[Any], None],
        *,
        timeout_ms: float = REQUEST_TIMEOUT_MS,
        connection: object = None,
    ) -> None:
        """`answered` hears the reply, or None, in this life only."""
        lost = partial(answered, None)
        self.call(target, request, answered, lost, timeout_ms=timeout_ms, connection=connection)

    # --- what it hears ----------------------------------------------------------------------------------

    def on_state(self, state: PartitionState) -> None:
        """The metadata stream brings a partition's state."""
        self.states[partition_key(state)] = state
        for topic, seat in self.seats.items():
            if partition_key(state) == (self.shards.topic_ids.get(topic), 0):
                seat.on_state(state)

    def tell_level(self) -> tuple[LevelShards, ...]:
        """Return what the next heartbeat says. The shards that nobody writes to have no standby that is not
        level."""
        told = []
        for topic, topic_id in self.shards.topic_ids.items():
            seat = self.seats.get(topic)
            if seat is not None and seat.is_level:
                seat.told_level.add(self.session.broker_epoch)
            level = tuple(n for n in range(SHARDS_SIMULATED) if n or seat is None or seat.is_level)
            told.append(LevelShards(topic_id=topic_id, partitions=level))
        return tuple(told)

    def _on_request(self, source: str, request: Any, answer: Callable[[Any], None]) -> None:
        self.run_in_life(self.life, partial(self.shards.take, self, request, answer))
