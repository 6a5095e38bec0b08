"""Titles of stored files: bytes that rotted are one thing, a later release's file is another."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from dataplane.core.compaction.known import KnownRounds, round_in
from dataplane.core.leader_epochs import CorruptEpochCheckpoint, LeaderEpochs, decode_leader_epochs
from dataplane.core.producer_state import (
    CorruptProducerSnapshot,
    ProducerStates,
    decode_producer_states,
)
from dataplane.core.titles import CorruptTitle, NewerFormat, with_title, without_title
from springtide.levels import NEWEST, RELEASES
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.later_release import round_of_version, snapshot_of_version

BODY = b"all there is\n"


def of_version(name: str, version: int, body: bytes = BODY) -> bytes:
    return with_title(name, body, version=version)


def test_the_bytes_are_those_of_the_first_release() -> None:
    assert with_title("rounds", b"{}") == b"rounds 1 " + b"%08x" % crc32c(b"{}") + b"\n{}"
    assert without_title("rounds", with_title("rounds", BODY)) == BODY
    assert without_title("rounds", of_version("rounds", 2), known=2) == BODY
    assert without_title("rounds", of_version("rounds", 1), known=2) == BODY


@pytest.mark.parametrize("version", [2, 3, 17])
def test_a_higher_version_is_of_a_later_release_and_names_both(version: int) -> None:
    with pytest.raises(NewerFormat) as caught:
        without_title("rounds", of_version("rounds", version))
    assert str(caught.value.at("/data/orders-0")) == (
        f"/data/orders-0: rounds is in format {version}, written by a later release; this is release "
        f"{RELEASES[NEWEST]}, which reads up to format 1. It was left as it is: start the later release here "
        "again"
    )


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        BODY,
        of_version("rounds", 0),
        of_version("others", 1),
        of_version("others", 2),
        of_version("rounds", 123456),
        of_version("rounds", 2)[:-1],
        of_version("rounds", 1).replace(b" 1 ", b" 3 "),
        of_version("rounds", 1).replace(b"all", b"ali"),
        of_version("rounds", 1).replace(b" 1 ", b" +1 "),
        of_version("rounds", 1).replace(b" 1 ", b" 01 "),
        of_version("rounds", 1).replace(b" 1 ", b" 1  "),
        b"rounds 1 00000000",
    ],
)
def test_other_bytes_are_damage(encoded: bytes) -> None:
    with pytest.raises(CorruptTitle):
        without_title("rounds", encoded)


def test_epochs_of_a_later_release_are_not_rebuilt_from_the_batches() -> None:
    body = LeaderEpochs(()).encode().partition(b"\n")[2]
    with pytest.raises(NewerFormat):
        decode_leader_epochs(of_version("leader-epochs", 2, body))
    with pytest.raises(CorruptEpochCheckpoint):
        decode_leader_epochs(of_version("leader-epochs", 1, body + b"x"))


def test_producers_of_a_later_release_are_no_damage() -> None:
    encoded = bytearray(snapshot_of_version(9))
    with pytest.raises(NewerFormat, match="a snapshot of producers is in format 9"):
        decode_producer_states(bytes(encoded))
    encoded[-1] ^= 1
    with pytest.raises(CorruptProducerSnapshot):
        decode_producer_states(bytes(encoded))
    flipped = bytearray(ProducerStates().encode())
    flipped[5] ^= 4
    with pytest.raises(CorruptProducerSnapshot):
        decode_producer_states(bytes(flipped))


def test_a_round_of_a_later_release_is_sound_and_not_known() -> None:
    for version in (1, 300):
        batch = round_of_version(version)
        with pytest.raises(NewerFormat, match=f"a round of compaction in the log is in format {version}"):
            round_in(decode_header(batch), memoryview(batch))


def test_a_record_that_says_that_it_is_a_round_and_is_none_changes_nothing_as_before() -> None:
    for batch in (round_of_version(-1), round_of_version(1, b""), round_of_version(1, b"\0\0short")):
        rounds = KnownRounds()
        rounds.on_appended(decode_header(batch), memoryview(batch))
        assert rounds.pending == ()
    batch = round_of_version(0)
    rounds = KnownRounds()
    rounds.on_appended(decode_header(batch), memoryview(batch))
    assert [placed.offset for placed in rounds.pending] == [7]
