"""Folders of other workers in a broker's directory: which hold data, and that worker 0 leaves them alone."""

from __future__ import annotations

import errno

from dataplane.storage.disk import Disk
from dataplane.storage.log_dir import LogDir, open_log_dir
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.worker_folders import workers_with_data
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.log_dirs import load_all
from tests.kit.dataplane.storage import SMALL
from tests.kit.memory.disk import MemoryDisk

ORDERS = PartitionId("AAAAAAAAAAAAAAAAAAAAAA", "orders", 0)
KEY = (ORDERS.topic_id, 0)


def running(disk: Disk, path: str, broker_id: int) -> LogDir:
    log_dir = open_log_dir(
        disk, path, broker_id=broker_id, new_dir_id=f"dir-{broker_id}", boot_id="boot", options=SMALL
    )
    load_all(log_dir, now_ms=0)
    log_dir.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(5))
    return log_dir


def test_each_worker_has_a_directory_of_its_own_within_the_brokers() -> None:
    """Worker 1 may be quicker than worker 0 at the first start, and neither takes the other's for its own."""
    disk = MemoryDisk()
    for _ in range(2):
        second, first = running(disk, "/data/worker-1", 1_000_005), running(disk, "/data", 5)
        for each in (second, first):
            if KEY not in each.logs:
                each.create(ORDERS, now_ms=0)
            assert list(each.logs) == [KEY]
            assert not each.quarantined.notes
            assert each.close_cleanly({})
    assert running(disk, "/data/worker-1", 1_000_005).claim.last_shutdown is ShutdownKind.CLEAN


def test_a_folder_holds_data_while_a_replica_is_in_it_or_one_was_set_aside() -> None:
    disk = MemoryDisk()
    assert workers_with_data(disk, "/data", 1) == []
    first, second = running(disk, "/data/worker-1", 1_000_005), running(disk, "/data/worker-2", 2_000_005)
    assert workers_with_data(disk, "/data", 1) == []
    first.create(ORDERS, now_ms=0)
    second.create(ORDERS, now_ms=0)
    assert workers_with_data(disk, "/data", 1) == [1, 2]
    doomed = first.delete(KEY)
    second.quarantine(KEY)
    assert workers_with_data(disk, "/data", 1) == [2]
    first.unlink_deleted([doomed])
    assert workers_with_data(disk, "/data", 1) == [2]


def test_what_the_file_system_keeps_in_a_folder_is_no_data() -> None:
    """Each worker's folder may be where a disk of its own is mounted."""
    disk = MemoryDisk()
    running(disk, "/data/worker-1", 1_000_005)
    disk.mkdir("/data/worker-1/lost+found")
    disk.fail_always("listdir", PermissionError(errno.EACCES, "denied"), path_contains="lost+found")
    assert workers_with_data(disk, "/data", 1) == []


def test_the_folder_of_a_worker_that_will_be_started_is_for_itself_to_read() -> None:
    """A folder that could not be read kept the whole host down, before any worker was started."""
    disk = MemoryDisk()
    for number in (1, 2):
        running(disk, f"/data/worker-{number}", number * 1_000_000 + 5).create(ORDERS, now_ms=0)
    disk.fail_always("listdir", OSError(errno.EIO, "broken"), path_contains="worker-1")
    assert workers_with_data(disk, "/data", 2) == [2]


def test_a_file_of_such_a_name_and_a_folder_with_an_empty_one_hold_nothing() -> None:
    disk = MemoryDisk()
    disk.mkdir("/data/worker-1/orders-0")
    disk.open("/data/worker-2", create=True)
    assert workers_with_data(disk, "/data", 1) == []
    disk.open("/data/worker-1/orders-0/partition.json", create=True)
    assert workers_with_data(disk, "/data", 1) == [1]
