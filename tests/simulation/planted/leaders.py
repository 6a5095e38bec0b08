"""Bugs of a leader: what it counts as committed, whom it waits for, what it tells producers."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from controller.core import isr, machine
from dataplane.core import leader
from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import AskedPartition, FetchSession
from dataplane.core.isr import FollowerProgress, InSyncSet
from dataplane.core.leader import Leader
from dataplane.core.log_port import LogPort
from dataplane.core.newcomers import Newcomers
from dataplane.core.producer_state import Duplicate, ProducerStates
from dataplane.core.purgatory import Purgatory
from dataplane.core.replica import Replica
from dataplane.core.role import ReplicaRole, out_of_range
from dataplane.core.watermarks import StoredLogStart
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrProposalResult
from springtide.contract.partition_state import PartitionState
from springtide.node.lease import NEVER_MS
from springtide.wire import produced_records
from springtide.wire.errors import ErrorCode
from springtide.wire.produced_records import CheckedBatch
from springtide.wire.record_batch import BatchHeader
from tests.simulation.planted.plant import Patches, plant


@plant(breaks="I4", seen="acks=all answered after the local append", scenario="S6")
def ack_before_replication() -> Patches:
    original = Leader.append

    def append(self: Leader, *args: Any, **kwargs: Any) -> Any:
        kwargs["acks"] = 1 if kwargs["acks"] == -1 else kwargs["acks"]
        return original(self, *args, **kwargs)

    return [(Leader, "append", append)]


@plant(breaks="I3", seen="high watermark taken from the leader's log end", scenario="S5")
def high_watermark_is_log_end() -> Patches:
    return [(leader, "committable_offset", lambda log_end_offset, waited_for: log_end_offset)]


@plant(breaks="I3", seen="KAFKA-15583: high watermark moves under min.insync.replicas", scenario="S31")
def commit_under_min() -> Patches:
    return [(InSyncSet, "is_under_min", property(lambda self: False))]


@plant(
    breaks="I3",
    seen="Kafka: the same leader re-elected keeps its followers' offsets (S7)",
    seeds_max=400,
    scenario="S7",
)
def followers_kept_over_epochs() -> Patches:
    original = Replica._lead

    def lead(self: Replica, state: PartitionState, now_ms: int) -> Any:
        before = self.role
        effects = original(self, state, now_ms)
        after = self.role
        if isinstance(before, Leader) and isinstance(after, Leader) and after is not before:
            after.in_sync._followers.update(before.in_sync._followers)
            after.in_sync._arrange(now_ms)
            effects = (*effects, *after.commit(now_ms))
        return effects

    return [(Replica, "_lead", lead)]


@plant(breaks="I2", seen="KIP-497: a promised member is not waited for (S6)", scenario="S6")
def promise_not_waited_for() -> Patches:
    def maximal(self: InSyncSet) -> tuple[int, ...]:
        return self.state.isr

    return [(InSyncSet, "maximal_isr", property(maximal))]


@plant(breaks="I2", seen="a shrink counts before the controller has persisted it", scenario="S19")
def shrink_before_confirmed() -> Patches:
    def maximal(self: InSyncSet) -> tuple[int, ...]:
        if self.pending is None:
            return self.state.isr
        return tuple(member.broker_id for member in self.pending.proposal.isr)

    return [(InSyncSet, "maximal_isr", property(maximal))]


@plant(
    breaks="I2", seen="an unanswered promise is given up after a while (2.5)", seeds_max=200, scenario="S6"
)
def promise_given_up() -> Patches:
    original = InSyncSet.due_isr

    def due_isr(self: InSyncSet, **kwargs: Any) -> Any:
        if self.pending is not None and kwargs["now_ms"] - self.pending.sent_ms >= kwargs["retry_ms"]:
            self.pending = None
            self._arrange(kwargs["now_ms"])
        return original(self, **kwargs)

    return [(InSyncSet, "due_isr", due_isr)]


@plant(
    breaks="I2",
    seen="a refusal leaves the partition epoch as it is: a late copy is accepted",
    seeds_max=400,
    scenario="S3",
)
def refusal_without_epoch() -> Patches:
    original = isr.on_proposal

    def on_proposal(draft: Any, broker_id: int, proposal: Any) -> Any:
        state = draft.image.partitions.get((proposal.topic_id, proposal.partition))
        if state is not None:
            error = isr.check_proposal(draft.image, state, broker_id, proposal)
            if error is ControllerError.INELIGIBLE_REPLICA:
                return IsrProposalResult(
                    topic_id=proposal.topic_id,
                    partition=proposal.partition,
                    proposal_id=proposal.proposal_id,
                    error=error,
                    state=state,
                )
        return original(draft, broker_id, proposal)

    def on_refusal(self: InSyncSet, result: Any, **kwargs: Any) -> None:
        if self.pending is not None and result.proposal_id == self.pending.proposal.proposal_id:
            self.pending = None
            self._arrange(kwargs["now_ms"])

    return [(machine, "on_proposal", on_proposal), (InSyncSet, "on_refusal", on_refusal)]


@plant(
    breaks="I9",
    seen="KAFKA-7128: a follower joins at a new leader's old high watermark (S5)",
    seeds_max=400,
    scenario="S5",
)
def join_before_epoch_start() -> Patches:
    def may_join(self: InSyncSet, follower: FollowerProgress, *, high_watermark: int) -> bool:
        return follower.log_end_offset >= high_watermark and self.is_eligible(follower)

    # Kafka asks for no more than the high watermark; here a second guard would hide what the first lets in.
    original = FollowerProgress.is_lagging

    def is_lagging(self: FollowerProgress, **kwargs: Any) -> bool:
        return self.last_caught_up_ms != NEVER_MS and original(self, **kwargs)

    return [(InSyncSet, "may_join", may_join), (FollowerProgress, "is_lagging", is_lagging)]


@plant(breaks="I7", seen="KAFKA-9338: the leader epoch of a fetch is not checked", scenario="S7")
def fetch_epoch_unchecked() -> Patches:
    original = Leader.on_replica_fetch

    def on_replica_fetch(self: Leader, fetch: ReplicaFetch, *, now_ms: int) -> Any:
        position = fetch.position._replace(leader_epoch=self.leader_epoch)
        return original(self, replace(fetch, position=position), now_ms=now_ms)

    return [(Leader, "on_replica_fetch", on_replica_fetch)]


@plant(
    breaks="L6",
    seen="KIP-227: a session answers only for the partitions that its first request has mentioned",
)
def a_session_takes_no_more_partitions() -> Patches:
    original = FetchSession._mention

    def mention(self: FetchSession, mentioned: AskedPartition) -> bool:
        if mentioned.key not in self._partitions and not self.is_full_answer:
            return False
        return original(self, mentioned)

    return [(FetchSession, "_mention", mention)]


@plant(
    breaks="I8",
    seen="KIP-903: a late fetch of an earlier incarnation counts (S4)",
    seeds_max=200,
    scenario="S4",
)
def fetch_of_dead_incarnation_counts() -> Patches:
    return [(InSyncSet, "known_broker_epoch", lambda self, follower: -1)]


@plant(
    breaks="I17",
    seen="the follower's position taken from what was sent to it, not from what it asks",
    scenario="S5",
)
def position_counted_on_send() -> Patches:
    original = Leader.on_replica_fetch

    def on_replica_fetch(self: Leader, fetch: ReplicaFetch, *, now_ms: int) -> Any:
        result, effects = original(self, fetch, now_ms=now_ms)
        if result.records is not None and result.records.size_bytes:
            follower = self.in_sync.follower(fetch.replica_id)
            assert follower is not None
            follower.log_end_offset = result.records.next_offset
            effects = (*effects, *self.commit(now_ms))
        return result, effects

    return [(Leader, "on_replica_fetch", on_replica_fetch)]


@plant(breaks="I14", seen="KAFKA-6361: divergence is not looked for", seeds_max=120, scenario="S34")
def divergence_ignored() -> Patches:
    def check_position(log: LogPort, fetch_offset: int, last_fetched_epoch: int) -> Any:
        return out_of_range(log) if fetch_offset > log.log_end_offset else None

    return [(leader, "check_position", check_position)]


@plant(
    breaks="I23", seen="a duplicate is answered before it is committed (6.3)", seeds_max=120, scenario="S22"
)
def duplicate_not_awaited() -> Patches:
    original = Leader._answer_duplicate

    def answer(self: Leader, duplicate: Duplicate, **kwargs: Any) -> Any:
        kwargs["acks"] = 1
        return original(self, duplicate, **kwargs)

    return [(Leader, "_answer_duplicate", answer)]


@plant(breaks="I23", seen="retries are not recognised", scenario="S21")
def retries_appended_again() -> Patches:
    return [(ProducerStates, "check", lambda self, header: ErrorCode.NONE)]


@plant(breaks="I3", seen="a new leader takes its log end for committed", scenario="S21")
def high_watermark_jumps_on_election() -> Patches:
    original = Leader.on_vouched

    def on_vouched(self: Leader, *, now_ms: int) -> Any:
        self._watermark.raise_to(self._log.log_end_offset)
        return original(self, now_ms=now_ms)

    return [(Leader, "on_vouched", on_vouched)]


@plant(breaks="I2", seen="a push of the state that a promise was built on ends it (S39)", scenario="S39")
def push_of_the_base_ends_a_promise() -> Patches:
    original = Replica.on_partition_state

    def on_partition_state(self: Replica, state: PartitionState, *, now_ms: int) -> Any:
        leading = self.role
        pending = leading.in_sync.pending if isinstance(leading, Leader) else None
        if isinstance(leading, Leader) and pending is not None:
            is_base = state.partition_epoch == pending.proposal.partition_epoch
            leading.in_sync.pending = None if is_base else pending
            leading.in_sync._arrange(now_ms)
        return original(self, state, now_ms=now_ms)

    return [(Replica, "on_partition_state", on_partition_state)]


@plant(breaks="I6", seen="KAFKA-13790: an older state replaces a newer one", seeds_max=200, scenario="S20")
def older_state_applied() -> Patches:
    original = Replica.on_partition_state

    def on_partition_state(self: Replica, state: PartitionState, *, now_ms: int) -> Any:
        if self.state is not None and state.partition_epoch < self.state.partition_epoch:
            self.state = None
            if isinstance(self.role, Leader):
                self.role = ReplicaRole(self)
        return original(self, state, now_ms=now_ms)

    answered = Replica.on_proposal_result

    def on_proposal_result(self: Replica, result: Any, *, now_ms: int) -> Any:
        effects = () if result.state is None else self.on_partition_state(result.state, now_ms=now_ms)
        return (*effects, *answered(self, result, now_ms=now_ms))

    return [
        (Replica, "on_partition_state", on_partition_state),
        (Replica, "on_proposal_result", on_proposal_result),
    ]


@plant(
    breaks="2.9",
    seen="issue 13: a fetch vouches for a lease from when it is read, not from when it was made",
    seeds_max=60,
    scenario="S52",
    family="pauses",
)
def fetches_vouch_from_their_arrival() -> Patches:
    return [(FollowerProgress, "vouched_ms", property(lambda self: self.last_heard_ms))]


@plant(
    breaks="2.9",
    seen="issue 13: a parked fetch that is looked at again vouches once more",
    seeds_max=200,
    scenario="S52",
    family="pauses",
)
def parked_fetches_vouch_again() -> Patches:
    original = FollowerProgress.on_fetch

    def on_fetch(self: FollowerProgress, fetch: ReplicaFetch, *, leader_end_offset: int, now_ms: int) -> None:
        original(self, fetch, leader_end_offset=leader_end_offset, now_ms=now_ms)
        if fetch.contact is not None:
            fetch.contact.vouched_ms = now_ms

    return [(FollowerProgress, "on_fetch", on_fetch)]


@plant(
    breaks="L1", seen="KAFKA-9198: waiting producers are forgotten on demotion", seeds_max=60, scenario="S35"
)
def waiters_kept_on_demotion() -> Patches:
    from dataplane.core.purgatory import Purgatory

    def complete_to(self: Purgatory, high_watermark: int, *, leader_epoch: int, epochs: Any) -> Any:
        done = [waiting.waiter for waiting in self._queue if waiting.required_offset <= high_watermark]
        for _ in done:
            self._queue.popleft()
        return tuple(done), ()

    return [(Purgatory, "take_all", lambda self: ()), (Purgatory, "complete_to", complete_to)]


@plant(
    breaks="I37", seen="a deletion is answered before those that may lead next have stored it", seeds_max=200
)
def deletion_answered_at_once() -> Patches:
    return [(Leader, "low_watermark", property(lambda self: self._log_start.offset))]


@plant(breaks="I37", seen="a log start is told before it is stored")
def log_start_told_too_early() -> Patches:
    return [(StoredLogStart, "offset", property(lambda self: self._log.log_start_offset))]


@plant(breaks="I4", seen="KIP-360: a producer that is new to the log begins at any sequence", scenario="S84")
def a_new_producer_begins_anywhere() -> Patches:
    return [(ProducerStates, "_may_go_on", lambda self, header: True)]


@plant(
    breaks="I23",
    seen="here: a topic that was made again under a producer ended librdkafka and aiokafka (S84)",
    scenario="S84",
    family="topics",
)
def a_producer_of_the_old_topic_is_unknown_for_good() -> Patches:
    return [(Newcomers, "judge", lambda self, header, *, now_ms: ErrorCode.UNKNOWN_PRODUCER_ID)]


@plant(
    breaks="I4",
    seen="here: an unknown producer's batch comes again and is taken, though one before it was refused (S84)",
    scenario="S84",
)
def a_batch_refused_before_it_is_overlooked() -> Patches:
    return [(Newcomers, "note_refused", _note_the_last)]


def _note_the_last(self: Newcomers, header: BatchHeader, *, now_ms: int) -> None:
    self._lowest.setdefault(header.producer_id, (header.producer_epoch, header.base_sequence, now_ms))  # type: ignore[arg-type]


@plant(
    breaks="I36",
    seen="a Go client leaves the header's maximum timestamp at -1: six acknowledged records gone in seconds",
    seeds_max=60,
)
def header_maximum_believed() -> Patches:
    def check(batch: memoryview, header: BatchHeader, **_options: Any) -> CheckedBatch:
        return CheckedBatch(ErrorCode.NONE, header, batch)

    return [(produced_records, "check_produced_records", check)]
