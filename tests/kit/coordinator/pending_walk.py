"""A random walk of producers that commit offsets in transactions, and of the coordinators that end them.

Producers of both versions; markers that are late, doubled, of a former coordinator; commits that arrive when
their transaction has ended; plain commits, deletions, time, refusals and failovers meanwhile. What must hold
at every step: a partition's offset is the one that was written last, of those whose transaction has committed
(I32, all or nothing); nobody is told an offset as stable that an open transaction may replace; and the replay
of any prefix, and of any legal compaction of it, is the live state (I31).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from coordinator.core.group_records import OffsetKey, PendingKey, decode_key, decode_offset
from coordinator.core.groups.requests import (
    CommitPendingOffsets,
    EndPendingOffsets,
    MustVerify,
    OffsetPlace,
    OffsetsReply,
    OffsetToCommit,
    PendingOffsetsEnded,
)
from coordinator.core.groups.transactions import VERSION_THAT_RAISES_EPOCHS
from coordinator.core.machine import ShardRecord
from coordinator.core.pending_records import decode_ended, decode_pending
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from tests.kit.coordinator.group_desk import GROUP, GroupDesk
from tests.kit.coordinator.group_walk import check_replay, compacted, replayed

PLACES = [OffsetPlace("t", partition) for partition in range(3)]
PRODUCERS = 3


@dataclass(slots=True)
class Transaction:
    """epoch: of what it writes. is_begun: its coordinator knows of it. decided: how it ends, once that has
    decided. newest: coordinator epoch and attempt of the last marker that was sent. is_complete: that one was
    answered; a coordinator has one under way at a time, and hears of no other's answer.
    """

    producer_id: int
    epoch: int
    version: int
    is_begun: bool = False
    decided: Outcome | None = None
    is_complete: bool = False
    newest: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Write:
    """One offset that was asked to be written. transaction: None for a plain commit."""

    place: OffsetPlace
    offset: int
    transaction: Transaction | None


class PendingWalk(RuleBasedStateMachine):
    """writes: in the order in which they were taken. Offsets are drawn from one rising count, so each names
    its write. attempts: which transaction each marker that was ever sent was to end."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = GroupDesk()
        self.count = 0
        self.attempt = 0
        self.coordinator_epoch = 1
        self.open: dict[int, Transaction] = {}
        self.writes: list[Write] = []
        self.commits: dict[int, Write] = {}
        self.parked: list[tuple[CommitPendingOffsets, MustVerify, Write]] = []
        self.sent: list[tuple[Transaction, EndPendingOffsets]] = []
        self.asked: list[tuple[Transaction, CommitPendingOffsets]] = []
        self.ending: dict[int, tuple[Transaction, EndPendingOffsets]] = {}
        self.by_attempt: dict[tuple[int, int], Transaction] = {}
        for number in range(PRODUCERS):
            self._begin(number, 0, 1 + number % 2)

    def _begin(self, producer_id: int, epoch: int, version: int) -> None:
        self.open[producer_id] = Transaction(producer_id, epoch, version)

    # --- producers ---------------------------------------------------------------------------------

    @rule(number=st.integers(0, PRODUCERS - 1), place=st.sampled_from(PLACES), is_slow=st.booleans())
    def a_producer_commits(self, number: int, place: OffsetPlace, is_slow: bool) -> None:
        """is_slow: it must be verified, and the answer is on its way for some time."""
        self.count += 1
        transaction = self.open[number]
        write = Write(place, self.count, transaction)
        if transaction.decided is not None:
            return  # its client has asked for the end, and waits
        transaction.is_begun = True
        request = CommitPendingOffsets(
            token=self.desk.token(),
            group_id=GROUP,
            producer_id=number,
            producer_epoch=transaction.epoch,
            offsets=(OffsetToCommit(place, self.count),),
        )
        self._ask(request, write)
        self.asked.append((transaction, request))
        reply = self.desk.replies.get(request.token)
        if isinstance(reply, MustVerify):
            self.parked.append((request, reply, write))
            if not is_slow:
                self._verified(len(self.parked) - 1)

    @rule(chance=st.integers(0, 2**16))
    def a_verification_is_answered(self, chance: int) -> None:
        if self.parked:
            self._verified(chance % len(self.parked))

    def _verified(self, place: int) -> None:
        """The transaction's coordinator has confirmed it when it was asked, which was before now."""
        request, reply, write = self.parked.pop(place)
        self._ask(replace(request, token=self.desk.token(), guard=reply.guard), write)

    def _ask(self, request: CommitPendingOffsets, write: Write) -> None:
        before = self._written()
        self.commits[request.token] = write
        self.desk.ask(request)
        if self._written() > before:
            self.writes.append(write)
            transaction = write.transaction
            assert transaction is not None
            assert not transaction.is_complete, "an offset of a transaction that has ended is taken"

    def _written(self) -> int:
        return len(self.desk.records) + sum(len(batch.records) for batch in self.desk.in_flight)

    @rule(chance=st.integers(0, 2**16))
    def a_commit_arrives_again(self, chance: int) -> None:
        """Late, behind the end of its transaction. Under version 1 nobody can tell it from one of the next
        transaction, once that has begun (KAFKA-17754)."""
        late = [
            request
            for transaction, request in self.asked
            if transaction.is_complete
            and not (
                self.open[transaction.producer_id].epoch == transaction.epoch
                and self.open[transaction.producer_id].is_begun
            )
        ]
        if late:
            request = replace(late[chance % len(late)], token=self.desk.token())
            before = self._written()
            self.desk.ask(request)  # if it must be verified, its coordinator refuses it
            assert self._written() == before, "an offset of a transaction that has ended is taken"

    @rule(
        number=st.integers(0, PRODUCERS - 1),
        places=st.lists(st.sampled_from(PLACES), min_size=1, max_size=3),
        outcome=st.sampled_from(Outcome),
    )
    def a_whole_transaction(self, number: int, places: list[OffsetPlace], outcome: Outcome) -> None:
        for place in places:
            self.a_producer_commits(number, place, is_slow=False)
        self.a_transaction_ends(number, outcome)
        self.a_marker_arrives(0, 1, is_newest=True)

    @rule(
        number=st.integers(0, PRODUCERS - 1),
        place=st.sampled_from(PLACES),
        outcome=st.sampled_from(Outcome),
    )
    def a_commit_is_verified_across_an_end(self, number: int, place: OffsetPlace, outcome: Outcome) -> None:
        """The transaction took too long, and its coordinator has ended it."""
        self.a_producer_commits(number, place, is_slow=True)
        self.a_transaction_ends(number, outcome)
        self.a_marker_arrives(0, 1, is_newest=True)
        while self.parked:
            self._verified(0)

    @rule(number=st.integers(0, PRODUCERS - 1), outcome=st.sampled_from(Outcome))
    def another_coordinator_ends_a_transaction(self, number: int, outcome: Outcome) -> None:
        """The one before had sent a marker, which may come at any time."""
        self.a_transaction_ends(number, outcome)
        self.another_coordinator_takes_over()
        for transaction, sent in self.sent[-PRODUCERS:]:
            if transaction.producer_id == number and not transaction.is_complete:
                self._deliver(transaction, sent)

    @rule(place=st.sampled_from(PLACES))
    def a_plain_client_commits(self, place: OffsetPlace) -> None:
        self.count += 1
        write = Write(place, self.count, None)
        token = self.desk.start_commit("", -1, OffsetToCommit(place, self.count))
        self.commits[token] = write
        self.writes.append(write)

    # --- coordinators of transactions --------------------------------------------------------------

    @rule(number=st.integers(0, PRODUCERS - 1), outcome=st.sampled_from(Outcome))
    def a_transaction_ends(self, number: int, outcome: Outcome) -> None:
        transaction = self.open[number]
        if transaction.decided is None:
            transaction.decided = outcome
        self._send(transaction)

    def _send(self, transaction: Transaction) -> None:
        assert transaction.decided is not None
        self.attempt += 1
        request = EndPendingOffsets(
            token=0,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch + (transaction.version >= VERSION_THAT_RAISES_EPOCHS),
            coordinator_epoch=self.coordinator_epoch,
            outcome=transaction.decided,
            transaction_version=transaction.version,
            attempt=self.attempt,
        )
        transaction.newest = (self.coordinator_epoch, self.attempt)
        self.by_attempt[transaction.newest] = transaction
        self.sent.append((transaction, request))

    @rule(chance=st.integers(0, 2**16), times=st.integers(1, 2), is_newest=st.booleans())
    def a_marker_arrives(self, chance: int, times: int, is_newest: bool) -> None:
        """One of those that were ever sent."""
        for _ in range(times if self.sent else 0):
            self._deliver(*self.sent[-1 if is_newest else chance % len(self.sent)])

    def _deliver(self, transaction: Transaction, sent: EndPendingOffsets) -> None:
        request = replace(sent, token=self.desk.token())
        self.ending[request.token] = (transaction, sent)
        self.desk.ask(request)
        self._take_answers()

    @rule()
    def another_coordinator_takes_over(self) -> None:
        """It sends what is not complete again."""
        self.coordinator_epoch += 1
        for transaction in self.open.values():
            if transaction.decided is not None:
                self._send(transaction)

    def _take_answers(self) -> None:
        """A transaction whose marker is answered is complete, and the producer's next one begins."""
        for token in [token for token in self.ending if token in self.desk.replies]:
            (transaction, sent), reply = self.ending.pop(token), self.desk.replies[token]
            if isinstance(reply, PendingOffsetsEnded) and reply.error is ErrorCode.NONE:
                is_newest = (sent.coordinator_epoch, sent.attempt) == transaction.newest
                if is_newest and not transaction.is_complete:
                    transaction.is_complete = True
                    epoch = transaction.epoch + (transaction.version >= VERSION_THAT_RAISES_EPOCHS)
                    self._begin(transaction.producer_id, epoch, transaction.version)
                found = dict(self._expected())
                for place, offset in found.items():
                    got = self.desk.fetch(place)[place.topic, place.partition]
                    assert got == offset, "an end was told, and the offsets are not read"
        for token in [token for token in self.commits if token in self.desk.replies]:
            write, reply = self.commits.pop(token), self.desk.replies[token]
            if isinstance(reply, OffsetsReply) and reply.error is ErrorCode.NONE and write.transaction:
                assert write.offset in self._logged(), "a commit was told, and is in no record"

    # --- the world ---------------------------------------------------------------------------------

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
        self.parked.clear()  # what was asked of the former owner is refused

    @rule(days=st.sampled_from([1, 8]))
    def time_passes(self, days: int) -> None:
        """Days without anything: what is late has come, and offsets that nothing keeps expire."""
        if self.desk.in_flight or self.desk.is_holding:
            return
        if days > 1:
            self.parked.clear()
            self.sent = [(each, sent) for each, sent in self.sent if not each.is_complete]
            self.asked.clear()
        self.desk.wait(days * 86_400_000)
        kept = self.desk.fetch()
        for place, offset in self._expected().items():
            if (place.topic, place.partition) not in kept:
                self._forget(place, offset)

    def _forget(self, place: OffsetPlace, offset: int) -> None:
        """The offset has expired. It had replaced what was written before it, whatever the numbers are."""
        last = max(at for at, write in enumerate(self.writes) if write.offset == offset)
        self.writes = [write for at, write in enumerate(self.writes) if write.place != place or at > last]

    @rule(place=st.sampled_from(PLACES), is_group=st.booleans())
    def somebody_deletes(self, place: OffsetPlace, is_group: bool) -> None:
        """Of what is pending nothing goes."""
        if self.desk.in_flight:
            return
        pending = {one for one in PLACES if self._is_pending(one)}
        before = self.desk.fetch()
        if is_group:
            self.desk.start_delete(GROUP)
            is_refused, gone = bool(pending), PLACES
        else:
            self.desk.start_delete_offsets(place)
            is_refused, gone = place in pending, [place]
        if self.desk.is_holding:
            self.desk.commit()
        after = self.desk.fetch()
        assert not is_refused or after == before, "what an open transaction is about to replace is deleted"
        if not is_refused:
            self.writes = [write for write in self.writes if write.place not in gone]

    # --- what must hold ----------------------------------------------------------------------------

    def _logged(self) -> set[int]:
        """Return the offsets that stand in committed records."""
        return _offsets_in(self.desk.records)

    def _ended(self) -> list[Transaction]:
        """Return the transactions whose markers were taken and are committed, once for each marker."""
        values = (value for key, value in self.desk.records if key[:2] == b"\x7d\x02" and value is not None)
        ends = map(decode_ended, values)
        return [self.by_attempt[end.coordinator_epoch, end.attempt] for end in ends]

    def _expected(self) -> dict[OffsetPlace, int]:
        """Return the last offset of each partition that counts, by what is in the log."""
        logged = self._logged()
        ended = {id(transaction) for transaction in self._ended()}
        expected = {}
        for write in self.writes:
            transaction = write.transaction
            counts = transaction is None or (
                id(transaction) in ended and transaction.decided is Outcome.COMMIT
            )
            if counts and write.offset in logged:
                expected[write.place] = write.offset
        return expected

    def _is_pending(self, place: OffsetPlace) -> bool:
        """Return whether a write that is in the log or in flight waits for an end that is not committed, and
        none after it counts whatever becomes of that. Of two in flight both are refused, or the second."""
        logged, ended = self._logged(), {id(transaction) for transaction in self._ended()}
        under_way = _offsets_in(record for batch in self.desk.in_flight for record in batch.records)
        pending: list[int] = []
        for write in self.writes:
            transaction = write.transaction
            if write.place != place:
                continue
            if transaction is None or (id(transaction) in ended and transaction.decided is Outcome.COMMIT):
                pending = [] if write.offset in logged else [one for one in pending if one in logged]
            elif id(transaction) not in ended and (
                # A client commits its transaction when its offsets are answered, not before.
                write.offset in logged or (write.offset in under_way and transaction.decided is None)
            ):
                pending.append(write.offset)
        return bool(pending)

    @invariant()
    def what_counts_is_read_and_nothing_else(self) -> None:
        self._take_answers()
        expected = self._expected()
        found = self.desk.fetch()
        wanted = {(place.topic, place.partition): offset for place, offset in expected.items()}
        assert found == wanted, f"{found} is read where {wanted} counts"
        unstable = self.desk.unstable(*PLACES)
        for place in PLACES:
            is_unstable = (place.topic, place.partition) in unstable
            assert is_unstable or not self._is_pending(place), "an unstable offset is told as stable"

    @invariant()
    def replay_is_the_live_state(self) -> None:
        check_replay(self.desk)

    @rule(share=st.floats(0, 1), seed=st.integers(0, 2**16))
    def a_prefix_is_compacted(self, share: float, seed: int) -> None:
        records = self.desk.records[: round(share * len(self.desk.records))]
        assert replayed(compacted(records, seed)) == replayed(records)

    def teardown(self) -> None:
        """The world becomes quiet: each transaction ends, and nothing stays unstable."""
        desk = self.desk
        desk.is_holding = False
        desk.commit()
        for number in range(PRODUCERS):
            transaction = self.open[number]
            self.a_transaction_ends(number, Outcome.COMMIT)
            self.a_marker_arrives(0, 1, is_newest=True)
            assert transaction.is_complete, "a transaction does not end"
        self.what_counts_is_read_and_nothing_else()
        assert desk.unstable() == set(), "an offset stays unstable for ever"
        pending = desk.machine.registry.store.pending
        assert pending.size_bytes == 0


def _offsets_in(records: Iterable[ShardRecord]) -> set[int]:
    """Return the offsets that stand in records, of whatever kind."""
    found = set()
    for key, value in records:
        named = decode_key(key)
        if value is not None and isinstance(named, OffsetKey):
            found.add(decode_offset(value).offset)
        elif value is not None and isinstance(named, PendingKey):
            found.add(decode_pending(value).offset.offset)
    return found
