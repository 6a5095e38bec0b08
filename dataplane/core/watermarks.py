"""The high watermark: the offset below which every record is committed.

Two rules live here, and nothing else may move the value:

- `committable_offset`: what the followers that must be waited for have fetched *in this leader epoch* (I3,
  only this epoch's evidence counts). An unknown position counts as "nothing yet", never as an old one: a
  leader that reused what a follower had in an earlier epoch could acknowledge records that the follower has
  since truncated (S7, an epoch in between was missed).
- `HighWatermark`: the value itself; it never goes back except with a truncation of the log under it, and
  log_start_offset <= high watermark <= log_end_offset holds after every step (I26, start, high watermark and
  end in order).

Whether it *may* move (committed ISR at least the minimum, lease held) is the leader's to ask before it calls.

Beside it stands the log start, as far as it is durable (I37, what a client deleted stays deleted).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

UNKNOWN_OFFSET = -1


class _Fetcher(Protocol):
    log_end_offset: int


class _LogEnds(Protocol):
    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...


def committable_offset(log_end_offset: int, waited_for: Iterable[_Fetcher]) -> int:
    """The lowest log end of the leader and of those it waits for; UNKNOWN_OFFSET if one is not known."""
    for follower in waited_for:
        log_end_offset = min(log_end_offset, follower.log_end_offset)
    return log_end_offset


class HighWatermark:
    """Exclusive: `offset` is one past the last committed record."""

    __slots__ = ("_log", "offset")

    def __init__(self, log: _LogEnds, *, checkpointed: int) -> None:
        self._log = log
        self.offset = checkpointed
        self.on_log_cut()

    def raise_to(self, offset: int) -> bool:
        """Raise it; return whether it moved. A lower offset changes nothing: what is committed stays so."""
        if offset <= self.offset:
            return False
        assert offset <= self._log.log_end_offset, (offset, self._log.log_end_offset)
        self.offset = offset
        return True

    def on_log_cut(self) -> None:
        """The log's end went down, or its start went up over us: stay within it."""
        self.offset = max(self._log.log_start_offset, min(self.offset, self._log.log_end_offset))

    def restart_at(self, offset: int) -> None:
        """The log was emptied and starts over here (KAFKA-9491: log start *and* high watermark move)."""
        self.offset = offset
        assert self._log.log_start_offset <= offset <= self._log.log_end_offset


class StoredLogStart:
    """The log start that this replica has again after a crash, and so may tell its leader or a client.

    What a log has when it is opened is stored already. After that a higher one counts once the shell has
    stored it; a lower one, of a log that started over, counts at once.
    """

    __slots__ = ("_asked_offset", "_log", "_offset")

    def __init__(self, log: _LogEnds) -> None:
        self._log = log
        self._offset = self._asked_offset = log.log_start_offset

    @property
    def offset(self) -> int:
        return min(self._offset, self._log.log_start_offset)

    def must_store(self) -> bool:
        """Return whether the log start moved up since this was asked last."""
        start_offset = self._log.log_start_offset
        is_news = start_offset > self._asked_offset
        self._asked_offset = max(self._asked_offset, start_offset)
        return is_news

    def on_stored(self, offset: int) -> None:
        self._offset = max(self._offset, offset)

    def restart_at(self, offset: int) -> None:
        """The log was emptied and starts over here."""
        self._offset = min(self._offset, offset)
        self._asked_offset = min(self._asked_offset, offset)
