"""What a follower or a consumer asks of one partition: values.

They say who asks and from which position on, and how much room the answer has. Each evaluation of a fetch
makes one anew from its session (fetch_session.py), and hands it to the replica's role with the time.
"""

from __future__ import annotations

import msgspec

from dataplane.core.fetch_session import Contact, FetchPosition
from dataplane.core.transactions import IsolationLevel
from springtide.contract.epochs import BrokerEpoch
from springtide.wire.fetch_request import LogMark


class ReplicaFetch(msgspec.Struct, frozen=True):
    """A follower's fetch of one partition.

    position: its log's end, its newest epoch, the log start that it has stored; `wants_producers` in it: it
        must know of producers below its offset before it counts as a copy (6.10, a copy knows its producers);
        the answer tells, and this fetch is no evidence of anything.
    max_bytes: the room left in the answer, at most the position's. at_least_one: give the first batch even
        beyond that (only for the first partition with data of an answer).
    contact: that of its fetch session. mark: what it holds before its position, if it begins here.
    """

    replica_id: int
    broker_epoch: BrokerEpoch
    position: FetchPosition
    max_bytes: int
    at_least_one: bool = True
    contact: Contact | None = None
    mark: LogMark | None = None


class ConsumerFetch(msgspec.Struct, frozen=True):
    """A consumer's fetch of one partition; epochs of the position are -1 if it states none.

    max_bytes, at_least_one: as in ReplicaFetch. is_debugging: the client wants to see what this very replica
        has on its disk, in sync or not. isolation: a reader of committed records gets none at or beyond the
        last stable offset, and is told which transactions were aborted.
    """

    position: FetchPosition
    max_bytes: int
    at_least_one: bool = True
    is_debugging: bool = False
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
