"""The process above a broker's workers: starts them, passes signals on, starts those again that die, and
ends all of them where one can't be started at all. A directory that is refused is its worker's own: the
others serve.

It holds no data and knows no client. A worker is a child of the same command with `--worker K` behind it.

A worker's standard input is a pipe on which nothing is ever written. The supervisor holds the other end, and
the kernel closes that when the supervisor ends, even by SIGKILL. A thread of each worker waits for the end of
the pipe, and ends the worker at once, which is as safe as SIGKILL: the next supervisor finds no port and no
directory taken, or finds them free a moment later. It is a thread, because a worker recovers its logs before
its loop runs. It is a pipe and not PR_SET_PDEATHSIG, because that goes by the life of the *thread* that
started the child, needs a second look for a parent that has died before it was set, and is Linux's alone. A
worker under SIGSTOP ends when it goes on.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

import trio

from dataplane.core.workers import restart_after_ms
from springtide.node.command_line import EXIT_FAILED, EXIT_NOT_STARTED, EXIT_OK, EXIT_USAGE
from springtide.service_manager import ServiceManager

_log = logging.getLogger(__name__)

STANDARD_INPUT = 0
EXIT_DIRECTORY_REFUSED = 4
"""The process never served: its directory is in use, can't be read, or is another's."""
REFUSALS = (EXIT_USAGE, EXIT_NOT_STARTED, EXIT_DIRECTORY_REFUSED)


class Supervisor:
    """commands: of the workers, in their order. service: hears from here that the loop runs and that all
    stop, and from each worker that it serves."""

    def __init__(self, commands: Sequence[Sequence[str]], service: ServiceManager) -> None:
        self._commands = commands
        self._service = service
        self._running: dict[int, trio.Process] = {}
        self._stopping = trio.Event()
        self._exit_codes: dict[int, int] = {}
        #: Workers that have ended in another way than by a refusal.
        self._started: set[int] = set()
        self._refusal = EXIT_OK

    async def run(self) -> int:
        """Run the workers until a signal comes or one can't be started, and all of them have ended; return
        the exit code of that one, or the worst."""
        read_end, write_end = os.pipe()
        try:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._obey, signals)
                    nursery.start_soon(self._service.keep_alive, trio.sleep)
                    async with trio.open_nursery() as workers:
                        for number in range(len(self._commands)):
                            workers.start_soon(self._keep, number, read_end)
                    nursery.cancel_scope.cancel()
        finally:
            os.close(write_end)
            os.close(read_end)
        return self._refusal or max(self._exit_codes.values(), default=EXIT_OK)

    async def _obey(self, signals: Any) -> None:
        """Have all workers shut down when the first signal comes; at a second one end with them, at once."""
        await anext(signals)
        self._service.stopping()
        self._stop()
        number = await anext(signals)
        _log.warning(
            "second_signal signal=%s consequence=%s", signal.Signals(number).name, "no clean shutdown"
        )
        os._exit(128 + number)

    def _stop(self) -> None:
        _log.info("shutting_down workers=%d", len(self._running))
        self._stopping.set()
        for process in self._running.values():
            process.terminate()

    async def _keep(self, number: int, lifeline: int) -> None:
        """Run a worker, and again whenever it ends, until all are to stop. Have all stop where it has never
        started: at its second refusal, because what an earlier supervisor left may end a moment after it. Its
        directory ends all only if no other worker runs or ever has."""
        named = f"{number}/{len(self._commands)}"
        wait_ms = 0
        while not self._stopping.is_set():
            started = trio.current_time()
            code = await self._run_worker(number, named, lifeline)
            self._exit_codes[number] = code if code >= 0 else 128 - code
            if self._stopping.is_set():
                _log.info("worker_stopped worker=%s exit_code=%d", named, code)
                return
            if code not in REFUSALS:
                self._started.add(number)
            is_own = code == EXIT_DIRECTORY_REFUSED and (self._running or self._started)
            if wait_ms and number not in self._started and not is_own:
                _log.error("worker_refused worker=%s exit_code=%d consequence=%s", named, code, "all end")
                self._refusal = code
                self._stop()
                return
            wait_ms = restart_after_ms(wait_ms, round(1000 * (trio.current_time() - started)))
            _log.warning("worker_ended worker=%s exit_code=%d restart_in_ms=%d", named, code, wait_ms)
            with trio.move_on_after(wait_ms / 1000):
                await self._stopping.wait()

    async def _run_worker(self, number: int, named: str, lifeline: int) -> int:
        """Run a worker to its end; return its exit code, or minus the signal's number."""
        try:
            process = await trio.lowlevel.open_process(list(self._commands[number]), stdin=lifeline)
        except OSError as error:  # no memory, too many processes
            _log.error("worker_not_started worker=%s cause=%s", named, error)
            return EXIT_NOT_STARTED
        _log.info("worker_started worker=%s pid=%d", named, process.pid)
        self._running[number] = process
        if self._stopping.is_set():  # the signal came while it was started
            process.terminate()
        code = await process.wait()
        del self._running[number]
        return code


def end_with_supervisor() -> None:
    """End this process, a worker, at once when its supervisor ends."""
    threading.Thread(target=_await_end, name="supervisor-watch", daemon=True).start()


def _await_end() -> None:
    while os.read(STANDARD_INPUT, 1):
        pass
    os._exit(EXIT_FAILED)  # without a line in the log, whose reader may have ended, too
