"""A flipped bit in a small file of a broker is never believed (Jepsen on NATS JetStream, December 2025)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from dataplane.core.titles import with_title
from dataplane.shell.data_directory import CONTROLLER_EPOCH_FILE, read_seen
from dataplane.storage.checked_json import CorruptJson, decode_checked, encode_checked
from dataplane.storage.disk import replace_durably
from dataplane.storage.log_dir_identity import LogDirMeta, LogDirRefused, decode_meta, encode_meta
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.partition_file import PARTITION_FILE, encode_partition, read_partition
from dataplane.storage.seal import SEAL_FILE, Seal, read_seal, write_seal
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch
from springtide.levels import Level
from springtide.node.controller_client import Seen
from tests.kit.memory.disk import MemoryDisk

META = LogDirMeta(
    cluster_id="RPWDef3OEH94evXrjB9kvg",
    broker_id=1,
    dir_id="TbsVewnWmHe2lCJSscK91A",
    broker_epoch=BrokerEpoch(2),
    boot_id="53175b7b-9e89-4f06-8806-75b93b071a9c",
    unanswered=("a", "b"),
)


def flipped(content: bytes) -> Iterator[bytes]:
    """Yield the content with each of its bits flipped in turn."""
    for place in range(len(content)):
        for bit in range(8):
            yield content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def disk_with(path: str, content: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.mkdir("/data")
    replace_durably(disk, path, content)
    return disk


def test_what_was_written_is_read_and_an_older_release_wrote_no_crc() -> None:
    assert decode_checked(encode_checked({"a": 1, "b": [None, "ü"]})) == {"a": 1, "b": [None, "ü"]}
    assert decode_checked(b'{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff", b'{"a": 1, "crc32c": "00000000"}', b'{"crc32c": 7}']
)
def test_what_is_no_such_object_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptJson):
        decode_checked(content)


def test_meta_json_with_a_flipped_bit_says_what_it_said_or_is_refused_by_name() -> None:
    for content in flipped(encode_meta(META)):
        try:
            assert decode_meta(content) == META
        except LogDirRefused as refusal:
            assert "meta.json" in str(refusal)


def test_partition_json_with_a_flipped_bit_names_no_other_partition() -> None:
    partition = PartitionId("TbsVewnWmHe2lCJSscK91A", "orders", 3)
    for content in flipped(encode_partition(partition)):
        disk = disk_with(f"/data/{PARTITION_FILE}", content)
        with contextlib.suppress(LogDirRefused):
            assert read_partition(disk, "/data") == partition


def test_a_seal_with_a_flipped_bit_promises_nothing_else() -> None:
    seal = Seal(chain_epoch=BrokerEpoch(2), leader_epoch=LeaderEpoch(7), end_offset=2000)
    disk = MemoryDisk()
    disk.mkdir("/data")
    write_seal(disk, "/data", seal)
    for content in flipped(bytes(disk.content(f"/data/{SEAL_FILE}"))):
        assert read_seal(disk_with(f"/data/{SEAL_FILE}", content), "/data") in {seal, None}


def test_a_flipped_bit_witnesses_no_controller_that_never_was() -> None:
    for content in flipped(with_title(CONTROLLER_EPOCH_FILE, b"7 220 VGtHPoE7t9GvVRgTJhFNkg")):
        assert read_seen(disk_with(f"/data/{CONTROLLER_EPOCH_FILE}", content), "/data") == Seen()


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"7", Seen(ControllerEpoch(7))),
        (b"7 220 VGtHPo", Seen(ControllerEpoch(7), "VGtHPo", 220)),
        (b"7 220 ", Seen(ControllerEpoch(7), "", 220)),
        (b"1: 7 220 VGtHPo", Seen(ControllerEpoch(7), "VGtHPo", 220, Level(1))),
        (b"1: 7 220 ", Seen(ControllerEpoch(7), "", 220, Level(1))),
    ],
)
def test_an_older_release_wrote_what_it_had_seen_without_a_title(content: bytes, seen: Seen) -> None:
    assert read_seen(disk_with(f"/data/{CONTROLLER_EPOCH_FILE}", content), "/data") == seen
