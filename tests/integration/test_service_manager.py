"""The processes under a service manager: this test's socket is in the place of systemd's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localcluster.ports import PortReservation

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60
#: Nothing listens there: a broker that waits for its controllers serves, too.
NO_CONTROLLER = ("--cluster", "prod", "--controllers", "http://127.0.0.1:1")


def command(program: str, folder: Path, port: int) -> list[str]:
    listen = ["--listen", f"127.0.0.1:{port}"]
    match program:
        case "controller":
            database = f"sqlite:///{folder}/audit.db"
            return ["admin_api", "serve", *listen, "--zookeeper", "127.0.0.1:1", "--database-url", database]
        case "coordinator":
            return ["coordinator", "serve", "--coordinator-id", "1001", *listen, *NO_CONTROLLER]
        case _:
            workers = ["--workers", "2"] if program == "workers" else []
            options = [*listen, "--data-dir", str(folder / "data"), *workers]
            return ["dataplane", "serve", "--broker-id", "1", *options, *NO_CONTROLLER]


@contextmanager
def started(program: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard, PortReservation() as ports:
        heard.bind(str(folder / "notify"))
        heard.settimeout(SECONDS_MAX)
        environment = {**os.environ, "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "1000000"}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command(program, folder, ports.reserve_free(count=2))],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )
            try:
                yield process, heard
            finally:
                process.kill()
                process.wait()


@pytest.mark.parametrize("program", ["controller", "broker", "workers", "coordinator"])
def test_a_service_manager_hears_that_a_process_serves_lives_and_stops(program: str, tmp_path: Path) -> None:
    with started(program, tmp_path) as (process, heard):
        before_ready = until(b"READY=1", heard)
        assert set(before_ready) <= {b"WATCHDOG=1"}
        until(b"WATCHDOG=1", heard)
        until(b"WATCHDOG=1", heard)
        process.send_signal(signal.SIGTERM)
        assert set(until(b"STOPPING=1", heard)) <= {b"WATCHDOG=1", b"READY=1"}  # of the second worker
        process.wait(SECONDS_MAX)


def test_a_process_whose_loop_stands_still_tells_nothing(tmp_path: Path) -> None:
    with started("coordinator", tmp_path) as (process, heard):
        until(b"WATCHDOG=1", heard)
        process.send_signal(signal.SIGSTOP)
        heard.settimeout(1.5)
        with pytest.raises(TimeoutError):
            for _ in range(5):  # what was sent before it stood still
                heard.recv(100)


def until(wanted: bytes, heard: socket.socket) -> list[bytes]:
    """Return what came before it."""
    before: list[bytes] = []
    while (message := heard.recv(100)) != wanted:
        before.append(message)
    return before
