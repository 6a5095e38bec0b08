"""What a fetch's limits leave out, throttles of learners among them, is left for later and not forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import trio

from dataplane.core.fetch_session import (
    CONSUMER,
    AskedPartition,
    FetchPosition,
    FetchSession,
    FetchSessions,
    SessionRequest,
)
from dataplane.core.fetches import Fetch, FetchedAnswer
from dataplane.handlers import fetch as handler
from dataplane.shell.fetches import Fetches
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch
from springtide.contract.session import BrokerStatus, HeartbeatResponse
from springtide.contract.throttles import LEADER_RATE
from springtide.contract.updates import BrokerEndpoint
from springtide.node.lease import Lease
from springtide.wire.fetch_request import FetchRequest, encode_fetch_request
from tests.kit.dataplane.node import OTHER_ID, TOPIC_ID, Node, endpoint, state
from tests.kit.memory.disk import MemoryDisk

BATCH_BYTES = 4_000
Sent = dict[str, int]


class Leader:
    """Broker 1 leads two partitions; broker 2, or a consumer, fetches both in one session."""

    def __init__(self, node: Node, *, replica_id: int) -> None:
        self.node = node
        self.replica_id = replica_id
        self.sent: list[Sent] = []
        self.evaluated: list[str] = []
        self._epochs = count(0)
        self._session_id = 0
        self.context: Any = SimpleNamespace(
            table=node.table,
            effects=node.effects,
            view=node.view,
            counters=node.counters,
            mono_ms=node.clock.mono_ms,
        )
        self.fetches = Fetches(
            sessions=FetchSessions(iter(range(77, 99))),
            evaluate=self._evaluate,
            respond=self._respond,
            clock=node.clock,
            holds_lease=node.lease.is_held,
        )

    def _evaluate(
        self, session: FetchSession, followed: Any, max_bytes: int, at_least_one: bool, now_ms: int
    ) -> Any:
        self.evaluated.append(followed.key[0])
        return handler.evaluate(
            self.context, session, followed, max_bytes=max_bytes, at_least_one=at_least_one, now_ms=now_ms
        )

    def _respond(self, fetch: Fetch, session: FetchSession, answers: list[FetchedAnswer]) -> None:
        self._session_id = session.session_id
        self.contact = session.contact
        for answer in answers:
            handler._count(self.context, answer.followed.key, session, answer.size_bytes)
        self.sent.append({answer.followed.key[0]: answer.size_bytes for answer in answers})

    def ask(self, positions: dict[str, int], *, max_bytes: int = 2**20, partition_bytes: int = 2**20) -> Sent:
        """A fetch that mentions these offsets; bytes sent of each partition of the answer."""
        opened = self.fetches.sessions.open(
            SessionRequest(
                session_id=self._session_id,
                session_epoch=next(self._epochs),
                replica_id=self.replica_id,
                broker_epoch=BrokerEpoch(10 if self.replica_id == 2 else -1),
                partitions=[
                    AskedPartition(
                        (topic_id, 0),
                        FetchPosition(
                            offset, LeaderEpoch(-1 if offset == 0 else 1), LeaderEpoch(1), 0, partition_bytes
                        ),
                    )
                    for topic_id, offset in positions.items()
                ],
            ),
            now_ms=self.node.clock.mono_ms(),
        )
        assert isinstance(opened, FetchSession)
        before = len(self.sent)
        self.fetches.start(
            Fetch(
                session=opened,
                min_bytes=1,
                max_bytes=max_bytes,
                deadline_ms=self.node.clock.mono_ms() + 500,
                context=None,
                is_gone=lambda: False,
            )
        )
        return self.sent[-1] if len(self.sent) > before else {}


def on_a_leader(test: Callable[[Leader], None], *, replica_id: int, lease: Lease | None = None) -> None:
    async def main() -> None:
        node = Node(MemoryDisk(), lease=lease)
        led = {"replicas": (1, 2), "new_replicas": (1, 2), "isr": (1, 2)}
        await node.apply(
            state(**led),
            state(topic_id=OTHER_ID, topic="other", **led),
            brokers=(endpoint(1), endpoint(2)),
            full=True,
        )
        test(Leader(node, replica_id=replica_id))

    trio.run(main)


def test_a_batch_that_found_no_room_is_sent_with_the_next_answer_though_nobody_mentions_it() -> None:
    def test(leader: Leader) -> None:
        assert leader.ask({TOPIC_ID: 0, OTHER_ID: 0}) == {TOPIC_ID: 0, OTHER_ID: 0}
        leader.node.produce(size=BATCH_BYTES)
        leader.node.produce(size=BATCH_BYTES, topic_id=OTHER_ID)
        first = leader.ask({TOPIC_ID: 0, OTHER_ID: 0}, max_bytes=BATCH_BYTES + 1_000)
        assert BATCH_BYTES < first.pop(TOPIC_ID) < BATCH_BYTES + 1_000
        assert not any(first.values()), "a second one would not have fitted"
        assert leader.ask({TOPIC_ID: 1})[OTHER_ID] > BATCH_BYTES

    on_a_leader(test, replica_id=2)


def test_a_batch_above_its_partitions_limit_comes_when_it_is_first() -> None:
    def test(leader: Leader) -> None:
        leader.ask({TOPIC_ID: 0, OTHER_ID: 0})
        leader.node.produce(size=BATCH_BYTES)
        leader.node.produce(size=BATCH_BYTES, topic_id=OTHER_ID)
        first = leader.ask({TOPIC_ID: 0, OTHER_ID: 0}, partition_bytes=100)
        assert first[TOPIC_ID] > BATCH_BYTES, "KIP-74: never nothing at all"
        leader.node.produce(size=BATCH_BYTES)
        second = leader.ask({TOPIC_ID: 1}, partition_bytes=100)
        assert second[OTHER_ID] > BATCH_BYTES, "whoever was left out goes first"
        assert not second.get(TOPIC_ID)

    on_a_leader(test, replica_id=2)


def test_consumers_sessions_forget_nothing_either() -> None:
    def test(leader: Leader) -> None:
        follower = Leader(leader.node, replica_id=2)
        leader.node.produce(size=BATCH_BYTES)
        leader.node.produce(size=BATCH_BYTES, topic_id=OTHER_ID)
        follower.ask({TOPIC_ID: 0, OTHER_ID: 0})
        follower.ask({TOPIC_ID: 1, OTHER_ID: 1})  # committed
        first = leader.ask({TOPIC_ID: 0, OTHER_ID: 0}, max_bytes=BATCH_BYTES + 1_000)
        assert first[TOPIC_ID] > BATCH_BYTES
        assert first[OTHER_ID] == 0
        assert leader.ask({TOPIC_ID: 1})[OTHER_ID] > BATCH_BYTES

    on_a_leader(test, replica_id=CONSUMER)


class ShortLease(Lease):
    """One that has to be renewed."""

    def __init__(self) -> None:
        super().__init__()
        self.on_applied(controller_epoch=ControllerEpoch(1), sequence=1)

    def renew(self, now_ms: int) -> None:
        acked = HeartbeatResponse(
            controller_epoch=ControllerEpoch(1), status=BrokerStatus.ACTIVE, lease_ms=1_000, sequence=1
        )
        self.on_heartbeat_acked(acked, sent_ms=now_ms, now_ms=now_ms)


def test_an_error_is_looked_at_again_though_nobody_mentions_its_partition() -> None:
    """A lease that comes back changes no leadership, and a client that waits for what is in the log already
    has nothing new to ask."""
    lease = ShortLease()

    def test(leader: Leader) -> None:
        clock = leader.node.clock
        lease.renew(clock.mono_ms())
        follower = Leader(leader.node, replica_id=2)
        leader.node.produce(size=BATCH_BYTES)
        follower.ask({TOPIC_ID: 0, OTHER_ID: 0})
        follower.ask({TOPIC_ID: 1})  # committed
        leader.node.pass_ms(2_000)
        assert leader.ask({TOPIC_ID: 0, OTHER_ID: 0}) == {TOPIC_ID: 0, OTHER_ID: 0}, "errors"
        assert leader.ask({}) == {}, "it has been told; at once again would have it ask without a pause"
        clock.now_ms += 500
        leader.fetches.expire()
        assert leader.sent[-1] == {TOPIC_ID: 0, OTHER_ID: 0}, "errors, again"
        assert leader.ask({TOPIC_ID: 0}) == {TOPIC_ID: 0, OTHER_ID: 0}, "errors, at once: it has asked anew"
        lease.renew(clock.mono_ms())
        assert leader.ask({})[TOPIC_ID] > BATCH_BYTES

    on_a_leader(test, replica_id=CONSUMER, lease=lease)


def test_an_event_without_a_lease_costs_a_look_at_its_own_partition_only() -> None:
    lease = ShortLease()

    def test(leader: Leader) -> None:
        clock = leader.node.clock
        lease.renew(clock.mono_ms())
        leader.ask({TOPIC_ID: 0, OTHER_ID: 0})
        assert leader.ask({TOPIC_ID: 0}) == {}, "there is nothing new"
        leader.node.pass_ms(2_000)
        leader.evaluated.clear()
        leader.fetches.on_high_watermark_moved((OTHER_ID, 0))
        leader.fetches.wake()
        assert leader.evaluated == [OTHER_ID], "an event says what to look at"
        assert leader.sent[-1] == {OTHER_ID: 0}, "an error"
        assert leader.ask({}) == {TOPIC_ID: 0, OTHER_ID: 0}, "errors"

    on_a_leader(test, replica_id=CONSUMER, lease=lease)


def test_a_consumer_whose_wait_is_over_is_told_of_a_lease_that_ran_out() -> None:
    lease = ShortLease()

    def test(leader: Leader) -> None:
        clock = leader.node.clock
        lease.renew(clock.mono_ms())
        leader.ask({TOPIC_ID: 0, OTHER_ID: 0})
        assert leader.ask({TOPIC_ID: 0}) == {}, "there is nothing new"
        leader.node.pass_ms(2_000)
        leader.fetches.expire()
        assert leader.sent[-1] == {TOPIC_ID: 0, OTHER_ID: 0}, "errors"

    on_a_leader(test, replica_id=CONSUMER, lease=lease)


def test_a_partition_without_news_is_not_looked_at_again() -> None:
    def test(leader: Leader) -> None:
        leader.ask({TOPIC_ID: 0, OTHER_ID: 0})
        leader.node.produce(size=BATCH_BYTES)
        assert list(leader.ask({TOPIC_ID: 0, OTHER_ID: 0})) == [TOPIC_ID]
        session = leader.fetches.sessions.open(
            SessionRequest(session_id=77, session_epoch=2, replica_id=2, broker_epoch=BrokerEpoch(10)),
            now_ms=1_000,
        )
        assert isinstance(session, FetchSession)
        assert [followed.key[0] for followed in session.due()] == [TOPIC_ID], "it was answered with bytes"

    on_a_leader(test, replica_id=2)


RATE = 10_000


async def start_move(
    node: Node, *, isr: tuple[int, ...] = (1, 3), rate: int | None = RATE, epoch: int = 2
) -> None:
    """Broker 2 is being added to one partition; it is in sync in the other."""
    configs = {} if rate is None else {LEADER_RATE: str(rate)}
    me = BrokerEndpoint(broker_id=1, broker_epoch=BrokerEpoch(10), host="h", port=9092, configs=configs)
    moving = state(
        replicas=(1, 2),
        adding_replicas=(2,),
        original_replicas=(1,),
        new_replicas=(),
        isr=isr,
        leader_epoch=1,
        partition_epoch=epoch,
    )
    await node.apply(moving, brokers=(me, endpoint(2), endpoint(3)))


def on_a_throttled_leader(test: Callable[[Leader], Awaitable[None]]) -> None:
    async def main() -> None:
        node = Node(MemoryDisk())
        await node.apply(
            state(),
            state(topic_id=OTHER_ID, topic="other", replicas=(1, 2), new_replicas=(1, 2), isr=(1, 2)),
            brokers=(endpoint(1), endpoint(2)),
            full=True,
        )
        node.produce(40, size=1_000)
        await start_move(node, isr=(1,))
        await test(Leader(node, replica_id=2))

    trio.run(main)


def test_a_leader_gives_its_learners_no_more_than_its_rate() -> None:
    async def test(leader: Leader) -> None:
        first = leader.ask({TOPIC_ID: 0})[TOPIC_ID]
        assert RATE - 1_100 <= first <= RATE, "a second's worth"
        assert leader.node.counters.reassignment_bytes_out == first
        assert leader.ask({TOPIC_ID: 9}) == {}, "it waits"
        assert leader.fetches.parked == 1
        leader.node.clock.now_ms += 400
        assert leader.fetches.expire() is not None, "not yet its time"
        leader.node.clock.now_ms += 600
        leader.fetches.expire()
        assert leader.sent[-1][TOPIC_ID] > 8_000
        assert leader.fetches.parked == 0

    on_a_throttled_leader(test)


def test_members_of_the_isr_are_served_while_a_learner_waits_beside_them() -> None:
    async def test(leader: Leader) -> None:
        leader.ask({TOPIC_ID: 0, OTHER_ID: 0})
        assert leader.ask({TOPIC_ID: 9}) == {}
        for offset in range(5):
            leader.node.produce(size=50_000, topic_id=OTHER_ID)
            leader.fetches.on_data_appended((OTHER_ID, 0))
            leader.fetches.wake()
            assert leader.sent[-1] == {OTHER_ID: leader.sent[-1][OTHER_ID]}
            assert leader.sent[-1][OTHER_ID] > 50_000
            leader.ask({OTHER_ID: offset + 1})

    on_a_throttled_leader(test)


def test_a_learner_that_is_promised_to_the_controller_is_served_at_once() -> None:
    """The high watermark waits for it from the promise on (I2, the leader is never laxer), whatever its state
    says."""

    async def test(leader: Leader) -> None:
        replica = leader.node.hosted().replica
        leader.ask({TOPIC_ID: 0})
        leader.ask({TOPIC_ID: 40})
        assert replica.leading is not None
        assert replica.leading.due_proposal(leader.node.clock.now_ms) is not None
        assert replica.maximal_isr == (1, 2)
        leader.node.produce(5, size=20_000)
        assert leader.ask({TOPIC_ID: 40})[TOPIC_ID] > 100_000

    on_a_throttled_leader(test)


def test_lifting_a_leaders_rate_and_joining_the_isr_end_the_waiting() -> None:
    async def test(leader: Leader) -> None:
        leader.ask({TOPIC_ID: 0})
        await start_move(leader.node, isr=(1,), rate=None, epoch=3)
        assert leader.ask({TOPIC_ID: 9})[TOPIC_ID] > 30_000
        await start_move(leader.node, isr=(1,), rate=1, epoch=4)
        assert leader.ask({TOPIC_ID: 10})[TOPIC_ID] > 0, "one batch, however low the rate"
        assert leader.ask({TOPIC_ID: 11}) == {}
        await start_move(leader.node, isr=(1, 2), rate=1, epoch=5)
        assert leader.ask({TOPIC_ID: 12})[TOPIC_ID] > 20_000
        assert leader.node.table.served_learners.by_partition == {(TOPIC_ID, 0): ()}

    on_a_throttled_leader(test)


def test_s52_what_a_follower_answers_is_dated_by_the_answer_that_it_follows() -> None:
    def test(leader: Leader) -> None:
        clock = leader.node.clock
        began_ms = clock.mono_ms()
        leader.ask({TOPIC_ID: 0, OTHER_ID: 0})
        contact = leader.contact
        clock.now_ms += 18_000  # it stands still, with the next fetch in its socket
        leader.ask({})
        assert (contact.vouched_ms, contact.last_fetch_ms) == (began_ms, began_ms + 18_000)
        clock.now_ms += 400  # that one was parked; now it is answered
        leader.node.produce(size=BATCH_BYTES)
        leader.fetches.on_data_appended((TOPIC_ID, 0))
        leader.fetches.wake()
        assert contact.vouched_ms == began_ms
        clock.now_ms += 5
        leader.ask({TOPIC_ID: 1})
        assert contact.vouched_ms == began_ms + 18_400

    on_a_leader(test, replica_id=2)


def test_a_follower_that_fetches_nothing_behind_its_fetch_ends_the_wait() -> None:
    def test(leader: Leader) -> None:
        leader.ask({TOPIC_ID: 0, OTHER_ID: 0})
        assert leader.ask({}) == {} and leader.fetches.parked == 1
        leader.context.fetches = leader.fetches
        (session,) = leader.fetches.sessions._sessions.values()
        body = encode_fetch_request(17, FetchRequest(replica_id=2, broker_epoch=10))
        replies: list[Any] = []
        request: Any = SimpleNamespace(
            api_version=17,
            frame=memoryview(body),
            body_position=0,
            answer=SimpleNamespace(connection=SimpleNamespace(fetch_session=session)),
            rights=None,
            on_rest=None,
            reply_chunks=replies.append,
        )
        before = len(leader.sent)
        handler.handle(leader.context, request)
        assert (leader.fetches.parked, leader.sent[before:], len(replies)) == (0, [{}], 1)
        handler.handle(leader.context, request)
        assert (len(leader.sent), len(replies)) == (before + 1, 2), "nothing waits: nothing happens"
        assert request.answer.connection.fetch_session is session, "which goes on"

    on_a_leader(test, replica_id=2)
