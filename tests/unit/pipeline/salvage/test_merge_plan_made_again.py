"""A topic is deleted and created again while salvage compares, or merges: copies belong to the old one, so
nothing of the new one is compared with them, and nothing of them goes into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import UUID

import pytest

from pipeline.client.config import ClientConfig
from pipeline.client.values import PartitionRange, TopicPartition
from pipeline.errors import LogCutAgain
from pipeline.salvage.copies import Copy, topic_ids
from pipeline.salvage.findings import check_unchanged
from pipeline.salvage.merge_plan import RecordRun, fingerprint, make_plan
from pipeline.salvage.spark_tasks import LivePiece, LogTask, log_rows
from pipeline.salvage.survey import LogBounds
from pipeline.sink.opening import TopicOpening
from springtide.wire.apis import ApiKey
from tests.kit.pipeline.brokers import Cluster

OLD, NEW = UUID(int=7), UUID(int=8)
WHERE = TopicPartition("t", 0)
NAME = f"t-0.AAAAAAAAAAAAAAAAAAAABw.{0:020d}-{9:020d}.0"
IDS = {"t": str(OLD)}
AGAIN = f"'t' was deleted and created again .*: its id was {OLD}, and is {NEW}"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """The new topic, under the old one's leader and leader epoch, and as long as the old one was."""
    with ExitStack() as stack:
        cluster = Cluster(stack)
        cluster.name({"t": NEW}, leaders={("t", 0): 1})
        whole = {"partition": 0, "leader_epoch": 3, "end_offset": 100}
        cluster.on(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, lambda _: {"topics": [{"topic": "t", "partitions": [whole]}]}
        )
        yield cluster


def test_the_new_topics_records_are_not_compared_with_the_old_ones_copies(cluster: Cluster) -> None:
    config = ClientConfig(bootstrap=(cluster.brokers[1].address,), unknown_topic_budget_ms=1)
    piece = LivePiece(0, PartitionRange("t", 0, 0, 100), with_keys=False, window=None)
    with pytest.raises(LogCutAgain, match=f"its id was {OLD}, and is {NEW}"):
        list(log_rows(LogTask(config, (piece,), IDS)))
    assert not cluster.brokers[1].times_asked(ApiKey.FETCH)


def test_findings_do_not_hold_although_epochs_and_offsets_agree(cluster: Cluster) -> None:
    logs = {WHERE: LogBounds(3, 0, 100)}
    with cluster.client() as client, pytest.raises(LogCutAgain, match=AGAIN):
        check_unchanged(client, logs, IDS)
    cluster.name({"t": OLD}, leaders={("t", 0): 1})
    with cluster.client() as client:
        check_unchanged(client, logs, IDS)


def test_an_empty_log_is_told_apart_too(cluster: Cluster) -> None:
    """All of what was cut off would be missing in it."""
    with cluster.client() as client, pytest.raises(LogCutAgain, match=AGAIN):
        check_unchanged(client, {WHERE: LogBounds(3, 0, 0)}, IDS)


def test_no_merge_is_planned_of_copies_of_another_topic() -> None:
    for topic_id in (OLD, NEW):
        opening = TopicOpening("t", 0, 1_000, (5,), (2,), fingerprint(1_000), str(topic_id))
        runs = [(WHERE, RecordRun(1, NAME, 3, 5, 8))]
        if topic_id == OLD:
            assert make_plan(runs, [opening], batch_bytes=1_000).records == 4
        else:
            with pytest.raises(LogCutAgain, match=AGAIN):
                make_plan(runs, [opening], batch_bytes=1_000)


def test_a_copys_name_tells_its_topics_id() -> None:
    assert topic_ids([Copy(1, NAME, WHERE, 0, 9, 100)]) == IDS
