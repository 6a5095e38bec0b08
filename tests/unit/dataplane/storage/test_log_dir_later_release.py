"""A directory, or a log in it, of a later release: refused with both releases named, and left as it is."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dataplane.core.titles import NewerFormat, with_title
from dataplane.shell.log_loading import load_logs
from dataplane.storage.checked_json import CRC_FIELD, encode_checked
from dataplane.storage.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from dataplane.storage.log_dir import LogDir, open_log_dir
from dataplane.storage.log_settings import PartitionId
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.session import ShutdownKind
from springtide.levels import NEWEST, RELEASES
from tests.kit.dataplane.later_release import round_of_version, snapshot_of_version
from tests.kit.dataplane.storage import SMALL, append, batch
from tests.kit.memory.disk import MemoryDisk

ORDERS = PartitionId("AAAAAAAAAAAAAAAAAAAAAA", "orders", 0)
PATH = "/data"
LOG_PATH = f"{PATH}/orders-0.AAAAAAAAAAAAAAAAAAAAAA"


def start(disk: MemoryDisk) -> LogDir:
    log_dir = open_log_dir(disk, PATH, broker_id=1, new_dir_id="dir-1", boot_id="boot-1", options=SMALL)
    try:
        assert not load_logs(log_dir, wall_ms=lambda: 1)
    except NewerFormat:
        log_dir.abandon()
        raise
    return log_dir


def stopped(*, is_clean: bool = True) -> MemoryDisk:
    """One log with batches, left by this release."""
    disk = MemoryDisk()
    log_dir = start(disk)
    log_dir.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(5))
    log = log_dir.create(ORDERS, now_ms=1)
    for offset in range(5):
        append(log, batch(offset, leader_epoch=1))
    log.durability.flush()
    if is_clean:
        log_dir.close_cleanly({})
    else:
        log_dir.abandon()
    return disk


def titled(name: str) -> Callable[[bytes], bytes]:
    body = b"of next year"
    return lambda _: with_title(name, body, version=2)


def json_of_version_2(before: bytes) -> bytes:
    fields = json.loads(before) if before else {}
    fields.pop(CRC_FIELD, None)
    return encode_checked(fields | {"version": 2, "release": "0.9"})


def snapshot(_: bytes) -> bytes:
    return snapshot_of_version(9)


def contents(disk: MemoryDisk, path: str) -> dict[str, bytes]:
    marks = (".lock", ".mount-mark", "fresh-mark")
    return {
        name: bytes(disk.content(name))
        for name in disk.files()
        if name.startswith(path) and not name.endswith(marks)
    }


SNAPSHOT = "00000000000000000005.snapshot"
OF_THE_DIRECTORY: dict[str, Callable[[bytes], bytes]] = {
    "meta.json": json_of_version_2,
    "clean-shutdown": json_of_version_2,
    RECOVERY_POINTS: titled(RECOVERY_POINTS),
    HIGH_WATERMARKS: titled(HIGH_WATERMARKS),
    LOG_STARTS: titled(LOG_STARTS),
}
OF_A_LOG: dict[str, Callable[[bytes], bytes]] = {
    "partition.json": json_of_version_2,
    "seal": json_of_version_2,
    "compacted": titled("compacted"),
    "copied": titled("rounds"),
    "rounds": titled("rounds"),
    "leader-epochs": titled("leader-epochs"),
    SNAPSHOT: snapshot,
}


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("name", [*OF_THE_DIRECTORY, *OF_A_LOG])
def test_a_file_of_a_later_release_ends_the_start_and_stays(name: str, is_clean: bool) -> None:
    if name == SNAPSHOT and not is_clean:
        return  # it lies beyond what was flushed, and is made again from the batches
    disk = stopped(is_clean=is_clean)
    path = PATH if name in OF_THE_DIRECTORY else LOG_PATH
    if not disk.exists(f"{path}/{name}"):
        disk.open(f"{path}/{name}", create=True).close()
    content = disk.content(f"{path}/{name}")
    content[:] = (OF_THE_DIRECTORY | OF_A_LOG)[name](bytes(content))
    before = contents(disk, path)
    with pytest.raises(
        NewerFormat, match=rf"is in format \d+, written by .*; this is release {RELEASES[NEWEST]}"
    ):
        start(disk)
    after = contents(disk, path)
    if name in (HIGH_WATERMARKS, LOG_STARTS):  # read when the directory is claimed already
        before.pop(f"{PATH}/clean-shutdown", None)
    assert after == before
    assert not any("quarantine" in each for each in disk.files())


def test_meta_json_names_the_release_that_wrote_it() -> None:
    disk = stopped()
    content = disk.content(f"{PATH}/meta.json")
    content[:] = json_of_version_2(bytes(content))
    with pytest.raises(NewerFormat, match=r"meta\.json is in format 2, written by release 0\.9"):
        start(disk)


def test_the_release_before_finds_its_clean_stop_when_the_later_one_was_refused() -> None:
    disk = stopped()
    whole = bytes(disk.content(f"{PATH}/meta.json"))
    disk.content(f"{PATH}/meta.json")[:] = json_of_version_2(whole)
    with pytest.raises(NewerFormat):
        start(disk)
    disk.crash_process()
    disk.content(f"{PATH}/meta.json")[:] = whole
    assert start(disk).claim.last_shutdown is ShutdownKind.CLEAN


def test_a_round_of_a_later_release_in_a_log_ends_the_start() -> None:
    disk = stopped()
    (segment,) = (name for name in disk.files() if name.startswith(LOG_PATH) and name.endswith(".log"))
    disk.content(segment)[:] += round_of_version(1, base_offset=5)
    for name in ("clean-shutdown", RECOVERY_POINTS):
        disk.unlink(f"{PATH}/{name}")
    before = bytes(disk.content(segment))
    with pytest.raises(NewerFormat, match=r"orders-0.*: a round of compaction in the log is in format 1"):
        start(disk)
    assert bytes(disk.content(segment)) == before
