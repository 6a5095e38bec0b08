"""Any budget reaches the first batch of some partition, and partitions take turns (KIP-74)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from dataplane.core.fetch_session import (
    AskedPartition,
    FetchPosition,
    FetchSession,
    FetchSessions,
    SessionRequest,
)
from dataplane.core.fetch_session import FollowedPartition as Followed
from dataplane.core.fetches import Fetch, FetchedAnswer
from dataplane.core.log_port import LogSlice
from dataplane.core.results import FetchResult
from dataplane.shell.fetches import Fetches
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from tests.kit.clocks import ManualClock

Logs = dict[str, list[int]]
"""The sizes of each partition's batches; a batch's offset is its index."""


@dataclass
class Consumer:
    """Fetches from a leader as Kafka's consumer does: a first answer that omits a partition is no answer."""

    logs: Logs
    max_bytes: int
    partition_bytes: int
    in_session: bool
    empty_partitions_max: int = 100_000
    positions: dict[str, int] = field(init=False)
    told: list[list[FetchedAnswer]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.positions = dict.fromkeys(self.logs, 0)
        self.clock = ManualClock()
        self.fetches = Fetches(
            sessions=FetchSessions(iter(range(1, 1_000_000))),
            evaluate=self._evaluate,
            respond=lambda _fetch, session, answers: self._take(session, answers),
            clock=self.clock,
            holds_lease=lambda _now_ms: True,
            empty_partitions_max=self.empty_partitions_max,
        )
        self.session_id = 0
        self.epochs = count(0)
        self.mentioned: dict[str, int] = {}

    def _evaluate(
        self, _session: FetchSession, followed: Followed, max_bytes: int, at_least_one: bool, _now_ms: int
    ) -> FetchResult:
        left = self.logs[followed.key[0]][followed.position.fetch_offset :]
        size, batches = 0, 0
        for batch in left:
            if size + batch > max_bytes and (batches or not at_least_one):
                break
            size, batches = size + batch, batches + 1
        end = len(self.logs[followed.key[0]])
        found_no_room = bool(left) and not batches
        records = LogSlice((), size, followed.position.fetch_offset + batches)
        return FetchResult(ErrorCode.NONE, end, 0, records, None, found_no_room)

    def fetch(self) -> set[str]:
        """Fetch once; return the partitions that records were read of."""
        asked = {name: at for name, at in self.positions.items() if self.mentioned.get(name) != at}
        opened = self.fetches.sessions.open(
            SessionRequest(
                session_id=self.session_id,
                session_epoch=next(self.epochs) if self.in_session else -1,
                partitions=[
                    AskedPartition(
                        (name, 0),
                        FetchPosition(at, LeaderEpoch(-1), LeaderEpoch(1), -1, max(self.partition_bytes, 1)),
                    )
                    for name, at in (asked if self.in_session else self.positions).items()
                ],
            ),
            now_ms=0,
        )
        assert isinstance(opened, FetchSession)
        self.mentioned.update(asked)
        before = dict(self.positions)
        fetch = Fetch(
            session=opened,
            min_bytes=1,
            max_bytes=max(self.max_bytes, 1),
            deadline_ms=0,
            context=None,
            is_gone=lambda: False,
        )
        self.fetches.start(fetch)
        return {name for name, at in self.positions.items() if at != before[name]}

    def _take(self, session: FetchSession, answers: list[FetchedAnswer]) -> None:
        self.told.append(answers)
        if session.is_full_answer:
            assert {answer.followed.key[0] for answer in answers} == set(self.logs), "clients refuse it"
            self.session_id = session.session_id
        for answer in answers:
            records = answer.result.records
            if records is not None and records.size_bytes:
                self.positions[answer.followed.key[0]] = records.next_offset

    @property
    def is_done(self) -> bool:
        return all(self.positions[name] == len(batches) for name, batches in self.logs.items())


SIZES = st.lists(st.integers(1, 300), max_size=4)
BUDGETS = st.sampled_from([0, 1, 63, 64, 65, 500, 4_000])


@given(st.lists(SIZES, min_size=1, max_size=70), BUDGETS, BUDGETS, st.booleans(), st.integers(1, 80))
def test_whoever_repeats_fetches_reads_every_record_however_small_the_budget(
    logs: list[list[int]], max_bytes: int, partition_bytes: int, in_session: bool, empty_max: int
) -> None:
    named = {f"topic{index}": sizes for index, sizes in enumerate(logs)}
    consumer = Consumer(named, max_bytes, partition_bytes, in_session, empty_max)
    batches = sum(map(len, logs))
    looks = -(-len(logs) // empty_max)  # fetches that may meet empty partitions only
    for _ in range((batches + 1) * looks + 1):
        consumer.fetch()
        if consumer.is_done:
            return
    raise AssertionError(f"it read {consumer.positions} of {named}")


@given(st.integers(2, 70), BUDGETS)
def test_partitions_take_turns_within_a_session(partitions: int, max_bytes: int) -> None:
    consumer = Consumer({f"topic{index}": [5_000] * 3 for index in range(partitions)}, max_bytes, 5_000, True)
    for turn in range(1, 4):
        read: set[str] = set()
        for _ in range(partitions):
            read |= consumer.fetch()
        assert len(read) == partitions
        assert set(consumer.positions.values()) == {turn}


def test_within_a_session_an_answer_looks_at_no_more_empty_partitions_than_its_bound() -> None:
    logs: Logs = {f"topic{index}": [] for index in range(9)}
    consumer = Consumer(logs, 1_000, 1_000, True, 3)
    consumer.fetch()
    for batches in logs.values():
        batches.clear()
    consumer.mentioned.clear()  # it mentions all of them again
    consumer.fetch()
    (session,) = consumer.fetches.sessions._sessions.values()
    assert len(session.due()) == 6
