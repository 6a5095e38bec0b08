"""A process's count of its heartbeats, by which it finds out that it went back (docs/replication.md 3.10, a
host that goes back).

A host that is resumed from a snapshot has an old count like everything else, so it states less than the
controller has heard of it. Each broker also keeps what the controller has heard of a few others: if the
controller is replaced, its successor learns that from them.
"""

from __future__ import annotations

from springtide.contract.session import Heard, HeartbeatResponse


class Heartbeats:
    """sent: how many. answered: the number of the last one that was acknowledged. others: the controller's
    counts of other brokers' heartbeats, kept for its successor."""

    __slots__ = ("answered", "others", "sent")

    def __init__(self, *, sent: int = 0, answered: int = -1) -> None:
        self.sent = sent
        self.answered = answered
        self.others: tuple[Heard, ...] = ()

    def next(self) -> int:
        """Return the number of a heartbeat that is about to be sent."""
        self.sent += 1
        return self.sent

    def proof(self, response: HeartbeatResponse, *, wants_shutdown: bool) -> str | None:
        """Return the proof that this process went back, in words for an operator, or None.

        Each of these numbers only grows in a process's life, so a late answer proves nothing.
        wants_shutdown: whether this process asks for leave now.
        """
        if response.heard_count > self.sent:
            return (
                f"the controller has heard {response.heard_count} heartbeats of this process, which has sent "
                f"{self.sent}"
            )
        if response.heard_answered > self.answered:
            return (
                f"this process reported that heartbeat {response.heard_answered} was answered, and remembers "
                f"answers up to {self.answered}"
            )
        if response.has_gone_back:
            return "other brokers heard something else from this process than it says"
        if response.has_asked_to_stop and not wants_shutdown:
            return "this process asked for leave to stop, and does not remember it"
        return None

    def on_answer(self, number: int, response: HeartbeatResponse) -> None:
        """Take in the acknowledgement of heartbeat `number`."""
        self.answered = max(self.answered, number)
        known = {each.broker_id: each for each in self.others}
        self.others = tuple(_later(known.get(each.broker_id), each) for each in response.others)


def _later(before: Heard | None, now: Heard) -> Heard:
    if before is not None and (before.broker_epoch, before.count) > (now.broker_epoch, now.count):
        return before
    return now
