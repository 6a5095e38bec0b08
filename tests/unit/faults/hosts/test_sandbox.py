"""What a wall clock of its own costs a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.hosts.sandbox import clock_environment, find_faketime

SECONDS_MAX = 60
BESIDE_A_THREAD = """
import os, threading, time

def cpu_seconds():
    before = time.process_time()
    for _ in range(2_000_000):
        pass
    return time.process_time() - before

def sync():
    while goes_on:
        os.fsync(file)

alone = cpu_seconds()
file, goes_on = os.open("synced", os.O_CREAT | os.O_RDWR), True
threading.Thread(target=sync, daemon=True).start()
beside = cpu_seconds()
goes_on = False
print(beside / alone, time.time() - time.monotonic())
"""


def test_a_thread_that_waits_for_the_interpreter_does_not_spin(tmp_path: Path) -> None:
    library = find_faketime()
    if library is None:
        pytest.skip("no libfaketime")
    clock_file = tmp_path / "clock"
    clock_file.write_text("+3600\n", encoding="ascii")

    def run(**more: str) -> list[float]:
        command = [sys.executable, "-I", "-c", BESIDE_A_THREAD]
        environment = os.environ | more
        told = subprocess.check_output(command, cwd=tmp_path, env=environment, timeout=SECONDS_MAX)
        return [float(each) for each in told.split()]

    _, began = run()
    ratio, began_there = run(**clock_environment(library, clock_file))
    assert 3590 < began_there - began < 3610
    assert ratio < 3
