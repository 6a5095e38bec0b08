from __future__ import annotations

from tests.faults.elastic.complaints import complaints, not_retriable

LOG = """%7|1|DRAIN|rdkafka#producer-1| whatever
reader-1: 17 read; complaints: {'KafkaError{code=_TRANSPORT,val=-195,str="down"}': 2, 'no code': 1}
"""


def test_complaints_are_counted_by_code_and_what_has_none_stands_for_itself() -> None:
    found = complaints([LOG, LOG, "producer: 3 sent, 0 never answered\n"])
    assert found == {"_TRANSPORT": 4, "no code": 2}
    assert not_retriable(found) == ["no code"]
    assert not_retriable({"_TRANSPORT": 1, "OFFSET_OUT_OF_RANGE": 1}) == ["OFFSET_OUT_OF_RANGE"]
