"""The features that Kafka clients are told of, and what may be asked for."""

from __future__ import annotations

import pytest

from springtide import kafka_features
from springtide.kafka_features import (
    LEVEL,
    KafkaFeature,
    ToldFeature,
    refusal_of_update,
    told_features,
)
from springtide.levels import CONSUMER_GROUPS, NEWEST, RELEASES, SUPPORTED, TRANSACTIONS, Level

BEFORE = SUPPORTED.lowest


@pytest.mark.parametrize("level", [SUPPORTED.lowest, SUPPORTED.highest])
def test_the_level_is_told_and_nothing_that_is_not_served(level: Level) -> None:
    assert told_features(level) == (
        ToldFeature(LEVEL, BEFORE, NEWEST, level),
        ToldFeature("group.version", 0, 1, 1 if level >= CONSUMER_GROUPS.since else 0),
        ToldFeature("transaction.version", 0, 2, 2 if level >= TRANSACTIONS.since else 0),
    )


def test_a_feature_is_told_as_far_as_the_level_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    served = (KafkaFeature("group.version", since=(Level(1),)), KafkaFeature("transaction.version"))
    monkeypatch.setattr(kafka_features, "KAFKA_FEATURES", served)
    assert told_features(Level(0))[1:] == (ToldFeature("group.version", 0, 1, 0),)
    assert told_features(Level(1))[1:] == (ToldFeature("group.version", 0, 1, 1),)
    refused = refusal_of_update("group.version", 1, Level(0))
    assert refused is not None
    assert refused.text == "group.version follows springtide.level: at level 0, version 0 of it is served"


@pytest.mark.parametrize(
    ("name", "version", "level", "words"),
    [
        (LEVEL, BEFORE, NEWEST, "a level never falls"),
        (
            LEVEL,
            NEWEST + 1,
            BEFORE,
            f"release {RELEASES[NEWEST]} supports levels up to {NEWEST}: upgrade each",
        ),
        ("group.version", 1, 2, "at level 2, version 0 of it is served"),
        ("transaction.version", 2, 1, "at level 1, version 0 of it is served"),
        ("metadata.version", 25, 1, "this cluster has no feature 'metadata.version'"),
        ("", 1, 1, "no feature ''"),
    ],
)
def test_what_can_not_be_is_refused_with_the_reason(name: str, version: int, level: int, words: str) -> None:
    refused = refusal_of_update(name, version, Level(level))
    assert refused is not None
    assert words in refused.text
    assert not refused.is_possible


def test_what_an_administrator_may_do_names_the_command() -> None:
    refused = refusal_of_update(LEVEL, NEWEST, BEFORE)
    assert refused is not None and refused.is_possible
    assert "`springtide upgrade finalize`" in refused.text


def test_what_is_so_already_is_no_refusal() -> None:
    assert refusal_of_update(LEVEL, 1, Level(1)) is None
    assert refusal_of_update("share.version", 0, Level(1)) is None
    assert refusal_of_update("transaction.version", 2, TRANSACTIONS.since) is None
