"""A simulated host's disk after its medium failed: whether what is left is a file system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.hosts.disk import HostDisk


@pytest.fixture
def disk(tmp_path: Path) -> HostDisk:
    if shutil.which("mkfs.ext4") is None:
        assert not os.environ.get("CI_REQUIRED"), "e2fsprogs is missing, and CI must not skip this"
        pytest.skip("needs e2fsprogs")
    made = HostDisk(name="broker-1", medium=tmp_path, mount_point=tmp_path / "mounted", kept=tmp_path)
    made.format()
    return made


def test_a_disk_that_lost_nothing_of_its_own_is_sound(disk: HostDisk) -> None:
    assert disk.is_sound()


def test_a_disk_that_dropped_its_inodes_is_not(disk: HostDisk, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    told = subprocess.run(["dumpe2fs", str(image)], capture_output=True, text=True, check=True).stdout
    block_bytes = int(re.findall(r"^Block size: +(\d+)$", told, re.MULTILINE)[0])
    table = int(re.findall(r"Inode table at (\d+)-", told)[0])
    with image.open("r+b") as file:
        file.seek(table * block_bytes)
        file.write(b"\0" * block_bytes)
    assert not disk.is_sound()
