"""Folders, names, and the documents beside the data: values only."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.client.values import FoundOffset, PartitionRange, TopicPartition
from pipeline.errors import LandError
from pipeline.land.documents import (
    LandedFile,
    LandedSpan,
    LandPlan,
    Manifest,
    PartitionSpan,
    TableSettings,
    decode_manifest,
    decode_plan,
    decode_settings,
    encode_document,
)
from pipeline.land.layout import (
    NO_HOUR,
    NULL_FOLDER,
    check_path,
    file_name,
    folder,
    folder_values,
    group_by_folder,
    parse_partition_by,
)
from pipeline.land.planning import LandedPartition, LandProgress, Observed, PlanSettings, next_plan
from springtide.wire.fetch_response import EpochEnd

HOUR_US = 3_600_000_000
ORDERS = TopicPartition("orders", 0)
times = st.integers(-(2**62), 2**62) | st.integers(0, 100 * HOUR_US)


@given(st.lists(times), st.sampled_from([("topic", "date", "hour"), ("date",), ("topic",), ()]))
@example([-1, 0, HOUR_US - 1, HOUR_US, 253_402_300_799_999_999, 253_402_300_800_000_000], ("date", "hour"))
def test_each_row_goes_to_the_folder_of_its_time_in_order(
    timestamps: list[int], partition_by: tuple[str, ...]
) -> None:
    groups = group_by_folder(np.array(timestamps, np.int64), partition_by)
    folders = [folder(partition_by, topic="t", partition=0, hour=group.hour) for group in groups]
    assert len(set(folders)) == len(folders)
    found: dict[int, str] = {}
    for group, name in zip(groups, folders, strict=True):
        rows = list(range(len(timestamps))) if group.rows is None else group.rows.tolist()
        assert rows and rows == sorted(rows)
        found |= dict.fromkeys(rows, name)
    assert found == {row: expected(time, partition_by) for row, time in enumerate(timestamps)}


def expected(time_us: int, partition_by: tuple[str, ...]) -> str:
    import datetime

    parts = {"topic": "t", "date": NULL_FOLDER, "hour": NULL_FOLDER}
    if 0 <= time_us < 253_402_300_800_000_000:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=time_us)
        parts |= {"date": moment.strftime("%Y-%m-%d").zfill(10), "hour": f"{moment.hour:02d}"}
    return "/".join(f"{name}={parts[name]}" for name in partition_by)


topics = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))
ranges = st.builds(
    lambda topic, partition, first, count: PartitionRange(topic, partition, first, first + count),
    topics,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**62),
    st.integers(1, 2**60),
)


@given(ranges, ranges)
@example(PartitionRange("a" * 249, 0, 0, 1), PartitionRange("a" * 248, 0, 0, 1))
@example(PartitionRange("_a", 0, 0, 1), PartitionRange("a", 0, 0, 1))
def test_every_range_has_a_name_of_its_own_that_any_file_system_takes(
    one: PartitionRange, other: PartitionRange
) -> None:
    path = "/".join([folder(("topic", "partition"), topic=one.topic, partition=one.partition, hour=0), "x"])
    assert all(len(segment) <= 255 for segment in path.split("/"))
    assert len(file_name(one)) <= 255 and file_name(one)[0] not in "_."
    assert (file_name(one) == file_name(other)) == (one == other)
    check_path(f"{path.removesuffix('/x')}/{file_name(one)}")


def test_a_paths_folders_are_its_values() -> None:
    inside = folder(("topic", "date", "hour"), topic="orders", partition=3, hour=24 * 365 + 7)
    assert inside == "topic=orders/date=1971-01-01/hour=07"
    assert folder_values(f"{inside}/x.parquet") == {"topic": "orders", "date": "1971-01-01", "hour": "07"}
    inside = folder(("date",), topic="orders", partition=3, hour=NO_HOUR)
    assert folder_values(f"{inside}/x.parquet") == {"date": None}


@pytest.mark.parametrize("text", ["topic,year", "topic,topic", "hour", "hour,date"])
def test_folders_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(LandError, match="can't partition by"):
        parse_partition_by(text)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/x.parquet",
        "../x.parquet",
        "a/../x.parquet",
        "a//x.parquet",
        "a/.x.parquet",
        "x.txt",
        "a\n/x.parquet",
        4,
    ],
)
def test_a_manifest_can_not_lead_out_of_its_table(path: object) -> None:
    with pytest.raises(ValueError, match="is no data file's path"):
        check_path(path)


# --- documents
# -----------------------------------------------------------------------------------------------------

PLAN = LandPlan(
    batch=7,
    planned_ms=1_700_000_000_000,
    topic_ids={"orders": "id"},
    spans=(PartitionSpan("orders", 0, 10, 30, 3), PartitionSpan("orders", 1, 5, 5, -1)),
    tasks=((PartitionRange("orders", 0, 10, 20),), (PartitionRange("orders", 0, 20, 30),)),
    compression_level=3,
    losses=("gone",),
)
FILE = LandedFile("topic=orders/x.parquet", "orders", 0, 10, 20, 4, 900, 11, 17, -1, 5)
MANIFEST = Manifest(
    7, 1_700_000_000_001, {"orders": "id"}, (LandedSpan("orders", 0, 10, 30, 3, 4, 2),), (FILE,)
)


def test_documents_survive_their_files() -> None:
    settings = TableSettings("c", ("topic",))
    assert decode_settings(encode_document(settings), "x") == settings
    assert decode_plan(encode_document(PLAN), "x", batch=7) == PLAN
    assert decode_manifest(encode_document(MANIFEST), "x", batch=7) == MANIFEST


def test_torn_documents_are_errors_never_others() -> None:
    for encoded, decode in (
        (encode_document(PLAN), decode_plan),
        (encode_document(MANIFEST), decode_manifest),
    ):
        for end in range(len(encoded)):
            with pytest.raises(LandError, match="is damaged, or not ours"):
                decode(encoded[:end], "x", batch=7)
        for nothing in (b"", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"kind":"plan","kind":"manifest"}'):
            with pytest.raises(LandError):
                decode(nothing, "x", batch=7)
        with pytest.raises(LandError, match="batch 7 where 8 should be"):
            decode(encoded, "x", batch=8)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tasks", [[["orders", 0, 10, 20]]]),
        ("tasks", [[["orders", 0, 10, 20]], [["orders", 0, 19, 30]]]),
        ("tasks", [[["orders", 0, 10, 20], ["orders", 0, 20, 30]]]),
        ("tasks", [[["orders", 0, 10, 30], ["orders", 2, 0, 1]]]),
        ("tasks", [[["orders", 0, 10, 30], ["orders", 1, 5, 5]]]),
        ("tasks", [["orders", 0, 10, 30]]),
        ("spans", [["orders", 0, 10, 30, 3], ["orders", 0, 10, 30, 3]]),
        ("spans", [["../orders", 0, 10, 30, 3]]),
        ("spans", [["orders", -1, 10, 30, 3]]),
        ("spans", [["orders", 0, 30, 10, 3]]),
        ("spans", [["orders", 0, True, 30, 3]]),
        ("topicIds", {}),
        ("compression", "brotli"),
        ("compressionLevel", 100),
        ("readCommitted", 1),
        ("version", 2),
    ],
)
def test_a_plan_that_would_land_something_twice_or_not_at_all_is_refused(name: str, value: Any) -> None:
    document = json.loads(encode_document(PLAN)) | {name: value}
    with pytest.raises(LandError, match="is damaged, or not ours"):
        decode_plan(json.dumps(document).encode(), "x", batch=7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("files", []),
        ("files", [list(FILE), list(FILE)]),
        ("files", [list(FILE._replace(path="../../x.parquet"))]),
        ("files", [list(FILE._replace(records=8, min_offset=11, max_offset=17))]),
        ("files", [list(FILE._replace(end_offset=31))]),
        ("files", [list(FILE._replace(max_offset=20))]),
        ("files", [list(FILE._replace(topic="other"))]),
        ("files", [list(FILE)[:-1]]),
        ("spans", [["orders", 0, 10, 30, 3, 4, 17]]),
        ("spans", [["orders", 0, 10, 30, 3, 5, 0]]),
    ],
)
def test_a_manifest_whose_figures_contradict_each_other_is_refused(name: str, value: Any) -> None:
    document = json.loads(encode_document(MANIFEST)) | {name: value}
    with pytest.raises(LandError, match="is damaged, or not ours"):
        decode_manifest(json.dumps(document).encode(), "x", batch=7)


# --- plans
# --------------------------------------------------------------------------------------------------------


def observed(**fields: Any) -> Observed:
    values: dict[str, Any] = {
        "topic_ids": {"orders": "id"},
        "earliest": {ORDERS: 0},
        "ends": {ORDERS: FoundOffset(1_000_000, leader_epoch=3)},
        "starts": {ORDERS: 0},
        **fields,
    }
    return Observed(**values)


def test_manifests_meet_and_a_later_one_that_goes_back_is_refused() -> None:
    first = Manifest(0, 0, {"orders": "id"}, (LandedSpan("orders", 0, 5, 20, 3, 9, 0),), ())
    progress = LandProgress().after(first)
    assert progress.partitions[ORDERS] == LandedPartition(5, 20, 3, 9, 0)
    for span in (LandedSpan("orders", 0, 19, 30, 3, 0, 0), LandedSpan("orders", 0, 0, 5, 3, 0, 0)):
        with pytest.raises(LandError, match="are in earlier batches"):
            progress.after(Manifest(1, 0, {"orders": "id"}, (span,), ()))
    with pytest.raises(LandError, match="can't follow"):
        progress.after(first)
    later = progress.after(Manifest(1, 0, {"orders": "id"}, (LandedSpan("orders", 0, 25, 30, 4, 2, 1),), ()))
    assert later.partitions[ORDERS] == LandedPartition(5, 30, 4, 11, 6)


def test_tasks_are_as_many_as_can_run_where_there_is_enough_to_do() -> None:
    settings = PlanSettings(500_000, None, parallelism=4)
    plan, is_more_due = next_plan(LandProgress(), observed(), settings, now_ms=0)
    assert plan is not None and not is_more_due
    assert [len(task) for task in plan.tasks] == [1] * 4
    few = observed(ends={ORDERS: FoundOffset(100, leader_epoch=3)})
    plan, _ = next_plan(LandProgress(), few, settings, now_ms=0)
    assert plan is not None and plan.tasks == ((PartitionRange("orders", 0, 0, 100),),)


def test_a_batch_takes_about_what_it_may_and_says_that_there_is_more() -> None:
    plan, is_more_due = next_plan(LandProgress(), observed(), PlanSettings(10**6, 300_000), now_ms=0)
    assert plan is not None and is_more_due
    assert plan.spans == (PartitionSpan("orders", 0, 0, 300_000, 3),)


def test_a_log_that_is_shorter_than_what_was_landed_is_a_loss_and_no_reason_to_land_backwards() -> None:
    progress = LandProgress(1, {ORDERS: LandedPartition(0, 50, 3)}, {"orders": "id"})
    cut = observed(
        ends={ORDERS: FoundOffset(45, leader_epoch=4)}, epoch_ends={ORDERS: EpochEnd(3, 45)}, starts={}
    )
    with pytest.raises(LandError, match="leader epoch 3 ended before offset 45"):
        next_plan(progress, cut, PlanSettings(100, None), now_ms=0)
    assert next_plan(progress, cut, PlanSettings(100, None, allow_loss=True), now_ms=0) == (None, False)


def test_a_log_whose_leader_never_heard_of_the_epoch_is_another_one() -> None:
    progress = LandProgress(1, {ORDERS: LandedPartition(0, 50, 3)}, {"orders": "id"})
    restored = observed(
        ends={ORDERS: FoundOffset(70, leader_epoch=1)}, epoch_ends={ORDERS: EpochEnd(-1, -1)}, starts={}
    )
    with pytest.raises(LandError, match="does not know leader epoch 3: the log is another one"):
        next_plan(progress, restored, PlanSettings(100, None), now_ms=0)
    plan, _ = next_plan(progress, restored, PlanSettings(100, None, allow_loss=True), now_ms=0)
    assert plan is not None and plan.spans == (PartitionSpan("orders", 0, 50, 70, 1),) and plan.losses
    nothing_yet = LandProgress(1, {ORDERS: LandedPartition(0, 0, 3)}, {"orders": "id"})
    plan, _ = next_plan(nothing_yet, restored, PlanSettings(100, None), now_ms=0)
    assert plan is not None and not plan.losses
