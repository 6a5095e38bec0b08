"""The delivery of one task's records to one partition, exactly once: what to ask, send and skip.

          |  opened
          v       nothing is stored                     ended, all committed
       asking --------------------------------> sending --------------------> checking --> delivered
        |   ^ \\                               /    |                            |
        |   |  something may be --> scanning --+     |                            |
        |   |                       (compared)       |                            |
        |   +-- any answer but "appended", or none; silence                       |
        |   +-- the leader is another one than the evidence came from ------------+
        +--> failed: fenced, forgotten, overtaken, plan changed, records lost, gap, refused, stalled

Attempts of the same task derive the same producer id and epoch (identity.py), and sequences count the task's
records in the partition. A broker appends a batch only if its sequences follow the last ones (KIP-98): so of
concurrent attempts, at most one appends at each place, and none appends without knowing where the stored
records end. *What* is stored under the sequences is compared: an attempt that finds records reads them, and
makes batches only of rows that are missing (stored_rows.py), in any order of rows.

The rules, each of which a planted bug in the simulation breaks:

1. (evidence first) No batch is made or sent before there is evidence of what is stored.
2. (memory) The brokers' memory of the producer (DescribeProducers) is evidence only if it tells of no more
   records than this attempt has compared; while the partition has had one leader since the micro-batch was
   opened; and while the opening is so young that no broker can have forgotten. Otherwise the log is read.
   "Unknown producer" from brokers that may have forgotten does not mean "nothing is stored".
3. (doubt) Any answer but success voids the evidence, and so does silence: there may have been an election,
   and a leader that does not know a producer takes *any* sequence from it (KIP-360). "Duplicate" voids it
   too: sequences are stored, but perhaps with other records.
4. (committed) Only committed records count as stored; described records above them are waited for. If a
   leader tells of them twice, and what its log held then is committed without them from the opening on, they
   lie before the opening: the opening is not the one that they were written after, and the attempt is over.
5. (zombies) An attempt that was silent for long asks again before it sends.
6. (one leader) Success needs the same leader at the end as for the evidence; else the log is read and
   compared.
7. (own batches) A batch in the log under this attempt's sequences is this attempt's batch, or the attempt is
   over.

One thing is under way at a time. Pure: `step` takes an event and the wall clock, and returns the next action.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import assert_never

from pipeline.sink import steps
from pipeline.sink.identity import ProducerIdentity
from springtide.wire.errors import ErrorCode

SEQUENCE_MAX = 2**31 - 1
DOUBLINGS_MAX = 20

OLD_CHECKPOINT = (
    "The checkpoint is an older copy, or its folder springtide-sink/ is gone, or another query writes with "
    "the same checkpoint or 'sinkId'. Nothing that is stored has changed. Continue with the newest copy of "
    "the whole checkpoint. If there is none, remove springtide-sink/ from this one and give the sink a new "
    "name (option 'sinkId'): it continues, and rows that were written after this copy was made are stored "
    "twice"
)
VOIDS_EVIDENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,  # another attempt is ahead, or the log was cut
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,  # stored, but nothing says that it is committed
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNKNOWN_PRODUCER_ID,  # brokers before Kafka 2.5
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Besides the retriable ones. All other errors are final."""


@dataclass(frozen=True, slots=True)
class PartitionOpening:
    """The partition before anything of the micro-batch was written.

    start_offset: its high watermark; leader_epoch: its leader's; opened_ms: wall clock.
    """

    start_offset: int
    leader_epoch: int
    opened_ms: int


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """Bounds of a delivery, in milliseconds.

    memory_trusted_ms: no broker forgets a producer so soon: well below producer.id.expiration.ms (Kafka: a
    day). silence_ms_max: after so long without an answer from the partition, the evidence is gathered again.
    stalled_ms: after so long without progress, the attempt fails (Kafka's delivery.timeout.ms).
    """

    memory_trusted_ms: int = 6 * 60 * 60 * 1000
    silence_ms_max: int = 5 * 60 * 1000
    stalled_ms: int = 120_000
    backoff_ms: int = 100
    backoff_ms_max: int = 1_000


class _Asked(Enum):
    """The action that is under way."""

    NOTHING = auto()
    DESCRIPTION = auto()
    SCAN = auto()
    SEND = auto()
    CHECK = auto()
    PAUSE = auto()


class PartitionDelivery:
    """One for each task attempt and partition. `step` returns the next action, or None while one is under
    way. No step follows Delivered or Failed."""

    __slots__ = (
        "_ahead",
        "_asked",
        "_asked_ms",
        "_described",
        "_described_below",
        "_evidence_epoch",
        "_expected",
        "_heard_ms",
        "_held",
        "_identity",
        "_is_ended",
        "_known",
        "_offered",
        "_opening",
        "_options",
        "_progressed_ms",
        "_stored",
        "_told",
        "_tries",
        "resumes_at",
    )

    def __init__(
        self,
        identity: ProducerIdentity,
        opening: PartitionOpening,
        *,
        now_ms: int,
        options: DeliveryOptions = DeliveryOptions(),
    ) -> None:
        self._identity = identity
        self._opening = opening
        self._options = options
        self.resumes_at: int | None = None
        """The sequence of this attempt's first record; None until it is known what is stored."""
        self._held: deque[steps.Batch] = deque()
        """Batches that are not known to be stored."""
        self._offered = steps.NO_SEQUENCE
        self._is_ended = False
        self._stored = steps.NO_SEQUENCE
        """Committed and compared up to here."""
        self._known: steps.Known | None = None
        self._expected: dict[int, steps.Stored] = {}
        """Batches that the log must have, by base sequence: those it had at first, and our own."""
        self._ahead: dict[int, steps.Stored] = {}
        """Later batches in the log: of a concurrent attempt, perhaps with the same rows."""
        self._described = steps.NO_SEQUENCE
        """The last sequence in the brokers' memory, believed or not."""
        self._told: steps.Described | None = None
        """The first of the descriptions in a row that tell the same of our own epoch."""
        self._described_below: int | None = None
        """Its records lie below this offset. Only the second description says so: the first one's producer
        may be from the memory of a leader before the one that said where the log ends."""
        self._evidence_epoch: int | None = None
        """The leader epoch of the evidence; None: there is no evidence."""
        self._heard_ms = now_ms
        """Time at which the last successful request was sent: its answer may have taken long."""
        self._asked = _Asked.NOTHING
        self._asked_ms = now_ms
        self._progressed_ms = now_ms
        self._tries = 0
        """Tries since the last progress."""

    @property
    def held_bytes(self) -> int:
        return sum(len(batch.data) for batch in self._held)

    def step(self, event: steps.Event, *, now_ms: int) -> steps.Action | None:
        match event:
            case steps.Opened():
                assert self.resumes_at is None and self._asked is _Asked.NOTHING
                self._leave_idleness(now_ms)
            case steps.Offered(batch=batch):
                assert not self._is_ended and self.resumes_at is not None
                assert batch.base_sequence == self._offered + 1 <= batch.last_sequence
                if batch.last_sequence > SEQUENCE_MAX:
                    return steps.Failed(
                        steps.Failure.REFUSED,
                        "more than 2^31 records of one task for one partition in one micro-batch",
                    )
                ours = steps.Stored(batch.base_sequence, batch.last_sequence, batch.crc)
                if self._ahead.pop(batch.base_sequence, ours) != ours:
                    return _overtaken(batch.base_sequence)
                self._expected[batch.base_sequence] = ours
                self._offered = batch.last_sequence
                self._held.append(batch)
                self._leave_idleness(now_ms)
            case steps.Ended():
                self._is_ended = True
                self._leave_idleness(now_ms)
            case steps.Away(away_ms=away_ms):
                assert self._asked is not _Asked.NOTHING
                self._progressed_ms += away_ms
            case steps.Described():
                self._expect(_Asked.DESCRIPTION)
                return self._on_described(event, now_ms)
            case steps.Scanned():
                self._expect(_Asked.SCAN)
                return self._on_scanned(event, now_ms)
            case steps.SendAnswered():
                self._expect(_Asked.SEND)
                return self._on_answered(event, now_ms)
            case steps.Checked():
                self._expect(_Asked.CHECK)
                return self._on_checked(event, now_ms)
            case steps.NoUsableAnswer(reason=reason):
                assert self._asked not in (_Asked.NOTHING, _Asked.PAUSE)
                self._asked = _Asked.NOTHING
                # It may be a topic that was made again, which this broker has yet to hear of.
                self._told = self._described_below = None
                return self._again(reason, now_ms)
            case steps.Woken():
                self._expect(_Asked.PAUSE)
            case _:
                assert_never(event)
        return None if self._asked is not _Asked.NOTHING else self._next(now_ms)

    def _leave_idleness(self, now_ms: int) -> None:
        """Count the time that the task needed for its rows as progress: it is not the brokers' delay."""
        if self._asked is _Asked.NOTHING:
            self._on_progress(now_ms)

    def _expect(self, asked: _Asked) -> None:
        assert self._asked is asked, f"an answer to {asked.name} while {self._asked.name} is under way"
        self._asked = _Asked.NOTHING

    # What came of it.

    def _on_described(self, described: steps.Described, now_ms: int) -> steps.Action:
        if described.producer_epoch > self._identity.producer_epoch:
            return self._fenced(described.producer_epoch)
        is_ours = described.producer_epoch == self._identity.producer_epoch
        self._described = described.last_sequence if is_ours else steps.NO_SEQUENCE
        told = self._told
        if not is_ours or told is None or told != replace(described, end_offset=told.end_offset):
            self._told, self._described_below = described if is_ours else None, None
        elif self._described_below is None and described.end_offset >= 0:
            self._described_below = described.end_offset
        if self._described == self._stored and self._is_memory_trusted(described.leader_epoch, now_ms):
            return self._on_evidence(described.leader_epoch, now_ms)
        scan = steps.Scan(self._opening.start_offset, self._opening.leader_epoch, self._known)
        return self._ask(_Asked.SCAN, scan, now_ms)

    def _is_memory_trusted(self, leader_epoch: int, now_ms: int) -> bool:
        """Rule 2 (memory). An opening that seems to lie in the future is as doubtful as an old one."""
        age_ms = abs(now_ms - self._opening.opened_ms)
        return leader_epoch == self._opening.leader_epoch and age_ms <= self._options.memory_trusted_ms

    def _on_scanned(self, scanned: steps.Scanned, now_ms: int) -> steps.Action:
        if scanned.producer_epoch > self._identity.producer_epoch:
            return self._fenced(scanned.producer_epoch)
        if scanned.anomaly:
            return steps.Failed(
                steps.Failure.GAP,
                f"{scanned.anomaly}, of producer {self._identity.producer_id}, epoch "
                f"{self._identity.producer_epoch}, from offset {self._opening.start_offset} on",
            )
        last = scanned.last_sequence
        if last < self._described:  # rule 4 (committed)
            if self.resumes_at is None and self._is_before_the_opening(scanned):
                return _forgotten(self._described - last, self._opening.start_offset)
            return self._again(f"sequences {last + 1} to {self._described} are not committed yet", now_ms)
        if self.resumes_at is None:
            self._offered = last
            self._expected = {batch.base_sequence: batch for batch in scanned.batches}
        elif (foreign := self._compare(scanned)) is not None:
            return _overtaken(foreign.base_sequence)
        if last > self._stored:
            self._on_progress(now_ms)
        self._stored = last
        self._known = steps.Known(last, scanned.end_offset, scanned.leader_epoch)
        return self._on_evidence(scanned.leader_epoch, now_ms)

    def _is_before_the_opening(self, scanned: steps.Scanned) -> bool:
        """Return whether all that the log held when the producer was described is committed by now."""
        told, below = self._told, self._described_below
        return (
            told is not None
            and below is not None
            and told.leader_epoch == scanned.leader_epoch
            and below <= scanned.end_offset
        )

    def _compare(self, scanned: steps.Scanned) -> steps.Stored | None:
        """Return the first stored batch that can't be ours: rule 7 (own batches). Batches after those that
        were offered are compared later."""
        self._ahead = {
            base: batch for base, batch in self._ahead.items() if batch.last_sequence <= scanned.last_sequence
        }
        for batch in scanned.batches:
            if batch.base_sequence > self._offered:
                self._ahead[batch.base_sequence] = batch
            elif self._expected.get(batch.base_sequence) != batch:
                return batch
        return None

    def _on_evidence(self, leader_epoch: int, now_ms: int) -> steps.Action:
        """Take what is committed up to `_stored` as evidence."""
        if self.resumes_at is None:
            self.resumes_at = self._stored + 1
        self._evidence_epoch = leader_epoch
        self._heard_ms = self._asked_ms
        in_hand_from = self._held[0].base_sequence if self._held else self._offered + 1
        if self._stored + 1 < in_hand_from:
            return steps.Failed(
                steps.Failure.RECORDS_LOST,
                f"stored up to sequence {self._stored}, and this attempt holds those from {in_hand_from} on "
                "only. Run again, it will fill in what is missing",
            )
        return self._next(now_ms)

    def _on_answered(self, answered: steps.SendAnswered, now_ms: int) -> steps.Action:
        error = answered.error
        if error is ErrorCode.NONE:
            if answered.base_offset < 0:  # a duplicate, rule 3 (doubt)
                self._evidence_epoch = None
                return self._next(now_ms)
            assert self._evidence_epoch is not None
            batch = self._held.popleft()
            end_offset = answered.base_offset + batch.last_sequence - batch.base_sequence + 1
            self._stored = batch.last_sequence
            self._known = steps.Known(self._stored, end_offset, self._evidence_epoch)
            self._heard_ms = self._asked_ms
            self._on_progress(now_ms)
            return self._next(now_ms)
        reason = f"{error.name} ({int(error)})" + (f": {answered.message}" if answered.message else "")
        if error.is_retriable or error in VOIDS_EVIDENCE:
            return self._again(reason, now_ms)
        return steps.Failed(steps.Failure.REFUSED, reason)

    def _on_checked(self, checked: steps.Checked, now_ms: int) -> steps.Action:
        if checked.leader_epoch != self._evidence_epoch:
            self._evidence_epoch = None
            return self._next(now_ms)
        return steps.Delivered(self._offered + 1, checked.leader_epoch, checked.high_watermark)

    def _again(self, reason: str, now_ms: int) -> steps.Action:
        """Void the evidence: rule 3 (doubt)."""
        options = self._options
        self._evidence_epoch = None
        if now_ms - self._progressed_ms >= options.stalled_ms:
            return steps.Failed(steps.Failure.STALLED, f"for {options.stalled_ms} ms; at last {reason}")
        pause_ms = min(options.backoff_ms << min(self._tries, DOUBLINGS_MAX), options.backoff_ms_max)
        self._tries += 1
        return self._ask(_Asked.PAUSE, steps.Pause(pause_ms), now_ms)

    def _on_progress(self, now_ms: int) -> None:
        self._progressed_ms = now_ms
        self._tries = 0

    # What to do next.

    def _next(self, now_ms: int) -> steps.Action:
        if self._evidence_epoch is None or (
            self._held and now_ms - self._heard_ms > self._options.silence_ms_max
        ):
            self._evidence_epoch = None
            return self._ask(_Asked.DESCRIPTION, steps.Describe(), now_ms)
        held = self._held
        while held and held[0].last_sequence <= self._stored:
            held.popleft()
        if held:
            return self._send(held[0], now_ms)
        if not self._is_ended:
            return steps.AwaitBatch()
        if self._stored > self._offered:
            return plan_changed(f"{self._stored - self._offered} records follow all that it has")
        return self._ask(_Asked.CHECK, steps.CheckWatermark(), now_ms)

    def _fenced(self, producer_epoch: int) -> steps.Failed:
        later = producer_epoch - self._identity.producer_epoch
        return steps.Failed(
            steps.Failure.FENCED,
            f"{later} after this one (the partition has producer epoch {producer_epoch}, this one's is "
            f"{self._identity.producer_epoch}): this one was written before, or is an attempt that lingered",
            OLD_CHECKPOINT,
        )

    def _send(self, batch: steps.Batch, now_ms: int) -> steps.Action:
        assert self._evidence_epoch is not None
        return self._ask(_Asked.SEND, steps.Send(batch, self._evidence_epoch), now_ms)

    def _ask(self, asked: _Asked, action: steps.Action, now_ms: int) -> steps.Action:
        self._asked = asked
        self._asked_ms = now_ms
        return action


def plan_changed(detail: str) -> steps.Failed:
    """The failure of an attempt whose rows are not those of an earlier attempt."""
    return steps.Failed(
        steps.Failure.PLAN_CHANGED,
        f"{detail}. A task's rows may come in another order when it is run again, but they must be the same "
        "rows: no rand() or current_timestamp(), and no limit() or first() that chooses by order. Write the "
        "frame out first and write from there, or use delivery=at-least-once",
    )


def _overtaken(sequence: int) -> steps.Failed:
    return steps.Failed(
        steps.Failure.OVERTAKEN,
        f"from sequence {sequence} on. Run again, it will add what is not stored yet",
    )


def _forgotten(records: int, start_offset: int) -> steps.Failed:
    return steps.Failed(
        steps.Failure.FORGOTTEN,
        f"brokers remember {records} records of it that are not in the log from offset {start_offset} on, "
        "where the checkpoint says that it begins",
        OLD_CHECKPOINT,
    )
