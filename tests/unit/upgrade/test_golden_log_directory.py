"""A broker of this release opens the log directory of one of the last, and leaves it as that would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.core.group_records import (
    GroupKey,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from coordinator.core.opening import OPENING_KEY
from dataplane.core.leader_epochs import decode_leader_epochs
from dataplane.core.producer_state import decode_producer_states
from dataplane.shell.scrubber import decode_progress, encode_progress
from dataplane.storage.checked_json import decode_checked, encode_checked
from dataplane.storage.checkpoints import decode_checkpoint, encode_checkpoint
from dataplane.storage.disk import PosixDisk
from dataplane.storage.dump import dump_segment
from dataplane.storage.log_dir import open_log_dir
from dataplane.storage.log_dir_identity import decode_marker, decode_meta, encode_marker, encode_meta
from dataplane.storage.manifest import read_manifest, write_manifest
from dataplane.storage.partition_file import encode_partition, read_partition
from dataplane.storage.recovery import OpenedLog
from dataplane.storage.round_file import read_rounds
from dataplane.storage.seal import Seal, read_seal, write_seal
from springtide.contract.session import ShutdownKind
from springtide.levels import Level
from tests.upgrade.golden.files import Golden, kept_levels

BROKER_ID = 1
BOOT_ID = "another boot"
NOW_MS = 1_800_000_000_000
"""Later than everything in the directory."""
CHANGED_BY_A_STOP = {"fresh-mark", ".mount-mark", ".lock"}


@pytest.fixture(scope="module", params=kept_levels())
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Golden(request.param).unpack_log_directory(tmp_path_factory.mktemp("golden"))


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in CHANGED_BY_A_STOP
    }


@pytest.mark.parametrize("level", kept_levels())
def test_it_is_opened_after_a_clean_stop_and_left_by_another_as_it_was(level: Level, tmp_path: Path) -> None:
    directory = Golden(level).unpack_log_directory(tmp_path)
    before = contents(directory)
    log_dir = open_log_dir(
        PosixDisk(), str(directory), broker_id=BROKER_ID, new_dir_id="unused", boot_id=BOOT_ID
    )
    assert log_dir.claim.last_shutdown is ShutdownKind.CLEAN
    names = log_dir.partition_names()
    opened = [log_dir.load(name, now_ms=NOW_MS) for name in names]
    assert [entry for entry in opened if not isinstance(entry, OpenedLog)] == []
    log_dir.finish_loading()
    assert any(log.log_end_offset > 2_000 for log in log_dir.logs.values())
    meta = log_dir.claim.meta
    log_dir.on_registered(cluster_id=meta.cluster_id, broker_epoch=meta.broker_epoch)
    assert log_dir.close_cleanly({key: log_dir.stored_high_watermark(key) for key in log_dir.logs})
    after = contents(directory)
    assert decode_meta(after.pop("meta.json")) == replace(
        decode_meta(before.pop("meta.json")), boot_id=BOOT_ID
    )
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == set()


def _checkpoint(name: str) -> Callable[[bytes], bytes]:
    return lambda data: encode_checkpoint(name, decode_checkpoint(name, data))


WHOLE_FILES: dict[str, Callable[[bytes], bytes]] = {
    "meta.json": lambda data: encode_meta(decode_meta(data)),
    "clean-shutdown": lambda data: encode_marker(_present(decode_marker(data))),
    "high-watermark-checkpoint": _checkpoint("high-watermark-checkpoint"),
    "recovery-point-checkpoint": _checkpoint("recovery-point-checkpoint"),
    "log-start-offset-checkpoint": _checkpoint("log-start-offset-checkpoint"),
    "leader-epochs": lambda data: decode_leader_epochs(data).encode(),
    ".snapshot": lambda data: decode_producer_states(data).encode(),
    "seal": lambda data: encode_checked(msgspec.structs.asdict(msgspec.convert(decode_checked(data), Seal))),
}


def _present(value: Any) -> Any:
    assert value is not None
    return value


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_each_kind_of_file_is_written_again_byte_for_byte(directory: Path, name: str) -> None:
    paths = [path for path in directory.rglob("*") if path.name.endswith(name)]
    assert paths
    for path in paths:
        assert WHOLE_FILES[name](path.read_bytes()) == path.read_bytes(), path


def test_files_that_say_where_they_are_are_written_again_byte_for_byte(
    directory: Path, tmp_path: Path
) -> None:
    disk = PosixDisk()
    written: set[str] = set()
    for log in sorted(path for path in directory.iterdir() if path.is_dir()):
        partition = read_partition(disk, str(log))
        assert encode_partition(partition) == (log / "partition.json").read_bytes()
        manifest = read_manifest(disk, str(log))
        if manifest is not None:
            write_manifest(disk, str(tmp_path), manifest)
            assert (tmp_path / "compacted").read_bytes() == (log / "compacted").read_bytes()
            written.add("compacted")
        seal = read_seal(disk, str(log))
        if seal is not None:
            write_seal(disk, str(tmp_path), seal)
            assert (tmp_path / "seal").read_bytes() == (log / "seal").read_bytes()
            written.add("seal")
        assert read_rounds(disk, str(log)) is not None
    assert written == {"compacted", "seal"}


def test_the_scrubbers_progress_is_read_and_written_again(directory: Path) -> None:
    data = (directory / "scrub-checkpoint").read_bytes()
    assert decode_progress(data)
    assert encode_progress(decode_progress(data)) == data


def test_a_coordinator_reads_each_record_of_its_topic_and_writes_the_same(directory: Path) -> None:
    kinds: set[str] = set()
    for segment in sorted(directory.glob("__consumer_offsets-*/*.log")):
        for entry in dump_segment(PosixDisk().open(str(segment)), with_records=True):
            for record in entry.get("records", ()):
                key, value = record["key"], record["value"]
                if key is None or key == OPENING_KEY:
                    kinds.add("opening" if key else "control")
                    continue
                found = decode_key(key)
                if isinstance(found, OffsetKey):
                    assert encode_offset_key(found) == key
                    kinds.add("offset" if value else "offset's tombstone")
                    assert value is None or encode_offset(decode_offset(value)) == value
                else:
                    assert isinstance(found, GroupKey)
                    assert encode_group_key(found) == key
                    kinds.add("group" if value else "group's tombstone")
                    assert value is None or encode_group(decode_group(value)) == value
    assert {"opening", "offset", "group"} <= kinds
