"""What a serving process makes of its own process before it begins."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys

import pytest
import trio

from springtide.node.command_line import EXIT_FAILED, EXIT_NOT_STARTED, EXIT_OK, run_until_signal
from springtide.node.controller_session import RegistrationRefused, WentBack
from springtide.node.listeners import HostPort, ListenerSettings, ListenersSettings
from springtide.node.settings import NodeSettings
from springtide.service_manager import ServiceManager
from springtide.tls import TlsFilesInvalid

COUNT_FAULTS = """
import resource
from springtide.node.command_line import favour_the_loop
favour_the_loop()
def fill():
    return [bytearray(1_100_000) for _ in range(8)]
fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    fill()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_the_memory_of_large_requests_is_kept_for_the_next_ones() -> None:
    """Eight of a megabyte, twenty times: given back and had anew, they would be 43,000 pages."""
    ended = subprocess.run([sys.executable, "-c", COUNT_FAULTS], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 4_000


@pytest.mark.parametrize("program", ["dataplane", "coordinator"])
def test_a_process_starts_without_what_only_tls_and_tokens_need(program: str) -> None:
    """A sixth of its memory."""
    script = (
        f"import {program}.__main__, sys\n"
        "print({'cryptography', 'joserfc'} & sys.modules.keys() or 'without')"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "without\n"


SETTINGS = NodeSettings(
    cluster="prod",
    listeners=ListenersSettings.one("127.0.0.1", 9092),
    controllers=("http://c1:1",),
    metrics=ListenerSettings(name="METRICS", bind=HostPort("127.0.0.1", 9392)),
)


class Failing:
    """A process that ends with this error, where it listens or later."""

    def __init__(self, error: Exception, *, listens: bool) -> None:
        self._error, self._listens = error, listens

    async def listen(self) -> Failing:
        if not self._listens:
            raise self._error
        return self

    async def run(self) -> None:
        raise self._error

    async def shut_down(self) -> bool:
        raise AssertionError("nobody asks for it")


@pytest.mark.parametrize(
    ("error", "listens", "exit_code"),
    [
        (OSError("taken"), False, EXIT_NOT_STARTED),
        (OSError("taken since it was bound"), True, EXIT_NOT_STARTED),
        (TlsFilesInvalid("no key"), False, EXIT_NOT_STARTED),
        (RegistrationRefused("another cluster's"), True, EXIT_NOT_STARTED),
        (WentBack("resumed"), True, EXIT_FAILED),
    ],
)
def test_a_process_that_never_served_ends_with_a_status_of_its_own(
    error: Exception, listens: bool, exit_code: int, caplog: pytest.LogCaptureFixture
) -> None:
    process = Failing(error, listens=listens)
    assert trio.run(run_until_signal, process.listen, SETTINGS, ServiceManager()) == exit_code
    if isinstance(error, OSError):
        assert "can_not_listen address=127.0.0.1:9092,127.0.0.1:9392 " in caplog.text


class Idle:
    """A process that is told to stop as soon as it runs, and has nothing to give away."""

    async def listen(self) -> Idle:
        return self

    async def run(self) -> None:
        signal.raise_signal(signal.SIGTERM)
        await trio.sleep_forever()

    async def shut_down(self) -> bool:
        await trio.lowlevel.checkpoint()
        return True


def test_a_shutdown_with_nothing_to_wait_for_ends_well_whichever_task_runs_first() -> None:
    """Trio draws the order of the tasks that are ready: twenty runs have seen both."""
    for _ in range(20):
        assert trio.run(run_until_signal, Idle().listen, SETTINGS, ServiceManager()) == EXIT_OK
