"""Whose a directory is, how its last user stopped, and what is refused because nobody can tell."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from dataplane.core.log_port import LogError
from dataplane.storage.checked_json import encode_checked
from dataplane.storage.checkpoints import RECOVERY_POINTS, write_checkpoint
from dataplane.storage.directory_claim import MARKER_FILE, DirectoryClaim, claim_directory
from dataplane.storage.fresh_mark import FRESH_MARK_FILE
from dataplane.storage.log_dir_identity import (
    CleanMarker,
    LogDirMeta,
    LogDirRefused,
    decode_marker,
    decode_meta,
    encode_marker,
    encode_meta,
    shutdown_kind,
)
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.session import ShutdownKind
from tests.kit.memory.disk import MemoryDisk

META = LogDirMeta("cluster", 1, "dir-1", BrokerEpoch(5), "boot-1", ("incarnation",))
CLEAN, FIRST = ShutdownKind.CLEAN, ShutdownKind.FIRST_START
PROCESS, MACHINE = ShutdownKind.PROCESS_CRASH, ShutdownKind.MACHINE_CRASH


def test_an_identity_is_read_as_it_was_written() -> None:
    assert decode_meta(encode_meta(META)) == META
    assert json.loads(encode_meta(META))["version"] == 1


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"broker_id": "1"}, "wrong type"),
        ({"broker_epoch": 5.0}, "wrong type"),
        ({"cluster_id": None}, "wrong type"),
        ({"dir_id": 7}, "wrong type"),
        ({"boot_id": 7}, "wrong type"),
        ({"unanswered": ["incarnation", 7]}, "wrong type"),
        ({"unanswered": 7}, "not iterable"),
        ({"dir_id": ...}, "lacks 'dir_id'"),
    ],
)
def test_an_identity_that_lacks_something_or_has_another_type_is_refused(
    changed: dict[str, Any], reason: str
) -> None:
    fields = json.loads(encode_meta(META)) | changed
    del fields["crc32c"]
    known = {name: value for name, value in fields.items() if value is not ...}
    with pytest.raises(LogDirRefused, match=reason):
        decode_meta(encode_checked(known))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"broker_epoch": 5, "recovery_points": "a"}, CleanMarker(BrokerEpoch(5), "a")),
        ({"broker_epoch": 5}, CleanMarker(BrokerEpoch(5))),
        ({"broker_epoch": "5", "recovery_points": "a"}, None),
        ({"broker_epoch": 5, "recovery_points": 7}, None),
        ({"recovery_points": "a"}, None),
    ],
)
def test_a_marker_names_an_epoch_and_if_it_is_not_old_its_recovery_points(
    fields: dict[str, Any], expected: CleanMarker | None
) -> None:
    assert decode_marker(encode_checked(fields)) == expected
    if expected is not None:
        assert decode_marker(encode_marker(expected)) == expected


@pytest.mark.parametrize(
    ("marker", "found", "suits"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("b", "a", False),
        ("", "a", True),
        ("a", "", True),
        ("", "", True),
    ],
)
def test_a_marker_suits_its_own_recovery_points_and_if_one_is_unknown_any(
    marker: str, found: str, suits: bool
) -> None:
    assert CleanMarker(BrokerEpoch(5), marker).suits(found) is suits


NEVER = LogDirMeta("", 1, "dir-1", BrokerEpoch(-1), "boot-1")


@pytest.mark.parametrize(
    ("meta", "epoch", "boot_id", "marks", "expected"),
    [
        (None, None, "boot-1", (True, True), FIRST),
        (NEVER, None, "boot-1", (True, True), FIRST),
        (NEVER, -1, "boot-1", (True, True), CLEAN),
        (META, 5, "boot-2", (False, False), CLEAN),
        (META, 4, "boot-2", (True, True), MACHINE),
        (META, 6, "boot-2", (True, True), MACHINE),
        (META, None, "boot-1", (True, True), PROCESS),
        (META, None, "boot-0", (True, True), MACHINE),
        (META, None, "boot-2", (True, True), MACHINE),
        (META, None, "", (True, True), MACHINE),
        (META, None, "boot-1", (False, True), MACHINE),
        (META, None, "boot-1", (True, False), MACHINE),
    ],
)
def test_only_a_marker_of_the_last_epoch_or_three_proofs_vouch_for_a_directory(
    *,
    meta: LogDirMeta | None,
    epoch: int | None,
    boot_id: str,
    marks: tuple[bool, bool],
    expected: ShutdownKind,
) -> None:
    kind = shutdown_kind(
        meta,
        marker=None if epoch is None else CleanMarker(BrokerEpoch(epoch)),
        recovery_points="",
        boot_id=boot_id,
        has_mount_mark=marks[0],
        is_mark_fresh=marks[1],
    )
    assert kind is expected


# ---- claims


def claim(disk: MemoryDisk, boot_id: str = "boot-1") -> DirectoryClaim:
    return claim_directory(disk, "/data", broker_id=1, new_dir_id="dir-1", boot_id=boot_id)


def registered(disk: MemoryDisk) -> DirectoryClaim:
    """Of broker epoch 5."""
    claimed = claim(disk)
    claimed.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(5))
    return claimed


def test_a_first_claim_says_nothing_of_copies_or_crashes() -> None:
    claimed = claim(MemoryDisk())
    assert (claimed.last_shutdown, claimed.is_copy_suspected, claimed.is_refuted) == (FIRST, False, False)


def test_a_process_that_stops_cleanly_before_it_registered_leaves_what_it_found() -> None:
    disk = MemoryDisk()
    first = registered(disk)
    assert first.mark_clean()
    first.release()
    again = claim(disk, "boot-2")
    assert again.mark_clean()
    again.release()
    crashed = claim(disk, "boot-3")
    assert crashed.last_shutdown is CLEAN
    crashed.release()
    assert not claim(disk, "boot-3").mark_clean(), "nobody was told of the crash"


def test_a_directory_on_a_disk_that_fails_is_not_claimed() -> None:
    disk = MemoryDisk()
    disk.fail_next("open", OSError(errno.EIO, "bad sector"))
    with pytest.raises(LogError, match="can't be opened"):
        claim(disk)


@pytest.mark.parametrize(
    ("marker", "boot_id", "is_mounted", "is_suspected"),
    [
        (5, "boot-2", False, True),  # of another copy's recovery points
        (4, "boot-2", False, False),
        (6, "boot-2", False, False),
        (None, "boot-1", True, True),  # as after a kill, but for the fresh mark
        (None, "boot-1", False, False),
        (None, "boot-2", True, False),
        (None, "boot-0", True, False),
        (None, "", True, False),
    ],
)
def test_a_copy_is_suspected_where_all_is_as_it_was_left_but_the_files(
    marker: int | None, boot_id: str, is_mounted: bool, is_suspected: bool
) -> None:
    disk = MemoryDisk()
    registered(disk).release()
    write_checkpoint(disk, "/data", RECOVERY_POINTS, {("topic", 0): 3})
    disk.open(f"/data/{FRESH_MARK_FILE}").pwrite(b"x", 0)
    if marker is not None:
        disk.open(f"/data/{MARKER_FILE}", create=True).pwrite(
            encode_marker(CleanMarker(BrokerEpoch(marker), "title")), 0
        )
    claimed = claim(disk if is_mounted else disk.snapshot(), boot_id)
    assert (claimed.last_shutdown, claimed.is_copy_suspected) == (MACHINE, is_suspected)


def test_a_directory_that_was_disowned_is_no_copy() -> None:
    """Its boot id is unknown then, and so may be the next process's."""
    disk = MemoryDisk()
    disowned = registered(disk)
    disowned.disown()
    disowned.release()
    claimed = claim(disk, "")
    assert (claimed.last_shutdown, claimed.is_copy_suspected) == (MACHINE, False)
