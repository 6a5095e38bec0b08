"""The process that writes what a pass leaves: it does what a thread does, and ends whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rounds import Round, encode_round
from dataplane.core.log_port import SuspectBytes
from dataplane.shell.compaction_process import CompactionProcess
from dataplane.storage import rewritten_files
from dataplane.storage.compaction import CompactionPass, PassPutOff, Rewriting
from dataplane.storage.disk import PosixDisk
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.log_settings import LogOptions
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import open_partition_log
from dataplane.storage.rewritten_files import rewrite_files
from dataplane.storage.segment import log_path
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.session import ShutdownKind
from springtide.node.child_process import ChildProcess
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.dataplane.storage import PARTITION, append, opened, settings_for

BATCHES, KEYS = 2_000, 50
VALUE = b"v" * 4_000
OPTIONS = LogOptions(segment_bytes=1024 * 1024)
ENDS_WITHIN_S = 30.0


class Bench:
    def __init__(self, path: Path) -> None:
        path.mkdir()
        settings = settings_for(PosixDisk(), options=OPTIONS)
        self.path = path
        self.log: PartitionLog = opened(
            open_partition_log(
                settings,
                str(path),
                partition=PARTITION,
                last_shutdown=ShutdownKind.FIRST_START,
                recovery_point=0,
                high_watermark=0,
                log_start_offset=0,
                now_ms=1000,
            )
        )
        self.health: DirectoryHealth = settings.health
        for offset in range(BATCHES):
            record = NewRecord(b"key %d" % (offset % KEYS), VALUE, timestamp=1000 + offset)
            append(self.log, encode_batch([record], base_offset=offset))
        self.placed = PlacedRound(BATCHES, Round(BATCHES, 0, tombstone_floor=0, producers_floor=0))
        append(self.log, encode_round(self.placed.round_, leader_epoch=LeaderEpoch(0), base_offset=BATCHES))

    def begin(self, rewriting: Rewriting) -> CompactionPass:
        return self.log.begin_compaction(self.placed, now_ms=1000, rewriting=rewriting)

    def compact(self, rewriting: Rewriting) -> int:
        """Return how many slices it took."""
        under_way, slices = self.begin(rewriting), 1
        while not under_way.advance():
            slices += 1
        under_way.commit()
        self.log.finish_compaction()
        return slices

    @property
    def files(self) -> dict[str, bytes]:
        return {each.name: each.read_bytes() for each in self.path.iterdir()}

    @property
    def cleaned(self) -> list[str]:
        return [name for name in self.files if name.endswith(".cleaned")]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "log")


@pytest.fixture
def process() -> Iterator[CompactionProcess]:
    found = CompactionProcess()
    yield found
    found.close()


def children() -> list[int]:
    return [
        int(child)
        for thread in Path("/proc/self/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]


def test_it_writes_what_a_thread_writes(tmp_path: Path, bench: Bench, process: CompactionProcess) -> None:
    beside = Bench(tmp_path / "beside")
    assert bench.compact(process.rewrite) > 2
    beside.compact(rewrite_files)
    assert bench.files == beside.files
    assert bench.log.rounds.reaches == BATCHES
    assert bench.log.size_bytes < 2 * KEYS * len(VALUE)


def test_one_process_serves_many_passes(tmp_path: Path, bench: Bench, process: CompactionProcess) -> None:
    bench.compact(process.rewrite)
    before = children()
    Bench(tmp_path / "another").compact(process.rewrite)
    assert children() == before != []
    process.close()
    assert not set(before) & set(children())


def test_rotten_bytes_are_told_with_their_place(bench: Bench, process: CompactionProcess) -> None:
    with Path(log_path(str(bench.path), 0)).open("r+b") as file:
        file.seek(100)
        file.write(b"rotten")
    under_way = bench.begin(process.rewrite)
    with pytest.raises(SuspectBytes, match="CRC does not match") as caught:
        under_way.write()
    assert caught.value.bad_offset == 0
    assert not bench.cleaned
    assert bench.health.failure is None


def test_a_disk_that_fails_is_the_directorys_failure(bench: Bench, process: CompactionProcess) -> None:
    name = Path(log_path(str(bench.path), 0))
    name.rename(name.with_suffix(".elsewhere"))
    with pytest.raises(Exception, match="No such file"):
        bench.begin(process.rewrite).write()
    assert bench.health.failure is not None


def test_a_process_that_is_killed_puts_the_pass_off(bench: Bench, process: CompactionProcess) -> None:
    before = set(children())
    under_way = bench.begin(process.rewrite)
    assert not under_way.advance()
    assert not under_way.advance()
    for child in set(children()) - before:
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # from here on its pipes are broken
    with pytest.raises(PassPutOff, match="ended with status -9"):
        under_way.write()
    assert not bench.cleaned
    assert bench.health.failure is None
    bench.compact(process.rewrite)


def test_a_process_that_ends_within_an_answer_puts_the_pass_off(
    bench: Bench, process: CompactionProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that names many segments is longer than what a pipe takes at once."""

    def started(_child: ChildProcess) -> subprocess.Popen[bytes]:
        command = ["sh", "-c", "read asked; printf '{\"segments\"'; kill -9 $$"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(ChildProcess, "_started", started)
    with pytest.raises(PassPutOff, match="ended with status -9"):
        bench.begin(process.rewrite).write()
    assert bench.health.failure is None


def test_a_pass_that_is_given_up_leaves_neither_process_nor_file(
    bench: Bench, process: CompactionProcess
) -> None:
    before = children()
    under_way = bench.begin(process.rewrite)
    while not bench.cleaned:
        assert not under_way.advance()
    bench.log.advance_log_start(500)
    bench.log.unlink_detached(bench.log.detach_old_segments())
    with pytest.raises(Exception, match="changed under a"):
        under_way.write()
    assert children() == before
    assert not bench.cleaned


def test_a_process_that_cannot_be_started_puts_the_pass_off(
    bench: Bench, process: CompactionProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(PassPutOff, match="can't be started"):
        bench.begin(process.rewrite).write()
    assert bench.health.failure is None


def test_signals_to_the_group_are_for_the_broker(bench: Bench, process: CompactionProcess) -> None:
    before = set(children())
    under_way = bench.begin(process.rewrite)
    while not under_way.advance():
        for child in set(children()) - before:
            os.kill(child, signal.SIGINT)
            os.kill(child, signal.SIGTERM)
    under_way.commit()


def test_the_working_directory_does_not_say_what_is_imported(
    bench: Bench, process: CompactionProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('foreign')")
    monkeypatch.chdir(tmp_path)
    bench.compact(process.rewrite)


BROKER = """
import os, sys
from pathlib import Path
from tests.unit.dataplane.shell.test_compaction_process import Bench, CompactionProcess, children
under_way = Bench(Path(sys.argv[1])).begin(CompactionProcess().rewrite)
assert not under_way.advance() and not under_way.advance()
print(*children(), flush=True)
os._exit(9)
"""


def test_it_ends_with_its_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BROKER, str(tmp_path / "log")]
    broker = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert broker.returncode == 9
    (child,) = map(int, broker.stdout.split())
    until = time.monotonic() + ENDS_WITHIN_S
    while Path(f"/proc/{child}").exists() and "compaction_process" in _command_line(child):
        assert time.monotonic() < until, "it outlives its broker"
        time.sleep(0.01)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a thread; a process has its own, of which the log has two."""
    monkeypatch.setattr(rewritten_files, "SLICE_BYTES", 100_000)
