"""What clients complained of while they went on, from the logs of their processes. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

_COMPLAINTS = re.compile(r"^\S+: (\d+) read; complaints: (\{.*\})$", re.MULTILINE)
_CODE = re.compile(r"code=([A-Z_0-9]+)")

RETRIABLE = frozenset(
    {
        "_ALL_BROKERS_DOWN",
        "_TIMED_OUT",
        "_TRANSPORT",
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PART",
        "_UNKNOWN_PARTITION",
        "_WAIT_CACHE",
    }
)
"""librdkafka's names of what it, or Kafka, calls retriable: a look at fresh metadata, and another try."""


def complaints(logs: Iterable[str]) -> dict[str, int]:
    """By the error's code, how often consumers complained; a complaint without one stands for itself."""
    found: dict[str, int] = {}
    for log in logs:
        for _, told in _COMPLAINTS.findall(log):
            for text, times in ast.literal_eval(told).items():
                code = _CODE.search(text)
                name = code[1] if code else text
                found[name] = found.get(name, 0) + times
    return found


def not_retriable(found: Mapping[str, int]) -> list[str]:
    return sorted(set(found) - RETRIABLE)


def records_read(log: str) -> int | None:
    """By a consumer, as it said when it ended; None: it is none, or did not end well."""
    told = _COMPLAINTS.search(log)
    return int(told[1]) if told else None
