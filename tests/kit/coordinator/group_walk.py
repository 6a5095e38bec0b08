"""A random walk of a group's clients, through refusals, failovers and time; what must hold at every step.

I28 (an answered commit survives), I29 (a committed offset moves back only where a client asked for it), I30
(one owner of a partition in a generation, which WatchedDesk checks; a member that was overtaken commits
nothing), I31 (replay equals the live state, of any prefix of the log and any legal compaction of it), and at
the end: once the world is quiet, the clients share all partitions.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.core.groups.registry import SessionTimer
from coordinator.core.groups.requests import DeleteGroupsReply, OffsetPlace, OffsetsReply, OffsetToCommit
from coordinator.core.groups.state import GroupState
from coordinator.core.groups.store import GroupStore
from coordinator.core.machine import ShardRecord
from coordinator.core.views import TwoViews
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_clients import PARTITIONS, GroupClient, WatchedDesk
from tests.kit.coordinator.group_desk import GROUP, GroupDesk

PLACES = [OffsetPlace("t", partition) for partition in range(2)]
QUIET_SECONDS_MAX = 300

State = tuple[dict[Any, Any], ...]


def views_of(store: GroupStore) -> tuple[TwoViews[Any, Any], ...]:
    """Return all that a shard's records make."""
    return store.groups, store.consumers.values, store.offsets, store.pending.of, store.pending.ended


def latest(store: GroupStore) -> State:
    return tuple(dict(view.latest_items()) for view in views_of(store))


def committed(store: GroupStore) -> State:
    return tuple(dict(view.committed_items()) for view in views_of(store))


def replayed(records: Iterable[ShardRecord]) -> State:
    store = GroupStore()
    for offset, record in enumerate(records):
        store.apply(record, offset)
    return latest(store)


def check_replay(desk: GroupDesk) -> None:
    """I31: a replay of the log is the committed view; with what is in flight, the latest one. The log only
    grows, so its replay goes on where the last look left it."""
    store, replay = desk.machine.registry.store, desk.replay
    for offset in range(desk.replayed, len(desk.records)):
        replay.apply(desk.records[offset], offset)
    desk.replayed = len(desk.records)
    assert latest(replay) == committed(store)
    under_way = [record for batch in desk.in_flight for record in batch.records]
    expected = replayed([*desk.records, *under_way]) if under_way else committed(store)
    assert expected == latest(store)


def compacted(records: list[ShardRecord], seed: int) -> list[ShardRecord]:
    """Return what a compaction may leave: of each key the last record, and as many earlier ones as chance has
    it; a last one that is a tombstone may go with all that it covers."""
    chance = random.Random(seed)
    last = {record.key: place for place, record in enumerate(records)}
    gone = {key for key, place in last.items() if records[place].value is None and chance.random() < 0.5}
    return [
        record
        for place, record in enumerate(records)
        if record.key not in gone and (last[record.key] == place or chance.random() < 0.3)
    ]


class GroupWalk(RuleBasedStateMachine):
    """floor: of each partition, the last answered commit. Offsets are drawn from one rising count, so a lower
    one is an older one. deletes: how many deletions have been asked for. Those in `deleting` are not answered
    yet: each may take away, at any moment, what was committed before it was asked for. overtaken: commits
    that must not be answered with success."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = WatchedDesk()
        self.clients = [GroupClient(self.desk, name) for name in "abc"]
        self.clients += [GroupClient(self.desk, name, instance_id=f"i-{name}") for name in "st"]
        self.count = 0
        self.deletes = 0
        self.deleting: list[int] = []
        self.commits: dict[int, tuple[OffsetPlace, int, int]] = {}
        self.overtaken: set[int] = set()
        self.floor: dict[OffsetPlace, int] = {}
        self.seen: dict[tuple[str, int], int] = {}

    # --- what happens ------------------------------------------------------------------------------

    @rule(places=st.lists(st.integers(0, 4), min_size=1, max_size=12))
    def clients_act(self, places: list[int]) -> None:
        for place in places:
            self.clients[place].act()

    @initialize(seconds=st.sampled_from([0, 20]))
    def the_clients_begin(self, seconds: int) -> None:
        self.the_clients_go_on(seconds)

    @rule(seconds=st.sampled_from([1, 3, 15]))
    def the_clients_go_on(self, seconds: int) -> None:
        for _ in range(seconds):
            for client in self.clients:
                client.act()
            self.desk.wait(1_000)

    @rule(place=st.integers(0, 4))
    def a_client_restarts(self, place: int) -> None:
        self.clients[place].restart()

    @rule(place=st.integers(0, 4))
    def a_client_leaves(self, place: int) -> None:
        self.clients[place].leave()

    @rule(seconds=st.sampled_from([1, 3, 5, 11, 61]))
    def time_passes(self, seconds: int) -> None:
        self.desk.wait(seconds * 1_000)

    @rule(is_holding=st.booleans())
    def the_log_waits_or_goes_on(self, is_holding: bool) -> None:
        self.desk.is_holding = is_holding
        if not is_holding:
            self.desk.commit()

    @rule(batches=st.integers(1, 2))
    def batches_are_committed(self, batches: int) -> None:
        self.desk.commit(batches)

    @rule()
    def batches_are_refused(self) -> None:
        self.desk.refuse()

    @rule(written=st.integers(0, 2))
    def the_shard_moves(self, written: int) -> None:
        self.desk.fail_over(written=written)

    @rule(
        place=st.integers(0, 4), seconds=st.sampled_from([3, 15]), ending=st.sampled_from(["refuse", "move"])
    )
    def a_rebalance_meets_a_log_that_fails(self, place: int, seconds: int, ending: str) -> None:
        self.desk.is_holding = True
        self.a_member_commits(place, PLACES[0])
        self.answered_commits_are_kept_and_none_moves_back()
        self.clients[place].leave()
        self.the_clients_go_on(seconds)
        self.desk.refuse() if ending == "refuse" else self.desk.fail_over()
        self.desk.is_holding = False

    @rule(place=st.integers(0, 4), partition=st.sampled_from(PLACES))
    def a_member_commits(self, place: int, partition: OffsetPlace) -> None:
        client = self.clients[place]
        self._commit(partition, client.member_id, client.generation_id, client.instance_id)

    @rule(place=st.integers(0, 4), partition=st.sampled_from(PLACES))
    def a_commit_of_an_earlier_generation_is_late(self, place: int, partition: OffsetPlace) -> None:
        client = self.clients[place]
        if client.generation_id > 0:
            self._commit(partition, client.member_id, client.generation_id - 1, client.instance_id)

    @rule(place=st.integers(3, 4), partition=st.sampled_from(PLACES))
    def a_fenced_process_commits(self, place: int, partition: OffsetPlace) -> None:
        """It knows the present generation if no rebalance was needed to replace it. Without a generation it
        would be no member: an empty group takes commits from clients without one."""
        client = self.clients[place]
        if client.fenced and client.generation_id >= 0:
            self._commit(
                partition, client.fenced[-1], client.generation_id, client.instance_id, is_fenced=True
            )

    @rule(partition=st.sampled_from(PLACES))
    def an_operator_commits(self, partition: OffsetPlace) -> None:
        self._commit(partition, "", -1, None)

    def _commit(
        self,
        place: OffsetPlace,
        member_id: str,
        generation_id: int,
        instance_id: str | None,
        *,
        is_fenced: bool = False,
    ) -> None:
        self.count += 1
        is_overtaken = is_fenced or 0 <= generation_id < self.desk.told_generation
        offset = OffsetToCommit(place, self.count)
        token = self.desk.start_commit(member_id, generation_id, offset, instance_id=instance_id)
        self.commits[token] = (place, self.count, self.deletes)
        if is_overtaken:
            self.overtaken.add(token)

    @rule()
    def the_group_is_deleted(self) -> None:
        self.deletes += 1
        token = self.desk.start_delete(GROUP)
        self.deleting.append(token)
        reply = self.desk.replies.get(token)
        if isinstance(reply, DeleteGroupsReply) and reply.errors[0][1] is ErrorCode.NONE:
            assert (self.desk.listed().groups, self.desk.fetch()) == ((), {}), "a deleted group is there"

    @rule()
    def all_leave_and_the_group_is_deleted(self) -> None:
        for client in self.clients:
            client.leave()
        self.the_group_is_deleted()

    @rule(place=st.sampled_from(PLACES))
    def an_offset_is_deleted(self, place: OffsetPlace) -> None:
        self.deletes += 1
        self.deleting.append(self.desk.start_delete_offsets(place))

    # --- what must hold ----------------------------------------------------------------------------

    @invariant()
    def answered_commits_are_kept_and_none_moves_back(self) -> None:
        if self.deleting:
            self.deleting = [token for token in self.deleting if token not in self.desk.replies]
            self.floor.clear()
            self.seen.clear()
        for token in [token for token in self.commits if token in self.desk.replies]:
            place, offset, deletes = self.commits.pop(token)
            reply = self.desk.replies[token]
            if not isinstance(reply, OffsetsReply) or reply.error is not ErrorCode.NONE:
                continue
            assert token not in self.overtaken, "a member that was overtaken has committed"
            if deletes == self.deletes:
                self.floor[place] = max(offset, self.floor.get(place, 0))
        found = {place: value for place, value in self.desk.fetch().items() if value is not None}
        for place, offset in self.floor.items():
            assert found.get((place.topic, place.partition), -1) >= offset, "an answered commit is lost"
        for key, offset in self.seen.items():
            assert found.get(key, -1) >= offset, "a committed offset moved back"
        self.seen = found

    @invariant()
    def replay_is_the_live_state(self) -> None:
        check_replay(self.desk)

    @rule(share=st.floats(0, 1), seed=st.integers(0, 2**16))
    def a_prefix_is_compacted(self, share: float, seed: int) -> None:
        records = self.desk.records[: round(share * len(self.desk.records))]
        assert replayed(compacted(records, seed)) == replayed(records)

    @invariant()
    def the_machine_holds_together(self) -> None:
        desk = self.desk
        under_way = {reply.token for batch in desk.in_flight for reply in batch.replies}
        open_tokens = under_way | set(desk.machine.closed())
        assert len(desk.replies.keys() | open_tokens) == desk.tokens, "a request is forgotten"
        registry = desk.machine.registry
        groups = registry.live.values()
        assert registry.members == sum(len(group.members) + len(group.pending) for group in groups)
        members = [member for group in groups for member in group.members.values()]
        assert registry.protocol_bytes == sum(member.protocol_bytes for member in members)
        for group in groups:
            parked = group.joiners.keys() | group.syncers.keys()
            assert parked | group.unsynced.keys() <= group.members.keys()
            assert set(group.instances.values()) <= group.members.keys()
            assert (group.leader in group.members) if group.members else group.leader is None
            stored = registry.store.groups.latest(group.group_id)
            is_stored = stored is not None and stored.generation_id == group.generation_id
            assert is_stored or group.state is not GroupState.STABLE, "a stable generation is in no record"
            for member_id in group.pending:
                assert SessionTimer(group.group_id, member_id) in desk.timers, (
                    f"{member_id} could stay for ever"
                )
            for member_id, member in group.members.items():
                assert member.timer_ms is not None or member_id in parked, f"{member_id} could stay for ever"

    def teardown(self) -> None:
        """The world becomes quiet: the clients come to share all partitions, and every request is
        answered."""
        desk = self.desk
        desk.is_holding = False
        desk.commit()
        for _ in range(QUIET_SECONDS_MAX):
            for client in self.clients:
                if (
                    client.was_fenced
                ):  # after a failover perhaps, by itself: its last take-over was not written
                    client.restart()
                client.act()
            self.replay_is_the_live_state()
            group = desk.describe()
            are_owners = all(client.is_owner and not client.must_join for client in self.clients)
            are_alone = {m.member_id for m in group.members} == {c.member_id for c in self.clients}
            if group.state == "Stable" and are_owners and are_alone:
                break
            desk.wait(1_000)
        else:
            raise AssertionError("the clients do not come to share the partitions")
        self.answered_commits_are_kept_and_none_moves_back()
        (_, owners) = list(desk.told.values())[-1]
        assert sorted(owners) == [str(partition) for partition in range(PARTITIONS)]
        assert set(range(1, desk.tokens + 1)) == desk.replies.keys()
