"""What is told of topics that clients ask for and that are not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

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
    assert "client_id= principal" in caplog.text
