"""springtide/service_manager.py: what the service manager's socket gets."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from springtide.service_manager import ServiceManager


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def all_of(heard: socket.socket) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(heard.recv(100))
        except BlockingIOError:
            return found


def test_each_message_is_a_datagram(heard: socket.socket, tmp_path: Path) -> None:
    manager = ServiceManager(str(tmp_path / "notify"))
    manager.ready()
    manager.stopping()
    assert all_of(heard) == [b"READY=1", b"STOPPING=1"]


def test_an_address_with_an_at_sign_is_one_without_a_file() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("")
        name = listener.getsockname()
        ServiceManager("@" + name[1:].decode()).ready()
        assert listener.recv(100) == b"READY=1"


def test_the_watchdog_hears_twice_in_its_limit_that_the_loop_runs(
    heard: socket.socket, tmp_path: Path
) -> None:
    async def run() -> None:
        with trio.move_on_after(99):
            await ServiceManager(str(tmp_path / "notify"), watchdog_s=20).keep_alive(trio.sleep)

    trio.run(run, clock=MockClock(autojump_threshold=0))
    assert all_of(heard) == [b"WATCHDOG=1"] * 10


def test_without_a_watchdog_there_is_nothing_to_keep_alive() -> None:
    trio.run(ServiceManager("", watchdog_s=0).keep_alive, trio.sleep)


@pytest.mark.parametrize(
    ("environment", "limit_s"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "60000000"}, 60),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 60),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_the_watchdog_is_that_of_this_process(environment: dict[str, str], limit_s: float) -> None:
    assert ServiceManager.of_environment(environment, pid=7).watchdog_s == limit_s


def test_without_a_manager_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    manager = ServiceManager.of_environment({}, pid=7)
    with caplog.at_level(logging.DEBUG):
        manager.ready()
        manager.stopping()
    assert caplog.records == []


def test_a_manager_that_is_gone_costs_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ServiceManager(str(tmp_path / "gone")).ready()
    assert "service_manager_not_told state=READY=1" in caplog.text
