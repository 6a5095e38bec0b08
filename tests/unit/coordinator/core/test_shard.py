from __future__ import annotations

import pytest

from coordinator.core.opening import OPENING_KEY, opening_record
from coordinator.core.shard import HELD_MAX, HELD_MS_MAX, LATE_MS, SEND_AGAIN_MS, ShardPhase, ShardRuntime
from coordinator.core.shard_ports import (
    LOST,
    AppendBatch,
    AskWriter,
    BatchAnswered,
    Ending,
    LeaderKnown,
    LogIsAhead,
    LogIsUnreadable,
    LogWasRead,
    MachineTold,
    RequestCame,
    SetTimer,
    ShardClosed,
    ShardGiven,
    ShardTaken,
    ShardTimer,
    TimerFired,
    TurnEnded,
)
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import WriterId
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch, iter_records
from tests.kit.coordinator.counter import (
    CELLS,
    COUNTER,
    OF_A_LATER_RELEASE,
    TICK,
    AwaitNothing,
    Counted,
    CounterMachine,
    News,
    ReadCounter,
    ReadLatest,
)
from tests.kit.coordinator.fenced_log import FencedLog
from tests.kit.coordinator.shard_desk import WRITER_ID, ControllerOfOne, ShardDesk


@pytest.fixture
def log() -> FencedLog:
    return FencedLog()


@pytest.fixture
def controller() -> ControllerOfOne:
    return ControllerOfOne()


@pytest.fixture
def desk(log: FencedLog, controller: ControllerOfOne) -> ShardDesk:
    """A shard that serves."""
    desk = ShardDesk(log, controller)
    desk.open()
    assert desk.runtime.phase is ShardPhase.SERVING
    return desk


def replayed(log: FencedLog) -> dict[bytes, bytes]:
    """What the log says, each key's last value."""
    records = [record for batch in log.batches for record in iter_records(batch)]
    return {r.key: r.value for r in records if r.key not in (None, OPENING_KEY) and r.value is not None}


def live(desk: ShardDesk) -> dict[bytes, bytes]:
    return dict(desk.machine.state.latest_items())


def read_counter(desk: ShardDesk, token: int) -> object:
    desk.step(RequestCame(token, ReadCounter(token)))
    return desk.answers[token]


# Opening.


def test_an_opening_begins_a_writer_and_is_answered_before_anything_else_is(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    desk.step(RequestCame(1, ReadCounter(1)))
    assert not desk.answers, "it waits for the opening"
    desk.deliver()
    assert desk.answers[1] == Counted(0)
    header = decode_header(log.batches[0])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (WRITER_ID + 1, 0, 0)
    assert [(r.key, r.value) for r in iter_records(log.batches[0])] == [
        opening_record(b"nonce %d" % (WRITER_ID + 1))
    ]


def test_a_new_owner_goes_on_from_what_the_log_says_and_the_old_one_is_fenced(
    desk: ShardDesk, log: FencedLog, controller: ControllerOfOne
) -> None:
    desk.increment(1)
    other = ShardDesk(log, controller)
    other.open()
    assert read_counter(other, 1) == Counted(1)
    desk.step(RequestCame(2, AwaitNothing(2)))
    desk.increment(3, number=2)
    assert desk.answers[2] is desk.answers[3] is ErrorCode.NOT_COORDINATOR
    assert desk.effects[-1] == ShardClosed(Ending.FENCED)
    assert read_counter(desk, 4) is ErrorCode.NOT_COORDINATOR
    other.increment(5, number=2)
    assert other.answers[5] == Counted(2)


def test_an_opening_whose_answers_are_lost_is_made_again_with_the_same_bytes(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    for is_written in (False, True):
        desk.fail(LOST, is_written=is_written)
        desk.wait()
    desk.deliver()
    assert desk.runtime.phase is ShardPhase.SERVING
    assert len(log.batches) == 1
    sent = [effect for effect in desk.effects if isinstance(effect, AppendBatch)]
    assert len({append.batch for append in sent}) == 1
    assert len({append.connection for append in sent}) == len(sent) == 3


def test_an_opening_that_is_overtaken_is_given_up_for_another_one(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    slow, quick = ShardDesk(log, controller), ShardDesk(log, controller)
    slow.is_holding = True
    slow.open()
    quick.open()
    quick.increment(1)
    slow.is_holding = False
    slow.deliver()
    assert slow.runtime.phase is ShardPhase.SERVING
    assert controller.named == 3
    assert read_counter(slow, 1) == Counted(1)


def test_another_opening_in_the_place_of_its_own_begins_another_one(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    """The log was cut after the leader's answer, and somebody else's record stands there."""
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    append = desk.held.pop()
    other = encode_batch(
        [NewRecord(*opening_record(b"another"))],
        producer_id=decode_header(append.batch).producer_id,
        producer_epoch=0,
        base_sequence=0,
    )
    error, base_offset = log.append(other)
    desk.is_holding = False
    desk.step(BatchAnswered(append.attempt, error, base_offset))
    assert desk.runtime.phase is ShardPhase.SERVING
    assert controller.named == 2


def test_a_writer_in_the_log_above_the_one_that_is_named_afterwards_stops_the_shard(
    desk: ShardDesk, log: FencedLog
) -> None:
    restored = ControllerOfOne()
    other = ShardDesk(log, restored)
    other.open()
    assert other.effects[-1] == LogIsAhead(found=WriterId(WRITER_ID + 1), named=WriterId(WRITER_ID + 1))
    assert read_counter(other, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(log.batches) == 1


def test_a_standby_that_is_promoted_reads_only_what_it_lacks(desk: ShardDesk, log: FencedLog) -> None:
    for number in range(1, 6):
        desk.increment(number, number=number)
    standby = ShardDesk(log, desk.controller)
    standby.follow()
    assert standby.runtime.is_level
    assert read_counter(standby, 1) is ErrorCode.NOT_COORDINATOR
    position = standby.runtime.position
    desk.increment(6, number=6)
    standby.step(ShardGiven())
    assert standby.runtime.phase is ShardPhase.SERVING
    assert read_counter(standby, 2) == Counted(6)
    assert position == 11


def test_a_standby_that_is_level_opens_at_once_and_reads_the_rest_behind_its_opening(
    desk: ShardDesk, log: FencedLog
) -> None:
    standby = ShardDesk(log, desk.controller)
    standby.follow()
    desk.increment(1)
    standby.is_holding = True
    standby.step(ShardGiven())
    assert standby.runtime.phase is ShardPhase.OPENING
    standby.step(RequestCame(1, ReadCounter(1)))
    standby.deliver()
    assert standby.answers == {1: Counted(1)}


def test_i27_the_first_opening_has_the_writer_that_came_with_the_shard_and_the_next_one_asks(
    desk: ShardDesk, log: FencedLog
) -> None:
    desk.increment(1)
    standby = ShardDesk(log, desk.controller)
    standby.follow()
    given = desk.controller.name()
    standby.step(ShardGiven(given, b"fresh"))
    assert standby.runtime.phase is ShardPhase.SERVING
    assert read_counter(standby, 2) == Counted(1)
    assert decode_header(log.batches[-1]).producer_id == given.producer_id
    assert not any(isinstance(effect, AskWriter) for effect in standby.effects)
    desk.increment(3)
    assert desk.answers[3] is ErrorCode.NOT_COORDINATOR
    standby.step(ShardTaken())
    standby.runtime = ShardRuntime(CounterMachine, read_pause_ms=50, is_current=lambda now_ms: True)
    standby.open()
    assert standby.runtime.phase is ShardPhase.SERVING
    assert [effect for effect in standby.effects if isinstance(effect, AskWriter)] == [AskWriter(1)]


def test_i27_a_writer_that_came_with_the_shard_and_is_not_above_the_logs_is_not_used(
    desk: ShardDesk, log: FencedLog
) -> None:
    standby = ShardDesk(log, desk.controller)
    standby.follow()
    standby.step(ShardGiven(WriterId(WRITER_ID + 1), b"stale"))
    assert AskWriter(1) in standby.effects
    assert standby.runtime.found == WriterId(WRITER_ID + 2), "it serves under the one that it asked for"


def test_a_writer_that_came_with_the_shard_goes_with_it(desk: ShardDesk, log: FencedLog) -> None:
    standby = ShardDesk(log, desk.controller)
    standby.step(ShardGiven(desk.controller.name(), b"fresh"))
    standby.step(ShardTaken())
    standby.step(ShardGiven())
    standby.follow()
    assert AskWriter(1) in standby.effects


def test_a_request_waits_for_an_opening_and_not_for_long(log: FencedLog, controller: ControllerOfOne) -> None:
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    desk.step(RequestCame(1, ReadCounter(1)))
    assert SetTimer(ShardTimer.HELD, desk.now_ms + HELD_MS_MAX) in desk.effects
    desk.step(TimerFired(ShardTimer.HELD, None))
    assert desk.answers == {1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    desk.step(RequestCame(2, ReadCounter(2)))
    desk.step(ShardTaken())
    assert desk.answers[2] is ErrorCode.NOT_COORDINATOR


def test_what_happens_meanwhile_makes_no_request_wait_longer(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    came_ms = desk.now_ms
    desk.step(RequestCame(1, ReadCounter(1)))
    desk.now_ms += HELD_MS_MAX - 1
    desk.step(TurnEnded())
    assert desk.timers[ShardTimer.HELD] == came_ms + HELD_MS_MAX
    desk.deliver()
    assert desk.answers == {1: Counted(0)}
    assert ShardTimer.HELD not in desk.timers


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, LOST])
def test_an_opening_that_the_leader_does_not_write_is_tried_again(
    log: FencedLog, controller: ControllerOfOne, error: ErrorCode
) -> None:
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    desk.fail(error, is_written=False)
    assert desk.runtime.phase is ShardPhase.OPENING
    assert desk.timers[ShardTimer.SEND] == desk.now_ms + SEND_AGAIN_MS[0]
    desk.wait()
    desk.deliver()
    assert (desk.runtime.phase, controller.named) == (ShardPhase.SERVING, 1)


def test_the_pause_after_a_failure_doubles_up_to_a_bound_and_begins_anew_after_a_success(
    desk: ShardDesk,
) -> None:
    desk.is_holding = True
    desk.increment(1)
    pauses = []
    for _ in range(8):
        desk.fail(LOST, is_written=False)
        pauses.append(desk.timers[ShardTimer.SEND] - desk.now_ms)
        desk.wait()
    assert pauses == [20, 40, 80, 160, 320, 640, 1_000, 1_000]
    desk.deliver()
    desk.increment(2, number=2)
    desk.fail(LOST, is_written=False)
    assert desk.timers[ShardTimer.SEND] - desk.now_ms == SEND_AGAIN_MS[0]


def test_an_opening_starts_the_machines_timers(log: FencedLog, controller: ControllerOfOne) -> None:
    desk = ShardDesk(log, controller, new_machine=lambda: CounterMachine(tick_ms=70))
    desk.open()
    assert desk.timers[TICK] == desk.now_ms + 70


def test_as_many_requests_wait_for_an_opening_as_are_bounded(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    for token in range(1, HELD_MAX + 2):
        desk.step(RequestCame(token, ReadCounter(token)))
    assert desk.answers == {HELD_MAX + 1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    desk.deliver()
    assert set(map(desk.answers.get, range(1, HELD_MAX + 1))) == {Counted(0)}


def test_rotten_bytes_are_read_again_and_nothing_of_them_is_applied(desk: ShardDesk, log: FencedLog) -> None:
    desk.increment(1)
    sound = log.batches[1]
    log.batches[1] = sound[:-1] + b"?"
    standby = ShardDesk(log, desk.controller)
    standby.follow()
    assert (standby.runtime.is_level, live(standby)) == (False, {})
    log.batches[1] = sound
    standby.wait()
    assert live(standby) == live(desk)


# Serving.


def test_a_reply_waits_until_its_batch_is_committed(desk: ShardDesk) -> None:
    desk.is_holding = True
    desk.increment(1)
    assert 1 not in desk.answers
    assert read_counter(desk, 2) == Counted(0)
    desk.deliver()
    assert desk.answers[1] == Counted(1)
    assert read_counter(desk, 3) == Counted(1)


def test_five_batches_are_in_flight_and_what_comes_meanwhile_is_the_next_one(desk: ShardDesk) -> None:
    desk.is_holding = True
    for number in range(1, 21):
        desk.increment(number, client=f"client {number}")
    assert [decode_header(append.batch).record_count for append in desk.held] == [2] * 5
    desk.deliver()
    assert decode_header(desk.held[-1].batch).record_count == 30
    while desk.held:
        desk.deliver()
    assert [desk.answers[token] for token in range(1, 21)] == [Counted(n) for n in range(1, 21)]


def test_the_requests_of_a_turn_are_one_batch(desk: ShardDesk) -> None:
    desk.is_holding = desk.is_in_turn = True
    for number in range(1, 4):
        desk.increment(number, client=f"client {number}")
    assert desk.runtime.has_unsent and not desk.held
    desk.step(TurnEnded())
    assert not desk.runtime.has_unsent
    assert [decode_header(append.batch).record_count for append in desk.held] == [6]
    desk.deliver()
    assert [desk.answers[token] for token in range(1, 4)] == [Counted(n) for n in range(1, 4)]


def test_what_a_turn_wrote_is_sent_before_the_shard_is_given_away(desk: ShardDesk) -> None:
    desk.is_holding = desk.is_in_turn = True
    desk.increment(1)
    desk.step(ShardTaken())
    desk.step(TurnEnded())
    desk.deliver()
    assert desk.answers[1] == Counted(1)
    assert desk.effects[-1] == ShardClosed(Ending.RELEASED)


def test_a_lost_answer_sends_all_again_in_order_with_the_same_bytes(desk: ShardDesk, log: FencedLog) -> None:
    desk.is_holding = True
    for number in (1, 2, 3):
        desk.increment(number, client=str(number))
    desk.fail(LOST, is_written=True)
    desk.fail(LOST, is_written=False)
    assert len(desk.held) == 1
    first = [effect for effect in desk.effects if isinstance(effect, AppendBatch)][-3:]
    desk.deliver()  # out of order: the one before it is missing
    desk.wait()
    assert [append.batch for append in desk.held] == [append.batch for append in first]
    while desk.held:
        desk.deliver()
    assert [desk.answers[token] for token in (1, 2, 3)] == [Counted(1), Counted(2), Counted(3)]
    assert live(desk) == replayed(log)
    assert len(log.batches) == 4


def test_an_answer_that_comes_after_that_of_a_later_batch_changes_nothing(
    desk: ShardDesk, log: FencedLog
) -> None:
    desk.is_holding = True
    for number in (1, 2):
        desk.increment(number, client=str(number))
    answers = [BatchAnswered(held.attempt, *log.append(held.batch)) for held in desk.held]
    desk.held.clear()
    for answer in reversed(answers):
        desk.step(answer)
    assert [desk.answers[token] for token in (1, 2)] == [Counted(1), Counted(2)]
    desk.is_holding = False
    desk.increment(3, client="3")
    assert desk.answers[3] == Counted(3)
    assert live(desk) == replayed(log)


def test_a_refusal_is_undone_and_the_shard_stays_open(desk: ShardDesk, log: FencedLog) -> None:
    desk.increment(1)
    desk.is_holding = True
    log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.increment(2, number=2)
    desk.increment(3, client="b")
    assert live(desk)[COUNTER] == b"3"
    desk.deliver()
    desk.deliver()
    assert desk.answers[2] is desk.answers[3] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.machine.refusals == [("a", 2), ("b", 1)]
    assert live(desk) == replayed(log)
    log.error = ErrorCode.NONE
    desk.is_holding = False
    desk.increment(4, number=2)
    assert 4 not in desk.answers  # a refusal is followed by a pause
    desk.wait()
    assert desk.answers[4] == Counted(2)
    assert live(desk) == replayed(log)


def test_the_machine_hears_what_became_of_each_work_once(desk: ShardDesk, log: FencedLog) -> None:
    machine = desk.runtime.machine
    assert isinstance(machine, CounterMachine)
    desk.increment(1)
    assert machine.writes == [("a", 1)]
    log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.increment(2, number=2)
    assert (machine.writes, machine.refusals) == ([("a", 1)], [("a", 2)])


def test_a_reply_without_records_that_tells_of_some_waits_for_what_is_under_way(desk: ShardDesk) -> None:
    desk.step(RequestCame(1, ReadLatest(1)))
    assert desk.answers[1] == Counted(0)
    desk.is_holding = True
    desk.increment(2)
    desk.step(RequestCame(3, ReadLatest(3)))
    assert 3 not in desk.answers
    desk.deliver()
    assert desk.answers[3] == Counted(1)


def test_a_reply_that_tells_of_refused_records_fails_as_they_do(desk: ShardDesk, log: FencedLog) -> None:
    desk.is_holding = True
    log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.increment(1)
    desk.step(RequestCame(2, ReadLatest(2)))
    desk.deliver()
    assert desk.answers[1] is desk.answers[2] is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("read", [ReadCounter, ReadLatest])
def test_without_the_lease_a_read_is_answered_once_the_log_shows_that_no_other_has_opened_it(
    desk: ShardDesk, log: FencedLog, controller: ControllerOfOne, read: type[ReadCounter | ReadLatest]
) -> None:
    desk.is_current = False
    desk.is_holding = desk.is_in_turn = True
    desk.step(RequestCame(1, read(1)))
    desk.step(RequestCame(2, read(2)))
    assert not desk.answers
    desk.step(TurnEnded())
    desk.deliver()
    assert desk.answers == {1: Counted(0), 2: Counted(0)}
    assert len(log.batches) == 2, "one record for the reads of a turn"
    other = ShardDesk(log, controller)
    other.open()
    assert read_counter(other, 1) == Counted(0)
    other.increment(2)
    desk.step(RequestCame(3, read(3)))
    desk.step(TurnEnded())
    desk.deliver()
    assert desk.answers[3] is ErrorCode.NOT_COORDINATOR
    assert desk.effects[-1] == ShardClosed(Ending.FENCED)


def test_without_the_lease_what_was_sent_before_a_read_proves_nothing_to_it(
    desk: ShardDesk, log: FencedLog, controller: ControllerOfOne
) -> None:
    """It is written, its answer is on its way, and another opens the shard and counts."""
    desk.is_holding = True
    desk.increment(1)
    append = desk.held.pop()
    answer = BatchAnswered(append.attempt, *log.append(append.batch))
    other = ShardDesk(log, controller)
    other.open()
    other.increment(1, client="b")
    desk.is_current = False
    for token, read in ((2, ReadCounter(2)), (3, ReadLatest(3))):
        desk.step(RequestCame(token, read))
    desk.step(answer)
    assert desk.answers == {1: Counted(1)}
    desk.deliver()
    assert desk.answers[2] is desk.answers[3] is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("stood_still", [True, False])
def test_what_was_committed_before_this_process_stood_still_is_told_once_the_log_shows_that_it_is_current(
    desk: ShardDesk, log: FencedLog, controller: ControllerOfOne, *, stood_still: bool
) -> None:
    """A member was told what it has by a coordinator that had slept for 13 s, and been replaced."""
    desk.is_holding = True
    desk.increment(1)
    append = desk.held.pop()
    answer = BatchAnswered(append.attempt, *log.append(append.batch))
    desk.is_current = False
    desk.now_ms += LATE_MS if stood_still else LATE_MS - 1
    if stood_still:
        other = ShardDesk(log, controller)
        other.open()
    desk.step(answer)
    if stood_still:
        assert not desk.answers
        desk.deliver()
    assert desk.answers == {1: ErrorCode.NOT_COORDINATOR if stood_still else Counted(1)}


def test_without_the_lease_a_late_answer_goes_on_where_no_other_has_opened_the_shard(
    desk: ShardDesk, log: FencedLog
) -> None:
    desk.is_holding = True
    desk.increment(1)
    append = desk.held.pop()
    answer = BatchAnswered(append.attempt, *log.append(append.batch))
    desk.is_current = False
    desk.now_ms += LATE_MS
    desk.step(answer)
    desk.deliver()
    assert desk.answers == {1: Counted(1)}


def test_what_was_committed_is_not_told_as_refused_when_the_record_behind_it_is(
    desk: ShardDesk, log: FencedLog
) -> None:
    """A client that is told of a refusal may make its step once more (simulation, seed 20261652)."""
    desk.is_holding = True
    desk.increment(1)
    append = desk.held.pop()
    answer = BatchAnswered(append.attempt, *log.append(append.batch))
    desk.is_current = False
    desk.now_ms += LATE_MS
    desk.step(answer)
    desk.step(BatchAnswered(desk.held.pop().attempt, ErrorCode.NOT_ENOUGH_REPLICAS))
    assert desk.answers == {1: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert live(desk)[b"counter"] == b"1"


def test_without_the_lease_a_step_that_tells_nothing_writes_nothing(desk: ShardDesk, log: FencedLog) -> None:
    desk.is_current = False
    before = len(log.batches)
    desk.step(RequestCame(1, AwaitNothing(1)))
    desk.step(TurnEnded())
    assert len(log.batches) == before


def test_a_refused_retry_of_an_unknown_batch_proves_nothing(desk: ShardDesk, log: FencedLog) -> None:
    """The attempt before it may still come, from a connection that was given up."""
    desk.is_holding = True
    desk.increment(1)
    late = desk.held[0]
    desk.fail(LOST, is_written=False)
    desk.wait()
    log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.deliver()
    assert 1 not in desk.answers
    log.error = ErrorCode.NONE
    log.append(late.batch)
    desk.wait()
    desk.deliver()
    assert desk.answers[1] == Counted(1)
    assert live(desk) == replayed(log)


def test_written_but_not_replicated_enough_is_unknown(desk: ShardDesk, log: FencedLog) -> None:
    desk.is_holding = True
    desk.increment(1)
    desk.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, is_written=True)
    desk.wait()
    desk.deliver()
    assert desk.answers[1] == Counted(1)
    assert len(log.batches) == 2


def test_a_gap_in_its_own_sequences_closes_the_shard(desk: ShardDesk, log: FencedLog) -> None:
    desk.increment(1)
    del log.batches[-1]
    desk.increment(2, number=2)
    assert desk.answers[2] is ErrorCode.NOT_COORDINATOR
    assert desk.effects[-1] == ShardClosed(Ending.BROKEN)


def test_a_step_that_no_batch_holds_is_written_in_parts_and_none_is_mixed_with_another(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    desk = ShardDesk(log, controller, batch_bytes_max=200)
    desk.open()
    desk.is_holding = True
    desk.step(TimerFired(TICK, None))
    keys = [[r.key for r in iter_records(append.batch)] for append in desk.held]
    assert keys == [list(CELLS[:3]), list(CELLS[3:])]
    log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.deliver()
    desk.deliver()
    assert (live(desk), desk.machine.refusals) == ({}, [TICK])


def test_offsets_that_the_leader_used_itself_do_not_matter(desk: ShardDesk, log: FencedLog) -> None:
    log.batches.append(
        encode_batch([NewRecord(b"round", b"1")], base_offset=log.end_offset, is_control=True, producer_id=-1)
    )
    standby = ShardDesk(log, desk.controller)
    standby.follow()
    assert (standby.runtime.position, live(standby)) == (2, {})


def test_too_much_that_waits_is_refused_with_an_error_that_clients_retry(desk: ShardDesk) -> None:
    desk.is_holding = True
    big = "x" * 9_000
    for number in range(1, 80):
        desk.increment(number, client=f"{big}{number}")
    assert desk.answers[79] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert 60 not in desk.answers


def test_batches_that_wait_are_bounded_by_their_bytes_too(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    desk = ShardDesk(log, controller, batch_bytes_max=900_000)
    desk.open()
    desk.is_holding = True
    big = "x" * 100_000
    for number in range(1, 80):
        desk.increment(number, client=f"{big}{number}")
    assert 40 < min(desk.answers) < 60
    assert set(desk.answers.values()) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    desk.is_holding = False
    while desk.held:
        desk.deliver()
    desk.increment(80, client="a")
    assert isinstance(desk.answers[80], Counted)


# The end.


def test_an_unclean_election_closes_even_an_idle_shard_and_a_standby_begins_anew(
    desk: ShardDesk, log: FencedLog
) -> None:
    desk.increment(1)
    standby = ShardDesk(log, desk.controller)
    standby.follow()
    del log.batches[-1]
    for each in (desk, standby):
        each.leader_epoch = 1
        each.step(LeaderKnown(LeaderEpoch(1), -1))
        each.leader_epoch = 2
        each.step(LeaderKnown(LeaderEpoch(2), 2))
    assert desk.effects[-1] == ShardClosed(Ending.CUT)
    assert live(standby) == {}
    assert standby.runtime.position == 1


def test_reads_below_the_log_after_a_cut_begin_the_replay_anew(desk: ShardDesk, log: FencedLog) -> None:
    desk.increment(1)
    standby = ShardDesk(log, desk.controller)
    standby.follow()
    standby.wait()
    read = standby.runtime._read
    del log.batches[1:]
    standby.step(LogWasRead(read + 1, ErrorCode.OFFSET_OUT_OF_RANGE))  # not the one that is asked for
    assert live(standby)
    standby.step(LogWasRead(read, ErrorCode.OFFSET_OUT_OF_RANGE))
    standby.wait()
    assert (live(standby), standby.runtime.position) == ({}, 1)


def test_a_standby_that_stood_still_while_deletions_went_begins_anew(desk: ShardDesk, log: FencedLog) -> None:
    desk.increment(1, client="gone")
    standby = ShardDesk(log, desk.controller)
    standby.follow()
    standby.wait()
    assert b"client-gone" in live(standby)
    desk.increment(2, client="b")
    del log.batches[1]  # and a deletion, of which nothing is left
    log.tombstone_floor = log.end_offset
    late = ShardDesk(log, desk.controller)
    standby.wait()
    late.follow()
    late.wait()
    machines = [standby.machine, late.machine]
    desk.increment(3, client="c")
    for each, machine in zip((standby, late), machines, strict=True):
        each.wait()
        assert each.machine is machine
        assert list(live(each)) == [b"counter", b"client-b", b"client-c"]
        assert each.runtime.position == log.end_offset


def test_a_shard_that_is_taken_ends_once_what_is_under_way_is_known(desk: ShardDesk) -> None:
    desk.is_holding = True
    desk.step(RequestCame(1, AwaitNothing(1)))
    desk.increment(2)
    desk.step(ShardTaken())
    assert desk.answers == {1: ErrorCode.NOT_COORDINATOR}
    desk.increment(3, client="b")
    assert desk.answers[3] is ErrorCode.NOT_COORDINATOR
    desk.deliver()
    assert desk.answers[2] == Counted(1)
    assert desk.effects[-1] == ShardClosed(Ending.RELEASED)


def test_a_shard_that_is_taken_waits_for_each_batch_that_is_under_way(desk: ShardDesk) -> None:
    desk.is_holding = True
    desk.increment(1)
    desk.increment(2, client="b")
    desk.step(ShardTaken())
    desk.deliver()
    assert not any(isinstance(effect, ShardClosed) for effect in desk.effects)
    desk.deliver()
    assert desk.answers == {1: Counted(1), 2: Counted(2)}
    assert desk.effects[-1] == ShardClosed(Ending.RELEASED)


def test_a_shard_with_nothing_under_way_is_given_away_at_once(desk: ShardDesk) -> None:
    desk.increment(1)
    assert desk.runtime.writer is not None
    desk.step(ShardTaken())
    assert desk.effects[-1] == ShardClosed(Ending.RELEASED)
    assert desk.runtime.writer is None
    assert read_counter(desk, 2) is ErrorCode.NOT_COORDINATOR


def test_the_pause_of_an_opening_ends_with_it(log: FencedLog, controller: ControllerOfOne) -> None:
    """Else it would end that of the next opening, in the middle of an attempt."""
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    desk.fail(LOST, is_written=False)
    desk.step(ShardTaken())
    assert ShardTimer.SEND not in desk.timers


def test_a_shard_that_is_taken_while_it_opens_is_followed_again(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    desk.step(ShardTaken())
    assert desk.runtime.phase is ShardPhase.FOLLOWING
    desk.deliver()  # its opening comes late, and is no harm
    other = ShardDesk(log, controller)
    other.open()
    other.increment(1)
    desk.wait()
    assert live(desk) == live(other)


def later(log: FencedLog) -> None:
    """A later release's owner writes what this one can't take in, and is gone."""
    record = NewRecord(OF_A_LATER_RELEASE, b"value", 0)
    log.append(encode_batch([record], producer_id=WRITER_ID, producer_epoch=0, base_sequence=0))


def test_what_can_not_be_read_stops_the_shard_and_is_said_once(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    later(log)
    desk = ShardDesk(log, controller)
    desk.open()
    assert desk.runtime.phase is ShardPhase.STOPPED
    assert not desk.runtime.is_level
    told = [effect for effect in desk.effects if isinstance(effect, LogIsUnreadable)]
    assert told == [LogIsUnreadable("a record of a later release")]
    assert read_counter(desk, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for event in (LeaderKnown(LeaderEpoch(9), LeaderEpoch(9)), ShardTaken(), ShardGiven()):
        assert not desk.runtime.step(event, now_ms=5, wall_ms=5)


def test_a_standby_stops_at_what_it_can_not_read(log: FencedLog, controller: ControllerOfOne) -> None:
    standby = ShardDesk(log, controller)
    later(log)
    standby.follow()
    assert standby.runtime.phase is ShardPhase.STOPPED
    assert not standby.runtime.is_level


def test_requests_that_wait_for_an_opening_that_meets_it_are_answered(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    desk = ShardDesk(log, controller)
    desk.is_holding = True
    desk.open()
    desk.step(RequestCame(1, ReadCounter(1)))
    later(log)
    desk.deliver()
    assert desk.runtime.phase is ShardPhase.STOPPED
    assert desk.answers[1] is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_machine_hears_of_the_cluster_before_it_serves_and_with_each_change(
    log: FencedLog, controller: ControllerOfOne
) -> None:
    desk = ShardDesk(log, controller)
    desk.step(MachineTold(News("first")))
    desk.step(MachineTold(News("second")))
    assert desk.machine.heard == []
    desk.open()
    assert desk.machine.heard == ["second"]
    desk.step(MachineTold(News("third")))
    assert desk.machine.heard == ["second", "third"]
    desk.step(ShardTaken())
    desk.step(MachineTold(News("late")))
    assert desk.machine.heard == ["second", "third"]
