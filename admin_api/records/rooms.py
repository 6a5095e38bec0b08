"""The processes in which looks are read: each is started for one look and is gone when that is answered.

Starting one takes a tenth of a second, and buys what a process that lives on could not promise: no look sees
what another has read, none inherits the memory that a hostile record took, and the kernel ends one that is
late. Few run at once; further looks are refused, not queued.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from subprocess import DEVNULL, PIPE
from typing import Final, Protocol

import anyio
import msgspec
from anyio.abc import Process

from admin_api.records.room.questions import LATE_MS_MAX, LookSummary, RecordLook
from springtide.tls import KafkaTls

_log = logging.getLogger(__name__)

LOOKS_AT_ONCE_MAX: Final = 2
#: Beside the records: the summary, the partitions, what could not be read.
ANSWER_BYTES_BESIDE: Final = 256 * 1024
#: Settings of a controller in its environment, tokens among them, are not for a process that reads records.
_PRIVATE_PREFIX: Final = "SPRINGTIDE_"
_MODULE: Final = f"{__package__}.room"


class TooManyLooks(Exception):
    """As many looks are under way as may be."""


class RoomLost(Exception):
    """The process of a look ended without an answer; the message says how."""


class Rooms(Protocol):
    """The places where records are read."""

    def turn(self) -> AbstractContextManager[None]: ...

    async def look(self, look: RecordLook, *, has_tls: bool) -> tuple[LookSummary, bytes]: ...


class RecordRooms:
    """tls: for clusters whose inter-broker listeners have it."""

    def __init__(self, tls: KafkaTls | None = None) -> None:
        self._tls = tls or KafkaTls()
        self._looks = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold a place for one look. Raise TooManyLooks."""
        if self._looks >= LOOKS_AT_ONCE_MAX:
            raise TooManyLooks
        self._looks += 1
        try:
            yield
        finally:
            self._looks -= 1

    async def look(self, look: RecordLook, *, has_tls: bool) -> tuple[LookSummary, bytes]:
        """Return the summary and the answer's JSON. has_tls: whether brokers are spoken to over TLS. Raise
        RoomLost."""
        question = msgspec.json.encode((look, self._tls if has_tls else None))
        bytes_max = look.bytes_max + ANSWER_BYTES_BESIDE
        answer = b""
        try:
            process = await _started()
        except OSError as error:  # no memory, too many processes
            raise RoomLost(f"no process can be started: {error.strerror}") from error
        try:
            with anyio.move_on_after((look.ms_max + LATE_MS_MAX) / 1_000):
                answer = await _answer_of(process, question, bytes_max)
                await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.aclose()
        line, newline, body = answer.partition(b"\n")
        if process.returncode != 0 or not newline:
            _log.warning("look_lost status=%s topic=%s", process.returncode, look.topic)
            raise RoomLost(f"the process that read the records ended with status {process.returncode}")
        return msgspec.json.decode(line, type=LookSummary), body


async def _started() -> Process:
    # -P: the working directory must not say what is imported.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE_PREFIX)}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = (sys.executable, "-P", "-m", _MODULE)
    return await anyio.open_process(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment)


async def _answer_of(process: Process, question: bytes, bytes_max: int) -> bytes:
    """Return what the process writes; nothing if that is more than it may be."""
    assert process.stdin is not None and process.stdout is not None
    answer = bytearray()
    try:
        await process.stdin.send(question)
        await process.stdin.aclose()
        async for piece in process.stdout:
            answer += piece
            if len(answer) > bytes_max:
                process.kill()
                return b""
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return b""
    return bytes(answer)
