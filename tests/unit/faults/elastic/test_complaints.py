from __future__ import annotations

from tests.faults.elastic.complaints import complaints, not_retriable, records_read
from tests.faults.elastic.killing import milestones

LOG = """%7|1|DRAIN|rdkafka#producer-1| whatever
reader-1: 17 read; complaints: {'KafkaError{code=_TRANSPORT,val=-195,str="down"}': 2, 'no code': 1}
"""


def test_complaints_are_counted_by_code_and_what_has_none_stands_for_itself() -> None:
    found = complaints([LOG, LOG, "producer: 3 sent, 0 never answered\n"])
    assert found == {"_TRANSPORT": 4, "no code": 2}
    assert not_retriable(found) == ["no code"]
    assert not_retriable({"_TRANSPORT": 1, "OFFSET_OUT_OF_RANGE": 1}) == ["OFFSET_OUT_OF_RANGE"]


def test_only_a_consumer_says_how_much_it_read() -> None:
    assert records_read(LOG) == 17
    assert records_read("producer: 3 sent, 0 never answered\n") is None


def test_what_an_operation_has_reached() -> None:
    operation = {
        "kind": "broker_add",
        "steps": [
            {"name": "preflight", "state": "succeeded"},
            {"name": "plan", "state": "skipped"},
            {"name": "move", "state": "running"},
            {"name": "elect", "state": "pending"},
        ],
        "progress": {"moves_total": 36, "moves_done": 18},
    }
    assert milestones(operation) == ["broker_add: preflight", "broker_add: move", "broker_add: 50 % moved"]
