"""When a send that was not acknowledged is `fail`, and when only `info` is honest.

`fail` claims that the record is in no log and never will be. That holds only if every attempt was refused
before the broker appended anything. An attempt without an answer may still be on its way; an answer that a
broker also gives to a produce that *waits* (it was appended, and may survive) proves nothing. Among those is
NOT_LEADER_OR_FOLLOWER: a leader that resigns answers the waiting produces with it, here and in Apache Kafka
(DelayedProduce), so it is not the refusal that its name suggests.
"""

from __future__ import annotations

from collections.abc import Iterable

from .history import Outcome

OK = "NONE"

NO_ANSWER = ""
"""An attempt that timed out, or whose connection broke."""

REFUSED_BEFORE_APPEND = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "CORRUPT_MESSAGE",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_RECORD",
        "INVALID_REQUIRED_ACKS",
        "INVALID_TIMESTAMP",
        "INVALID_TOPIC_EXCEPTION",
        "MESSAGE_TOO_LARGE",
        "NOT_ENOUGH_REPLICAS",  # the one after the append has a name of its own
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "POLICY_VIOLATION",
        "PRODUCER_FENCED",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "UNSUPPORTED_VERSION",
    }
)
"""Answers (by Kafka's names) that a broker gives before it has written anything, and never afterwards."""


def outcome_of_send(attempts: Iterable[str]) -> Outcome:
    """What to write of a send whose attempts were answered so, in order.

    attempts: for each request that may have left the client the error's name, OK, or NO_ANSWER. None at all
    means that the client gave the record up before it sent anything: that is a `fail`.
    """
    told = list(attempts)
    if OK in told:
        return Outcome.OK
    return Outcome.FAIL if all(answer in REFUSED_BEFORE_APPEND for answer in told) else Outcome.INFO
