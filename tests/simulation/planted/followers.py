"""Bugs of a follower: where it cuts its log, and what it believes of its leader."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dataplane.core.fetch import ConsumerFetch, ReplicaFetch
from dataplane.core.follower import Follower
from dataplane.core.following import FollowedLeader, Following
from dataplane.core.leader import Leader
from dataplane.core.leader_epochs import UNDEFINED_END, LeaderEpochs
from dataplane.core.producer_state import ProducerStates
from dataplane.core.replica import Replica
from springtide.contract.partition_state import PartitionState
from springtide.wire.record_batch import BatchHeader
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I14",
    seen="KAFKA-1211, KIP-101: truncation to the own high watermark",
    seeds_max=120,
    scenario="S8",
)
def truncate_to_high_watermark() -> Patches:
    original = Replica._follow

    def follow(self: Replica, state: PartitionState) -> Any:
        if self.state is not None and state.leader_epoch > self.state.leader_epoch:
            self.log.truncate_to(self.high_watermark)
        return original(self, state)

    return [(Replica, "_follow", follow)]


@plant(
    breaks="I14", seen="KIP-279: one truncation step where epochs differ (S8)", seeds_max=400, scenario="S8"
)
def one_step_truncation() -> Patches:
    original = LeaderEpochs.end_offset_for

    def end_offset_for(self: LeaderEpochs, leader_epoch: int, *, log_end_offset: int) -> Any:
        end = original(self, leader_epoch, log_end_offset=log_end_offset)
        return end._replace(leader_epoch=leader_epoch) if end != UNDEFINED_END else end

    return [(LeaderEpochs, "end_offset_for", end_offset_for)]


@plant(breaks="I16", seen="KAFKA-14704: the high watermark of a diverging answer is applied", scenario="S34")
def high_watermark_before_truncation() -> Patches:
    original = Follower.on_fetched

    def on_fetched(self: Follower, fetched: Any, **kwargs: Any) -> Any:
        self._watermark.raise_to(max(self._watermark.offset, self._log.log_end_offset))
        return original(self, fetched, **kwargs)

    return [(Follower, "on_fetched", on_fetched)]


@plant(
    breaks="I23",
    seen="producer state outlives the truncation of its batches (S22)",
    seeds_max=200,
    scenario="S22",
)
def producer_state_not_rolled_back() -> Patches:
    return [(ProducerStates, "has_batch_at_or_beyond", lambda self, offset: False)]


@plant(breaks="I23", seen="only leaders know producers; a new one knows no retry", scenario="S21")
def producers_unknown_to_followers() -> Patches:
    original = Follower._append

    def append(self: Follower, records: memoryview, *, wall_ms: int) -> Any:
        log: Any = self._log
        kept, log._producers = log._producers, ProducerStates()
        try:
            return original(self, records, wall_ms=wall_ms)
        finally:
            log._producers = kept

    return [(Follower, "_append", append)]


@plant(breaks="I14", seen="KAFKA-10706: epochs are left where no record is cut", scenario="S9")
def epochs_not_cut() -> Patches:
    return [(LeaderEpochs, "truncate_from_end", lambda self, end_offset: False)]


@plant(
    breaks="I15",
    seen="issue 34: a mark of an unclean election counts again under the next leader",
    seeds_max=1,
    scenario="S2",
)
def unclean_mark_counts_twice() -> Patches:
    def is_marked_unclean(self: Follower) -> bool:
        return self._state.unclean_leader_epoch > self._log.epochs.latest

    return [(Follower, "_is_marked_unclean", property(is_marked_unclean))]


@plant(
    breaks="I4",
    seen="issue 34: the run of a producer's sequences goes on over a gap, and vouches for what fell into it",
    seeds_max=1,
    scenario="S84",
)
def run_goes_on_over_a_gap() -> Patches:
    original = ProducerStates.update

    def update(self: ProducerStates, header: BatchHeader, **others: Any) -> Any:
        before = self._producers.get(header.producer_id)
        last = before.batches[-1] if before is not None and before.batches else None
        run = 0 if before is None else before.run
        found = original(self, header, **others)
        after = self._producers.get(header.producer_id)
        if after is not None and last is not None and header.base_sequence > last.last_sequence:
            after.run = run + header.last_offset_delta + 1
        return found

    return [(ProducerStates, "update", update)]


@plant(breaks="I18", seen="KIP-392: a follower that is read from gives out all that it holds", seeds_max=60)
def follower_serves_what_is_not_committed() -> Patches:
    original = Follower._read_committed

    def read_to_the_end(self: Follower, fetch: ConsumerFetch, high_watermark: int) -> Any:
        return original(self, fetch, self._log.log_end_offset)

    return [(Follower, "_read_committed", read_to_the_end)]


@plant(
    breaks="I23",
    seen="a drain ended quiet producers: a copy knew only those that its records name",
    seeds_max=400,
    scenario="S87",
)
def copies_know_no_quiet_producers() -> Patches:
    original = Follower.next_fetch

    def next_fetch(self: Follower) -> Any:
        position = original(self)
        return None if position is None else position._replace(wants_producers=False)

    return [(Follower, "next_fetch", next_fetch)]


@plant(
    breaks="I23",
    seen="a copy that does not know its producers yet is taken for in sync",
    seeds_max=400,
    scenario="S87",
)
def copies_join_before_they_know_producers() -> Patches:
    original = Leader.on_replica_fetch

    def on_replica_fetch(self: Leader, fetch: ReplicaFetch, *, now_ms: int) -> Any:
        knowing = replace(fetch, position=fetch.position._replace(wants_producers=False))
        result, effects = original(self, knowing, now_ms=now_ms)
        if not fetch.position.wants_producers or result.records is None or result.records.size_bytes == 0:
            return result, effects
        return original(self, fetch, now_ms=now_ms)

    return [(Leader, "on_replica_fetch", on_replica_fetch)]


@plant(breaks="L7", seen="a quarantine is told once, and a new controller does not hear of it", scenario="S2")
def quarantine_told_once() -> Patches:
    return [(Follower, "standing_effects", Follower._standing_effects)]


@plant(
    breaks="L6", seen="KIP-461: a partition whose fetch has failed once is not fetched any more", seeds_max=20
)
def rest_never_ends() -> Patches:
    return [(FollowedLeader, "end_rest", lambda self, key, now_ms: None)]


@plant(
    breaks="4.2", seen="a throttled learner that waits is never told that its turn has come", scenario="S25"
)
def turn_is_never_told() -> Patches:
    return [(FollowedLeader, "on_turn", lambda self, key, now_ms: None)]


@plant(breaks="L6", seen="a follower goes on at its old leader: where it is fetched from is found by its key")
def fetched_from_the_leader_before() -> Patches:
    original = Following.follow

    def follow(self: Following[Any, Any], hosted: Any, leader_id: int, now_ms: int) -> None:
        original(self, hosted, self._leader_of.get(hosted.key, leader_id), now_ms)

    return [(Following, "follow", follow)]
