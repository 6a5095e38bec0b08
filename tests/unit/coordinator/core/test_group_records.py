"""The records of `__consumer_offsets`, against bytes that Kafka made.

The vectors were written by a Java program over Kafka 4.3.1's own jars: it filled the generated classes
(OffsetCommitKey, OffsetCommitValue, GroupMetadataKey, GroupMetadataValue and others) with the values below
and printed MessageUtil.toCoordinatorTypePrefixedBytes and MessageUtil.toVersionPrefixedBytes. Which versions
Kafka writes was asked of GroupCoordinatorRecordHelpers with GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core import group_records
from coordinator.core.group_records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    OtherKey,
    StoredGroup,
    StoredMember,
    UnreadableGroupRecord,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)

TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
AT_MS = 1_700_000_000_000

OFFSET_KEY = "000100096f72646572732dc3a900087061796d656e747300000007"
LEGACY_KEY = "000000016700017400000001"
GROUP_KEY = "000200096f72646572732dc3a9"
OFFSET_VALUES = {
    0: "000000000000000012670005c3a974c3a90000018bcfe56800",
    1: "000100000000000012670005c3a974c3a90000018bcfe568000000018bcfee8fc0",
    2: "000200000000000012670005c3a974c3a90000018bcfe56800",
    3: "00030000000000001267000000030005c3a974c3a90000018bcfe56800",
    4: "000400000000000012670000000306c3a974c3a90000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
}
OFFSET_WITHOUT_ID = "00040000000000000000ffffffff01000000000000000500"
OFFSET_WITHOUT_METADATA = (
    "0004000000000000126700000003010000018bcfe568000100100102030405060708090a0b0c0d0e0f10"
)
LEGACY_VALUE = "0000000000000000000900016d0000000000000008"
GROUP_VALUES = {
    0: "00000008636f6e73756d65720000000c000572616e67650003632d31000000020003632d3100016300092f31302e302e"
    "302e310000afc8000000030001020000000203040003642d3200016400092f31302e302e302e32000027100000000000"
    "00000109",
    1: "00010008636f6e73756d65720000000c000572616e67650003632d31000000020003632d3100016300092f31302e302e"
    "302e31000493e00000afc8000000030001020000000203040003642d3200016400092f31302e302e302e320000ea6000"
    "002710000000000000000109",
    2: "00020008636f6e73756d65720000000c000572616e67650003632d310000018bcfe56800000000020003632d31000163"
    "00092f31302e302e302e31000493e00000afc8000000030001020000000203040003642d3200016400092f31302e302e"
    "302e320000ea6000002710000000000000000109",
    3: "00030008636f6e73756d65720000000c000572616e67650003632d310000018bcfe56800000000020003632d31000369"
    "2d3100016300092f31302e302e302e31000493e00000afc8000000030001020000000203040003642d32ffff00016400"
    "092f31302e302e302e320000ea6000002710000000000000000109",
    4: "000409636f6e73756d65720000000c0672616e676504632d310000018bcfe568000304632d3104692d3102630a2f3130"
    "2e302e302e31000493e00000afc8040001020303040004642d320002640a2f31302e302e302e320000ea600000271001"
    "02090000",
}
EMPTY_GROUP_VALUES = {
    0: "00000008636f6e73756d65720000000dffffffff00000000",
    1: "00010008636f6e73756d65720000000dffffffff00000000",
    2: "00020008636f6e73756d65720000000dffffffff0000018bcfe5680100000000",
    3: "00030008636f6e73756d65720000000dffffffff0000018bcfe5680100000000",
    4: "000409636f6e73756d65720000000d00000000018bcfe568010100",
}

MEMBERS = (
    StoredMember("c-1", "i-1", "c", "/10.0.0.1", 300_000, 45_000, b"\x00\x01\x02", b"\x03\x04"),
    StoredMember("d-2", None, "d", "/10.0.0.2", 60_000, 10_000, b"", b"\x09"),
)
GROUP = StoredGroup("consumer", 12, "range", "c-1", AT_MS, MEMBERS)
EMPTY_GROUP = StoredGroup("consumer", 13, None, None, AT_MS + 1, ())
OFFSET = CommittedOffset(4711, 3, "été", AT_MS, None, TOPIC_ID)


def test_keys_are_kafkas_both_ways() -> None:
    key = OffsetKey("orders-é", "payments", 7)
    legacy = OffsetKey("g", "t", 1, is_legacy=True)
    group = GroupKey("orders-é")
    assert [encode_offset_key(key).hex(), encode_offset_key(legacy).hex()] == [OFFSET_KEY, LEGACY_KEY]
    assert encode_group_key(group).hex() == GROUP_KEY
    assert [decode_key(bytes.fromhex(h)) for h in (OFFSET_KEY, LEGACY_KEY, GROUP_KEY)] == [key, legacy, group]


@pytest.mark.parametrize(
    ("raw", "key_type"),
    [
        ("0004000167", 4),
        ("0017", 23),
        ("0009", 9),
        ("001801", 24),
        ("7fff", 32767),
        ("ffff", -1),
        ("000a" + OFFSET_KEY[4:], 10),
    ],
)
def test_keys_of_other_types_are_told_apart(raw: str, key_type: int) -> None:
    assert decode_key(bytes.fromhex(raw)) == OtherKey(key_type)


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    """GroupCoordinatorRecordHelpers chose version 4 for it, and version 1 where an expiry is named."""
    assert encode_offset(OFFSET).hex() == OFFSET_VALUES[4]
    assert encode_offset(CommittedOffset(0, -1, "", 5)).hex() == OFFSET_WITHOUT_ID
    expiring = CommittedOffset(4711, -1, "été", AT_MS, AT_MS + 600_000)
    assert encode_offset(expiring).hex() == OFFSET_VALUES[1]


def test_an_offset_is_read_in_every_version() -> None:
    older = CommittedOffset(4711, -1, "été", AT_MS)
    assert {version: decode_offset(bytes.fromhex(raw)) for version, raw in OFFSET_VALUES.items()} == {
        0: older,
        1: CommittedOffset(4711, -1, "été", AT_MS, AT_MS + 600_000),
        2: older,
        3: CommittedOffset(4711, 3, "été", AT_MS),
        4: OFFSET,
    }
    assert decode_offset(bytes.fromhex(OFFSET_WITHOUT_ID)) == CommittedOffset(0, -1, "", 5)
    assert decode_offset(bytes.fromhex(OFFSET_WITHOUT_METADATA)) == CommittedOffset(
        4711, 3, "", AT_MS, None, TOPIC_ID
    )
    assert decode_offset(bytes.fromhex(LEGACY_VALUE)) == CommittedOffset(9, -1, "m", 8)


def test_a_group_is_written_in_version_3_as_kafka_writes_it() -> None:
    assert encode_group(GROUP).hex() == GROUP_VALUES[3]
    assert encode_group(EMPTY_GROUP).hex() == EMPTY_GROUP_VALUES[3]


def test_a_group_is_read_in_every_version() -> None:
    read = {version: decode_group(bytes.fromhex(raw)) for version, raw in GROUP_VALUES.items()}
    assert read[3] == read[4] == GROUP
    first, second = MEMBERS
    without_ids = (
        StoredMember("c-1", None, "c", "/10.0.0.1", 300_000, 45_000, first.subscription, first.assignment),
        second,
    )
    assert read[2] == StoredGroup("consumer", 12, "range", "c-1", AT_MS, without_ids)
    assert read[1] == StoredGroup("consumer", 12, "range", "c-1", -1, without_ids)
    assert [member.rebalance_timeout_ms for member in read[0].members] == [45_000, 10_000]
    empty = {version: decode_group(bytes.fromhex(raw)) for version, raw in EMPTY_GROUP_VALUES.items()}
    assert empty[2] == empty[3] == empty[4] == EMPTY_GROUP
    assert empty[0] == empty[1] == StoredGroup("consumer", 13, None, None, -1, ())


@pytest.mark.parametrize(
    "raw", [*OFFSET_VALUES.values(), OFFSET_WITHOUT_METADATA, *GROUP_VALUES.values(), OFFSET_KEY, GROUP_KEY]
)
def test_no_cut_and_no_addition_is_read(raw: str) -> None:
    whole = bytes.fromhex(raw)
    decode = {OFFSET_KEY: decode_key, GROUP_KEY: decode_key}.get(raw) or (
        decode_group if raw in GROUP_VALUES.values() else decode_offset
    )
    for wrong in (*(whole[:length] for length in range(len(whole))), whole + b"\x00"):
        with pytest.raises(UnreadableGroupRecord):
            decode(wrong)


@pytest.mark.parametrize("key", [OFFSET_KEY, LEGACY_KEY])
def test_an_id_that_is_no_text_is_refused(key: str) -> None:
    wrong = bytes.fromhex(key).replace(b"orders", b"\xffrders").replace(b"g", b"\xff")
    with pytest.raises(UnreadableGroupRecord):
        decode_key(wrong)


def test_a_field_that_is_not_known_yet_is_passed_over() -> None:
    """Tagged fields are how Kafka adds some to a version that there is."""
    tail = OFFSET_VALUES[4][-38:]
    assert tail.startswith("010010"), "one tagged field, 0, of 16 bytes"
    unknown = "0501aa"
    raw = OFFSET_VALUES[4][:-38] + "02" + tail[2:] + unknown
    assert decode_offset(bytes.fromhex(raw)) == OFFSET
    longer = OFFSET_VALUES[4][:-38] + "010011" + tail[6:] + "aa"
    with pytest.raises(UnreadableGroupRecord, match="left over"):
        decode_offset(bytes.fromhex(longer))


def test_no_expiry_and_no_rebalance_timeout_are_read_as_kafka_reads_them() -> None:
    no_expiry = bytes.fromhex(OFFSET_VALUES[1])[:-8] + b"\xff" * 8
    assert decode_offset(no_expiry) == CommittedOffset(4711, -1, "été", AT_MS)
    no_timeout = bytes.fromhex(GROUP_VALUES[3].replace("000493e0", "ffffffff"))
    assert decode_group(no_timeout).members[0].rebalance_timeout_ms == 45_000


def test_a_member_without_a_subscription_is_refused() -> None:
    null = GROUP_VALUES[3].replace("00000003000102", "ffffffff")
    with pytest.raises(UnreadableGroupRecord, match="null"):
        decode_group(bytes.fromhex(null))


def test_what_nearly_all_of_a_log_is_is_read_without_the_general_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes several times as long, which the opening of a large shard would feel."""
    monkeypatch.setattr(group_records, "_read", None)
    for key in (OffsetKey("orders-é", "payments", 7), OffsetKey("g" * 300, "t" * 300, 0)):
        assert decode_key(encode_offset_key(key)) == key
    assert decode_offset(bytes.fromhex(OFFSET_WITHOUT_METADATA)).offset == 4711


def test_an_unknown_version_is_refused() -> None:
    for decode in (decode_offset, decode_group):
        with pytest.raises(UnreadableGroupRecord, match="version 5"):
            decode(bytes.fromhex("0005") + bytes(100))


def test_a_claimed_number_of_members_is_held_against_the_bytes() -> None:
    claimed = bytes.fromhex(EMPTY_GROUP_VALUES[3])[:-4] + b"\x7f\xff\xff\xff"
    with pytest.raises(UnreadableGroupRecord, match="exceeds the 0 bytes left"):
        decode_group(claimed)


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for decode in (decode_key, decode_offset, decode_group):
        for version in range(5):
            try:
                decode(bytes((0, version)) + raw)
            except UnreadableGroupRecord:
                continue


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBER = st.integers(0, 2**31 - 1)
TIME = st.integers(0, 2**63 - 1)
MEMBER = st.builds(
    StoredMember,
    TEXT,
    st.none() | TEXT,
    TEXT,
    TEXT,
    NUMBER,
    NUMBER,
    st.binary(max_size=9),
    st.binary(max_size=9),
)


@given(
    st.builds(StoredGroup, TEXT, NUMBER, st.none() | TEXT, st.none() | TEXT, TIME, st.tuples(MEMBER)),
    st.builds(CommittedOffset, TIME, NUMBER, TEXT, TIME, st.none(), st.none() | st.uuids(version=4)),
    st.builds(OffsetKey, TEXT, TEXT, NUMBER, st.booleans()),
)
def test_what_is_written_is_read(group: StoredGroup, offset: CommittedOffset, key: OffsetKey) -> None:
    assert decode_group(encode_group(group)) == group
    assert decode_offset(encode_offset(offset)) == offset
    assert decode_key(encode_offset_key(key)) == key
    assert decode_key(encode_group_key(GroupKey(key.group_id))) == GroupKey(key.group_id)
