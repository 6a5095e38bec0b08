"""A few real power cuts on ext4. Needs root and loop devices; continuous integration must have them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane.storage.disk import File
from tests.powercuts.ext4 import cut_once
from tests.powercuts.reporting_disk import ReportingDisk, ReportingFile
from tests.powercuts.volume import Volume, ext4_volume, why_impossible

pytestmark = pytest.mark.proof
CUTS = 30


@pytest.fixture(scope="module")
def volume() -> Iterator[Volume]:
    reason = why_impossible()
    if reason is not None:
        assert not os.environ.get("CI_REQUIRED"), f"{reason}, and CI must not skip it"
        pytest.skip(reason)
    with ext4_volume() as made:
        yield made


def test_what_was_synced_survives_real_power_cuts(volume: Volume) -> None:
    cuts = [cut_once(volume, seed) for seed in range(CUTS)]
    assert [line for cut in cuts for line in cut.wrong] == []
    assert sum(cut.batches for cut in cuts) > CUTS, "nothing was there to be lost"


class ForgetfulFile(ReportingFile):
    def fsync(self) -> None:
        self._on_done()


class ForgetfulDisk(ReportingDisk):
    """Does not sync the bytes of segments."""

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        if path.endswith(".log"):
            file.__class__ = ForgetfulFile
        return file


def test_a_disk_that_forgets_to_sync_segments_is_found(volume: Volume) -> None:
    cuts = [cut_once(volume, seed, disk_made=ForgetfulDisk) for seed in range(1000, 1000 + CUTS)]
    assert any(cut.wrong for cut in cuts)


class FailingDisk(ReportingDisk):
    def rename(self, source: str, target: str) -> None:
        raise AssertionError("a writer with a bug")


def test_a_writer_that_ends_by_itself_has_not_been_tested(volume: Volume) -> None:
    cuts = [cut_once(volume, seed, disk_made=FailingDisk) for seed in range(2000, 2005)]
    assert any("workload: the writer ended" in line for cut in cuts for line in cut.wrong)


def test_a_file_system_that_somebody_keeps_mounted_is_not_taken_for_a_new_boot(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.powercuts.volume.IN_USE_SECONDS_MAX", 0.5)
    with subprocess.Popen(["unshare", "--mount", "cat"], stdin=subprocess.PIPE) as other:
        in_root = Path("/proc/self/ns/mnt").readlink()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{other.pid}/ns/mnt").readlink() == in_root and time.monotonic() < deadline:
            time.sleep(0.01)
        volume.cut_power()
        with pytest.raises(OSError, match="mounted elsewhere"):
            volume.mount_again()
        other.communicate()
    volume.mount_again()


def test_what_was_made_is_removed(tmp_path: Path) -> None:
    reason = why_impossible()
    if reason is not None:
        pytest.skip(reason)
    with pytest.raises(KeyboardInterrupt), ext4_volume(tmp_path) as made:
        mount = made.mount
        loop = Path(f"/sys/block/{Path(made.loop).name}/loop/backing_file")
        assert mount.is_mount()
        assert len(list(tmp_path.iterdir())) == 1
        raise KeyboardInterrupt
    assert not mount.parent.exists()
    assert not loop.exists() or str(mount.parent) not in loop.read_text()
    assert list(tmp_path.iterdir()) == []
