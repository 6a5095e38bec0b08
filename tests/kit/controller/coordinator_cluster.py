"""core_cluster.py with coordinators that say what coordinators say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from controller.core.events import AdmitCoordinators, Heartbeat, NameWriter, RegisterMember, Tick
from controller.core.options import ControllerOptions
from controller.core.records import MemberKind
from controller.core.shards import SHARDS
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.groups import GroupNews
from springtide.contract.partition_state import PartitionKey, PartitionState, Shard, WriterId
from springtide.contract.session import (
    HeartbeatRequest,
    HeartbeatResponse,
    LevelShards,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from springtide.contract.transactions import TransactionNews
from springtide.contract.updates import NameWriterRequest, NameWriterResponse
from tests.kit.controller.core_cluster import Cluster

OFFSETS_ID = "offsets-000000000000id"
TRANSACTIONS_ID = "transactions-00000000x"


class CoordinatorCluster(Cluster):
    """Three brokers, and these coordinators, admitted and active; the topic of their shards is there."""

    def __init__(
        self, *coordinators: int, brokers: Sequence[int] = (1, 2, 3), options: ControllerOptions | None = None
    ) -> None:
        super().__init__(options, brokers=brokers)
        for coordinator_id in coordinators:
            self.join(coordinator_id)

    def join(self, *coordinator_ids: int) -> None:
        for coordinator_id in coordinator_ids:
            self.register_coordinator(coordinator_id)
        self.step(AdmitCoordinators(wall_ms=0, actor="ann", coordinator_ids=coordinator_ids))
        for coordinator_id in coordinator_ids:
            self.beat(coordinator_id)
        self.step(Tick(wall_ms=0, fresh_id=OFFSETS_ID))

    def register_coordinator(self, coordinator_id: int, incarnation: str = "a") -> RegisterResponse:
        request = RegisterRequest(
            broker_id=coordinator_id,
            incarnation_id=f"{coordinator_id}-{incarnation}",
            host=f"desk{coordinator_id}",
            port=9092,
            log_dir_ids=(),
            last_shutdown=ShutdownKind.FIRST_START,
            levels=self._told(coordinator_id),
        )
        return self.ask(
            RegisterMember(kind=MemberKind.COORDINATOR, wall_ms=0, request=request), RegisterResponse
        )

    def beat(
        self,
        coordinator_id: int,
        *,
        level: bool | Sequence[int] = False,
        topic_id: str = OFFSETS_ID,
        applied: int | None = None,
        wants_shutdown: bool = False,
        groups: GroupNews | None = None,
        transactions: TransactionNews | None = None,
    ) -> HeartbeatResponse:
        """Send a heartbeat of a coordinator. level: with the topic's shards of these numbers; True for all
        that it is the standby of. applied: up to which sequence, None for all."""
        coordinator = self.image.coordinators[coordinator_id]
        if isinstance(level, bool):
            states = [self.image.partitions[key] for key in sorted(self.image.shards) if key[0] == topic_id]
            level = [
                state.partition
                for state in states
                if level and state.shard is not None and state.shard.standby == coordinator_id
            ]
        request = HeartbeatRequest(
            broker_id=coordinator_id,
            broker_epoch=coordinator.coordinator_epoch,
            incarnation_id=coordinator.incarnation_id,
            applied_controller_epoch=ControllerEpoch(self.controller_epoch),
            applied_sequence=self.image.sequence if applied is None else applied,
            level=(LevelShards(topic_id=topic_id, partitions=tuple(level)),),
            wants_shutdown=wants_shutdown,
            groups=groups,
            transactions=transactions,
        )
        event = Heartbeat(wall_ms=0, request=request, received_ms=self.now_ms, kind=MemberKind.COORDINATOR)
        return self.ask(event, HeartbeatResponse)

    def beat_coordinators(self, *, level: bool = False) -> None:
        """All that are active, as often as it takes for shards to be where they belong."""
        for _ in range(3):
            for coordinator_id, coordinator in sorted(self.image.coordinators.items()):
                if coordinator.is_active:
                    self.beat(coordinator_id, level=level)

    def name_writer(
        self, coordinator_id: int, partition: int = 0, *, found: WriterId | None = None
    ) -> NameWriterResponse:
        request = NameWriterRequest(
            broker_id=coordinator_id,
            broker_epoch=self.image.coordinators[coordinator_id].coordinator_epoch,
            topic_id=OFFSETS_ID,
            partition=partition,
            found=found,
        )
        return self.ask(NameWriter(wall_ms=0, request=request), NameWriterResponse)

    def shard_state(self, partition: int = 0) -> PartitionState:
        return self.image.partitions[OFFSETS_ID, partition]

    @property
    def shards(self) -> dict[PartitionKey, Shard]:
        found = {}
        for number in range(SHARDS):
            state = self.image.partitions.get((OFFSETS_ID, number))
            if state is not None and state.shard is not None:
                found[OFFSETS_ID, number] = state.shard
        return found

    @property
    def owned(self) -> dict[int, int]:
        """Return how many shards each coordinator owns."""
        return dict(Counter(shard.owner for shard in self.shards.values()))

    @property
    def followed(self) -> dict[int, int]:
        return dict(Counter(shard.standby for shard in self.shards.values()))
