"""A look over logs in memory: which records it shows, where it stops, and what it says of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from admin_api.records.models import RecordList
from admin_api.records.room.questions import EARLIEST, AskedLog, LookRefusal, LookSummary, RecordLook
from admin_api.records.room.reading import (
    LATEST,
    BatchTooLarge,
    BrokerLost,
    Reading,
)
from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import FetchedPartition
from springtide.wire.questions import ListedOffset, Place
from springtide.wire.record_batch import BATCH_LENGTH_MIN, TimestampType, decode_header
from springtide.wire.records import NewRecord, encode_batch, seal_batch

NOW_MS = 1_790_000_000_000


@dataclass
class Log:
    """A partition of batches, at their offsets. errors: what a fetch at an offset is refused with."""

    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    end: int = 0
    errors: dict[int, ErrorCode] = field(default_factory=dict)

    def append(self, *records: NewRecord, gap: int = 0, **options: Any) -> Log:
        self.end += gap
        self.batches.append(encode_batch(records, base_offset=self.end, **options))
        self.end += len(records)
        return self

    def first_at(self, at: int) -> int:
        if at in (EARLIEST, LATEST):
            return self.start if at == EARLIEST else self.end
        headers = (decode_header(batch) for batch in self.batches)
        return next((one.base_offset for one in headers if one.max_timestamp >= at), -1)

    def fetched(self, offset: int, number: int) -> FetchedPartition:
        if offset in self.errors:
            return FetchedPartition("t", number, self.errors.pop(offset), log_start_offset=self.start)
        left = [batch for batch in self.batches if decode_header(batch).last_offset >= offset]
        return FetchedPartition("t", number, records=(memoryview(b"".join(left[:2])),) if left else ())


class Cluster:
    """Implements Leaders; its time goes on by a millisecond a look at it."""

    def __init__(self, *logs: Log) -> None:
        self.logs = logs
        self.time_ms = 0
        self.lost: set[int] = set()
        self.large: set[int] = set()
        self.fetches = 0

    def now_ms(self) -> int:
        self.time_ms += 1
        return self.time_ms

    def list_offsets(self, leader: tuple[str, int], asked: Mapping[Place, int]) -> dict[Place, ListedOffset]:
        if leader[1] in self.lost:
            raise BrokerLost(f"{leader[0]}:{leader[1]}: Connection refused")
        return {
            place: ListedOffset(ErrorCode.NONE, self.logs[place[1]].first_at(at), -1, 0)
            for place, at in asked.items()
        }

    def fetch(self, log: AskedLog, offset: int) -> FetchedPartition:
        self.fetches += 1
        if log.partition in self.large:
            raise BatchTooLarge
        return self.logs[log.partition].fetched(offset, log.partition)

    def look(self, *offsets: int | None, **wanted: Any) -> tuple[LookSummary, dict[str, Any]]:
        """Look at the partitions from these offsets on; without any, at all as `wanted` says."""
        starts = offsets or (None,) * len(self.logs)
        logs = tuple(AskedLog(number, "broker", 9_000 + number, at) for number, at in enumerate(starts))
        asked = RecordLook(**{"topic": "t", "logs": logs, "ms_max": 1_000_000, **wanted})
        summary, body = Reading(asked, self, now_ms=self.now_ms).run()
        if not body:
            return summary, {}
        RecordList.model_validate_json(body)
        answer: dict[str, Any] = msgspec.json.decode(body)
        assert summary.records == len(answer["items"])
        assert summary.bytes == sum(len(msgspec.json.encode(item)) for item in answer["items"])
        return summary, answer


def record(value: str | bytes | None, at: int = 0, **fields: Any) -> NewRecord:
    data = value.encode() if isinstance(value, str) else value
    return NewRecord(value=data, timestamp=NOW_MS + at, **fields)


def numbered(count: int, *, first: int = 0, step_ms: int = 10) -> Log:
    log = Log()
    for number in range(count):
        log.append(record(f"v{first + number}", at=(first + number) * step_ms))
    return log


def values(answer: dict[str, Any]) -> list[str]:
    return [item["value"]["data"] for item in answer["items"]]


def test_a_record_is_shown_with_all_that_it_has() -> None:
    told = record('{"id": 1}', key=b"\x00\x01", headers=(("trace", b"abc"), ("none", None)))
    cluster = Cluster(Log().append(told).append(NewRecord(timestamp=-1)))
    summary, answer = cluster.look(at_ms=EARLIEST)
    assert answer["items"][0] == {
        "partition": 0,
        "offset": 0,
        "timestamp": "2026-09-21T14:13:20.000Z",
        "timestamp_ms": NOW_MS,
        "timestamp_type": "create_time",
        "key": {"encoding": "hex", "data": "0001", "size_bytes": 2, "truncated": False},
        "value": {"encoding": "json", "data": '{"id": 1}', "size_bytes": 9, "truncated": False},
        "headers": [
            {
                "name": "trace",
                "value": {"encoding": "text", "data": "abc", "size_bytes": 3, "truncated": False},
            },
            {"name": "none", "value": None},
        ],
        "headers_total": 2,
    }
    plain = {"partition": 0, "timestamp_type": "create_time", "headers": [], "headers_total": 0}
    nothing = {"timestamp": None, "timestamp_ms": -1, "key": None, "value": None}
    assert answer["items"][1] == {"offset": 1, **plain, **nothing}
    assert (answer["stopped"], answer["position"], answer["unread"]) == ("end", "0-2", [])
    assert answer["logs"] == [{"partition": 0, "log_start_offset": 0, "log_end_offset": 2}]
    assert (summary.records, summary.scanned_records, summary.refused) == (2, 2, None)


def test_the_newest_come_first_and_from_all_partitions() -> None:
    cluster = Cluster(numbered(100), numbered(50, first=100), Log())
    _, answer = cluster.look(limit=60)
    assert values(answer) == [f"v{number}" for number in range(149, 89, -1)]
    assert (answer["stopped"], answer["position"]) == ("limit", "0-100.1-50.2-0")
    _, answer = cluster.look(limit=1_000)
    assert len(values(answer)) == 150
    assert answer["stopped"] == "end"


def test_the_newest_of_one_partition_are_those_with_the_highest_offsets() -> None:
    log = Log().append(record("late", at=100)).append(record("early", at=1)).append(record("last", at=2))
    _, answer = Cluster(log).look(limit=2)
    assert values(answer) == ["last", "early"]


def test_the_newest_that_match_are_looked_for_backwards_as_far_as_the_budget_goes() -> None:
    log = Log()
    for number in range(400):
        log.append(record("needle" if number in (3, 200, 399) else "x" * 100))
    _, answer = Cluster(log).look(value="needle", limit=2)
    assert [item["offset"] for item in answer["items"]] == [399, 200]
    _, answer = Cluster(log).look(value="needle", limit=3)
    assert [item["offset"] for item in answer["items"]] == [399, 200, 3]
    assert answer["stopped"] == "end"
    _, answer = Cluster(log).look(value="needle", limit=3, scanned_bytes_max=30_000)
    assert [item["offset"] for item in answer["items"]] == [399]
    assert answer["stopped"] == "scanned"


def test_from_a_time_on_partitions_are_merged_and_the_position_goes_on_where_it_stopped() -> None:
    cluster = Cluster(numbered(10, step_ms=20), numbered(20, first=100, step_ms=2))
    seen: list[str] = []
    summary, answer = cluster.look(at_ms=NOW_MS + 30, limit=7)
    while True:
        seen += values(answer)
        if not answer["items"]:
            break
        offsets = [int(place.partition("-")[2]) for place in answer["position"].split(".")]
        summary, answer = cluster.look(*offsets, limit=7)
    # Of partition 1 all are later than 30 ms: 200 to 238; of partition 0 those from 40 on.
    late = [f"v{number}" for number in range(100, 120)]
    assert seen == ["v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", *late]
    assert summary.records == 0


def test_a_position_after_a_full_page_is_that_of_the_first_record_not_shown() -> None:
    cluster = Cluster(Log().append(*(record(f"v{number}") for number in range(10))))
    _, answer = cluster.look(4, limit=3)
    assert (values(answer), answer["position"], answer["stopped"]) == (["v4", "v5", "v6"], "0-7", "limit")


def test_filters_look_at_the_whole_key_and_value_as_bytes() -> None:
    log = Log()
    log.append(record("x" * 100_000 + "Needle", key=b"a"), record("needle", key=b"B.*"), record(None))
    cluster = Cluster(log)

    def offsets(**wanted: Any) -> list[int]:
        return [item["offset"] for item in cluster.look(0, **wanted)[1]["items"]]

    assert offsets(value="needle") == [1]
    assert offsets(value="NEEDLE", ignore_case=True) == [0, 1]
    assert offsets(key=".*") == [1]
    assert offsets(key="b", value="needle", ignore_case=True) == [1]
    assert offsets(key="zzz") == []


@pytest.mark.parametrize("compression", list(Compression))
def test_each_codec_is_read(compression: Compression) -> None:
    records = [record("same " * 20, at=number) for number in range(50)]
    log = Log().append(*records, compression=compression)
    log.append(*records, compression=compression, timestamp_type=TimestampType.LOG_APPEND_TIME)
    _, answer = Cluster(log).look(0, limit=100)
    assert len(answer["items"]) == 100
    assert {item["timestamp_type"] for item in answer["items"][50:]} == {"log_append_time"}


def test_control_batches_are_no_records_and_holes_are_passed() -> None:
    log = Log().append(record("a")).append(record("marker"), is_control=True).append(record("b"), gap=5)
    log.start = 0
    log.end += 3  # compaction left nothing at the end
    _, answer = Cluster(log).look(0)
    assert (values(answer), answer["position"], answer["stopped"]) == (["a", "b"], "0-11", "end")
    _, answer = Cluster(log).look()
    assert values(answer) == ["b", "a"]


def test_the_bytes_of_an_answer_have_a_bound_and_one_record_is_always_shown() -> None:
    log = Log()
    for _ in range(20):
        log.append(record("x" * 3_000))
    for offsets in ((), (0,)):
        summary, answer = Cluster(log).look(*offsets, bytes_max=4_096)
        assert (summary.records, answer["stopped"]) == (3, "bytes")
        assert summary.bytes <= 4_096
        assert answer["items"][0]["value"]["truncated"]
        assert answer["items"][0]["value"]["size_bytes"] == 3_000
    hostile = record(b"\x00" * 100_000, headers=tuple((f"h{n}" * 900, b"\xff" * 900) for n in range(500)))
    summary, answer = Cluster(Log().append(hostile)).look(bytes_max=4_096, limit=1, format="text")
    assert summary.records == 1
    assert summary.bytes <= 4_096
    assert answer["items"][0]["headers_total"] == 500


def test_a_bomb_is_named_and_passed_over() -> None:
    bomb = encode_batch([record(bytes(80 * 1024 * 1024))], base_offset=1, compression=Compression.GZIP)
    assert len(bomb) < 100_000
    log = Log().append(record("before"))
    log.batches.append(bomb)
    log.end = 2
    log.append(record("after"))
    _, answer = Cluster(log).look(0, scanned_bytes_max=2**40)
    assert values(answer) == ["before", "after"]
    assert [(one["partition"], one["offset"]) for one in answer["unread"]] == [(0, 1)]
    _, answer = Cluster(log).look(0)
    assert (values(answer), answer["stopped"], answer["position"]) == (["before"], "scanned", "0-2")


def test_damaged_batches_are_named_and_passed_over_and_what_is_none_ends_the_partition() -> None:
    flipped = bytearray(encode_batch([record("flipped")], base_offset=1))
    flipped[-3] ^= 1
    header = decode_header(flipped)
    one = b"\x0e\x00\x00\x00\x01\x02a\x00"
    size = {"batch_length": BATCH_LENGTH_MIN + len(one)}
    lying = seal_batch(header._replace(base_offset=2, record_count=2**31 - 1, **size), one)
    log = Log().append(record("before"))
    log.batches += [bytes(flipped), lying]
    log.end = 3
    log.append(record("after"))
    _, answer = Cluster(log).look(0)
    assert values(answer) == ["before", "a", "after"]  # "a" stands before the damage
    assert [one["offset"] for one in answer["unread"]] == [1, 3]
    log.batches.insert(1, b"\x00" * 100)
    _, answer = Cluster(log).look(0)
    assert answer["unread"][-1]["why"].startswith("impossible batch length")


def test_offsets_out_of_range_are_refused_with_the_range() -> None:
    log = numbered(10)
    log.start = 4
    for offset in (3, 11):
        summary, answer = Cluster(log).look(offset)
        assert answer == {}
        assert (summary.refused, summary.partition) == (LookRefusal.OFFSET, 0)
        assert (summary.log_start_offset, summary.log_end_offset) == (4, 10)
        assert str(offset) in summary.detail
    assert Cluster(log).look(10)[1]["items"] == []


def test_leaders_that_do_not_answer_are_named_and_the_others_are_shown() -> None:
    cluster = Cluster(numbered(2), numbered(2), numbered(2))
    cluster.lost = {9_000}
    cluster.large = {1}
    for log, why in ((AskedLog(0, "broker", 9_000), "refused"), (AskedLog(2, "", 0), "has no leader")):
        summary, _ = cluster.look(logs=(log,))
        assert summary.refused is LookRefusal.LEADER
        assert why in summary.detail
    _, answer = cluster.look()
    assert values(answer) == ["v1", "v0"]
    whys = {one["partition"]: one["why"] for one in answer["unread"]}
    assert whys.keys() == {0, 1}
    assert "larger" in whys[1]


def test_what_is_deleted_meanwhile_is_named_and_a_topic_made_again_is_not_read() -> None:
    log = numbered(10)
    cluster = Cluster(log)
    log.errors[0] = ErrorCode.OFFSET_OUT_OF_RANGE
    fetch = cluster.fetch

    def after_a_deletion(asked: AskedLog, offset: int) -> FetchedPartition:
        log.start = 5
        return fetch(asked, offset)

    cluster.fetch = after_a_deletion  # type: ignore[method-assign, assignment]
    _, answer = cluster.look(0)
    assert values(answer) == [f"v{number}" for number in range(5, 10)]
    assert "deleted" in answer["unread"][0]["why"]

    log.errors[5] = ErrorCode.UNKNOWN_TOPIC_ID
    summary, answer = cluster.look(5)
    assert (summary.refused, answer) == (LookRefusal.TOPIC, {})


def test_a_look_ends_when_its_time_is_over_and_goes_on_from_there() -> None:
    cluster = Cluster(Log().append(*(record(f"v{number}") for number in range(1_000))))
    _, answer = cluster.look(0, ms_max=100, limit=1_000)
    assert answer["stopped"] == "time"
    seen = len(answer["items"])
    assert 0 < seen < 1_000
    assert answer["position"] == f"0-{seen}"


def test_a_scarce_match_in_one_partition_does_not_keep_the_others_waiting() -> None:
    long = Log()
    for _ in range(500):
        long.append(record("x" * 1_000))
    cluster = Cluster(long, Log().append(record("needle")))
    _, answer = cluster.look(0, 0, value="needle", scanned_bytes_max=50_000)
    assert answer["stopped"] == "scanned"
    assert answer["position"].endswith((".1-0", ".1-1"))
    assert 0 < int(answer["position"].split(".")[0].partition("-")[2]) < 500
