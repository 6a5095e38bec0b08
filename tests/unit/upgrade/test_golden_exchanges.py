"""This release reads what processes of the last one say to each other, and says it in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from springtide.contract.administration import AdminRequest, AdminResponse
from springtide.contract.lag_report import LagReport, LagReportResponse
from springtide.contract.preflight import PreflightReport, PreflightResponse
from springtide.contract.session import (
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
)
from springtide.contract.updates import (
    NameWriterRequest,
    NameWriterResponse,
    PollRequest,
    ProducerIdsRequest,
    ProducerIdsResponse,
    UpdateBatch,
)
from springtide.levels import Level
from tests.upgrade.golden.files import Exchange, Golden, kept_levels
from tests.upgrade.tolerances import NEW

TYPES: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "register": (RegisterRequest, RegisterResponse),
    "heartbeat": (HeartbeatRequest, HeartbeatResponse),
    "poll": (PollRequest, UpdateBatch),
    "report": (LagReport, LagReportResponse),
    "name-writer": (NameWriterRequest, NameWriterResponse),
    "allocate-producer-ids": (ProducerIdsRequest, ProducerIdsResponse),
    "preflight": (PreflightReport, PreflightResponse),
    "administer": (AdminRequest, AdminResponse),
}
EXCHANGES = {level: Golden(level).exchanges() for level in kept_levels()}
TOLD_IN_ADDITION = {name.partition(".")[2] for name in NEW if "." in name}
"""Fields that a process of the last release ignores."""


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Return where an encoded body is another, but for the fields that are told in addition."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted(before.keys() | now.keys()):
            if name not in before and name in TOLD_IN_ADDITION:
                continue
            if name in before and name in now:
                yield from differences(before[name], now[name], f"{place}.{name}")
            else:
                yield f"{place}.{name}"
        if [name for name in now if name in before] != list(before):
            yield f"{place}: order"
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif before != now or type(before) is not type(now):
        yield f"{place}: {before} is {now}"


@pytest.mark.parametrize("level", EXCHANGES)
@pytest.mark.parametrize("verb", TYPES)
def test_each_body_is_read_and_said_again_in_the_same_words(verb: str, level: Level) -> None:
    of_verb = [each for each in EXCHANGES[level] if each.verb == verb]
    asked, answered = TYPES[verb]
    for each in of_verb:
        for text, kind in ((each.request, asked), (each.answer, answered)):
            again = msgspec.json.encode(msgspec.json.decode(text, type=kind))
            assert list(differences(msgspec.json.decode(text), msgspec.json.decode(again))) == []


@pytest.mark.parametrize("level", EXCHANGES)
def test_the_exchanges_have_what_a_clusters_life_has(level: Level) -> None:
    verbs = {each.verb for each in EXCHANGES[level]}
    assert verbs <= TYPES.keys()
    assert {"register", "heartbeat", "poll", "report", "preflight", "allocate-producer-ids"} <= verbs
    assert {each.path.split("/")[4] for each in EXCHANGES[level]} == {"brokers", "coordinators"}


def test_a_difference_is_seen() -> None:
    exchange = Exchange("x:poll", '{"a":1,"b":[{"c":2}]}', 200, "")
    before = msgspec.json.decode(exchange.request)
    assert list(differences(before, {"b": [{"c": 3}], "a": 1, "new": 0})) == [
        ".b[0].c: 2 is 3",
        ".new",
        ": order",
    ]
