"""The parts of a coordinator that its handlers answer from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.groups.options import GroupOptions
from coordinator.core.offsets_question import OffsetsQuestion
from springtide.node.handlers.context import NodeContext
from springtide.wire.errors import ErrorCode

MakeRequest = Callable[[int], object]
"""Makes a shard's request from the token that names it."""


class ShardDesk(Protocol):
    """The shards of one coordinator topic in this process, as handlers reach them."""

    def submit(self, shard: int, make: MakeRequest, answered: Callable[[object], None]) -> None:
        """Have the shard answer make(token).

        answered: called once, on the loop, now or later, with the machine's reply or an ErrorCode:
        NOT_COORDINATOR at once where the shard is not this process's, COORDINATOR_LOAD_IN_PROGRESS while it
        opens.
        """

    def owned(self) -> Sequence[int]:
        """Return the shards that this process owns."""


class TransactionDesk(Protocol):
    """The coordinators of transactions, as handlers reach them."""

    def ask(self, question: OffsetsQuestion, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` once, on the loop: NONE if the partition is in the transaction."""


@dataclass(slots=True, kw_only=True)
class CoordinatorContext(NodeContext):
    """The objects that handlers of a coordinator use, beside those of every process."""

    #: Of groups.
    shards: ShardDesk
    group_options: GroupOptions
    #: Of transactional ids.
    transactions: ShardDesk
    #: Asks other coordinators about transactions.
    transaction_link: TransactionDesk
    #: A fresh UUID's text, the end of a new member's id.
    new_member_suffix: Callable[[], str]
