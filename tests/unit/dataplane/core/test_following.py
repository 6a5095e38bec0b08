"""What a broker fetches from its leaders: places, rests and learners' turns, by values."""

from __future__ import annotations

from dataplane.core.effects import BackOff, Effects
from dataplane.core.following import REST_MS_MIN, FollowedLeader, Following
from dataplane.core.hosted import Hosted
from dataplane.core.learner_turns import LOOK_MS_MAX
from dataplane.core.results import LeaderAnswer
from springtide.contract.partition_state import MoveThrottle
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.replica import TOPIC_ID, Bench, batch_of

KEY = (TOPIC_ID, 0)
NOW_MS = 1_000
#: Broker 4 is being added, at so many bytes per second.
LEARNING = {
    "replicas": (1, 2, 3, 4),
    "adding_replicas": (4,),
    "throttle": MoveThrottle(operation="op", rate=1_000),
}


class Leader(FollowedLeader[Hosted]):
    """Notes what it is to do."""

    def __init__(self, leader_id: int, owner: Follower) -> None:
        super().__init__(leader_id, owner.following.turns)
        self.told: list[str] = []
        self.effects: list[Effects] = []

    def _carry_out(self, hosted: Hosted, effects: Effects) -> None:
        self.effects.append(effects)

    def _ask_at_once(self) -> None:
        self.told.append("at once")

    def _ask_in_turn(self) -> None:
        self.told.append("in turn")

    def _look_again(self) -> None:
        self.told.append("less")


class Follower:
    """Broker 4, or another one, with one partition that follows broker 1."""

    def __init__(self, broker_id: int = 2, **state: object) -> None:
        self.bench = Bench(broker_id)
        self.waits = 0
        self.following: Following[Hosted, Leader] = Following(
            broker_id=broker_id,
            grant_bytes_max=1_000,
            fetch_wait_ms=100,
            new_leader=lambda leader_id: Leader(leader_id, self),
            on_waiting=self._on_waiting,
        )
        self.bench.apply(**state)
        self.hosted = Hosted(topic="orders", topic_id=TOPIC_ID, partition=0, replica=self.bench.replica)
        self.follow()

    def _on_waiting(self) -> None:
        self.waits += 1

    def follow(self, leader_id: int = 1, now_ms: int = NOW_MS) -> None:
        self.following.follow(self.hosted, leader_id, now_ms)

    @property
    def leader(self) -> Leader:
        return self.following.leaders[1]

    def ask(self) -> int:
        """Build the request; return the bytes that it asks of the partition."""
        asked = self.leader.session.build()
        ((key, position),) = asked.partitions
        assert key == KEY
        return position.max_bytes

    def answer(self, fetched: LeaderAnswer, now_ms: int = NOW_MS) -> bool:
        assert self.leader.session.on_answer(ErrorCode.NONE, session_id=7)
        return self.leader.take(KEY, fetched, now_ms=now_ms, wall_ms=0)


def test_a_partition_that_comes_is_asked_for_at_once_and_the_same_again_is_no_news() -> None:
    follower = Follower()
    assert follower.leader.told == ["at once"]
    assert follower.leader.follows(KEY)
    follower.follow()
    assert follower.leader.told == ["at once"]


def test_a_partition_that_goes_to_another_leader_leaves_the_first() -> None:
    follower = Follower()
    follower.bench.apply(leader=3, leader_epoch=2, partition_epoch=2)
    follower.follow(3)
    assert follower.leader.told == ["at once", "less"]
    assert not follower.leader.has_positions
    assert follower.following.leader_of(KEY) is follower.following.leaders[3]
    assert follower.following.leaders[3].told == ["at once"]


def test_what_is_answered_is_given_to_the_replica_and_fetched_on_from_there() -> None:
    follower = Follower()
    follower.ask()
    assert follower.answer(LeaderAnswer(records=memoryview(batch_of(leader_epoch=1))))
    assert follower.bench.log.log_end_offset == 1
    ((_, position),) = follower.leader.session.build().partitions
    assert position.fetch_offset == 1


def test_what_the_replica_asks_for_is_carried_out() -> None:
    follower = Follower()
    follower.ask()
    follower.answer(LeaderAnswer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    (effects,) = follower.leader.effects
    assert isinstance(effects[0], BackOff)


def test_an_answer_about_a_partition_that_was_forgotten_is_dropped() -> None:
    follower = Follower()
    follower.ask()
    follower.following.unfollow(KEY, NOW_MS)
    assert not follower.answer(LeaderAnswer(records=memoryview(batch_of(leader_epoch=1))))
    assert follower.bench.log.log_end_offset == 0
    assert follower.following.leader_of(KEY) is None


def test_rests_grow_until_a_good_answer_and_end_with_a_place() -> None:
    follower, rests = Follower(), []
    for _ in range(3):
        rests.append(follower.leader.rest(KEY, 1_000))
        assert follower.leader.follows(KEY)
        assert not follower.leader.has_positions
        follower.following.end_rest(follower.leader, KEY, NOW_MS)
        assert follower.leader.has_positions
    assert rests == [REST_MS_MIN, 2 * REST_MS_MIN, 4 * REST_MS_MIN]
    assert follower.leader.told[-2:] == ["less", "at once"]
    follower.ask()
    follower.answer(LeaderAnswer())
    assert follower.leader.rest(KEY, 1_000) == REST_MS_MIN
    assert follower.leader.rest(KEY, 10) == 10


def test_the_end_of_a_rest_changes_nothing_of_what_has_been_placed_or_left_meanwhile() -> None:
    follower = Follower()
    follower.leader.rest(KEY, 1_000)
    follower.follow()
    told = list(follower.leader.told)
    follower.following.end_rest(follower.leader, KEY, NOW_MS)
    assert follower.leader.told == told
    follower.leader.rest(KEY, 1_000)
    follower.following.unfollow(KEY, NOW_MS)
    follower.following.end_rest(follower.leader, KEY, NOW_MS)
    assert not follower.leader.has_positions


def learner() -> Follower:
    """Broker 4, which has copied all that it may in one second."""
    follower = Follower(4, **LEARNING)
    assert follower.ask() == 1_000
    follower.answer(
        LeaderAnswer(records=memoryview(batch_of((b"v" * 900,), leader_epoch=1)), high_watermark=9)
    )
    return follower


def test_a_bounded_learner_waits_for_its_turn_without_a_place() -> None:
    follower = learner()
    leader, turns = follower.leader, follower.following.turns
    assert not leader.has_positions
    assert leader.has_waiting_learner and leader.follows(KEY)
    assert follower.waits == 1
    look_ms = turns.look_ms(NOW_MS)
    assert look_ms is not None and 0 < look_ms <= LOOK_MS_MAX
    turns.give(NOW_MS)
    assert not leader.has_positions
    turns.give(NOW_MS + 2_000)
    assert leader.has_positions
    assert leader.told[-1] == "in turn"
    assert turns.look_ms(NOW_MS + 2_000) is None


def test_a_learner_that_has_reached_the_high_watermark_is_bounded_no_more_in_that_leader_epoch() -> None:
    follower = Follower(4, **LEARNING)
    follower.ask()
    follower.answer(LeaderAnswer(records=memoryview(batch_of(leader_epoch=1)), high_watermark=1))
    assert KEY not in follower.following.turns
    assert follower.leader.has_positions
    follower.bench.apply(**LEARNING, leader_epoch=2, partition_epoch=2)
    follower.follow()
    assert KEY in follower.following.turns, "the next leader has promised nothing"


def test_an_error_says_nothing_of_the_high_watermark() -> None:
    follower = Follower(4, **LEARNING)
    follower.ask()
    follower.answer(LeaderAnswer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=0))
    assert KEY in follower.following.turns


def test_a_replica_in_sync_is_no_learner() -> None:
    follower = Follower()
    assert not follower.hosted.is_learner
    assert KEY not in follower.following.turns
    assert not follower.leader.has_waiting_learner


def test_a_changed_rate_gives_turns_to_those_that_wait() -> None:
    follower = learner()
    follower.bench.apply(**{**LEARNING, "throttle": None}, partition_epoch=2)
    follower.follow()
    assert follower.leader.has_positions
    follower.following.turns.set_rate(5, NOW_MS)
    follower.leader.rest(KEY, 10)
    follower.following.end_rest(follower.leader, KEY, NOW_MS)
    assert follower.leader.has_positions, "a bucket begins full"


def test_a_partition_that_is_followed_nowhere_is_no_learner() -> None:
    follower = learner()
    follower.following.unfollow(KEY, NOW_MS)
    assert KEY not in follower.following.turns
    assert follower.following.turns.look_ms(NOW_MS) is None


def test_a_mark_is_of_a_follower() -> None:
    follower = Follower()
    assert follower.leader.mark_of((TOPIC_ID, 9)) is None
    role = follower.hosted.replica.following
    assert role is not None
    assert follower.leader.mark_of(KEY) == role.log_mark()
