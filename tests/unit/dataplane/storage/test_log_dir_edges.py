"""A log directory at its edges: several logs at once, logs that are closed, what no checkpoint knows."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from dataplane.core.log_port import LogError
from dataplane.storage.health import ClosedLog, CorruptLog
from dataplane.storage.log_dir import SYNCED_TOGETHER_MIN, LogDir, StrayDirectory, open_log_dir
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.quarantine import DESCRIPTION_FILE
from dataplane.storage.recovery import DamagedLog, OpenedLog
from dataplane.storage.segment import Hole
from dataplane.storage.tail_cache import TailBudget
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.log_dirs import load_all
from tests.kit.dataplane.replica import partition_state
from tests.kit.dataplane.storage import SMALL, append, batch, read_all
from tests.kit.memory.disk import MemoryDisk

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
LOGS = [PartitionId(TOPIC_ID, "orders", number) for number in range(4)]
KEYS = [(TOPIC_ID, number) for number in range(4)]
PATH = "/data"
FILE = f"{0:020d}.log"


def path_of(number: int) -> str:
    return f"{PATH}/orders-{number}.{TOPIC_ID}"


def start(disk: MemoryDisk, *, boot_id: str = "boot-1", tail_budget: TailBudget | None = None) -> LogDir:
    return open_log_dir(
        disk,
        PATH,
        broker_id=1,
        new_dir_id="dir-1",
        boot_id=boot_id,
        options=SMALL,
        tail_budget=tail_budget,
    )


def running(disk: MemoryDisk, *, boot_id: str = "boot-1") -> LogDir:
    log_dir = start(disk, boot_id=boot_id)
    entries = load_all(log_dir, now_ms=0)
    assert all(isinstance(entry, OpenedLog) for entry in entries), entries
    log_dir.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(5))
    return log_dir


def with_logs(count: int = 4, *, syncs_all: bool = True) -> tuple[MemoryDisk, LogDir, list[PartitionLog]]:
    disk = MemoryDisk()
    disk.syncs_all = syncs_all
    log_dir = running(disk)
    logs = [log_dir.create(partition, now_ms=0) for partition in LOGS[:count]]
    for log in logs:
        append(log, batch(0), batch(1))
    return disk, log_dir, logs


def cut_file(disk: MemoryDisk, number: int, size_bytes: int) -> None:
    del disk.content(f"{path_of(number)}/{FILE}")[size_bytes:]


@pytest.mark.parametrize("has_mount_marks", [True, False])
def test_a_fresh_mark_is_made_where_it_can_prove_something(has_mount_marks: bool) -> None:
    disk = MemoryDisk()
    disk.has_mount_marks = has_mount_marks
    log_dir = running(disk)
    append(log_dir.create(LOGS[0], now_ms=0), batch(0))
    assert log_dir.must_renew_fresh_mark is has_mount_marks


def test_a_directory_under_anothers_name_is_set_aside_with_its_data() -> None:
    disk, log_dir, _ = with_logs(1)
    log_dir.close_cleanly({})
    disk.rename(path_of(0), path_of(7))
    (entry,) = load_all(start(disk), now_ms=0)
    assert isinstance(entry, StrayDirectory)
    assert "names" in entry.reason
    assert disk.exists(f"{PATH}/quarantine/orders-7.{TOPIC_ID}/{FILE}")


def test_what_is_left_of_a_deletion_goes_with_the_folders_in_it() -> None:
    disk = MemoryDisk()
    running(disk).abandon()
    doomed = f"{path_of(0)}.deleted"
    disk.mkdir(f"{doomed}/inner")
    disk.open(f"{doomed}/inner/file", create=True)
    assert running(disk).logs == {}
    assert not disk.exists(doomed)


def test_logs_that_are_found_below_their_high_watermarks_are_set_aside_and_the_others_opened_anew() -> None:
    disk, log_dir, _ = with_logs()
    log_dir.offsets.checkpoint_high_watermarks(dict.fromkeys(KEYS, 2))
    disk.crash_process()
    for number in (0, 2, 3):
        cut_file(disk, number, len(batch(0)))
    log_dir = start(disk)
    assert log_dir.stored_high_watermark(KEYS[1]) == 0, "no log is there yet"
    for name in log_dir.partition_names():
        log_dir.load(name, now_ms=0)
    healthy = log_dir.logs[KEYS[1]]
    for number in (2, 0, 3):
        moved = log_dir.quarantine_directory(path_of(number))
        assert moved == f"{PATH}/quarantine/orders-{number}.{TOPIC_ID}"
    log_dir.begin_anew()
    assert log_dir.logs == {}
    with pytest.raises(ClosedLog):
        append(healthy, batch(2))
    assert log_dir.partition_names() == [f"orders-1.{TOPIC_ID}"]
    load_all(log_dir, now_ms=0)
    assert log_dir.stored_high_watermark(KEYS[1]) == 2
    assert sorted(note.log.high_watermark for note in log_dir.quarantined.notes.values()) == [2, 2, 2]


def test_of_a_damaged_log_without_a_checkpoint_no_high_watermark_is_told() -> None:
    disk, log_dir, (log,) = with_logs(1)
    log.durability.flush()
    log_dir.offsets.checkpoint_recovery_points()
    disk.crash_process()
    cut_file(disk, 0, 10)
    log_dir = start(disk)
    (entry,) = load_all(log_dir, now_ms=0)
    assert isinstance(entry, DamagedLog)
    log_dir.quarantine_directory(entry.directory)
    (note,) = log_dir.quarantined.notes.values()
    assert note.log.high_watermark == -1


@pytest.mark.parametrize("syncs_all", [True, False])
def test_what_a_crash_left_is_durable_once_it_is_loaded_and_a_clean_stop_costs_nothing(
    syncs_all: bool,
) -> None:
    disk, log_dir, _ = with_logs(syncs_all=syncs_all)
    log_dir.abandon()
    again = running(disk)
    assert {again.logs[key].recovery_point for key in KEYS} == {2}
    for seed in range(10):
        survivor = running(disk.power_cut_image(Random(seed)), boot_id="boot-2")
        assert [read_all(survivor.logs[key]) for key in KEYS] == [batch(0) + batch(1)] * 4
    assert again.close_cleanly({})
    synced: list[str] = []
    disk.on_operation = lambda operation, path, _: synced.append(path) if operation == "fsync" else None
    assert running(disk).claim.last_shutdown is ShutdownKind.CLEAN
    assert not any(path.endswith(".mount-mark") for path in synced), "nothing is made durable again"


@pytest.mark.parametrize("syncs_all", [True, False])
def test_created_logs_and_persisted_epochs_survive_every_power_cut(syncs_all: bool) -> None:
    disk = MemoryDisk()
    disk.syncs_all = syncs_all
    log_dir = running(disk)
    partitions = [PartitionId(TOPIC_ID, "orders", number) for number in range(SYNCED_TOGETHER_MIN)]
    logs = [log_dir.make(partition, now_ms=0) for partition in partitions]
    log_dir.sync_names()
    for seed in range(10):
        survivor = running(disk.power_cut_image(Random(seed)), boot_id="boot-2")
        assert len(survivor.logs) == len(partitions)
    for log in logs:
        log.begin_leader_epoch(LeaderEpoch(7))
    log_dir.persist_epochs(logs)
    for seed in range(10):
        survivor = running(disk.power_cut_image(Random(seed)), boot_id="boot-2")
        assert {log.epochs.latest for log in survivor.logs.values()} == {7}


def test_an_epoch_that_a_failed_disk_does_not_take_is_no_epoch_of_a_deleted_log() -> None:
    disk, log_dir, (log, other) = with_logs(2, syncs_all=False)
    for each in (log, other):
        each.begin_leader_epoch(LeaderEpoch(7))
    log_dir.delete(KEYS[0])
    log_dir.persist_epochs([log, other])
    other.begin_leader_epoch(LeaderEpoch(8))
    disk.fail_next("fsync", OSError(errno.EIO, "bad sector"))
    with pytest.raises(LogError):
        log_dir.persist_epochs([other])


def set_aside(log_dir: LogDir) -> None:
    log_dir.quarantine(KEYS[0])


def stop(log_dir: LogDir) -> None:
    assert log_dir.close_cleanly({})


@pytest.mark.parametrize("syncs_all", [True, False])
@pytest.mark.parametrize("end", [set_aside, stop, LogDir.abandon])
def test_a_log_that_has_left_the_directory_is_not_appended_to(
    end: Callable[[LogDir], None], syncs_all: bool
) -> None:
    _, log_dir, (log,) = with_logs(1, syncs_all=syncs_all)
    end(log_dir)
    with pytest.raises(ClosedLog):
        append(log, batch(2))


@pytest.mark.parametrize(
    ("log_epoch", "state_epoch", "told"), [(3, None, 3), (3, 9, 9), (9, 3, 9), (None, None, -1)]
)
def test_the_note_of_a_log_has_the_latest_leader_epoch_that_it_or_its_state_knew(
    log_epoch: int | None, state_epoch: int | None, told: int
) -> None:
    log_dir = running(MemoryDisk())
    log = log_dir.create(LOGS[0], now_ms=0)
    if log_epoch is not None:
        append(log, batch(0, leader_epoch=log_epoch))
    log_dir.quarantine(
        KEYS[0], state=None if state_epoch is None else partition_state(leader_epoch=state_epoch)
    )
    (note,) = log_dir.quarantined.notes.values()
    assert note.log.leader_epoch == told


@pytest.mark.parametrize("fault", ["nothing", "rotten bytes", "damage"])
def test_a_log_is_whole_when_it_is_set_aside_unless_damage_is_known(fault: str) -> None:
    _, log_dir, (log,) = with_logs(1)
    if fault == "rotten bytes":
        log.holes.note(Hole(0, 0, len(batch(0)), 0, 1, "rotten"), log_start_offset=0)
    elif fault == "damage":
        log.durability.flush()
        with pytest.raises(CorruptLog), log.holes.reading(None):
            raise CorruptLog("found by a reader")
    log_dir.quarantine(KEYS[0])
    (note,) = log_dir.quarantined.notes.values()
    assert note.log.is_whole is (fault == "nothing")


def test_a_log_is_not_set_aside_as_damaged_because_the_disk_fails() -> None:
    disk, log_dir, _ = with_logs(1)
    disk.fail_next("fsync", OSError(errno.EIO, "bad sector"))
    with pytest.raises(LogError, match="bad sector"):
        log_dir.quarantine(KEYS[0])
    assert disk.exists(path_of(0))


@pytest.mark.parametrize("batches", [0, 2])
def test_a_log_is_taken_up_with_what_is_known_of_it_and_without_its_note(batches: int) -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    append(log_dir.create(LOGS[0], now_ms=0), *(batch(number) for number in range(batches)))
    log_dir.quarantine(KEYS[0])
    log = log_dir.take_up(KEYS[0], now_ms=0)
    assert log is not None
    assert log.log_end_offset == batches
    assert log_dir.offsets.high_watermark(KEYS[0], 77) == 0, "none was told"
    assert not disk.exists(f"{path_of(0)}/{DESCRIPTION_FILE}")


def test_a_log_that_has_grown_since_it_was_set_aside_stays_there() -> None:
    disk, log_dir, _ = with_logs(1)
    path = log_dir.quarantine(KEYS[0])
    disk.open(f"{path}/{FILE}").pwrite(batch(2), 2 * len(batch(0)))
    assert log_dir.take_up(KEYS[0], now_ms=0) is None
    assert disk.exists(f"{path}/{FILE}")


@pytest.mark.parametrize("syncs_all", [True, False])
def test_after_a_clean_stop_a_start_finds_the_producers_and_indexes_that_it_needs(syncs_all: bool) -> None:
    disk, log_dir, _ = with_logs(1, syncs_all=syncs_all)
    assert log_dir.close_cleanly({})
    names = disk.listdir(path_of(0))
    assert {f"{0:020d}.index", f"{2:020d}.snapshot"} <= set(names)


def test_no_marker_is_written_after_a_failure_of_another_thread() -> None:
    disk, log_dir, _ = with_logs(1)
    log_dir.health.fail(OSError(errno.EIO, "bad sector"), "reading")
    with pytest.raises(LogError):
        log_dir.close_cleanly({})
    assert not disk.exists(f"{PATH}/clean-shutdown")


def test_all_logs_share_the_memory_that_is_given() -> None:
    budget = TailBudget(bytes_max=10_000)
    log_dir = start(MemoryDisk(), tail_budget=budget)
    log_dir.finish_loading()
    append(log_dir.create(LOGS[0], now_ms=0), batch(0))
    assert budget.used_bytes > 0


def test_a_log_whose_names_a_failing_disk_did_not_sync_is_refused_the_next_time_too() -> None:
    disk = MemoryDisk()
    disk.syncs_all = False
    log_dir = running(disk)
    log_dir.make(LOGS[0], now_ms=0)
    disk.fail_next("fsync_dir", OSError(errno.EIO, "input/output error"))
    with pytest.raises(LogError):
        log_dir.sync_names()
    with pytest.raises(LogError, match="failed"):
        log_dir.make(LOGS[0], now_ms=0)
