"""Identity, the shutdown protocol, checkpoints, deletion and quarantine of a log directory."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from threading import Event, Thread, current_thread

import pytest

from dataplane.core.log_port import LogError
from dataplane.core.producer_state import Duplicate
from dataplane.storage.checkpoints import read_checkpoint, write_checkpoint
from dataplane.storage.disk import Disk, PosixDisk
from dataplane.storage.divergent import DivergentCopy, NotWritten, copy_divergent
from dataplane.storage.dump import dump_segment
from dataplane.storage.log_dir import LogDir, StrayDirectory, open_log_dir
from dataplane.storage.log_dir_identity import LogDirRefused
from dataplane.storage.log_settings import LogOptions, PartitionId
from dataplane.storage.recovery import DamagedLog, OpenedLog
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.session import ShutdownKind
from springtide.wire.framing import FileChunk
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.log_dirs import load_all
from tests.kit.dataplane.storage import SMALL, append, batch, content, read_all
from tests.kit.memory.disk import MemoryDisk

ORDERS = PartitionId("AAAAAAAAAAAAAAAAAAAAAA", "orders", 0)
KEY = ("AAAAAAAAAAAAAAAAAAAAAA", 0)
PATH = "/data"
ORDERS_PATH = f"{PATH}/orders-0.AAAAAAAAAAAAAAAAAAAAAA"


def start(disk: Disk, *, boot_id: str = "boot-1", broker_id: int = 1, path: str = PATH) -> LogDir:
    return open_log_dir(disk, path, broker_id=broker_id, new_dir_id="dir-1", boot_id=boot_id, options=SMALL)


def running(disk: Disk, *, boot_id: str = "boot-1", broker_epoch: int = 5, path: str = PATH) -> LogDir:
    """Loaded and registered."""
    log_dir = start(disk, boot_id=boot_id, path=path)
    entries = load_all(log_dir, now_ms=0)
    assert all(isinstance(entry, OpenedLog) for entry in entries), entries
    log_dir.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(broker_epoch))
    return log_dir


def test_s53_a_directory_that_its_process_disowned_vouches_for_nothing() -> None:
    disk = MemoryDisk()
    went_back = running(disk)
    went_back.claim.disown()
    assert not went_back.close_cleanly({})
    assert start(disk).claim.last_shutdown is ShutdownKind.MACHINE_CRASH


@pytest.mark.parametrize("is_readable", [True, False])
def test_what_the_file_system_keeps_in_the_directory_is_left_alone(is_readable: bool) -> None:
    """A data directory may be where a disk is mounted; then only root can look into the file system's own."""
    disk = MemoryDisk()
    disk.mkdir(PATH)
    disk.mkdir(f"{PATH}/lost+found")
    disk.open(f"{PATH}/lost+found/#12", create=True).close()
    if not is_readable:
        for operation in ("open", "size", "listdir"):
            disk.fail_always(operation, PermissionError(errno.EACCES, "denied"), path_contains="lost+found")
    for _ in range(2):
        log_dir = running(disk)
        assert log_dir.close_cleanly({})
    assert disk.exists(f"{PATH}/lost+found/#12")


def test_a_first_start_takes_the_given_identity_and_keeps_it() -> None:
    disk = MemoryDisk()
    first = start(disk)
    assert (first.claim.last_shutdown, first.claim.previous_broker_epoch) == (ShutdownKind.FIRST_START, -1)
    first.abandon()
    again = open_log_dir(disk, PATH, broker_id=1, new_dir_id="another", boot_id="boot-2")
    assert again.claim.meta.dir_id == "dir-1"


def test_a_second_process_is_refused() -> None:
    disk = MemoryDisk()
    start(disk)
    with pytest.raises(LogDirRefused, match="in use"):
        start(disk)


def test_another_brokers_or_clusters_directory_is_refused() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    with pytest.raises(LogDirRefused, match="cluster"):
        log_dir.on_registered(cluster_id="other", broker_epoch=BrokerEpoch(6))
    log_dir.abandon()
    with pytest.raises(LogDirRefused, match="broker 1"):
        start(disk, broker_id=2)


def test_data_without_identity_is_refused_and_untouched() -> None:
    disk = MemoryDisk()
    disk.mkdir("/data/orders-0.AAAAAAAAAAAAAAAAAAAAAA")
    with pytest.raises(LogDirRefused, match=r"no meta\.json"):
        start(disk)
    assert not disk.exists("/data/meta.json")


def test_a_clean_stop_is_recognised_once() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    append(log_dir.create(ORDERS, now_ms=0), batch(0))
    assert log_dir.close_cleanly({KEY: 1})
    disk.crash_machine(Random(3))  # nothing was left to lose
    log_dir = start(disk, boot_id="boot-2")
    assert (log_dir.claim.last_shutdown, log_dir.claim.previous_broker_epoch) == (ShutdownKind.CLEAN, 5)
    (entry,) = load_all(log_dir, now_ms=0)
    assert isinstance(entry, OpenedLog)
    assert entry.report.scanned_bytes == 0
    assert log_dir.stored_high_watermark(KEY) == 1
    log_dir.abandon()  # dies before it registers: the marker is gone
    assert start(disk, boot_id="boot-2").claim.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_a_killed_process_is_told_from_a_rebooted_machine() -> None:
    disk = MemoryDisk()
    running(disk)
    disk.crash_process()
    log_dir = start(disk, boot_id="boot-1")
    assert log_dir.claim.last_shutdown is ShutdownKind.PROCESS_CRASH
    log_dir.abandon()
    log_dir = start(disk, boot_id="boot-2")
    assert log_dir.claim.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_a_volume_that_was_away_is_told_from_a_killed_process_by_its_mount_mark_alone() -> None:
    """The kernel is the same, and every boot id; but what was not synced may be gone."""
    disk = MemoryDisk()
    running(disk)
    disk.crash_machine(Random(3))
    assert start(disk, boot_id="boot-1").claim.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_an_older_copy_of_a_disk_has_no_mount_mark() -> None:
    disk = MemoryDisk()
    running(disk)
    disk.restore(disk.snapshot())
    assert start(disk, boot_id="boot-1").claim.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_where_no_mount_mark_is_to_be_had_only_a_clean_stop_is_believed() -> None:
    disk = MemoryDisk()
    disk.has_mount_marks = False
    log_dir = running(disk)
    assert not log_dir.claim.is_mount_marked
    log_dir.close_cleanly({})
    log_dir = running(disk)
    assert log_dir.claim.last_shutdown is ShutdownKind.CLEAN
    disk.crash_process()
    assert start(disk).claim.last_shutdown is ShutdownKind.MACHINE_CRASH


@pytest.mark.parametrize("boot_id", ["boot-1", "boot-2"])
def test_a_crash_is_told_by_whoever_is_the_first_to_register_after_it(boot_id: str) -> None:
    """A start dies at each of its steps, and a second one looks at what it left: until a registration was
    recorded, the crash before it is not forgotten. After that, the second stop was that of a process; or is
    not known to have been, where the mount mark was not set yet."""
    disk = MemoryDisk()
    running(disk)
    disk.crash_machine(Random(3))
    found: list[tuple[int, ShutdownKind]] = []

    def die(operation: str, path: str, is_done: bool) -> None:
        log_dir = start(disk.process_crash_image(Random(1)), boot_id=boot_id)
        found.append((log_dir.claim.previous_broker_epoch, log_dir.claim.last_shutdown))

    disk.on_operation = die
    log_dir = start(disk, boot_id=boot_id)
    load_all(log_dir, now_ms=0)
    log_dir.claim.on_registering("one")
    log_dir.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(6))
    log_dir.offsets.checkpoint_high_watermarks({})
    assert len(found) > 20
    assert {kind for epoch, kind in found if epoch == 5} == {ShutdownKind.MACHINE_CRASH}
    assert {kind for epoch, kind in found if epoch == 6} == {
        ShutdownKind.MACHINE_CRASH,
        ShutdownKind.PROCESS_CRASH,
    }
    assert found == sorted(found, key=lambda each: (each[0], each[1] is ShutdownKind.PROCESS_CRASH))


def test_a_log_below_its_high_watermark_refutes_the_stop_and_a_second_start_does_not_forget_it() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    append(log_dir.create(ORDERS, now_ms=0), batch(0), batch(1))
    log_dir.offsets.checkpoint_high_watermarks({KEY: 2})
    disk.crash_process()
    del disk.content(f"{ORDERS_PATH}/00000000000000000000.log")[len(batch(0)) :]
    log_dir = start(disk)
    assert log_dir.claim.last_shutdown is ShutdownKind.PROCESS_CRASH
    (entry,) = (log_dir.load(name, now_ms=0) for name in log_dir.partition_names())
    assert isinstance(entry, DamagedLog)
    log_dir.quarantine_directory(entry.directory)
    log_dir.begin_anew()
    assert log_dir.claim.last_shutdown is ShutdownKind.MACHINE_CRASH
    disk.crash_process()  # nobody has heard of it, and the log that told is gone
    assert start(disk).claim.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_a_checkpoint_that_would_say_the_same_is_not_flushed_and_a_cut_is() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0), batch(1))
    log_dir.offsets.checkpoint_high_watermarks({KEY: 2})
    disk.synced_paths.clear()
    log_dir.offsets.checkpoint_high_watermarks({KEY: 2})
    assert disk.synced_paths == []
    log_dir.offsets.checkpoint_recovery_points()
    assert disk.synced_paths, "a disk that has failed is found out at rest, too"
    log.truncate_to(1)  # under the mark of an unclean election
    assert read_checkpoint(disk, "/data", "high-watermark-checkpoint").offsets == {KEY: 1}


def test_a_cut_below_the_stored_high_watermark_is_no_loss_to_the_next_start() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0), batch(1), batch(2))
    log_dir.offsets.checkpoint_high_watermarks({KEY: 3})
    cuts = log_dir.offsets.cuts
    log.truncate_to(1)  # under the mark of an unclean election
    assert not log_dir.offsets.checkpoint_high_watermarks({KEY: 3}, cuts=cuts)  # what was read before the cut
    disk.crash_process()
    again = running(disk, broker_epoch=6)
    assert (again.claim.last_shutdown, again.logs[KEY].log_end_offset) == (ShutdownKind.PROCESS_CRASH, 1)


def test_what_a_machine_crash_took_is_no_second_loss_to_a_kill_after_it() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0))
    log.durability.flush()
    append(log, batch(1))
    log_dir.offsets.checkpoint_high_watermarks({KEY: 2})
    disk.crash_process()
    del disk.content(f"{ORDERS_PATH}/00000000000000000000.log")[len(batch(0)) :]
    assert running(disk, boot_id="boot-2", broker_epoch=6).logs[KEY].log_end_offset == 1
    disk.crash_process()
    again = running(disk, boot_id="boot-2", broker_epoch=7)
    assert (again.claim.last_shutdown, again.logs[KEY].log_end_offset) == (ShutdownKind.PROCESS_CRASH, 1)


def test_a_real_file_keeps_its_mount_mark_over_closing_and_no_copy_has_it(tmp_path: Path) -> None:
    disk = PosixDisk()
    path = str(tmp_path / "mark")
    file = disk.open(path, create=True)
    assert not file.has_mount_mark()
    is_kept = file.set_mount_mark()  # False where this machine has no such mark
    file.close()
    assert disk.open(path).has_mount_mark() is is_kept
    (tmp_path / "copy").write_bytes((tmp_path / "mark").read_bytes())
    assert not disk.open(str(tmp_path / "copy")).has_mount_mark()


def test_an_unreported_machine_crash_is_not_forgotten_by_a_second_crash() -> None:
    """Else the seat of a replica that lost unflushed bytes would be kept: acknowledged loss."""
    disk = MemoryDisk()
    running(disk)
    disk.crash_process()
    log_dir = start(disk, boot_id="boot-2")
    load_all(log_dir, now_ms=0)
    assert not log_dir.close_cleanly({})  # stopped in order, but never registered: no marker
    assert start(disk, boot_id="boot-2").claim.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_an_unknown_boot_id_vouches_for_nothing() -> None:
    disk = MemoryDisk()
    running(disk, boot_id="")
    disk.crash_process()
    assert start(disk, boot_id="").claim.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_an_incarnation_that_never_saw_its_answer_is_named_to_its_successors() -> None:
    disk = MemoryDisk()
    running(disk).abandon()
    for number in range(3):
        unlucky = start(disk)
        assert unlucky.claim.previous_unanswered == tuple(f"unlucky-{n}" for n in range(number))
        unlucky.claim.on_registering(f"unlucky-{number}")
        disk.crash_process()
    lucky = start(disk)
    assert (lucky.claim.last_shutdown, lucky.claim.previous_broker_epoch) == (ShutdownKind.PROCESS_CRASH, 5)
    lucky.claim.on_registering("lucky")
    lucky.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(9))
    lucky.abandon()
    assert start(disk).claim.previous_unanswered == ()


def test_only_the_latest_unanswered_incarnations_are_kept() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    for number in range(40):
        log_dir.claim.on_registering(str(number))
    log_dir.abandon()
    assert start(disk).claim.previous_unanswered == tuple(str(n) for n in range(24, 40))


def test_no_marker_is_written_when_loading_did_not_finish() -> None:
    disk = MemoryDisk()
    log_dir = start(disk)
    log_dir.on_registered(cluster_id="cluster", broker_epoch=BrokerEpoch(5))
    assert not log_dir.close_cleanly({})
    assert not disk.exists("/data/clean-shutdown")


def test_no_marker_is_written_on_a_failed_directory() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    disk.fail_next("fsync", OSError(errno.EIO, "input/output error"))
    with pytest.raises(LogError):
        log.durability.flush()
    with pytest.raises(LogError):
        log_dir.close_cleanly({})
    assert not disk.exists("/data/clean-shutdown")


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b'{"broker_epoch": "5"}', b'{"broker_epoch": 4}'])
def test_a_marker_that_does_not_name_this_broker_epoch_is_none(broken: bytes) -> None:
    disk = MemoryDisk()
    running(disk).close_cleanly({})
    disk.content("/data/clean-shutdown")[:] = broken
    assert start(disk).claim.last_shutdown is ShutdownKind.PROCESS_CRASH


def test_a_long_topic_name_fits_a_file_name() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    longest = PartitionId("-_" * 11, "t" * 249, 2**31 - 1)
    log = log_dir.create(longest, now_ms=0)
    append(log, batch(0))
    name = log.directory.rpartition("/")[2]
    assert len(name + ".9999.deleted") <= 255
    assert not name.startswith("-")
    log_dir.close_cleanly({})
    assert running(disk).logs[longest.topic_id, longest.partition].partition == longest


def test_a_deleted_log_is_gone_at_once_and_may_be_created_again() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    paths = []
    for _ in range(2):
        log = log_dir.create(ORDERS, now_ms=0)
        append(log, batch(0))
        paths.append(log_dir.delete(KEY))
        with pytest.raises(LogError):
            append(log, batch(1))
    assert len(set(paths)) == 2
    log_dir.unlink_deleted(paths[:1])
    assert not disk.exists(paths[0])
    log_dir.abandon()
    load_all(start(disk), now_ms=0)  # what was not unlinked goes at the next start
    assert not disk.exists(paths[1])


def test_a_quarantined_replica_keeps_every_byte() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    append(log_dir.create(ORDERS, now_ms=0), batch(0))
    path = log_dir.quarantine(KEY)
    assert path.startswith("/data/quarantine/orders-0.")
    assert disk.content(f"{path}/00000000000000000000.log") == batch(0)
    log_dir.create(ORDERS, now_ms=0)


def test_a_log_that_was_set_aside_is_listed_and_taken_up_as_it_was_over_restarts() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0), batch(1), batch(2))
    log.advance_log_start(1)
    log_dir.quarantine(KEY, why="unknown", now_ms=77, high_watermark=2)
    log_dir.abandon()
    log_dir = running(disk)
    (note,) = log_dir.quarantined.notes.values()
    told = note.log
    assert (told.topic, told.partition, told.why, told.since_ms, told.is_whole) == (
        "orders",
        0,
        "unknown",
        77,
        True,
    )
    assert (told.log_start_offset, told.log_end_offset, told.high_watermark) == (1, 3, 2)
    assert told.size_bytes > 3 * len(batch(0))
    taken = log_dir.take_up(KEY, now_ms=0)
    assert taken is not None
    assert (taken.log_start_offset, taken.log_end_offset) == (1, 3)
    assert log_dir.stored_high_watermark(KEY) == 2
    assert log_dir.quarantined.notes == {}
    log_dir.abandon()
    assert running(disk).logs[KEY].log_end_offset == 3


def test_a_power_cut_leaves_a_log_that_is_set_aside_and_taken_up_here_or_there_and_whole() -> None:
    for seed in range(60):
        disk = MemoryDisk()
        log_dir = running(disk)
        log = log_dir.create(ORDERS, now_ms=0)
        append(log, batch(0), batch(1))
        log.durability.flush()
        log_dir.offsets.checkpoint_recovery_points()
        log_dir.offsets.checkpoint_high_watermarks({KEY: 2})
        fails_in = seed // 3

        def count(*_: object) -> None:
            nonlocal fails_in
            fails_in -= 1
            if fails_in == 0:
                raise OSError(5, "power cut")

        disk.on_operation = count
        try:
            log_dir.quarantine(KEY, high_watermark=2)
            log_dir.take_up(KEY, now_ms=0)
        except LogError:
            pass
        disk.on_operation = None
        disk.crash_machine(Random(seed))
        log_dir = running(disk, boot_id="boot-2")
        log_found = log_dir.logs.get(KEY) or log_dir.take_up(KEY, now_ms=0)
        assert log_found is not None and log_found.log_end_offset == 2, (seed, disk.listdir(PATH))
        assert len(log_dir.quarantined.notes) == 0


def test_a_log_that_is_not_what_it_was_when_it_was_set_aside_stays_there() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0), batch(1))
    path = log_dir.quarantine(KEY, high_watermark=2)
    del disk.content(f"{path}/00000000000000000000.log")[-10:]
    assert log_dir.take_up(KEY, now_ms=0) is None
    assert log_dir.quarantined.takeable(KEY) is None
    assert disk.exists(f"{path}/00000000000000000000.log")
    log_dir.abandon()
    assert running(disk).quarantined.takeable(KEY) is None


def test_a_log_that_is_begun_anew_outdates_the_one_that_was_set_aside() -> None:
    """Taken up later, under a seat that the newer one earned, it would lose what that one held."""
    disk = MemoryDisk()
    log_dir = running(disk)
    append(log_dir.create(ORDERS, now_ms=0), batch(0))
    log_dir.quarantine(KEY)
    assert log_dir.quarantined.takeable(KEY) is not None
    log_dir.create(ORDERS, now_ms=0)
    assert log_dir.quarantined.takeable(KEY) is None
    log_dir.abandon()
    assert running(disk).quarantined.takeable(KEY) is None


def test_a_damaged_log_that_was_set_aside_is_listed_and_not_taken_up() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    append(log_dir.create(ORDERS, now_ms=0), batch(0), batch(1))
    disk.crash_process()
    disk.flip_bit(f"{ORDERS_PATH}/00000000000000000000.log", 40)
    log_dir = start(disk)
    (entry,) = (log_dir.load(name, now_ms=0) for name in log_dir.partition_names())
    assert isinstance(entry, DamagedLog)
    log_dir.quarantine_directory(entry.directory, why="damaged")
    log_dir.finish_loading()
    (note,) = log_dir.quarantined.notes.values()
    assert (note.log.topic_id, note.log.why, note.log.is_whole) == (KEY[0], "damaged", False)
    assert log_dir.quarantined.takeable(KEY) is None


def test_a_damaged_log_stays_damaged_until_it_is_quarantined() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0))
    log.durability.flush()
    log_dir.offsets.checkpoint_recovery_points()
    disk.crash_process()
    del disk.content(f"{ORDERS_PATH}/00000000000000000000.log")[10:]
    for _ in range(2):  # its recovery point, the evidence, outlives restarts and checkpoints
        log_dir = start(disk)
        (entry,) = load_all(log_dir, now_ms=0)
        assert isinstance(entry, DamagedLog)
        log_dir.offsets.checkpoint_high_watermarks({})
        log_dir.abandon()
    log_dir = start(disk)
    (entry,) = load_all(log_dir, now_ms=0)
    assert isinstance(entry, DamagedLog)
    log_dir.quarantine_directory(entry.directory)
    assert log_dir.create(ORDERS, now_ms=0).log_end_offset == 0
    log_dir.abandon()
    assert running(disk).logs[KEY].log_end_offset == 0


def test_a_directory_that_is_no_partition_is_set_aside_and_an_empty_one_removed() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    append(log_dir.create(ORDERS, now_ms=0), batch(0))
    log_dir.close_cleanly({})
    disk.unlink(f"{ORDERS_PATH}/partition.json")
    disk.mkdir("/data/half-created")
    log_dir = start(disk)
    entries = load_all(log_dir, now_ms=0)
    assert [type(entry) for entry in entries] == [StrayDirectory, StrayDirectory]
    assert disk.exists("/data/quarantine/orders-0.AAAAAAAAAAAAAAAAAAAAAA/00000000000000000000.log")
    assert not disk.exists("/data/half-created")


def test_a_created_log_survives_every_power_cut() -> None:
    for seed in range(30):
        disk = MemoryDisk()
        log_dir = running(disk)
        log = log_dir.create(ORDERS, now_ms=0)
        append(log, batch(0))
        log.durability.flush()
        log_dir.offsets.checkpoint_recovery_points()
        disk.crash_machine(Random(seed))
        log_dir = running(disk, boot_id="boot-2")
        assert read_all(log_dir.logs[KEY]) == batch(0)


def test_a_lowered_recovery_point_is_on_disk_before_the_cut() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    for i in range(4):
        append(log, batch(i))
    log.durability.flush()
    log_dir.offsets.checkpoint_recovery_points()
    log.truncate_to(2)
    disk.crash_process()
    assert read_checkpoint(disk, PATH, "recovery-point-checkpoint").offsets[KEY] <= 2
    assert running(disk).logs[KEY].log_end_offset == 2


@pytest.mark.parametrize("is_restart", [False, True])
@pytest.mark.parametrize("begins", ["before the cut", "in the cut"])
def test_a_flush_that_ends_while_a_cut_stores_the_recovery_point_does_not_raise_it_again(
    begins: str, is_restart: bool
) -> None:
    """Both fsync; what the flush made durable is what the cut is about to drop."""
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, *[batch(i) for i in range(4)])
    log.durability.flush()
    log_dir.offsets.checkpoint_recovery_points()
    syncs, is_flushed_late = Event(), Event()
    thread = Thread(target=log.durability.flush)

    def wait(operation: str, path: str, is_done: bool) -> None:
        if current_thread() is thread and operation == "fsync" and not is_done:
            syncs.set()
            assert is_flushed_late.wait(10)
        elif operation == "rename" and is_done and "recovery-point" in path:
            if begins == "in the cut":
                thread.start()
            is_flushed_late.set()
            thread.join(10)

    disk.on_operation = wait
    if begins == "before the cut":
        thread.start()
        assert syncs.wait(10)
    log.restart_at(2) if is_restart else log.truncate_to(2)
    disk.on_operation = None
    assert syncs.is_set()
    assert not thread.is_alive()
    assert log.recovery_point <= log.log_end_offset == 2
    log_dir.offsets.checkpoint_recovery_points()
    append(log, batch(2))
    assert log.durability.flush() == 3


def test_a_log_made_again_is_not_taken_for_the_one_before_by_the_next_start() -> None:
    """A learner in place of a quarantined log: cut to its predecessor's log start, it would claim to be whole
    with nothing in it; held against its recovery point, it would be called damaged."""
    for set_aside in (LogDir.quarantine, LogDir.delete):
        disk = MemoryDisk()
        log_dir = running(disk)
        log = log_dir.create(ORDERS, now_ms=0)
        for i in range(9):
            append(log, batch(i))
        log.durability.flush()
        log.advance_log_start(8)
        log_dir.offsets.checkpoint_high_watermarks({KEY: 9})
        log_dir.offsets.checkpoint_recovery_points()
        set_aside(log_dir, KEY)
        append(log_dir.create(ORDERS, now_ms=0), batch(0), batch(1))
        disk.crash_process()
        log_dir = running(disk)
        log = log_dir.logs[KEY]
        assert (log.log_start_offset, log.log_end_offset) == (0, 2)
        assert log_dir.stored_high_watermark(KEY) == 0


def test_i37_a_log_start_that_was_stored_outlives_a_crash_with_the_bytes_below_it() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0), batch(1), batch(2), batch(3))
    log.durability.flush()
    log.advance_log_start(2)
    log_dir.offsets.checkpoint_log_starts()
    log.advance_log_start(3)  # not stored: it may come back
    disk.crash_process()
    log = running(disk).logs[KEY]
    assert (log.log_start_offset, log.log_end_offset) == (2, 4)
    for seed in range(20):
        log = running(disk.power_cut_image(Random(seed)), boot_id="boot-2").logs[KEY]
        assert (log.log_start_offset, log.log_end_offset) == (2, 4)


def test_a_lowered_log_start_is_on_disk_before_new_bytes() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    log.restart_at(100)
    log_dir.offsets.checkpoint_high_watermarks({KEY: 100})
    log.restart_at(50)
    append(log, batch(50))
    disk.crash_process()
    log = running(disk).logs[KEY]
    assert (log.log_start_offset, log.log_end_offset) == (50, 51)


@pytest.mark.parametrize("stops_cleanly", [True, False])
@pytest.mark.parametrize("is_rolled", [True, False])
def test_what_follows_a_truncation_to_the_log_start_need_not_continue_what_was_deleted(
    stops_cleanly: bool, is_rolled: bool
) -> None:
    """After an unclean election the new leader's records may be of an older epoch than those that this
    replica deleted, whose bytes are still there. The deleted ones' producers are remembered all the same."""
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    deleted = batch(0, leader_epoch=2, producer_id=7, base_sequence=0)
    append(log, deleted)
    if is_rolled:
        log.roll(now_ms=0)
    append(log, batch(1, leader_epoch=2), batch(2, leader_epoch=2))
    log.advance_log_start(2)
    log.truncate_to(2)
    append(log, batch(2, leader_epoch=1), batch(3, leader_epoch=1))
    log_dir.offsets.checkpoint_high_watermarks({KEY: 2})
    if stops_cleanly:
        assert log_dir.close_cleanly({KEY: 2})
    else:
        disk.crash_process()
    log = running(disk).logs[KEY]
    assert (log.log_start_offset, log.log_end_offset) == (2, 4)
    assert log.epochs.entries == ((1, 2),)
    assert isinstance(log.producers.check(decode_header(deleted)), Duplicate)


def test_a_truncation_to_the_log_start_survives_a_crash_at_each_step() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0, leader_epoch=2, producer_id=7, base_sequence=0), batch(1, leader_epoch=2))
    log.durability.flush()
    log.advance_log_start(1)
    log_dir.offsets.checkpoint_high_watermarks({KEY: 1})
    log_dir.offsets.checkpoint_recovery_points()
    images: list[MemoryDisk] = []
    disk.on_operation = lambda *_: images.extend(disk.power_cut_image(Random(seed)) for seed in range(5))
    log.truncate_to(1)
    disk.on_operation = None
    assert images
    for image in (*images, disk.power_cut_image(Random(1))):
        found = running(image, boot_id="boot-2").logs[KEY]
        assert found.log_start_offset == 1
        assert found.log_end_offset in (1, 2)
        assert [view.producer_id for view in found.producers.active_producers()] == [7]


def test_a_log_that_dies_while_it_begins_anew_is_not_called_damaged() -> None:
    """Its segments are gone and its next is not there yet: the stored log start must not be older than the
    stored recovery point, for which retention need not have been checkpointed."""
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    append(log, batch(0), batch(1))
    log.roll(now_ms=0)
    append(log, batch(2))
    log.durability.flush(include_active=False)
    log.advance_log_start(2)
    log.unlink_detached(log.detach_old_segments())
    log_dir.offsets.checkpoint_recovery_points()
    images: list[MemoryDisk] = []
    disk.on_operation = lambda *_: images.append(disk.process_crash_image(Random(1)))
    log.restart_at(9)
    assert any(not any(path.endswith(".log") for path in image.files()) for image in images)
    for image in images:
        log = running(image).logs[KEY]
        assert log.log_start_offset in (2, 9)


def test_a_broken_checkpoint_is_absent_and_reported() -> None:
    disk = MemoryDisk()
    disk.mkdir("/data")
    write_checkpoint(disk, "/data", "high-watermark-checkpoint", {KEY: 7, ("B" * 22, 3): 9})
    assert read_checkpoint(disk, "/data", "high-watermark-checkpoint").offsets == {
        KEY: 7,
        ("B" * 22, 3): 9,
    }
    disk.content("/data/high-watermark-checkpoint")[-2] ^= 1
    found = read_checkpoint(disk, "/data", "high-watermark-checkpoint")
    assert found.offsets == {}
    assert found.problem is not None
    assert read_checkpoint(disk, "/data", "no-such").problem is None


def test_what_a_truncation_drops_is_written_aside_whole() -> None:
    disk = MemoryDisk()
    log_dir = running(disk)
    log = log_dir.create(ORDERS, now_ms=0)
    batches = [batch(i, value=b"v" * 100) for i in range(20)]
    for encoded in batches:
        append(log, encoded)

    def aside() -> DivergentCopy | NotWritten:
        return copy_divergent(
            disk,
            "/data/divergent",
            log,
            first_offset=8,
            high_watermark=10,
            leader_epoch=LeaderEpoch(3),
            reason="unclean election",
            now_ms=1,
            health=log_dir.health,
        )

    disk.free_bytes_left = 500
    assert isinstance(aside(), NotWritten)
    assert disk.listdir("/data/divergent") == []
    disk.free_bytes_left = None
    written = aside()
    assert isinstance(written, DivergentCopy)
    disk.crash_machine(Random(1))
    assert disk.content(written.path) == b"".join(batches[8:])
    dumped = list(dump_segment(disk.open(written.path), with_records=True))
    assert [entry["batch"]["base_offset"] for entry in dumped] == list(range(8, 20))
    assert dumped[0]["records"][0]["value"] == b"v" * 100
    assert b'"reason": "unclean election"' in disk.content(written.path.replace(".batches", ".json"))


def test_it_works_on_a_real_disk(tmp_path: Path) -> None:
    disk = PosixDisk()
    log_dir = running(disk, path=f"{tmp_path}/data")
    with pytest.raises(LogDirRefused):
        start(disk, path=f"{tmp_path}/data")
    log = log_dir.create(ORDERS, now_ms=0)
    log.options = LogOptions(segment_bytes=5000, tail_bytes_max=0)
    batches = [batch(i, value=b"v" * 300, leader_epoch=i // 10) for i in range(60)]
    for encoded in batches:
        head, rest = encoded[:16], memoryview(encoded)[16:]
        log.append([decode_header(encoded)], [head, rest], now_ms=0)
    assert log.durability.flush() == 60
    kept = log.read(0, max_bytes=800, end_offset=60)
    assert isinstance(kept.parts[0], FileChunk)
    log.advance_log_start(30)
    detached = log.detach_old_segments()
    log.unlink_detached(detached)
    assert detached
    assert content(kept) == b"".join(batches)[: kept.size_bytes]  # deleted, still readable
    assert log_dir.close_cleanly({KEY: 60})
    log_dir = running(disk, path=f"{tmp_path}/data")
    log = log_dir.logs[KEY]
    assert (log.log_start_offset, log.log_end_offset) == (30, 60)
    assert read_all(log, start=30) == b"".join(batches[30:])
    assert not list(Path(tmp_path).rglob("*.deleted"))
    log_dir.unlink_deleted([log_dir.delete(KEY)])
    assert not list(Path(tmp_path).rglob("*.log"))


MANY = [PartitionId("AAAAAAAAAAAAAAAAAAAAAA", "orders", number) for number in range(50)]


@pytest.mark.parametrize("syncs_all", [True, False])
def test_many_logs_are_made_recovered_and_closed_at_the_price_of_a_few_fsyncs(syncs_all: bool) -> None:
    disk = MemoryDisk()
    disk.syncs_all = syncs_all
    log_dir = running(disk)
    synced: list[str] = []
    disk.on_operation = lambda operation, path, is_done: (
        synced.append(path) if is_done and operation in ("fsync", "fsync_dir") and _is_of_logs(path) else None
    )

    def take() -> None:
        assert len(synced) <= 2 if syncs_all else len(synced) >= len(MANY), synced
        synced.clear()

    for partition in MANY:
        append(log_dir.make(partition, now_ms=0), batch(0))
    log_dir.sync_names()
    take()
    for log in log_dir.logs.values():
        log.begin_leader_epoch(LeaderEpoch(7))
    log_dir.persist_epochs(list(log_dir.logs.values()))
    take()
    log_dir.abandon()
    log_dir = running(disk)
    assert log_dir.claim.last_shutdown is ShutdownKind.PROCESS_CRASH
    take()
    assert log_dir.close_cleanly({})
    take()
    disk.on_operation = None
    survivor = disk.power_cut_image(Random(1))
    again = running(survivor)
    assert again.claim.last_shutdown is ShutdownKind.CLEAN
    assert len(again.logs) == len(MANY)
    assert all(log.log_end_offset == 1 and log.epochs.latest == 7 for log in again.logs.values())


def _is_of_logs(path: str) -> bool:
    """One of a log's files, or the handle through which all are synced."""
    return "/orders-" in path or path.endswith(".mount-mark")
