"""What a process counts of its heartbeats, and how it learns from an answer that it went back (3.10).

A host that is resumed from a snapshot takes this count back with everything else, so it says less than was
heard of it. Each broker also keeps what the controller has heard of a few others: if the controller is
replaced, its successor learns that from them.
"""

from __future__ import annotations

from controller.contract.session import Heard, HeartbeatResponse


class Heartbeats:
    """sent: how many. answered: the number of the last one that was acknowledged. others: what the controller
    has told of other brokers' heartbeats, to be told to its successor."""

    __slots__ = ("answered", "others", "sent")

    def __init__(self, *, sent: int = 0, answered: int = -1) -> None:
        self.sent = sent
        self.answered = answered
        self.others: tuple[Heard, ...] = ()

    def next(self) -> int:
        """The number of a heartbeat that is about to be sent."""
        self.sent += 1
        return self.sent

    def proof(self, response: HeartbeatResponse, *, wants_shutdown: bool) -> str | None:
        """Why this process must have gone back, for an operator; None if nothing says so. Each of these only
        grows in a process's life, so an answer that was late proves nothing wrong. wants_shutdown: now."""
        if response.heard_count > self.sent:
            return (
                f"the controller has heard {response.heard_count} heartbeats of this process, which has sent "
                f"{self.sent}"
            )
        if response.heard_answered > self.answered:
            return (
                f"this process told that heartbeat {response.heard_answered} was answered, and remembers "
                f"answers up to {self.answered}"
            )
        if response.has_gone_back:
            return "what other brokers were told of this process is not what it says"
        if response.has_asked_to_stop and not wants_shutdown:
            return "this process asked for leave to stop, and does not remember it"
        return None

    def on_answer(self, number: int, response: HeartbeatResponse) -> None:
        """Heartbeat `number` was acknowledged."""
        self.answered = max(self.answered, number)
        known = {each.broker_id: each for each in self.others}
        self.others = tuple(_later(known.get(each.broker_id), each) for each in response.others)


def _later(before: Heard | None, now: Heard) -> Heard:
    if before is not None and (before.broker_epoch, before.count) > (now.broker_epoch, now.count):
        return before
    return now
