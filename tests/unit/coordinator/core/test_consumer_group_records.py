"""The records of `consumer` groups, against bytes that Kafka made.

The vectors were written by a Java program over Kafka 4.4.0's own jars, as those of test_group_records.py.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.consumer_group_records import (
    ClassicMember,
    ConsumerMember,
    ConsumerValue,
    CurrentAssignment,
    GroupEpoch,
    ResolvedPattern,
    TargetEpoch,
    decode_consumer_value,
    encode_consumer_key,
    encode_consumer_value,
)
from coordinator.core.group_records import (
    ConsumerGroupKey,
    ConsumerRecord,
    NewerGroupRecord,
    UnreadableGroupRecord,
    decode_key,
)

T = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
U = UUID("11121314-1516-1718-191a-1b1c1d1e1f20")
AT_MS = 1_700_000_000_000
MEMBER = ConsumerMember(
    instance_id="i-1",
    rack_id="r",
    client_id="c",
    client_host="/10.0.0.1",
    topics=("a", "té"),
    pattern="x.*",
    rebalance_timeout_ms=300_000,
    assignor="range",
    classic=ClassicMember(45_000, (("range", b"\0\1\2"),)),
)
CURRENT = CurrentAssignment(
    epoch=7,
    previous_epoch=6,
    state=1,
    assigned={T: {0: 6, 3: 7}},
    revoking={U: {5: 4}},
)

KEYS = [
    ("000300086f7264657273c3a9", ConsumerGroupKey(ConsumerRecord.EPOCH, "ordersé")),
    ("000500086f7264657273c3a900036d2d31", ConsumerGroupKey(ConsumerRecord.MEMBER, "ordersé", "m-1")),
    ("0006000167", ConsumerGroupKey(ConsumerRecord.TARGET_EPOCH, "g")),
    ("000700016700036d2d31", ConsumerGroupKey(ConsumerRecord.TARGET, "g", "m-1")),
    ("000800016700036d2d31", ConsumerGroupKey(ConsumerRecord.CURRENT, "g", "m-1")),
    ("00100001670003782e2a", ConsumerGroupKey(ConsumerRecord.PATTERN, "g", "x.*")),
]
VALUES: list[tuple[ConsumerRecord, str, ConsumerValue]] = [
    (ConsumerRecord.EPOCH, "0000000000070100080123456789abcdef", GroupEpoch(7, 0x0123456789ABCDEF)),
    (ConsumerRecord.EPOCH, "00000000000700", GroupEpoch(7)),
    (
        ConsumerRecord.MEMBER,
        "000004692d31027202630a2f31302e302e302e310302610474c3a904782e2a000493e00672616e6765010012010000afc8"
        "020672616e6765040001020000",
        MEMBER,
    ),
    (ConsumerRecord.MEMBER, "0000000001010100ffffffff0000", ConsumerMember()),
    (ConsumerRecord.TARGET_EPOCH, "0000000000070100080000018bcfe56800", TargetEpoch(7, AT_MS)),
    (ConsumerRecord.TARGET_EPOCH, "00000000000700", TargetEpoch(7)),
    (
        ConsumerRecord.TARGET,
        "0000030102030405060708090a0b0c0d0e0f10030000000000000003001112131415161718191a1b1c1d1e1f2002000000"
        "050000",
        {T: (0, 3), U: (5,)},
    ),
    (ConsumerRecord.TARGET, "00000100", {}),
    (
        ConsumerRecord.CURRENT,
        "0000000000070000000601020102030405060708090a0b0c0d0e0f10030000000000000003010009030000000600000007"
        "021112131415161718191a1b1c1d1e1f200200000005010005020000000400",
        CURRENT,
    ),
    (ConsumerRecord.CURRENT, "0000fffffffe0000000002010100", CurrentAssignment(epoch=-2, state=2)),
    (
        ConsumerRecord.PATTERN,
        "000003037861037862000000000000000c0000018bcfe5680000",
        ResolvedPattern(("xa", "xb"), 12, AT_MS),
    ),
    (ConsumerRecord.PATTERN, "0000010000000000000000000000000000000000", ResolvedPattern((), 0, 0)),
]


@pytest.mark.parametrize(("raw", "key"), KEYS)
def test_keys_are_kafkas(raw: str, key: ConsumerGroupKey) -> None:
    assert encode_consumer_key(key).hex() == raw
    assert decode_key(bytes.fromhex(raw)) == key


@pytest.mark.parametrize(("record", "raw", "value"), VALUES)
def test_values_are_kafkas(record: ConsumerRecord, raw: str, value: ConsumerValue) -> None:
    assert encode_consumer_value(value).hex() == raw
    assert decode_consumer_value(record, bytes.fromhex(raw)) == value


def test_partitions_that_kafka_wrote_without_epochs_have_their_members() -> None:
    raw = "0000000000070000000600020102030405060708090a0b0c0d0e0f10030000000000000003000100"
    current = decode_consumer_value(ConsumerRecord.CURRENT, bytes.fromhex(raw))
    assert isinstance(current, CurrentAssignment)
    assert current.assigned == {T: {0: 7, 3: 7}}


def test_equal_values_have_equal_bytes() -> None:
    one = CurrentAssignment(epoch=7, assigned={T: {0: 6, 3: 7}, U: {5: 4}})
    same = CurrentAssignment(epoch=7, assigned={U: {5: 4}, T: {3: 7, 0: 6}})
    assert encode_consumer_value(same) == encode_consumer_value(one)


@pytest.mark.parametrize("record", ConsumerRecord)
def test_a_later_version_is_said_to_be_one(record: ConsumerRecord) -> None:
    with pytest.raises(NewerGroupRecord):
        decode_consumer_value(record, b"\0\1" + bytes(40))


def test_epochs_that_do_not_fit_the_partitions_are_refused() -> None:
    raw = encode_consumer_value(CURRENT).hex().replace("010009030000000600000007", "0100050200000006")
    with pytest.raises(UnreadableGroupRecord, match="1 epochs of 2 partitions"):
        decode_consumer_value(ConsumerRecord.CURRENT, bytes.fromhex(raw))


@given(data=st.data())
def test_bytes_that_are_cut_off_or_damaged_are_refused_or_read(data: st.DataObject) -> None:
    record, raw, _ = data.draw(st.sampled_from(VALUES))
    value = bytearray.fromhex(raw)
    value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(value[: data.draw(st.integers(0, len(value)))])
    with suppress(UnreadableGroupRecord):
        decode_consumer_value(record, cut)
