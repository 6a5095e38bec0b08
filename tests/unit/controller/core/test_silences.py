from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.core.silences import Silence, Subject, silence_of

LEADERLESS = Subject(code="partition_leaderless", topic="orders", topic_id="T", partition=0)


def silence(name: str = "sil_1", until_ms: int = 10, **fields: Any) -> Silence:
    empty = {"code": None, "topic": None, "partition": None, "broker_id": None, "group_id": None}
    empty |= {"transactional_id": None, "producer_id": None}
    found = {"id": name, "cluster": "prod", "reason": "r", "actor": "a", "created_at_ms": 0}
    return msgspec.convert(found | empty | {"until_ms": until_ms} | fields, Silence)


@pytest.mark.parametrize(
    ("fields", "is_silenced"),
    [
        ({"code": "partition_leaderless"}, True),
        ({"code": "broker_fenced"}, False),
        ({"topic": "orders"}, True),
        ({"topic": "orders", "partition": 0}, True),
        ({"topic": "orders", "partition": 1}, False),
        ({"code": "partition_leaderless", "topic": "payments"}, False),
        ({"broker_id": 3}, False),
        ({"group_id": "g"}, False),
        ({"transactional_id": "pay-1"}, False),
        ({"producer_id": 7}, False),
    ],
)
def test_all_that_a_silence_names_must_be_the_alarms(fields: dict[str, Any], is_silenced: bool) -> None:
    assert (silence_of([silence(**fields)], LEADERLESS, 9) is not None) == is_silenced


def test_it_ends_by_itself() -> None:
    assert silence_of([silence(code=LEADERLESS.code)], LEADERLESS, 10) is None


def test_the_longest_is_shown() -> None:
    found = [
        silence("a", 5, topic="orders"),
        silence("b", 9, topic="orders"),
        silence("c", 7, topic="orders"),
    ]
    shown = silence_of(found, LEADERLESS, 0)
    assert shown is not None
    assert shown.id == "b"


def test_a_number_of_alarms_is_silenced_by_their_code_alone() -> None:
    more = Subject(code="partition_leaderless", is_more=True)
    assert silence_of([silence(topic="orders"), silence(broker_id=3)], more, 0) is None
    assert silence_of([silence(code="partition_leaderless", topic="orders")], more, 0) is None
    assert silence_of([silence(code="partition_leaderless")], more, 0) is not None


def test_one_transactions_alarm_is_silenced_by_its_id() -> None:
    lingers = Subject(code="transaction_lingers", transactional_id="pay-1")
    assert silence_of([silence(transactional_id="pay-1")], lingers, 0) is not None
    assert silence_of([silence(transactional_id="pay-2"), silence(group_id="pay-1")], lingers, 0) is None


def test_the_alarm_of_a_transaction_that_hangs_is_silenced_by_its_producer() -> None:
    hangs = Subject(code="transaction_hangs", producer_id=7)
    assert silence_of([silence(producer_id=7)], hangs, 0) is not None
    assert silence_of([silence(code="transaction_hangs", producer_id=7)], hangs, 0) is not None
    assert silence_of([silence(producer_id=8), silence(transactional_id="7")], hangs, 0) is None
