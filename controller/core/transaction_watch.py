"""Which transactions hang: they are open in a partition, and no coordinator has them.

    reported as open for long --each shard denies it--> denied --two later reports of it--> hangs
        any --its coordinator has it--> asked again after a while
        any --its leader reports it no more--> forgotten

A coordinator has a transaction from before its first record until after its last marker. So one that is open
before a shard denies it, and afterwards, is not that shard's. A report may have been under way when the last
denial came; the next one of the same leader was made after it. Neither clocks nor timeouts are evidence, and
what can't be asked is not concluded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.core.alarms import AlarmBook, utc_text
from controller.core.draft import Draft
from controller.core.effects import AlarmCode, AlarmKey
from controller.core.image import ClusterImage
from controller.core.shards import TRANSACTIONS_TOPIC
from springtide.contract.epochs import NO_LEADER_EPOCH, LeaderEpoch
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import PartitionKey
from springtide.contract.transactions import (
    SUSPECTS_ASKED_MAX,
    OpenTransaction,
    Suspect,
    TransactionNews,
)

#: One that is younger ends by itself as a rule, and is not asked for.
SUSPECT_AFTER_MS: Final = 20_000
#: One that its coordinator has is asked for again after so long.
ASK_AGAIN_MS: Final = 20_000
#: Of one cluster; further ones are looked at when those have ended.
SUSPECTS_MAX: Final = 1_000
REPORTS_AFTER_DENIAL: Final = 2
_NAMED_MAX: Final = 3


class Hanging:
    """A transaction that is suspected to hang, or does.

    since_ms: Unix time since when its leader knows it. denied: the shards that do not have it.
    reports: since each has denied it, of the leader of `leader_epoch`.
    """

    __slots__ = (
        "ask_from_ms",
        "denied",
        "is_denied",
        "leader_epoch",
        "producer_epoch",
        "reports",
        "since_ms",
        "suspect",
    )

    def __init__(self, suspect: Suspect, producer_epoch: int, since_ms: int) -> None:
        self.suspect = suspect
        self.producer_epoch = producer_epoch
        self.since_ms = since_ms
        self.ask_from_ms = 0
        self.denied: set[int] = set()
        self.is_denied = False
        self.leader_epoch = NO_LEADER_EPOCH
        self.reports = 0

    @property
    def hangs(self) -> bool:
        return self.reports >= REPORTS_AFTER_DENIAL

    def on_reported(self, leader_epoch: LeaderEpoch) -> None:
        if self.is_denied and not self.hangs:
            self.reports = self.reports + 1 if leader_epoch == self.leader_epoch else 1
            self.leader_epoch = leader_epoch

    def on_held(self, now_ms: int) -> None:
        self.denied.clear()
        self.is_denied, self.reports = False, 0
        self.ask_from_ms = now_ms + ASK_AGAIN_MS


class TransactionWatch:
    """Takes leaders' reports and coordinators' news, and raises the alarms. In memory, while this controller
    is active."""

    __slots__ = ("_alarms", "_cases", "_count", "_suspects_max")

    def __init__(self, alarms: AlarmBook, *, suspects_max: int = SUSPECTS_MAX) -> None:
        self._alarms = alarms
        self._suspects_max = suspects_max
        #: By partition and producer.
        self._cases: dict[PartitionKey, dict[int, Hanging]] = {}
        self._count = 0

    def hanging(self) -> list[Hanging]:
        return [case for cases in self._cases.values() for case in cases.values() if case.hangs]

    def on_report(self, draft: Draft, lag: PartitionLag) -> None:
        """Take in what the partition's leader tells."""
        key = (lag.topic_id, lag.partition)
        before = self._cases.pop(key, {})
        if not before and lag.transactions is None:
            return
        self._count -= len(before)
        were_hanging = {producer_id for producer_id, case in before.items() if case.hangs}
        now = {}
        for one in lag.transactions.oldest if lag.transactions is not None else ():
            case = before.get(one.producer_id)
            if case is not None and case.suspect.first_offset == one.first_offset:
                case.on_reported(lag.leader_epoch)
                now[one.producer_id] = case
            elif one.open_ms >= SUSPECT_AFTER_MS and self._count + len(now) < self._suspects_max:
                now[one.producer_id] = _case(draft, key, one)
        if now:
            self._cases[key] = now
            self._count += len(now)
        hang_now = {producer_id for producer_id, case in now.items() if case.hangs}
        for producer_id in sorted(were_hanging ^ hang_now):
            self._tell(draft, producer_id)

    def suspects(self, image: ClusterImage, coordinator_id: int, now_ms: int) -> tuple[Suspect, ...]:
        """Return what the coordinator is to be asked for: what it has not denied for all of its shards."""
        if not self._cases:
            return ()
        owned = {number for number, owner in _owners(image) if owner == coordinator_id}
        return tuple(
            case.suspect
            for case, _ in zip(self._to_ask(owned, now_ms), range(SUSPECTS_ASKED_MAX), strict=False)
        )

    def _to_ask(self, owned: set[int], now_ms: int) -> Iterator[Hanging]:
        for cases in self._cases.values():
            for case in cases.values():
                if not case.is_denied and now_ms >= case.ask_from_ms and not owned <= case.denied:
                    yield case

    def on_news(self, draft: Draft, coordinator_id: int, news: TransactionNews, now_ms: int) -> None:
        """Take in which suspects a coordinator has. It speaks for the shards that it owns now."""
        if not news.checked or not self._cases:
            return
        image = draft.image
        owners = dict(_owners(image))
        told = {number for number in news.shards if owners.get(number) == coordinator_id}
        held = set(news.held)
        for suspect in news.checked:
            topic = image.topic_named(suspect.topic)
            key = None if topic is None else (topic.topic_id, suspect.partition)
            case = None if key is None else self._cases.get(key, {}).get(suspect.producer_id)
            if case is None or case.suspect != suspect:
                continue
            if suspect in held:
                hung = case.hangs
                case.on_held(now_ms)
                if hung:
                    self._tell(draft, suspect.producer_id)
            elif not case.is_denied:
                case.denied |= told
                case.is_denied = bool(owners) and owners.keys() <= case.denied

    def on_tick(self, draft: Draft) -> None:
        """Forget partitions that are gone."""
        for key in [key for key in self._cases if key not in draft.image.partitions]:
            gone = self._cases.pop(key)
            self._count -= len(gone)
            for producer_id in gone:
                self._tell(draft, producer_id)

    def _tell(self, draft: Draft, producer_id: int) -> None:
        """Raise or clear the alarm of one producer: it is one fault, in whatever partitions."""
        key = AlarmKey(code=AlarmCode.TRANSACTION_HANGS, producer_id=producer_id)
        found = [cases[producer_id] for cases in self._cases.values() if producer_id in cases]
        found = sorted((case for case in found if case.hangs), key=lambda case: case.suspect)
        if not found:
            self._alarms.clear_alarm(draft, key)
            return
        first = found[0].suspect
        places = [
            f"{case.suspect.topic}-{case.suspect.partition} from offset {case.suspect.first_offset}"
            for case in found[:_NAMED_MAX]
        ]
        more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
        self._alarms.raise_alarm(
            draft,
            key,
            f"a transaction of producer {producer_id}, epoch {found[0].producer_epoch}, is open in "
            f"{', '.join(places)}{more}, since {utc_text(min(case.since_ms for case in found))}, and no "
            "coordinator has it: it ends only by an operator, and readers of committed records wait there. "
            f"`springtide transactions end {first.topic} {first.partition} --producer-id {producer_id} "
            "--dry-run` says what that frees",
        )


def _case(draft: Draft, key: PartitionKey, one: OpenTransaction) -> Hanging:
    suspect = Suspect(one.producer_id, draft.image.topics[key[0]].topic, key[1], one.first_offset)
    return Hanging(suspect, one.producer_epoch, draft.wall_ms - one.open_ms)


def _owners(image: ClusterImage) -> Iterator[tuple[int, int]]:
    """Yield the shards of transactions, with the coordinator that owns each."""
    topic = image.topic_named(TRANSACTIONS_TOPIC)
    if topic is None:
        return
    for state in image.partitions_of(topic.topic_id):
        if state.shard is not None:
            yield state.partition, state.shard.owner
