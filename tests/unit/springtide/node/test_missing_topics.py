"""What is told of topics that clients ask for and that are not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from springtide.contract.missing_topics import MISSING_TOLD_MAX, OTHERS, MissingTopic
from springtide.node.missing_topics import HOUR_MS, NAMES_MAX, TOLD_AT, MissingTopics

APP: Any = SimpleNamespace(
    software="librdkafka 2.6.1", client_id="rsyslog", principal="User:app", peer="10.0.0.7"
)


def test_a_name_that_is_asked_for_again_and_again_is_a_line_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    missing = MissingTopics()
    for now_ms in range(0, HOUR_MS + 1_000, 1_000):
        missing.note("lines", APP, now_ms=now_ms)
    who = "software=librdkafka 2.6.1 client_id=rsyslog principal=User:app peer=10.0.0.7"
    first = f"topic_missing topic=lines asked=3 hour_before=0 {who}"
    assert caplog.messages == [first]
    for now_ms in range(HOUR_MS + 1_000, HOUR_MS + 9_000, 1_000):
        missing.note("lines", APP, now_ms=now_ms)
    assert caplog.messages == [first, first.replace("hour_before=0", "hour_before=3600")]


def test_who_only_looks_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    missing = MissingTopics()
    for number in range(50):
        for _ in range(TOLD_AT - 1):
            missing.note(f"t{number}", APP, now_ms=0)
    assert caplog.messages == []


def test_strangers_cannot_fill_memory_or_log(caplog: pytest.LogCaptureFixture) -> None:
    missing = MissingTopics()
    for number in range(5 * NAMES_MAX):
        for _ in range(TOLD_AT):
            missing.note(f"made-up-{number}", APP, now_ms=0)
    assert len(caplog.messages) == NAMES_MAX + 1
    assert "topic=(others) asked=3" in caplog.messages[-1]
    caplog.clear()
    for _ in range(TOLD_AT):
        missing.note("lines", APP, now_ms=HOUR_MS)
    (line,) = caplog.messages
    assert "topic=lines asked=3" in line, "the names of an hour ago have made place"


def test_a_client_without_an_id_is_told_without(caplog: pytest.LogCaptureFixture) -> None:
    missing = MissingTopics()
    nobody: Any = SimpleNamespace(
        software="unknown", client_id=None, principal="User:ANONYMOUS", peer="10.0.0.7"
    )
    for _ in range(TOLD_AT):
        missing.note("lines", nobody, now_ms=0)
    assert "client_id= principal" in caplog.messages[0]


def test_the_controller_is_told_as_long_as_a_name_is_asked_for() -> None:
    missing = MissingTopics()
    assert missing.told(now_ms=0, wall_ms=5_000_000) == ()
    for now_ms in (0, 1_000, 2_000):
        missing.note("lines", APP, now_ms=now_ms)
        missing.note(f"looked-at-{now_ms}", APP, now_ms=now_ms)
    lines = MissingTopic(
        topic="lines",
        asked=3,
        since_ms=5_000_000,
        last_ms=5_002_000,
        client_id="rsyslog",
        software="librdkafka 2.6.1",
    )
    assert missing.told(now_ms=2_500, wall_ms=5_002_500) == (lines,)
    assert missing.told(now_ms=2_000 + HOUR_MS, wall_ms=0) == ()
    missing.note("lines", APP, now_ms=3_000 + HOUR_MS)
    (again,) = missing.told(now_ms=3_000 + HOUR_MS, wall_ms=5_003_000 + HOUR_MS)
    assert (again.asked, again.since_ms) == (4, 5_000_000), "what was counted in the hour before counts"


def test_the_controller_is_told_of_a_few_names_that_are_asked_for_most() -> None:
    missing = MissingTopics()
    for number in range(5 * NAMES_MAX):
        for _ in range(TOLD_AT + (number == 7)):
            missing.note(f"made-up-{number}", APP, now_ms=0)
    told = missing.told(now_ms=0, wall_ms=0)
    assert len(told) == MISSING_TOLD_MAX
    assert [(each.topic, each.asked) for each in told[:3]] == [
        (OTHERS, 4 * NAMES_MAX * TOLD_AT),
        ("made-up-7", TOLD_AT + 1),
        ("made-up-0", TOLD_AT),
    ]
