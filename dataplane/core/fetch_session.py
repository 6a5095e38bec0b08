"""Incremental fetch sessions (KIP-227): what a fetcher follows, remembered on both ends of a connection.

Both classes here do work in proportion to what changed, never to what is followed. A session holds a queue of
partitions that are *due* (mentioned by the request, appended to, or left over when the last answer was full),
and an answer looks only at those. An unchanged partition costs nothing, per request and per wake-up.

A session is also evidence that its follower follows: `Contact` carries the times of the session's last
request to every replica whose follower fetches through it, so an idle follower counts as alive without being
looked at. What a request proves is dated by the answer before it, not by its arrival. A follower that stops
following takes the partition out of the session (or drops the session), and the evidence ends with it.

The leader epoch is judged with each evaluation, not here: the session remembers the epoch that the fetcher
stated, and hands it to the replica every time (KAFKA-9338: Kafka's incremental fetches once skipped that
check). Topic ids are part of the key (I21, topic ids decide).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec

from dataplane.core.results import FETCH_BYTES_MAX, FetchResult
from dataplane.core.transactions import IsolationLevel
from springtide.contract.epochs import NO_BROKER_EPOCH, BrokerEpoch, LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.node.lease import NEVER_MS
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark

CONSUMER = -1
"""`replica_id` of a fetcher that is no replica."""
DEBUGGING_CONSUMER = -2
"""`replica_id` of a fetcher that inspects what this very replica holds; Kafka's name for it."""
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
_EPOCH_MAX = 2**31 - 1
"""The epoch after this one is 1: 0 would begin another session."""


class Contact:
    """The times (monotonic ms) at which a fetch session was last heard from. Shared by reference with the
    replicas whose followers fetch through it.

    last_fetch_ms: when its last request *arrived*. The fetcher may have sent it long before, because this
    process may have been paused meanwhile. It proves only that there is no hurry to evict the follower.
    vouched_ms: when the answer before its last request was sent. The fetcher made that request later, so it
    was certainly still following at this time. NEVER_MS before its second request.
    """

    __slots__ = ("_answered_ms", "last_fetch_ms", "vouched_ms")

    def __init__(self, last_fetch_ms: int = NEVER_MS) -> None:
        self.last_fetch_ms = last_fetch_ms
        self.vouched_ms = NEVER_MS
        self._answered_ms = NEVER_MS

    def on_request(self, now_ms: int) -> None:
        """Note the session's next request, which its fetcher makes after the previous answer."""
        self.last_fetch_ms = now_ms
        self.vouched_ms = self._answered_ms

    def on_answer(self, now_ms: int) -> None:
        """Note that an answer is about to be sent. `now_ms` was read before the answer was made."""
        self._answered_ms = now_ms

    def end(self) -> None:
        self.last_fetch_ms = self.vouched_ms = self._answered_ms = NEVER_MS


class FetchPosition(NamedTuple):
    """What a fetcher asks of a partition: where its log ends, the newest epoch that it has of it, the leader
    epoch that it knows, the log start that it has stored. A consumer's epochs are -1 if it states none.

    max_bytes: less than usual while a follower is throttled; 0 while its disk has no room for records: it
    goes on to tell and to hear of log starts and the high watermark. wants_producers: a follower asks what
    the leader knows of producers below fetch_offset."""

    fetch_offset: int
    last_fetched_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch
    log_start_offset: int = -1
    max_bytes: int = FETCH_BYTES_MAX
    wants_producers: bool = False

    def tells_more_than(self, asked: FetchPosition) -> bool:
        """Return whether the leader should hear of it before it answers what was asked."""
        return (self.leader_epoch, self.log_start_offset) != (asked.leader_epoch, asked.log_start_offset)

    def has_turned(self, told: FetchPosition | None) -> bool:
        """Return whether this position does more than continue from what the leader was told last."""
        return told is None or self.leader_epoch != told.leader_epoch or self.fetch_offset < told.fetch_offset


class AskedPartition(NamedTuple):
    """One partition of a Fetch request, its topic already resolved to an id."""

    key: PartitionKey
    position: FetchPosition
    mark: LogMark | None = None


class SessionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a Fetch request that concerns sessions. `uses_topic_ids`: version 13 and later. principal:
    who sends it."""

    session_id: int
    session_epoch: int
    replica_id: int = CONSUMER
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    uses_topic_ids: bool = True
    partitions: Sequence[AskedPartition] = ()
    forgotten: Sequence[PartitionKey] = ()
    principal: str = ""


@dataclass(slots=True, eq=False)
class FollowedPartition:
    """One partition as its session remembers it. The shell reads it to call the replica; only the session
    writes it. `sent_*`: the value last sent to the fetcher, -1 if it must be sent again. told_error: the last
    since the fetcher mentioned the partition."""

    key: PartitionKey
    position: FetchPosition
    mark: LogMark | None = None
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    told_error: ErrorCode = ErrorCode.NONE

    def take_mark(self) -> LogMark | None:
        """Return the fetcher's mark and forget it: it is compared once."""
        mark, self.mark = self.mark, None
        return mark


HIGH_WATERMARK_TELL_MS = 50
"""The longest time for which a parked replica may not know that the high watermark moved. While records flow,
the next answer carries it; this bounds the delay when they stop, at the price of one small answer."""


class FetchSession:
    """One fetcher's session, or the temporary state of a fetch without one (session_id 0).

    For each answer the shell evaluates the partitions that `due` returns. It calls `settle` for those that
    the answer mentions and for those without news. It leaves alone those with news that the answer does not
    carry (the answer is full, or the fetch goes on waiting): they stay due, first in line.
    """

    def __init__(self, session_id: int, request: SessionRequest, *, now_ms: int) -> None:
        self.session_id = session_id
        self.next_epoch = 1
        self.replica_id = request.replica_id
        self.is_replica = request.replica_id >= 0
        self.is_debugging = request.replica_id == DEBUGGING_CONSUMER
        self.broker_epoch = request.broker_epoch
        self.uses_topic_ids = request.uses_topic_ids
        self.principal = request.principal
        #: What each topic's name stood for when it was mentioned, before version 13.
        self.names: dict[str, str] = {}
        #: The shell's own: what the client of the last request may do, None: everything.
        self.rights: object | None = None
        #: Of the last request.
        self.isolation = IsolationLevel.READ_UNCOMMITTED
        self.last_used_ms = now_ms
        self.contact = Contact(now_ms)
        #: The shell's own handle of the fetch that waits here, if any.
        self.parked: object | None = None
        #: The answer in preparation lists every partition, not only those with news.
        self.is_full_answer = True
        self._partitions: dict[PartitionKey, FollowedPartition] = {}
        self._due: dict[PartitionKey, FollowedPartition] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def due(self) -> list[FollowedPartition]:
        """Return the partitions to evaluate for the answer in preparation, longest waiting first."""
        return list(self._due.values())

    def note_names(self, names: Mapping[str, str]) -> None:
        """Remember what the names stand for. Those of topics that are not followed any more may go."""
        self.names.update(names)
        if len(self.names) > len(self._partitions):
            followed = {topic_id for topic_id, _ in self._partitions}
            self.names = {name: topic_id for name, topic_id in self.names.items() if topic_id in followed}

    def mark_all_due(self) -> None:
        """Have every partition evaluated, behind those that are due already."""
        for key, followed in self._partitions.items():
            self._due.setdefault(key, followed)

    def is_news(self, followed: FollowedPartition, result: FetchResult, size_bytes: int) -> bool:
        """Return whether the answer must list this partition: an error, records, a divergence, or a high
        watermark or log start that the fetcher has not been told (KIP-227)."""
        return (
            self.is_full_answer
            or result.error is not ErrorCode.NONE
            or size_bytes > 0
            or result.diverging is not None
            or result.high_watermark != followed.sent_high_watermark
            or result.log_start_offset != followed.sent_log_start_offset
        )

    def settle(self, followed: FollowedPartition, result: FetchResult, *, is_more_left: bool) -> None:
        """Note what the answer about to be sent says of the partition. `is_more_left`: it may have more
        bytes, so it stays due, at the end of the queue. So does one with an error: not every error ends with
        an event, and a fetcher that has nothing new to ask of it does not mention it again. Where there was
        no room (`found_no_room`), the answer holds none of its bytes, so it keeps its place; in the end it is
        first, where a batch of any size is sent."""
        error = result.error
        if error is ErrorCode.NONE:
            followed.sent_high_watermark = result.high_watermark
            followed.sent_log_start_offset = result.log_start_offset
        else:  # the next answer without an error is news
            followed.sent_high_watermark = -1
            followed.sent_log_start_offset = -1
        followed.told_error = error
        if result.found_no_room:
            return
        self._due.pop(followed.key, None)
        if (is_more_left or error is not ErrorCode.NONE) and followed.key in self._partitions:
            self._due[followed.key] = followed

    def _mention(self, mentioned: AskedPartition) -> bool:
        """Take in a partition of the request. Return whether it is new to the session."""
        key, position, mark = mentioned
        followed = self._partitions.get(key)
        is_new = followed is None
        if followed is None:
            followed = FollowedPartition(key, position)
            self._partitions[key] = followed
        if followed.position.leader_epoch != position.leader_epoch:
            # The follower dropped an answer to its earlier epoch that was on its way.
            followed.sent_high_watermark = followed.sent_log_start_offset = -1
        followed.position = position
        followed.mark = mark
        followed.told_error = ErrorCode.NONE
        self._due[key] = followed
        return is_new

    def _forget(self, key: PartitionKey) -> bool:
        """Drop a partition. Return whether the session held it."""
        self._due.pop(key, None)
        return self._partitions.pop(key, None) is not None


_Watchers = dict[PartitionKey, dict[FetchSession, None]]


class FetchSessions:
    """All sessions of this broker, and which of them follow which partition.

    session_ids: an endless supply of hard-to-guess positive 31-bit numbers, drawn by the shell. Bounds:
    `sessions_max` sessions, `partitions_max` followed partitions in all. When the table is full, a new
    session replaces the least recently used one if that has been idle for `idle_ms` or more, or if the
    newcomer is a replica and the other is not. Otherwise the fetch is answered without a session, which
    KIP-227 allows. A fetch that waits keeps its session. (Kafka also lets larger sessions evict smaller ones;
    with room for all brokers of a cluster that only makes consumers compete.)
    """

    def __init__(
        self,
        session_ids: Iterator[int],
        *,
        sessions_max: int = 1_000,
        partitions_max: int = 1_000_000,
        idle_ms: int = 120_000,
    ) -> None:
        assert sessions_max > 0
        self._session_ids = session_ids
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._idle_ms = idle_ms
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first
        self._partition_count = 0
        self._replicas: _Watchers = {}
        self._consumers: _Watchers = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: SessionRequest, *, now_ms: int) -> FetchSession | ErrorCode:
        """Return the session to answer this request from, updated with it: an existing one, a new one, or a
        temporary one (session_id 0). Return an error code to answer with as the top-level error:
        FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR. A request
        from another replica or broker epoch than the session's finds no session (I8, broker epochs fence
        incarnations); nor does one of another principal, which would be told what the session follows.

        The caller calls `on_replica_gone` for each partition that the request forgets.
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._open_full(request, now_ms)
        session = self._sessions.get(request.session_id)
        if (
            session is None
            or session.replica_id != request.replica_id
            or session.broker_epoch != request.broker_epoch
            or session.principal != request.principal
        ):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.uses_topic_ids != request.uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if session.next_epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if self._partition_count + len(request.partitions) > self._partitions_max:
            self.close(session)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.next_epoch = session.next_epoch + 1 if session.next_epoch < _EPOCH_MAX else 1
        session.is_full_answer = False
        session.last_used_ms = now_ms
        session.contact.on_request(now_ms)
        self._sessions.move_to_end(session.session_id)
        for mentioned in request.partitions:
            if session._mention(mentioned):
                self._partition_count += 1
                self._watch(session, mentioned.key)
        for key in request.forgotten:
            if session._forget(key):
                self._partition_count -= 1
                self._unwatch(session, key)
        return session

    def _open_full(self, request: SessionRequest, now_ms: int) -> FetchSession:
        replaced = self._sessions.get(request.session_id)
        if replaced is not None and (replaced.replica_id, replaced.principal) == (
            request.replica_id,
            request.principal,
        ):
            self.close(replaced)
        session_id = NO_SESSION
        if request.session_epoch == INITIAL_EPOCH and self._make_room(request, now_ms):
            session_id = next(self._session_ids)
            while session_id in self._sessions or session_id == NO_SESSION:
                session_id = next(self._session_ids)
        session = FetchSession(session_id, request, now_ms=now_ms)
        for mentioned in request.partitions:
            session._mention(mentioned)
        if session_id != NO_SESSION:
            self._sessions[session_id] = session
            self._partition_count += len(session)
            for key in session._partitions:
                self._watch(session, key)
        return session

    def _make_room(self, request: SessionRequest, now_ms: int) -> bool:
        if not request.partitions:
            return False
        while (
            len(self._sessions) >= self._sessions_max
            or self._partition_count + len(request.partitions) > self._partitions_max
        ):
            victim = self._find_victim(is_replica=request.replica_id >= 0, now_ms=now_ms)
            if victim is None:
                return False
            self.close(victim)
            self.evictions += 1
        return True

    def _find_victim(self, *, is_replica: bool, now_ms: int) -> FetchSession | None:
        for session in self._sessions.values():
            if session.parked is not None:
                continue
            if now_ms - session.last_used_ms >= self._idle_ms or (is_replica and not session.is_replica):
                return session
            if not is_replica:
                return None  # the others were used later
        return None

    def close(self, session: FetchSession) -> None:
        """End the session. From here on it is no evidence that its fetcher follows."""
        session.contact.end()
        if self._sessions.get(session.session_id) is session:
            del self._sessions[session.session_id]
            self._partition_count -= len(session)
            self._unwatch_all(session)

    def park(self, session: FetchSession, handle: object) -> None:
        """Let the fetch wait. From here on the `on_` methods return this session too."""
        assert session.parked is None or session.parked is handle
        session.parked = handle
        if session.session_id == NO_SESSION:
            for key in session._partitions:
                self._watch(session, key)

    def unpark(self, session: FetchSession) -> None:
        """End the wait: the fetch was answered, timed out, or lost its connection."""
        session.parked = None
        if session.session_id == NO_SESSION:
            self._unwatch_all(session)

    def on_data_appended(self, key: PartitionKey) -> Sequence[FetchSession]:
        """Mark the partition due for the replicas that follow it. Return the parked ones, to be answered."""
        return _mark(self._replicas.get(key), key)

    def on_high_watermark_moved(self, key: PartitionKey) -> Sequence[FetchSession]:
        """Mark the partition due for all sessions. Return the parked *consumers*, to be answered now. Parked
        replicas are not woken: their next answer carries it, and the shell should cap their remaining wait at
        HIGH_WATERMARK_TELL_MS (see `replicas_to_tell`)."""
        _mark(self._replicas.get(key), key)
        return _mark(self._consumers.get(key), key)

    def replicas_to_tell(self, key: PartitionKey) -> Sequence[FetchSession]:
        """Return the parked replica sessions that follow the partition."""
        return [session for session in self._replicas.get(key, ()) if session.parked is not None]

    def on_leadership_changed(self, key: PartitionKey) -> Sequence[FetchSession]:
        """Mark the partition due for all sessions. Return the parked ones that follow it."""
        return [*_mark(self._replicas.get(key), key), *_mark(self._consumers.get(key), key)]

    def _watch(self, session: FetchSession, key: PartitionKey) -> None:
        watchers = self._replicas if session.is_replica else self._consumers
        watchers.setdefault(key, {})[session] = None

    def _unwatch(self, session: FetchSession, key: PartitionKey) -> None:
        watchers = self._replicas if session.is_replica else self._consumers
        watching = watchers.get(key)
        if watching is not None:
            watching.pop(session, None)
            if not watching:
                del watchers[key]

    def _unwatch_all(self, session: FetchSession) -> None:
        for key in session._partitions:
            self._unwatch(session, key)


def _mark(watching: dict[FetchSession, None] | None, key: PartitionKey) -> Sequence[FetchSession]:
    if watching is None:
        return ()
    parked = []
    for session in watching:
        session._due[key] = session._partitions[key]
        if session.parked is not None:
            parked.append(session)
    return parked


MENTIONED_MAX = 1_000
"""Partitions that one request of a follower mentions: both brokers handle a request and its answer without a
pause."""


class FollowerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the next Fetch to a leader. unproven: partitions where the leader has not yet compared,
    in this session and leader epoch, what lies before the position; each goes with a mark. has_more: there
    was no room for other partitions, so the leader must not wait with its answer."""

    session_id: int
    session_epoch: int
    partitions: tuple[tuple[PartitionKey, FetchPosition], ...]
    forgotten: tuple[PartitionKey, ...]
    unproven: frozenset[PartitionKey] = frozenset()
    has_more: bool = False


class FollowerSession:
    """The follower's end: everything it fetches from one leader. At most one request is in flight."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._next_epoch = INITIAL_EPOCH
        self._is_in_flight = False
        #: The leader had no room for a session.
        self._is_refused = False
        self._followed: dict[PartitionKey, FetchPosition] = {}
        # What the next request has to say, and what the leader's session holds once the last one has arrived.
        self._changed: dict[PartitionKey, None] = {}
        self._forgotten: dict[PartitionKey, None] = {}
        self._told: dict[PartitionKey, FetchPosition | None] = {}

    def set_position(self, key: PartitionKey, position: FetchPosition) -> None:
        """Fetch this partition from this position on; the next request mentions it if the leader does not
        know it. After `remove` every position is mentioned: the last answer may have been thrown away."""
        self._followed[key] = position
        if key in self._forgotten:
            del self._forgotten[key]
            self._told[key] = None  # the leader still holds it, at a position that no longer counts
        if self._told.get(key) == position:
            self._changed.pop(key, None)
        else:
            self._changed[key] = None

    def remove(self, key: PartitionKey) -> None:
        """Fetch this partition no longer; the next request forgets it."""
        self._followed.pop(key, None)
        self._changed.pop(key, None)
        if key in self._told:
            self._forgotten[key] = None

    def asked(self, key: PartitionKey) -> FetchPosition | None:
        """Return the position that an answer to the last request is about. None if the partition was removed
        since, or was not mentioned yet."""
        return self._told.get(key) if key in self._followed else None

    def build(self) -> FollowerRequest:
        """Return the next request: a full one if there is no session, else only what changed; MENTIONED_MAX
        partitions of it, and the others with the requests that follow. The caller keeps it until it is
        answered, then calls exactly one of on_answer and on_failure."""
        assert not self._is_in_flight
        self._is_in_flight = True
        followed, told = self._followed, self._told
        is_full = self._next_epoch == INITIAL_EPOCH
        if is_full:
            self._changed = dict.fromkeys(followed)
        changed = self._changed
        # Without a session the leader remembers no partition of an earlier request.
        count_max = len(followed) if self._is_refused else MENTIONED_MAX
        partitions = [(key, followed[key]) for key in islice(changed, count_max)]
        unproven = []
        for key, position in partitions:
            if position.has_turned(told.get(key)):
                unproven.append(key)
            told[key] = position
            del changed[key]
        forgotten = tuple(self._forgotten)
        for key in forgotten:
            told.pop(key, None)
        self._forgotten.clear()
        return FollowerRequest(
            session_id=self._session_id,
            session_epoch=self._next_epoch,
            partitions=tuple(partitions),
            forgotten=() if is_full else forgotten,
            unproven=frozenset(unproven),
            has_more=bool(changed),
        )

    def on_answer(self, error: ErrorCode, *, session_id: int) -> bool:
        """Take in the leader's answer. Return true if its partitions may be used, false if the session was
        lost (the next request is full)."""
        assert self._is_in_flight
        self._is_in_flight = False
        if error is not ErrorCode.NONE:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self._begin_anew()
            return False
        if self._next_epoch == INITIAL_EPOCH:
            # A leader without room answers with id 0: then every request is a full one.
            self._session_id = session_id
            self._is_refused = session_id == NO_SESSION
            self._next_epoch = INITIAL_EPOCH if self._is_refused else 1
            return True
        if session_id != self._session_id:
            self._begin_anew()
            return False
        self._next_epoch = self._next_epoch + 1 if self._next_epoch < _EPOCH_MAX else 1
        return True

    def on_failure(self) -> None:
        """The connection broke or the request timed out: the next one is full, and replaces the session."""
        self._is_in_flight = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._next_epoch = INITIAL_EPOCH
        self._told = {}
