"""The parts of a coordinator that its handlers answer from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.groups.requests import Request
from springtide.node.handlers.context import NodeContext

MakeRequest = Callable[[int], Request]
"""Makes a shard's request from the token that names it."""


class ShardDesk(Protocol):
    """The shards of this process, as handlers reach them."""

    def submit(self, shard: int, make: MakeRequest, answered: Callable[[object], None]) -> None:
        """Have the shard of `__consumer_offsets` answer make(token).

        answered: called once, on the loop, now or later, with the machine's reply or an ErrorCode:
        NOT_COORDINATOR at once where the shard is not this process's, COORDINATOR_LOAD_IN_PROGRESS while it
        opens.
        """

    def owned(self) -> Sequence[int]:
        """Return the shards that this process owns."""


@dataclass(slots=True, kw_only=True)
class CoordinatorContext(NodeContext):
    """The objects that handlers of a coordinator use, beside those of every process."""

    shards: ShardDesk
    #: A fresh UUID's text, the end of a new member's id.
    new_member_suffix: Callable[[], str]
