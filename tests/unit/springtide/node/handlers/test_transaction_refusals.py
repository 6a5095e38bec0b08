"""APIs of transactions on brokers, in every version: each answer has the refusal in its shape."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from dataplane.handlers.table import HANDLERS
from springtide.levels import TRANSACTIONS, UNTOLD, Level
from springtide.wire import codec
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.asking import answer_of, error_codes, fields_of
from tests.kit.springtide.random_message import random_message

REFUSED = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_TRANSACTIONS,
)
EACH = [
    (key, version) for key in REFUSED for version in range(APIS[key].version_min, APIS[key].version_max + 1)
]
BEFORE = Level(TRANSACTIONS.since - 1)


def ask(key: int, version: int, *, level: Level = TRANSACTIONS.since, **fields: Any) -> Any:
    context = SimpleNamespace(level=lambda: level, is_view_complete=lambda: level != UNTOLD)
    return answer_of(HANDLERS[key], key, version, fields, context=context)


@pytest.mark.parametrize(
    ("level", "error"),
    [
        (TRANSACTIONS.since, ErrorCode.NOT_COORDINATOR),
        (BEFORE, ErrorCode.UNSUPPORTED_VERSION),
        (UNTOLD, ErrorCode.NOT_COORDINATOR),
    ],
)
@pytest.mark.parametrize(("key", "version"), EACH)
def test_any_request_is_refused_by_its_level(
    key: ApiKey, version: int, level: Level, error: ErrorCode
) -> None:
    told: set[int] = set()
    for seed in range(20):
        asked = random_message(codec.request_type(key, version), random.Random(seed))
        told |= error_codes(ask(key, version, level=level, **fields_of(asked)))
    assert told == {error}


@pytest.mark.parametrize("version", range(APIS[ApiKey.INIT_PRODUCER_ID].version_max + 1))
def test_a_producer_with_a_transactional_id_is_sent_to_its_coordinator(version: int) -> None:
    answer = ask(ApiKey.INIT_PRODUCER_ID, version, transactional_id="payments", transaction_timeout_ms=1)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (16, -1, -1)


def test_each_thing_that_was_named_has_its_error() -> None:
    partitions = [{"partition_index": 3, "committed_offset": 1}]
    (topic,) = ask(ApiKey.TXN_OFFSET_COMMIT, 5, topics=[{"name": "t", "partitions": partitions}]).topics
    assert (topic.name, topic.partitions[0].partition_index) == ("t", 3)
    added = [{"name": "t", "partitions": [3]}]
    answer = ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_topics=added)
    (topic,) = answer.results_by_topic_v3_and_below
    assert (topic.name, topic.results_by_partition[0].partition_index) == ("t", 3)
    several = [{"transactional_id": "a", "topics": [{"name": "t", "partitions": [3]}]}]
    answer = ask(ApiKey.ADD_PARTITIONS_TO_TXN, 4, transactions=several)
    (one,) = answer.results_by_transaction
    assert (one.transactional_id, one.topic_results[0].name, answer.error_code) == ("a", "t", 16)
    told = ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["a", "b"]).transaction_states
    assert [(state.transactional_id, state.error_code) for state in told] == [("a", 16), ("b", 16)]
