"""Records of `__transaction_state`, against bytes that Kafka 4.4's own classes (TransactionLog,
TransactionLogValue) have written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.core.transaction_records import (
    NewerTransactionRecord,
    StoredTransaction,
    TransactionPartition,
    TransactionState,
    UnreadableTransactionRecord,
    decode_key,
    decode_transaction,
    encode_key,
    encode_transaction,
)

AT_MS = 1_700_000_000_000

KEY = "000000096f72646572732dc3a9"
ONGOING_0 = (
    "0000000000000000126700070000ea60010000000200125f5f636f6e73756d65725f6f666673657473000000010000000d0003"
    "70c3a90000000200000000000001020000018bcfe568000000018bcfe56418"
)
ONGOING_1 = (
    "0001000000000000126700070000ea600103135f5f636f6e73756d65725f6f666673657473020000000d000470c3a903000000"
    "0000000102000000018bcfe568000000018bcfe5641800"
)
EMPTY_0 = "0000000000000000126700070000ea6000ffffffff0000018bcfe56800ffffffffffffffff"
EMPTY_1 = "0001000000000000126700070000ea6000000000018bcfe56800ffffffffffffffff0100080000000000001267"
PREPARE_COMMIT = (
    "000100000000000012677fff0000ea600203135f5f636f6e73756d65725f6f666673657473020000000d000470c3a903000000"
    "0000000102000000018bcfe568000000018bcfe5641803000800000000000012670108000000000000126802020002"
)
PREPARE_ABORT = (
    "0001000000000000126700070000ea6003010000018bcfe568000000018bcfe56418040008000000000000126701080000"
    "0000000012680202000203020005"
)
COMPLETE = (
    "0001000000000000126700070000ea6004010000018bcfe568000000018bcfe56418020008000000000000126602020002"
)
OURS = "0001000000000000126700070000ea6004010000018bcfe568000000018bcfe564180202020002904e020006"

PARTITIONS = frozenset(
    {
        TransactionPartition("__consumer_offsets", 13),
        TransactionPartition("pé", 0),
        TransactionPartition("pé", 258),
    }
)
ONGOING = StoredTransaction(
    producer_id=4711,
    producer_epoch=7,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    updated_ms=AT_MS,
    started_ms=AT_MS - 1_000,
    partitions=PARTITIONS,
)
EMPTY = StoredTransaction(
    producer_id=4711,
    producer_epoch=7,
    timeout_ms=60_000,
    state=TransactionState.EMPTY,
    updated_ms=AT_MS,
    previous_producer_id=4711,
)
PREPARED = replace(
    ONGOING,
    state=TransactionState.PREPARE_COMMIT,
    producer_epoch=32_767,
    previous_producer_id=4711,
    next_producer_id=4712,
    version=2,
)
ABORTING = replace(
    PREPARED,
    state=TransactionState.PREPARE_ABORT,
    producer_epoch=7,
    partitions=frozenset(),
    next_producer_epoch=5,
)
COMPLETED = replace(
    ONGOING,
    state=TransactionState.COMPLETE_COMMIT,
    partitions=frozenset(),
    previous_producer_id=4710,
    version=2,
)


def test_a_key_is_kafkas_both_ways() -> None:
    assert encode_key("orders-é").hex() == KEY
    assert decode_key(bytes.fromhex(KEY)) == "orders-é"


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        (ONGOING_1, ONGOING),
        (EMPTY_1, EMPTY),
        (PREPARE_COMMIT, PREPARED),
        (PREPARE_ABORT, ABORTING),
        (COMPLETE, COMPLETED),
    ],
)
def test_a_transaction_is_kafkas_both_ways(raw: str, stored: StoredTransaction) -> None:
    assert encode_transaction(stored).hex() == raw
    assert decode_transaction(bytes.fromhex(raw)) == stored


def test_the_version_without_tags_is_read() -> None:
    assert decode_transaction(bytes.fromhex(ONGOING_0)) == ONGOING
    assert decode_transaction(bytes.fromhex(EMPTY_0)) == replace(EMPTY, previous_producer_id=-1)


def test_the_owners_epoch_before_is_a_tag_that_kafka_does_not_know() -> None:
    """TransactionLog.read of Kafka 4.4 takes these bytes, and passes the tag over."""
    stored = replace(COMPLETED, previous_producer_id=-1, last_producer_epoch=6)
    assert encode_transaction(stored).hex() == OURS
    assert decode_transaction(bytes.fromhex(OURS)) == stored


@pytest.mark.parametrize(
    "raw", [KEY, ONGOING_0, ONGOING_1, EMPTY_0, EMPTY_1, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE, OURS]
)
def test_no_cut_and_no_addition_is_read(raw: str) -> None:
    whole = bytes.fromhex(raw)
    decode = decode_key if raw == KEY else decode_transaction
    for wrong in (*(whole[:length] for length in range(len(whole))), whole + b"\x00"):
        with pytest.raises(UnreadableTransactionRecord):
            decode(wrong)


def test_keys_and_versions_of_a_later_release_are_named_so() -> None:
    with pytest.raises(NewerTransactionRecord, match="of type 1"):
        decode_key(bytes.fromhex("0001") + b"anything")
    with pytest.raises(NewerTransactionRecord, match="version 2"):
        decode_transaction(bytes.fromhex("0002") + bytes(100))


@pytest.mark.parametrize("status", ["06", "07", "ff"])
def test_a_state_that_no_record_holds_is_refused(status: str) -> None:
    wrong = EMPTY_1.replace("0000ea6000", "0000ea60" + status, 1)
    with pytest.raises(UnreadableTransactionRecord, match="status"):
        decode_transaction(bytes.fromhex(wrong))


def test_a_claimed_number_of_topics_is_held_against_the_bytes() -> None:
    wrong = EMPTY_0.replace("ffffffff", "7fffffff", 1)
    with pytest.raises(UnreadableTransactionRecord, match="exceeds"):
        decode_transaction(bytes.fromhex(wrong))


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for version in range(3):
        for decode in (decode_key, decode_transaction):
            try:
                decode(bytes((0, version)) + raw)
            except UnreadableTransactionRecord:
                continue


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ID = st.integers(-1, 2**63 - 1)
EPOCH = st.integers(-1, 2**15 - 1)


@given(
    st.builds(
        StoredTransaction,
        producer_id=ID,
        producer_epoch=EPOCH,
        timeout_ms=st.integers(0, 2**31 - 1),
        state=st.sampled_from([state for state in TransactionState if state is not TransactionState.EMPTY]),
        updated_ms=ID,
        started_ms=ID,
        partitions=st.frozensets(st.builds(TransactionPartition, TEXT, st.integers(0, 2**31 - 1))),
        previous_producer_id=ID,
        next_producer_id=ID,
        next_producer_epoch=EPOCH,
        last_producer_epoch=EPOCH,
        version=st.integers(0, 2),
    ),
    TEXT,
)
def test_what_is_written_is_read(stored: StoredTransaction, transactional_id: str) -> None:
    assert decode_transaction(encode_transaction(stored)) == stored
    assert decode_key(encode_key(transactional_id)) == transactional_id
