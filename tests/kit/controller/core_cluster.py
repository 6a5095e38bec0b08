"""A controller's machine with a clock and brokers that say what brokers say. No shell, no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from controller.core.effects import Effect
from controller.core.events import (
    AdmitBrokers,
    AlterReassignments,
    BrokerApplied,
    BrokerProvenDead,
    CreateTopic,
    DeleteTopic,
    Event,
    Heartbeat,
    PartitionResult,
    ReassignmentsAltered,
    ReassignmentTarget,
    RegisterMember,
    Report,
    Tick,
    TopicCreated,
)
from controller.core.image import ClusterImage
from controller.core.machine import ClusterMachine, Step
from controller.core.names import name_of
from controller.core.options import ControllerOptions
from controller.core.records import (
    AclsRecord,
    BrokerRegistration,
    Cause,
    Change,
    ClusterRecord,
    LevelRecord,
    MemberRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotasRecord,
    Record,
    TopicRecord,
    UpgradeRecord,
    UserRecord,
)
from controller.core.witnesses import TermStart
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import (
    CreatedLogs,
    IsrMember,
    IsrProposal,
    IsrProposalResult,
    LagReport,
    LagReportResponse,
    PartitionLag,
    ReplicaLogEnd,
)
from springtide.contract.partition_state import LeaderRecovery, PartitionState
from springtide.contract.session import (
    BrokerStatus,
    ClockLeap,
    DiskSpace,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from springtide.contract.updates import ApplyFailure
from springtide.levels import NEWEST, SUPPORTED, Level, LevelRange
from tests.kit.controller.images import replay_all

CLUSTER_ID = "cluster-id-of-22-chars"
Value = TypeVar("Value")


def topic_id(number: int = 0) -> str:
    return f"topic-{number:016d}"


def founding() -> ClusterRecord:
    return ClusterRecord(cluster_id=CLUSTER_ID, change=Change(cause=Cause.CLUSTER_CREATED, at_ms=0))


class Cluster:
    """`now_ms` moves only when told. Every record ever written is kept, to rebuild an image from."""

    def __init__(
        self, options: ControllerOptions | None = None, *, brokers: Sequence[int] = (1, 2, 3)
    ) -> None:
        self.options = options or ControllerOptions()
        self.now_ms = 1_000
        self.records: list[Record] = [founding()]
        self.effects: list[Effect] = []
        self.controller_epoch = 1
        #: What each broker tells, from its next request on; none: it is of release 0.1.
        self.levels: dict[int, LevelRange] = {}
        image = ClusterImage()
        replay_all(image, self.records)
        self.machine = self._machine(image)
        self.last = Step((), (), None)
        for broker_id in brokers:
            self.register(broker_id)
        if brokers:
            self.step(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=tuple(brokers)))
        for broker_id in brokers:
            self.heartbeat(broker_id)

    def _machine(self, image: ClusterImage, *, terms: tuple[TermStart, ...] = ()) -> ClusterMachine:
        return ClusterMachine(
            image,
            controller_epoch=ControllerEpoch(self.controller_epoch),
            options=self.options,
            now_ms=self.now_ms,
            terms=terms,
        )

    def finalize(self, level: Level = NEWEST) -> None:
        """The cluster is at this level from now on; it begins at that of release 0.1."""
        record = LevelRecord(level=level, change=Change(cause=Cause.CLUSTER_CREATED, at_ms=0))
        self.image.replay(record)
        self.records.append(record)

    def _told(self, broker_id: int) -> LevelRange:
        return self.levels.get(broker_id, SUPPORTED if self.image.level else LevelRange())

    @property
    def image(self) -> ClusterImage:
        return self.machine.image

    def step(self, event: Event) -> Step:
        self.last = self.machine.step(event, self.now_ms)
        self.records += self.last.records
        self.effects += self.last.effects
        return self.last

    def ask(self, event: Event, kind: type[Value]) -> Value:
        reply = self.step(event).reply
        assert isinstance(reply, kind), reply
        return reply

    def fail_over(
        self, records: Sequence[Record] | None = None, *, terms: tuple[TermStart, ...] = ()
    ) -> Step:
        """A new controller, from the rows that the old one left (all of them, or those given)."""
        self.controller_epoch += 1
        image = image_of_rows(self.records if records is None else records)
        self.machine = self._machine(image, terms=terms)
        return self.step(Tick(wall_ms=0))

    # --- brokers ------------------------------------------------------------------------------------------

    def broker(self, broker_id: int) -> BrokerRegistration:
        return self.image.brokers[broker_id]

    def request(
        self,
        broker_id: int,
        incarnation: str = "a",
        *,
        last_shutdown: ShutdownKind = ShutdownKind.FIRST_START,
        previous_broker_epoch: int | None = None,
        dirs: tuple[str, ...] | None = None,
        host: str | None = None,
        unanswered: tuple[str, ...] = (),
        worker_of: int | None = None,
    ) -> RegisterRequest:
        if previous_broker_epoch is None:
            known = self.image.brokers.get(broker_id)
            previous_broker_epoch = -1 if known is None else known.broker_epoch
        return RegisterRequest(
            broker_id=broker_id,
            incarnation_id=f"{broker_id}-{incarnation}",
            host=host or f"store{broker_id if worker_of is None else worker_of}",
            port=9092,
            log_dir_ids=dirs or (f"dir-{broker_id}",),
            last_shutdown=last_shutdown,
            previous_broker_epoch=BrokerEpoch(previous_broker_epoch),
            unanswered_incarnation_ids=unanswered,
            worker_of=worker_of,
            levels=self._told(broker_id),
        )

    def register(self, broker_id: int, incarnation: str = "a", **kwargs: object) -> RegisterResponse:
        request = self.request(broker_id, incarnation, **kwargs)  # type: ignore[arg-type]
        return self.ask(RegisterMember(wall_ms=0, request=request), RegisterResponse)

    def heartbeat(
        self,
        broker_id: int,
        *,
        applied: int | None = None,
        wants_shutdown: bool = False,
        offline: tuple[str, ...] = (),
        failure: str = "",
        clock_leap: ClockLeap | None = None,
        certificate_ends_ms: int = -1,
        disk: DiskSpace | None = None,
    ) -> HeartbeatResponse:
        broker = self.broker(broker_id)
        request = HeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=broker.broker_epoch,
            incarnation_id=broker.incarnation_id,
            applied_controller_epoch=ControllerEpoch(self.controller_epoch),
            applied_sequence=self.image.sequence if applied is None else applied,
            offline_log_dir_ids=offline,
            log_dir_failure=failure,
            wants_shutdown=wants_shutdown,
            clock_leap=clock_leap,
            certificate_ends_ms=certificate_ends_ms,
            disk=disk,
            levels=self._told(broker_id),
        )
        return self.ask(Heartbeat(wall_ms=0, request=request, received_ms=self.now_ms), HeartbeatResponse)

    def beat_all(self) -> None:
        for broker_id in sorted(self.image.brokers):
            if self.broker(broker_id).status is not BrokerStatus.FENCED:
                self.heartbeat(broker_id)

    def applied(self, broker_id: int, *failures: ApplyFailure, sequence: int | None = None) -> Step:
        return self.step(
            BrokerApplied(
                wall_ms=0,
                broker_id=broker_id,
                broker_epoch=self.broker(broker_id).broker_epoch,
                controller_epoch=ControllerEpoch(self.controller_epoch),
                sequence=self.image.sequence if sequence is None else sequence,
                failures=failures,
            )
        )

    def created(self, broker_id: int, *partitions: int, number: int = 0, epoch: int | None = None) -> Step:
        """The broker says that these partitions' logs are on its disk; without any, all of the topic's."""
        made = partitions or tuple(state.partition for state in self.image.partitions_of(topic_id(number)))
        broker_epoch = self.broker(broker_id).broker_epoch if epoch is None else epoch
        created = (CreatedLogs(topic_id=topic_id(number), partitions=made),)
        report = LagReport(broker_id=broker_id, broker_epoch=BrokerEpoch(broker_epoch), created=created)
        return self.step(Report(wall_ms=0, request=report))

    def kill(self, *broker_ids: int) -> Step:
        for broker_id in broker_ids:
            epoch = self.broker(broker_id).broker_epoch
            self.step(BrokerProvenDead(wall_ms=0, broker_id=broker_id, broker_epoch=epoch))
        return self.last

    def restart(
        self, broker_id: int, incarnation: str = "b", last_shutdown: ShutdownKind = ShutdownKind.PROCESS_CRASH
    ) -> None:
        """A dead broker comes back and applies all it must."""
        assert self.register(broker_id, incarnation, last_shutdown=last_shutdown).error == "none"
        self.heartbeat(broker_id)

    def pass_ms(self, ms: int) -> Step:
        self.now_ms += ms
        return self.step(Tick(wall_ms=0))

    # --- topics -------------------------------------------------------------------------------------------

    def create(
        self, *replicas: tuple[int, ...], number: int = 0, configs: dict[str, str] | None = None
    ) -> TopicCreated:
        event = CreateTopic(
            wall_ms=0,
            actor="ann",
            topic_id=topic_id(number),
            topic=f"orders-{number}",
            assignments=replicas,
            configs=configs or {},
        )
        return self.ask(event, TopicCreated)

    def create_each(self, *replicas: tuple[int, ...]) -> None:
        """One topic of one partition for each: a topic's partitions all have one replication factor."""
        for number, assigned in enumerate(replicas):
            self.create(assigned, number=number)

    def delete(self, number: int = 0) -> Step:
        return self.step(DeleteTopic(wall_ms=0, actor="ann", topic_id=topic_id(number)))

    def reassign(
        self, *replicas: int, partition: int = 0, number: int = 0, dry_run: bool = False
    ) -> PartitionResult:
        """Moves one partition."""
        return self._alter(replicas, partition, number, dry_run)

    def cancel(self, partition: int = 0, number: int = 0, *, dry_run: bool = False) -> PartitionResult:
        return self._alter(None, partition, number, dry_run)

    def _alter(
        self, replicas: tuple[int, ...] | None, partition: int, number: int, dry_run: bool
    ) -> PartitionResult:
        target = ReassignmentTarget(topic_id=topic_id(number), partition=partition, replicas=replicas)
        event = AlterReassignments(wall_ms=0, actor="ann", targets=(target,), dry_run=dry_run)
        (result,) = self.ask(event, ReassignmentsAltered).results
        return result

    def partition(self, partition: int = 0, number: int = 0) -> PartitionState:
        return self.image.partitions[topic_id(number), partition]

    def proposal(
        self,
        *isr: int,
        base: PartitionState | None = None,
        recovery: LeaderRecovery | None = None,
        epochs: dict[int, int] | None = None,
    ) -> IsrProposal:
        state = base or self.partition()
        return IsrProposal(
            topic_id=state.topic_id,
            partition=state.partition,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            proposal_id=1,
            isr=tuple(
                IsrMember(
                    broker_id=b, broker_epoch=BrokerEpoch((epochs or {}).get(b, self.broker(b).broker_epoch))
                )
                for b in isr
            ),
            recovery=state.recovery if recovery is None else recovery,
        )

    def propose(
        self, *isr: int, sender: int | None = None, base: PartitionState | None = None, **kwargs: object
    ) -> IsrProposalResult:
        state = base or self.partition()
        return self.send(
            self.proposal(*isr, base=state, **kwargs),  # type: ignore[arg-type]
            sender=state.leader if sender is None else sender,
        )

    def send(self, proposal: IsrProposal, *, sender: int) -> IsrProposalResult:
        report = LagReport(
            broker_id=sender, broker_epoch=self.broker(sender).broker_epoch, proposals=(proposal,)
        )
        response = self.ask(Report(wall_ms=0, request=report), LagReportResponse)
        assert response.error is ControllerError.NONE
        (result,) = response.results
        return result


def image_of_rows(records: Sequence[Record]) -> ClusterImage:
    """Return the image that a new controller reads: from the last row of each entity, not the history."""
    history = ClusterImage()
    replay_all(history, records)
    rows: dict[object, Record] = {}
    for record in records:
        match record:
            case PartitionRecord():
                rows["partition", record.state.topic_id, record.state.partition] = record
            case TopicRecord():
                rows["topic", record.state.topic_id] = record
            case MemberRecord(registration=member):
                rows[member.kind, member.member_id] = record
            case ClusterRecord():
                rows["cluster"] = record
            case ProducerIdsRecord() | LevelRecord() | UpgradeRecord():
                rows[type(record)] = record
            case AclsRecord() | UserRecord() | QuotasRecord():
                rows["security", type(record), name_of(record)] = record
            case _:
                pass
    image = ClusterImage()
    for key in sorted(rows, key=str):
        row = rows[key]
        match row:
            case PartitionRecord() if (row.state.topic_id, row.state.partition) not in history.partitions:
                continue
            case TopicRecord() if row.state.topic_id not in history.topics:
                continue
            case MemberRecord(registration=member) if history.member(member.member_id) is None:
                continue
            case _:
                image.replay(row)
    return image


def seats(state: PartitionState) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    return state.leader, state.isr, state.elr


def changed(state: PartitionState, **fields: object) -> PartitionState:
    return msgspec.structs.replace(state, **fields)


def log_end(
    end: int,
    *epochs: tuple[int, int],
    leader_epoch: int = 0,
    start: int = 0,
    high_watermark: int = 0,
    seal_chain_epoch: int = -1,
) -> ReplicaLogEnd:
    return ReplicaLogEnd(
        topic_id=topic_id(),
        partition=0,
        leader_epoch=LeaderEpoch(leader_epoch),
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=high_watermark,
        epochs=epochs,
        seal_chain_epoch=BrokerEpoch(seal_chain_epoch),
    )


def report(cluster: Cluster, broker_id: int, **parts: object) -> None:
    request = LagReport(
        broker_id=broker_id,
        broker_epoch=cluster.broker(broker_id).broker_epoch,
        **parts,  # type: ignore[arg-type]
    )
    cluster.ask(Report(wall_ms=0, request=request), LagReportResponse)


def tell(cluster: Cluster, broker_id: int, end: int, *epochs: tuple[int, int], **fields: int) -> None:
    """The broker tells under the partition's present leader epoch, unless another is given."""
    fields.setdefault("leader_epoch", cluster.partition().leader_epoch)
    report(cluster, broker_id, log_ends=(log_end(end, *epochs, **fields),))


def hear(cluster: Cluster, high_watermark: int) -> None:
    """The leader reports that it committed up to there."""
    state = cluster.partition()
    lag = PartitionLag(
        topic_id=state.topic_id,
        partition=0,
        leader_epoch=state.leader_epoch,
        log_start_offset=0,
        log_end_offset=high_watermark,
        high_watermark=high_watermark,
        size_bytes=0,
    )
    report(cluster, state.leader, lags=(lag,))


def way_out(cluster: Cluster) -> str | None:
    """Return what a person is told to do for the first partition."""
    key = (topic_id(), 0)
    return cluster.machine.way_out(key, cluster.machine.loss_preview(key))
