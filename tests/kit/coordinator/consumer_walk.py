"""A random walk of the members of a `consumer` group, through refusals, failovers, time and changing topics.
Members of the classic protocol are among them, so that the group is converted, there and back.

What must hold at every step is in consumer_rules.py; beside: K3 (no two clients consume a partition, and none
what it does not have), K8 (a member that was overtaken commits nothing), K10 (none is given up while its
commit waits), I31, and at the end K5: the members come to rest on their target, or on what their leader
assigned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.core.groups.consumer.groups import NextStep, NextTarget
from coordinator.core.groups.consumer.state import ConsumerGroupState
from coordinator.core.groups.requests import OffsetPlace, OffsetsReply, OffsetToCommit
from coordinator.core.groups.state import GroupState
from coordinator.core.topic_partitions import each_partition
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.classic_clients import STABLE, ClassicClient
from tests.kit.coordinator.consumer_clients import BEAT_MS, ConsumerClient
from tests.kit.coordinator.consumer_desk import REBALANCE_MS, ConsumerDesk, every, grouped, topic
from tests.kit.coordinator.consumer_rules import check_consumers
from tests.kit.coordinator.group_desk import GROUP
from tests.kit.coordinator.group_walk import check_replay, compacted, replayed

NAMES, STATICS, TERSE = "abcst", "st", "bt"
PLACES = st.integers(0, 4)
LOSING_BEATS = 8
"""Of the quiet, in which every other answer is lost."""
QUIET_MS_MAX = 2 * REBALANCE_MS + 4 * 45_000

Client: TypeAlias = ConsumerClient | ClassicClient


class ConsumerWalk(RuleBasedStateMachine):
    """is_eager: what the members of the classic protocol are. ending: what happens before the world becomes
    quiet: those of the other protocol leave for good, and the shard moves. stale: tokens of commits that must
    not be answered with success. commits: whose each is, by its token."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = ConsumerDesk(topic("t", 4), topic("u", 3))
        self.clients: list[Client] = [
            ConsumerClient(self.desk, name, is_terse=name in TERSE) for name in NAMES
        ]
        self.desk.denied = {("b", "u"), ("s", "u")}
        self.is_eager = False
        self.ending = ""
        self.changes = 0
        self.incarnations = 0
        self.stale: set[int] = set()
        self.commits: dict[int, str] = {}

    # --- what happens ------------------------------------------------------------------------------

    @initialize(
        are_classic=st.just([True] * 5) | st.lists(st.booleans(), min_size=5, max_size=5),
        is_eager=st.booleans(),
        seconds=st.sampled_from([0, 10]),
        ending=st.sampled_from(["", "", "leave", "move"]),
    )
    def the_clients_begin(self, are_classic: list[bool], is_eager: bool, seconds: int, ending: str) -> None:
        self.is_eager, self.ending = is_eager, ending
        self.clients = [
            self._client(name, is_classic=is_classic)
            for name, is_classic in zip(NAMES, are_classic, strict=True)
        ]
        self.the_clients_go_on(seconds)

    def _client(self, name: str, *, is_classic: bool) -> Client:
        self.changes += 1
        ids, is_static = f"{name}{self.changes}", name in STATICS
        if is_classic:
            client: Client = ClassicClient(self.desk, ids, is_static=is_static, is_eager=self.is_eager)
        else:
            client = ConsumerClient(self.desk, ids, is_static=is_static, is_terse=name in TERSE)
            client.principal = name
        client.instance_id = f"i-{name}" if is_static else None
        return client

    @rule(place=PLACES, leaves=st.booleans())
    def a_client_changes_its_protocol(self, place: int, leaves: bool) -> None:
        before = self.clients[place]
        before.leave(for_a_while=not leaves)
        is_classic = isinstance(before, ConsumerClient)
        self.clients[place] = self._client(NAMES[place], is_classic=is_classic)
        self.clients[place].topics = before.topics

    @rule(
        to_classic=st.booleans(),
        seconds=st.sampled_from([1, 3, 6]),
        ending=st.sampled_from(["", "", "refuse", "move"]),
    )
    def all_change_their_protocol(self, to_classic: bool, seconds: int, ending: str) -> None:
        for place, client in enumerate(self.clients):
            if isinstance(client, ConsumerClient) is to_classic:
                self.desk.is_holding = ending == "refuse"
                self.a_client_changes_its_protocol(place, leaves=True)
                self.clients[place].act()
                if ending == "refuse":
                    self.desk.refuse()
                elif ending == "move":
                    self.desk.fail_over()
                self.desk.is_holding = False
                self.the_group_holds_together()
                self.the_clients_go_on(seconds)

    @rule(place=PLACES, slow=PLACES, seconds=st.sampled_from([6, 15]))
    def a_consumer_comes_while_a_member_gives_up(self, place: int, slow: int, seconds: int) -> None:
        """A classic member is away, and when it is back one of those that have its part gives it up slowly:
        then its place is taken by a member of the other protocol."""
        self.clients[place].leave()
        for is_away in (True, False):
            self.clients[slow].is_slow = not is_away
            for _ in range(seconds):
                for number, client in enumerate(self.clients):
                    if number != place or not is_away:
                        client.act()
                self._check_beliefs()
                self.desk.wait(1_000)
        self.clients[place].leave()
        self.clients[place] = self._client(NAMES[place], is_classic=False)
        self.clients[place].act()

    @rule(places=st.lists(PLACES, min_size=1, max_size=8))
    def clients_act(self, places: list[int]) -> None:
        for place in places:
            self.clients[place].act()

    @rule(seconds=st.sampled_from([1, 3, 6, 15]))
    def the_clients_go_on(self, seconds: int) -> None:
        for _ in range(seconds):
            for client in self.clients:
                client.act()
                self._check_beliefs()
            self.desk.wait(1_000)

    @rule(place=PLACES)
    def a_heartbeat_comes_twice(self, place: int) -> None:
        self.clients[place].act(twice=True)

    @rule(place=PLACES, is_new=st.booleans())
    def an_old_heartbeat_comes_again(self, place: int, is_new: bool) -> None:
        if is_new:  # there is something to give up
            self.a_topic_changes(3, is_new)
        self.clients[place].repeat_an_old_request()

    @rule(place=PLACES)
    def an_answer_is_lost(self, place: int) -> None:
        client = self.clients[place]
        client.act()
        client.lose_the_answer()

    @rule(place=PLACES)
    def a_client_crashes(self, place: int) -> None:
        self.clients[place].crash()

    @rule(place=PLACES, for_a_while=st.booleans())
    def a_client_leaves(self, place: int, for_a_while: bool) -> None:
        self.clients[place].leave(for_a_while=for_a_while)

    @rule(place=PLACES)
    def a_client_is_slow_or_quick(self, place: int) -> None:
        self.clients[place].is_slow = not self.clients[place].is_slow

    @rule(place=PLACES, topics=st.sampled_from([("t",), ("u",), ("t", "u")]))
    def a_client_subscribes(self, place: int, topics: tuple[str, ...]) -> None:
        client = self.clients[place]
        client.topics = topics
        if isinstance(client, ConsumerClient):
            client.pattern = ""

    @rule(place=PLACES, pattern=st.sampled_from(["u|v", ".*", "[tu]"]))
    def a_client_subscribes_a_pattern(self, place: int, pattern: str) -> None:
        """The clients `b` and `s` may not DESCRIBE the topic `u`."""
        if isinstance(client := self.clients[place], ConsumerClient):
            client.pattern = pattern

    @rule(place=PLACES)
    def a_client_subscribes_the_pattern_of_another(self, place: int) -> None:
        for other in self.clients:
            if isinstance(other, ConsumerClient) and other.pattern:
                self.a_client_subscribes_a_pattern(place, other.pattern)
                self.clients[place].act()
                break

    @rule(place=PLACES, assignor=st.sampled_from(["uniform", "range"]))
    def a_client_asks_for_an_assignor(self, place: int, assignor: str) -> None:
        self.clients[place].assignor = assignor

    @rule(partitions=st.integers(1, 5), is_new=st.booleans())
    def a_topic_changes(self, partitions: int, is_new: bool) -> None:
        self.incarnations += is_new
        self.desk.know(topic("t", 4), topic("u", partitions, self.incarnations))

    @rule(seconds=st.sampled_from([1, 3, 5, 46, 61]))
    def time_passes(self, seconds: int) -> None:
        registry, replies = self.desk.machine.registry, self.desk.replies
        before = self._members()
        self.desk.wait(seconds * 1_000)
        if GROUP not in registry.live:
            waiting = {member_id for token, member_id in self.commits.items() if token not in replies}
            assert not waiting & (before - self._members()), "K10: given up while its commit waits"

    def _members(self) -> set[str]:
        group = self.desk.machine.registry.consumers.store.latest(GROUP)
        return set() if group is None else set(group.members)

    @rule(is_holding=st.booleans())
    def the_log_waits_or_goes_on(self, is_holding: bool) -> None:
        self.desk.is_holding = is_holding
        if not is_holding:
            self.desk.commit()

    @rule(batches=st.integers(1, 2))
    def batches_are_committed(self, batches: int) -> None:
        self.desk.commit(batches)

    @rule(is_full=st.booleans())
    def the_shard_is_full_or_not(self, *, is_full: bool) -> None:
        options = self.desk.options
        none_left = replace(options, members_max=0, shard_bytes_max=0)
        self.desk.machine.registry.options = none_left if is_full else options

    @rule()
    def batches_are_refused(self) -> None:
        self.desk.refuse()

    @rule(written=st.integers(0, 2))
    def the_shard_moves(self, written: int) -> None:
        self.desk.fail_over(written=written)

    @rule(place=PLACES)
    def a_client_commits(self, place: int) -> None:
        """What it consumes, with its epoch; or, late, with the epoch before it gave the partition up."""
        client = self.clients[place]
        for partition in sorted(client.believes)[:1]:
            self._commit(client, partition.topic_id.int, partition.partition, client.epoch)

    @rule(seconds=st.sampled_from([46, 61]))
    def commits_wait_for_long(self, seconds: int) -> None:
        self.the_log_waits_or_goes_on(is_holding=True)
        for place in range(len(self.clients)):
            self.a_client_commits(place)
        self.time_passes(seconds)
        self.the_log_waits_or_goes_on(is_holding=False)

    @rule(place=st.integers(3, 4))
    def a_static_member_is_back_at_once(self, place: int) -> None:
        """Nothing is assigned anew if it subscribes what it did."""
        desk, client = self.desk, self.clients[place]
        if not isinstance(client, ConsumerClient) or client.is_down:
            return
        registry = desk.machine.registry
        is_calm = not desk.is_holding and not desk.in_flight
        group = registry.consumers.store.latest(GROUP)
        member = None if group is None else group.members.get(client.member_id)
        if not is_calm or client.epoch <= 0 or group is None or member is None or group.is_due:
            return
        is_known = desk.live.topics_version == registry.consumers.topics_version
        said = (() if client.pattern else client.topics, client.pattern or None, client.assignor)
        if is_known and (member.about.topics, member.about.pattern, member.about.assignor) == said:
            epoch, target = group.epoch, member.target
            client.leave(for_a_while=True)
            client.act()
            assert group.epoch == epoch, "a static member that is back has raised the epoch"
            assert desk.member(client.member_id).target == target, "it has another target"

    @rule(place=PLACES)
    def a_client_from_the_past_shows_too_much(self, place: int) -> None:
        """It knows the epoch before alone, and consumes what it does not have: it has to begin anew."""
        desk, client = self.desk, self.clients[place]
        group = desk.machine.registry.consumers.store.latest(GROUP)
        member = None if group is None else group.members.get(client.member_id)
        if desk.is_holding or member is None or member.about.classic is not None:
            return
        if not 0 < member.current.previous_epoch < member.current.epoch:
            return
        foreign = {*each_partition(every(*desk.topics.values()))} - {*each_partition(member.current.assigned)}
        said = {"owned": grouped(foreign), "instance_id": client.instance_id}
        if foreign:
            error = desk.error(client.member_id, member.current.previous_epoch, **said)
            assert error is ErrorCode.FENCED_MEMBER_EPOCH, "a member that lost its way goes on"

    @rule(place=PLACES)
    def an_overtaken_client_commits(self, place: int) -> None:
        """A partition that another client consumes."""
        client = self.clients[place]
        others = [one for other in self.clients if other is not client for one in sorted(other.believes)]
        for partition in others[:1]:
            if client.epoch > 1:
                token = self._commit(client, partition.topic_id.int, partition.partition, client.epoch - 1)
                self.stale.add(token)

    def _commit(self, client: Client, number: int, partition: int, epoch: int) -> int:
        name = (number & 0xFF).to_bytes().decode()
        topic_id = next(iter({one.topic_id for one in self.desk.topics.values() if one.name == name}))
        place = OffsetPlace(name, partition, topic_id)
        token = self.desk.start_commit(client.member_id, epoch, OffsetToCommit(place, 1))
        self.commits[token] = client.member_id
        return token

    # --- what must hold ----------------------------------------------------------------------------

    @invariant()
    def the_group_holds_together(self) -> None:
        registry = self.desk.machine.registry
        check_consumers(registry)
        group = registry.consumers.store.latest(GROUP)
        if group is not None and group.is_due:
            placing = self.desk.live.placing
            is_asked = placing is not None and placing.question in self.desk.questions
            is_timed = NextTarget(GROUP) in self.desk.timers
            assert is_asked or is_timed, "a target that is due waits for a heartbeat"
        settling = self.desk.live.settling
        if group is not None and group.state == ConsumerGroupState.STABLE and settling.calm_ms is None:
            assert settling.restless_ms is None, "a stable group is told to be none"
        for member_id, live in self.desk.live.members.items():
            assert live.has_next_step == (NextStep(GROUP, member_id) in self.desk.timers)

    @invariant()
    def replay_is_the_live_state(self) -> None:
        check_replay(self.desk)

    # --- what is asked of another process ----------------------------------------------------------

    @rule(is_thinking=st.booleans())
    def answers_come_late_or_at_once(self, is_thinking: bool) -> None:
        self.desk.is_thinking = is_thinking

    @rule(place=st.integers(0, 3), times=st.integers(1, 2))
    def an_answer_comes(self, place: int, times: int) -> None:
        """It may come twice, and not in the order of the questions."""
        desk = self.desk
        for question in desk.questions[place : place + 1]:
            desk.questions.remove(question)
            for _ in range(times):
                desk.hear(question, desk.answer_of(question))

    @rule(place=PLACES)
    def an_old_answer_comes_again(self, place: int) -> None:
        """None waits for it: the group's epoch, and its target, may be newer by now."""
        for question in self.desk.heard[-1 - place :][:1]:
            self.desk.hear(question, self.desk.answer_of(question))

    @rule()
    def an_answer_never_comes(self) -> None:
        desk = self.desk
        for question in desk.questions[:1]:
            desk.questions.remove(question)
            desk.hear(question, None)

    @rule(share=st.floats(0, 1), seed=st.integers(0, 2**16))
    def a_prefix_is_compacted(self, share: float, seed: int) -> None:
        records = self.desk.records[: round(share * len(self.desk.records))]
        assert replayed(compacted(records, seed)) == replayed(records)

    @invariant()
    def no_partition_is_consumed_twice(self) -> None:
        self._check_beliefs()

    def _check_beliefs(self) -> None:
        group = self.desk.machine.registry.consumers.store.latest(GROUP)
        members = {} if group is None else group.members
        seen: dict[object, str] = {}
        for client in self.clients:
            for one in sorted(client.believes):
                assert one not in seen, f"K3: {seen[one]} and {client.name} consume {one}"
                seen[one] = client.name
            member = members.get(client.member_id)
            has: set[object] = set()
            if member is not None:
                has.update(each_partition(member.current.assigned), each_partition(member.current.revoking))
            if members or isinstance(client, ConsumerClient):
                assert client.believes <= has, f"K3: {client.name} consumes what it does not have"

    @invariant()
    def no_pattern_shows_what_a_subscriber_may_not_see(self) -> None:
        """Since the shard was opened here: what stood before was found out for whom it concerned then."""
        registry = self.desk.machine.registry
        group, live = registry.consumers.store.latest(GROUP), registry.consumers.live_group(GROUP)
        if group is None:
            return
        for member_id, member in group.members.items():
            pattern = member.about.pattern or ""
            if pattern in live.counted and pattern in group.patterns and member_id not in live.withheld:
                who, shown = live.who[member_id].principal, group.patterns[pattern].topics
                hidden = [name for name in shown if (who, name) in self.desk.denied]
                assert not hidden, f"K9: {member_id} gets {hidden} by a pattern"

    @invariant()
    def no_overtaken_client_has_committed(self) -> None:
        for token in self.stale & self.desk.replies.keys():
            self.stale.remove(token)
            reply = self.desk.replies[token]
            is_taken = isinstance(reply, OffsetsReply) and reply.error is ErrorCode.NONE
            assert not is_taken, "K8: a commit of a partition that another client has"

    @invariant()
    def no_request_is_forgotten(self) -> None:
        desk = self.desk
        under_way = {reply.token for batch in desk.in_flight for reply in batch.replies}
        assert len(desk.replies.keys() | under_way | set(desk.machine.closed())) == desk.tokens

    def teardown(self) -> None:
        """K5: the world becomes quiet; the members come to rest on their target."""
        desk = self.desk
        desk.is_holding = desk.is_thinking = False
        self.the_shard_is_full_or_not(is_full=False)
        desk.commit()
        while desk.questions:
            self.an_answer_comes(0, 1)
        for client in self.clients:
            client.is_slow = False
        if self.ending and any(isinstance(client, ClassicClient) for client in self.clients):
            self._the_consumers_leave()
        began_ms = desk.now_ms
        while desk.now_ms - began_ms < QUIET_MS_MAX:
            for place, client in enumerate(self.clients):
                beats = (desk.now_ms - began_ms) // BEAT_MS
                if isinstance(client, ConsumerClient) and beats < LOSING_BEATS:
                    client.act(is_lost=(beats + place) % 2 == 0)
                else:
                    client.act()
                self._check_beliefs()
            self.the_group_holds_together()
            if self._are_at_rest():
                break
            desk.wait(BEAT_MS)
        else:
            raise AssertionError("K5: the members do not come to rest")
        self.replay_is_the_live_state()
        assert set(range(1, desk.tokens + 1)) == desk.replies.keys()

    def _the_consumers_leave(self) -> None:
        self.the_clients_go_on(15)
        for client in self.clients:
            if isinstance(client, ConsumerClient):
                client.leave()
        if self.ending == "move":
            self.desk.fail_over()
        self.clients = [client for client in self.clients if isinstance(client, ClassicClient)]

    def _are_at_rest(self) -> bool:
        registry = self.desk.machine.registry
        owned = {client.member_id: client.owned for client in self.clients}
        group = registry.consumers.store.latest(GROUP)
        if group is not None and group.members:
            are_classic = all(member.about.classic is not None for member in group.members.values())
            assert not are_classic, "none speaks the protocol of the group"
            targets = {name: {*each_partition(member.target)} for name, member in group.members.items()}
            is_resolved = group.asked.keys() <= group.patterns.keys()
            return group.state == ConsumerGroupState.STABLE and targets == owned and is_resolved
        classic = registry.live.get(GROUP)
        if classic is None or classic.members.keys() != owned.keys():
            return False
        names = {name for client in self.clients for name in client.topics}
        topics = [topic for topic in self.desk.topics.values() if topic.name in names]
        wanted = {(ord(topic.name), number) for topic in topics for number in range(topic.partitions)}
        found = {(one.topic_id.int & 0xFF, one.partition) for one in set().union(*owned.values())}
        is_calm = all(isinstance(one, ClassicClient) and one.step == STABLE for one in self.clients)
        return is_calm and classic.state is GroupState.STABLE and found == wanted
