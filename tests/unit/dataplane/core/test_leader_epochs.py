"""Where an epoch ends, undefined cases included, and what truncation does to the history."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from dataplane.core.leader_epochs import (
    UNDEFINED_END,
    CorruptEpochCheckpoint,
    EpochStart,
    LeaderEpochs,
    decode_leader_epochs,
)
from springtide.wire.fetch_response import EpochEnd


def history(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochStart(*entry) for entry in entries)


@pytest.mark.parametrize(
    ("asked", "end"),
    [
        (0, EpochEnd(0, 5)),  # below all known: nothing of it can lie beyond the first start
        (2, EpochEnd(2, 9)),
        (3, EpochEnd(2, 9)),  # unknown in between: the one before
        (4, EpochEnd(4, 20)),  # the newest ends with the log
        (5, UNDEFINED_END),
        (-1, UNDEFINED_END),
    ],
)
def test_the_end_of_an_epoch(asked: int, end: EpochEnd) -> None:
    assert history((2, 5), (4, 9)).end_offset_for(asked, log_end_offset=20) == end


def test_an_empty_history_knows_nothing() -> None:
    assert LeaderEpochs().end_offset_for(0, log_end_offset=7) == UNDEFINED_END
    assert LeaderEpochs().latest == -1


def test_further_batches_of_an_epoch_are_no_news() -> None:
    epochs = history((1, 0))
    assert not epochs.assign(1, start_offset=50)
    assert epochs.entries == ((1, 0),)


def test_an_epoch_without_records_gives_way_to_the_next() -> None:
    epochs = history((1, 0), (2, 10), (3, 10), (4, 10))
    assert epochs.entries == ((1, 0), (4, 10))
    assert epochs.end_offset_for(3, log_end_offset=10) == EpochEnd(1, 10)


@pytest.mark.parametrize(("epoch", "start"), [(1, 30), (2, 5), (3, 5), (-1, 30)])
def test_a_step_back_is_refused_and_changes_nothing(epoch: int, start: int) -> None:
    epochs = history((1, 0), (2, 10))
    with pytest.raises(ValueError, match="epoch"):
        epochs.assign(epoch, start_offset=start)
    assert epochs.entries == ((1, 0), (2, 10))


def test_a_truncation_drops_epochs_that_begin_at_the_cut() -> None:
    epochs = history((1, 0), (2, 10))
    assert not epochs.truncate_from_end(11)
    assert epochs.truncate_from_end(10)
    assert epochs.entries == ((1, 0),)


def test_a_new_log_start_keeps_the_epoch_that_reigns_there() -> None:
    epochs = history((1, 0), (2, 10), (4, 20))
    assert epochs.truncate_from_start(15)
    assert epochs.entries == ((2, 15), (4, 20))
    assert not epochs.truncate_from_start(15)


entries = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=10).map(
    lambda steps: [
        (sum(e for e, _ in steps[: i + 1]), sum(o for _, o in steps[: i + 1])) for i in range(len(steps))
    ]
)


@given(entries, st.integers(-1, 60), st.integers(0, 20))
def test_the_answer_is_the_largest_known_epoch_not_above_the_asked(
    pairs: list[tuple[int, int]], asked: int, beyond: int
) -> None:
    end_offset = (pairs[-1][1] if pairs else 0) + beyond
    answer = history(*pairs).end_offset_for(asked, log_end_offset=end_offset)
    if not pairs or asked < 0 or asked > pairs[-1][0]:
        assert answer == UNDEFINED_END
        return
    below = [pair for pair in pairs if pair[0] <= asked]
    above = [pair for pair in pairs if pair[0] > asked]
    assert answer == (below[-1][0] if below else asked, above[0][1] if above else end_offset)


@given(entries, st.integers(-1, 60))
def test_the_checkpoint_reads_back(pairs: list[tuple[int, int]], reconciled: int) -> None:
    epochs = history(*pairs)
    epochs.reconcile(reconciled)
    read = decode_leader_epochs(epochs.encode())
    assert (read.entries, read.reconciled) == (epochs.entries, reconciled)


def test_what_was_reconciled_never_goes_back_and_outlives_the_history() -> None:
    epochs = history((1, 0))
    assert epochs.reconcile(5)
    version = epochs.version
    assert not epochs.reconcile(4)
    assert not epochs.reconcile(5)
    assert epochs.version == version
    epochs.truncate_from_end(0)
    epochs.clear()
    assert epochs.reconciled == 5


@given(entries, st.sampled_from([-1, 7]), st.data())
def test_no_damaged_checkpoint_is_believed(
    pairs: list[tuple[int, int]], reconciled: int, data: st.DataObject
) -> None:
    epochs = history(*pairs)
    epochs.reconcile(reconciled)
    encoded = bytearray(epochs.encode())
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(encoded), bytes(encoded[:position])):
        with pytest.raises(CorruptEpochCheckpoint):
            decode_leader_epochs(damaged)


def test_where_an_epoch_began_is_known_of_those_that_are_in_the_history() -> None:
    epochs = history((2, 5), (4, 9))
    assert [epochs.start_offset_of(epoch) for epoch in (1, 2, 3, 4, 5)] == [-1, 5, -1, 9, -1]
    assert history().start_offset_of(1) == -1


@pytest.mark.parametrize(
    ("epoch", "start"), [(-1, 0), (0, -1)], ids=["no epoch is below 0", "no offset is below 0"]
)
def test_nothing_begins_below_zero(epoch: int, start: int) -> None:
    epochs = history()
    with pytest.raises(ValueError, match="no such epoch or offset"):
        epochs.assign(epoch, start_offset=start)
    assert epochs.entries == ()


def test_an_epoch_that_begins_earlier_than_it_did_goes_back() -> None:
    epochs = history((2, 5))
    with pytest.raises(ValueError, match="goes back"):
        epochs.assign(2, start_offset=4)
    assert epochs.entries == (EpochStart(2, 5),)


def test_each_change_of_a_history_is_another_version() -> None:
    """So the thread that stores it knows that the file is behind."""
    epochs = history()
    versions = [epochs.version]
    for change in (
        lambda: epochs.assign(2, start_offset=5),
        lambda: epochs.assign(4, start_offset=9),
        lambda: epochs.reconcile(4),
        lambda: epochs.truncate_from_end(9),
        epochs.clear,
    ):
        change()
        versions.append(epochs.version)
    assert len(set(versions)) == len(versions)


def test_a_checkpoint_may_be_as_long_as_the_longest_history(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = history((1, 0), (2, 10)).encode()
    monkeypatch.setattr("dataplane.core.leader_epochs.CHECKPOINT_BYTES_MAX", len(encoded))
    assert decode_leader_epochs(encoded).entries == ((1, 0), (2, 10))
    monkeypatch.setattr("dataplane.core.leader_epochs.CHECKPOINT_BYTES_MAX", len(encoded) - 1)
    with pytest.raises(CorruptEpochCheckpoint):
        decode_leader_epochs(encoded)


def test_a_checkpoint_without_the_end_of_its_title_or_with_an_order_that_is_broken_is_corrupt() -> None:
    title = LeaderEpochs().encode()
    broken = b"2 5\n1 3\n"
    name = title.rsplit(b" ", 1)[0]
    for encoded in (title[:-1], name + f" {crc32c(broken):08x}\n".encode() + broken):
        with pytest.raises(CorruptEpochCheckpoint):
            decode_leader_epochs(encoded)
