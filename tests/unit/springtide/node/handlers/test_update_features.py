"""UpdateFeatures and the features in ApiVersions, in every version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from springtide.levels import CONSUMER_GROUPS, NEWEST, SUPPORTED, TRANSACTIONS, Level
from springtide.node.handlers import api_versions, update_features
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.asking import answer_of

KEY = ApiKey.UPDATE_FEATURES
VERSIONS = range(APIS[KEY].version_max + 1)
FINALIZE = "springtide upgrade finalize"


def update(
    version: int, *updates: tuple[str, int], level: int = SUPPORTED.lowest, is_complete: bool = True
) -> Any:
    asked = {"feature_updates": [{"feature": name, "max_version_level": to} for name, to in updates]}
    context = SimpleNamespace(level=lambda: Level(level), is_view_complete=lambda: is_complete)
    return answer_of(update_features.handle, KEY, version, asked, context=context)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_upgrade_is_not_finalized_by_a_kafka_client_which_is_told_by_what(version: int) -> None:
    answer = update(version, ("springtide.level", NEWEST))
    assert answer.error_code == ErrorCode.FEATURE_UPDATE_FAILED
    assert FINALIZE in answer.error_message


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_has_its_first_refusal_in_each_version(version: int) -> None:
    """As Kafka 4.4.0 answers, which names no results then. Sarama looks at this error alone."""
    answer = update(
        version, ("springtide.level", NEWEST), ("share.version", 1), ("kraft.version", 1), level=NEWEST
    )
    invalid = ErrorCode.INVALID_UPDATE_VERSION
    assert (answer.error_code, answer.error_message[:13]) == (invalid, "share.version")
    assert answer.results == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_where_nothing_is_to_be_done_each_feature_is_told_so(version: int) -> None:
    answer = update(version, ("springtide.level", NEWEST), level=NEWEST)
    told = [(result.feature, result.error_code) for result in answer.results]
    assert (answer.error_code, told) == (
        ErrorCode.NONE,
        [("springtide.level", ErrorCode.NONE)] if version < 2 else [],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_process_that_knows_no_level_yet_says_so(version: int) -> None:
    answer = update(version, ("springtide.level", NEWEST), is_complete=False)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


def told(
    version: int, level: int, *, is_complete: bool = True, software: tuple[str, str] = ("a", "1")
) -> Any:
    name, release = software
    asked = {"client_software_name": name, "client_software_version": release} if version >= 3 else {}
    context = SimpleNamespace(level=lambda: Level(level), is_view_complete=lambda: is_complete)
    return answer_of(api_versions.handle, ApiKey.API_VERSIONS, version, asked, context=context)


@pytest.mark.parametrize("level", list(range(SUPPORTED.lowest, NEWEST + 1)))
def test_clients_are_told_the_level_in_the_versions_that_have_features(level: int) -> None:
    answer = told(4, level)
    supported = [(one.name, one.min_version, one.max_version) for one in answer.supported_features]
    finalized = [(one.name, one.max_version_level) for one in answer.finalized_features]
    assert supported == [
        ("springtide.level", SUPPORTED.lowest, NEWEST),
        ("group.version", 0, 1),
        ("transaction.version", 0, 2),
    ]
    assert finalized == [
        ("springtide.level", level),
        *[("group.version", 1)] * (level >= CONSUMER_GROUPS.since),
        *[("transaction.version", 2)] * (level >= TRANSACTIONS.since),
    ]
    assert answer.finalized_features_epoch == level


def test_who_is_told_version_2_of_transactions_is_told_the_versions_of_requests_that_it_needs() -> None:
    """franz-go 1.21.4: who goes by the feature alone sends what a broker does not know (KIP-890)."""
    answer = told(4, TRANSACTIONS.since)
    assert ("transaction.version", 2) in [
        (one.name, one.max_version_level) for one in answer.finalized_features
    ]
    newest = {one.api_key: one.max_version for one in answer.api_keys}
    assert newest[ApiKey.PRODUCE] >= 12
    assert newest[ApiKey.END_TXN] >= 5
    assert newest[ApiKey.TXN_OFFSET_COMMIT] >= 5


def test_apis_of_consumer_groups_are_listed_at_their_level_and_while_it_is_not_known() -> None:
    """Some clients choose the protocol by the list, and some end if it lacks what they need."""
    ours = {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE}

    def listed(level: int, **known: Any) -> set[int]:
        return {one.api_key for one in told(3, level, **known).api_keys} & ours

    below = CONSUMER_GROUPS.since - 1
    assert listed(CONSUMER_GROUPS.since) == listed(0, is_complete=False) == ours
    assert listed(below) == listed(below, software=("apache-kafka-java", "4.4.0")) == set()
    for librdkafka in (("librdkafka", "2.16.0"), ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")):
        assert listed(below, software=librdkafka) == ours, "it would wait for ever without an error"


def test_clients_of_version_3_are_told_no_feature_that_begins_at_0() -> None:
    """KAFKA-17011: they would refuse the whole answer."""
    answer = told(3, NEWEST)
    assert [one.name for one in answer.supported_features] == ["springtide.level"]
    assert [one.name for one in answer.finalized_features] == [
        "springtide.level",
        "group.version",
        "transaction.version",
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_earlier_versions_have_no_features(version: int) -> None:
    assert not hasattr(told(version, 1), "finalized_features") or told(version, 1).finalized_features == ()
