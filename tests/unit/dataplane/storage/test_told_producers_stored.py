"""What a follower was told of producers outlives its process (6.10, a copy knows its producers)."""

from __future__ import annotations

import pytest

from dataplane.core.producer_state import ProducerStates
from springtide.contract.session import ShutdownKind
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.storage import append, batch, header_of, new_log, open_log, opened

QUIET, BUSY = 7, 8
START = 40


def told() -> ProducerStates:
    states = ProducerStates()
    for sequence in range(3):
        written = batch(START - 3 + sequence, producer_id=QUIET, base_sequence=sequence)
        states.update(header_of(written), now_ms=900)
    return states


@pytest.mark.parametrize("records", [0, 30])
@pytest.mark.parametrize("shutdown", [ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH])
def test_a_log_that_began_anew_knows_what_it_was_told_after_a_restart(
    records: int, shutdown: ShutdownKind
) -> None:
    disk, log = new_log()
    log.restart_at(START)
    assert not log.producers.is_whole
    log.learn_producers(told())
    for number in range(records):
        append(log, batch(START + number, producer_id=BUSY, base_sequence=number, value=b"v" * 40))
    if shutdown is ShutdownKind.CLEAN:
        log.close_cleanly()
    again = opened(open_log(disk, last_shutdown=shutdown, log_start_offset=START))
    assert again.producers.is_whole
    assert again.log_end_offset == START + records
    assert again.producers.check(header_of(batch(0, producer_id=QUIET, base_sequence=3))) is ErrorCode.NONE
    if records:
        again.truncate_to(START + 1)
        assert [p.last_sequence for p in again.producers.active_producers()] == [2, 0]
        assert again.producers.is_whole


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_that_was_not_told_yet_asks_after_a_restart(is_clean: bool) -> None:
    disk, log = new_log()
    log.restart_at(START)
    append(log, batch(START, producer_id=BUSY, base_sequence=9))  # of a leader that does not tell
    if is_clean:
        log.close_cleanly()
    shutdown = ShutdownKind.CLEAN if is_clean else ShutdownKind.PROCESS_CRASH
    again = opened(open_log(disk, last_shutdown=shutdown, log_start_offset=START))
    assert not again.producers.is_whole
    again.learn_producers(told())
    assert [p.last_sequence for p in again.producers.active_producers()] == [2, 9]
