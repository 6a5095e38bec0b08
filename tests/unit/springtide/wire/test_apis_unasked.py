"""Versions in which processes of a cluster ask each other without having asked for ApiVersions."""

from __future__ import annotations

from admin_api.records.room import brokers
from controller.shell.group_messages import VERSIONS
from coordinator.shell import log_client, log_ends
from springtide.wire.apis import REPLICA_FETCH_VERSION, REPLICA_FETCH_VERSIONS, ApiKey
from springtide.wire.client import API_VERSIONS_VERSION

SERVED_BEFORE = {
    ApiKey.PRODUCE: range(3, 14),
    ApiKey.FETCH: range(4, 19),
    ApiKey.LIST_OFFSETS: range(12),
    ApiKey.METADATA: range(14),
    ApiKey.OFFSET_COMMIT: range(2, 11),
    ApiKey.OFFSET_FETCH: range(1, 11),
    ApiKey.FIND_COORDINATOR: range(7),
    ApiKey.LIST_GROUPS: range(6),
    ApiKey.DESCRIBE_GROUPS: range(7),
    ApiKey.DELETE_GROUPS: range(3),
    ApiKey.DELETE_RECORDS: range(3),
    ApiKey.OFFSET_DELETE: range(1),
    ApiKey.INIT_PRODUCER_ID: range(6),
    ApiKey.DESCRIBE_PRODUCERS: range(1),
    ApiKey.API_VERSIONS: range(5),
    ApiKey.SASL_HANDSHAKE: range(2),
    ApiKey.SASL_AUTHENTICATE: range(3),
}
"""By 0.2, the release before: the next one takes the table of 0.3 (springtide/wire/apis.py)."""
OF_NEWER_LEVELS = {
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
}
"""Asked only in clusters at levels that the release before does not have: none of its processes is there."""


def test_what_is_asked_unasked_is_served_by_the_release_before() -> None:
    """A version may be asked so a release after its servers know it."""
    asked = [
        (ApiKey.FETCH, REPLICA_FETCH_VERSION),
        (ApiKey.PRODUCE, log_client.PRODUCE_VERSION),
        (ApiKey.LIST_OFFSETS, log_ends.VERSION),
        (ApiKey.FETCH, brokers._FETCH_VERSION),
        (ApiKey.LIST_OFFSETS, brokers._LIST_OFFSETS_VERSION),
        (ApiKey.API_VERSIONS, API_VERSIONS_VERSION),
        *((key, version) for key, version in VERSIONS.items() if key not in OF_NEWER_LEVELS),
    ]
    assert [one for one in asked if one[1] not in SERVED_BEFORE[one[0]]] == []


def test_followers_speak_a_version_that_leaders_of_the_release_before_serve() -> None:
    assert set(REPLICA_FETCH_VERSIONS) & set(SERVED_BEFORE[ApiKey.FETCH])
