"""Members of a group for drivers in Python: what the rows about two members do with any client's."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Protocol

SECONDS_MAX = 60.0
POLL_SECONDS = 0.05


class Member(Protocol):
    """A member of the group of a request, which takes part until it is closed."""

    def partitions(self) -> list[int]:
        """Return what it has now, in order."""

    def revocations(self) -> int:
        """Return how often it lost what it had."""

    def close(self) -> None: ...


Open = Callable[[str], Member]
"""Opens a member; it is static if the argument, its instance id, is not empty."""


def share(open_member: Open) -> dict[str, Any]:
    """Answer group_share (see rows.py)."""
    with closing(open_member("")) as first:
        with closing(open_member("")) as second:
            together = _wait_until_both_have_one(first, second)
        _wait("the first member has both partitions", lambda: len(first.partitions()) == 2)
        return {"together": sorted(together), "alone": first.partitions()}


def return_static(open_member: Open) -> dict[str, Any]:
    """Answer group_static (see rows.py)."""
    with closing(open_member("static-2")) as stays:
        with closing(open_member("static-1")) as first:
            before, _ = _wait_until_both_have_one(first, stays)
            revocations = stays.revocations()
        with closing(open_member("static-1")) as again:
            _wait("the member has partitions again", lambda: bool(again.partitions()))
            return {
                "before": before,
                "after": again.partitions(),
                "revocations": stays.revocations() - revocations,
            }


def _wait_until_both_have_one(one: Member, other: Member) -> tuple[list[int], list[int]]:
    def have_one() -> bool:
        return len(one.partitions()) == len(other.partitions()) == 1

    _wait("each of two members has a partition", have_one)
    return one.partitions(), other.partitions()


def _wait(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {SECONDS_MAX:g} s still not: {what}")
        time.sleep(POLL_SECONDS)


class _Told:
    """What a member has, as its client tells it from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: list[int] = []
        self._revocations = 0

    def partitions(self) -> list[int]:
        with self._lock:
            return sorted(self._partitions)

    def revocations(self) -> int:
        return self._revocations

    def assigned(self, partitions: list[int]) -> None:
        with self._lock:
            self._partitions = partitions

    def gained(self, partitions: list[int]) -> None:
        """Add to what it has."""
        self.assigned(self.partitions() + partitions)

    def revoked(self, partitions: list[int] | None = None) -> None:
        """Take partitions away; None: all."""
        with self._lock:
            kept = [one for one in self._partitions if one not in (partitions or self._partitions)]
            self._revocations += kept != self._partitions
            self._partitions = kept


class Polls(_Told):
    """A member that a thread polls, as an application does.

    run: opens the client's consumer, tells `assigned` and `revoked`, polls while `is_open`, and closes it.
    """

    def __init__(self, run: Callable[[Polls], None]) -> None:
        super().__init__()
        self._closing = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()

    def partitions(self) -> list[int]:
        if self._failure is not None:
            raise RuntimeError(f"a member ended: {self._failure}") from self._failure
        return super().partitions()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(SECONDS_MAX)
        if self._thread.is_alive():
            raise TimeoutError(f"a member did not close in {SECONDS_MAX:g} s")

    @property
    def is_open(self) -> bool:
        return not self._closing.is_set()

    def _run(self, run: Callable[[Polls], None]) -> None:
        try:
            run(self)
        except BaseException as failure:
            self._failure = failure


class Prints(_Told):
    """A member that is a command, which prints what it has. It ends on SIGINT or SIGTERM.

    read: told each line that the command prints on standard output and error, and this member.
    """

    def __init__(
        self,
        command: Sequence[str],
        read: Callable[[str, Prints], None],
        *,
        end: signal.Signals = signal.SIGINT,
    ) -> None:
        super().__init__()
        self._end = end
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._process.send_signal(self._end)
        self._process.wait(SECONDS_MAX)
        self._thread.join(SECONDS_MAX)

    def _read(self, read: Callable[[str, Prints], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            read(line, self)
