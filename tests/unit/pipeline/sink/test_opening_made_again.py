"""The sink's topic is deleted and created again while a micro-batch is written: it is stored whole in the new
one, each row once, or the commit is refused. Nothing else shows it: leader epochs and offsets may agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

from pipeline.client.values import ClusterMetadata, TopicMetadata, TopicPartition
from pipeline.errors import DeliveryFailed
from pipeline.records.decode import decode_records
from pipeline.sink import target
from pipeline.sink import writer as shell
from pipeline.sink.commit import TaskReport, check_topics, commit_micro_batch
from pipeline.sink.opening import TopicOpening, decode_opening, encode_opening, fingerprint_of
from pipeline.sink.options import parse_sink_options
from pipeline.sink.state import SinkState
from pipeline.sink.target import propose_again
from pipeline.sink.writer import SinkPlan, write_rows
from springtide.wire.errors import ErrorCode
from tests.kit.pipeline.memory_cluster import MemoryClient, MemoryCluster

TOPIC, OLD, NEW = "orders", str(UUID(int=7)), str(UUID(int=8))
P0 = TopicPartition(TOPIC, 0)


class Sink:
    """A query's sink over a cluster in memory: micro-batch 3, in two tasks of one partition."""

    def __init__(self, place: Path) -> None:
        self.cluster = MemoryCluster.of(TOPIC, 1)
        self.cluster.ids[TOPIC] = OLD
        given = {"kafka.bootstrap.servers": "h:1", "topic": TOPIC, "checkpointLocation": str(place)}
        given["batchBytes"] = "1024"
        self.plan = SinkPlan(parse_sink_options(given), (("value", "string"),))

    def task(self, index: int, count: int = 20, *, between: Callable[[], None] | None = None) -> TaskReport:
        """Run a task; `between`: what happens when half of its rows are stored."""
        values = [f"task {index} row {n}" for n in range(count)]
        rows = pa.record_batch({"value": pa.array(values), "partition": pa.array([0] * count, pa.int32())})

        def given() -> Iterator[pa.RecordBatch]:
            if between is None:
                yield rows
                return
            stored = len(self.values())
            for row in range(count):
                if row == count // 2:
                    assert len(self.values()) > stored, "some of its rows are in the old topic"
                    between()
                yield rows[row : row + 1]

        done = write_rows(self.plan, given(), "sink", 3, index)
        assert done.report is not None
        return done.report

    def commit(self, *reports: TaskReport) -> None:
        commit_micro_batch(MemoryClient(self.cluster), self.plan.state(), 3, reports)  # type: ignore[arg-type]

    def values(self) -> list[str]:
        decoded = decode_records(self.cluster.stored()[P0], topic=TOPIC, partition=0)
        return sorted(value.decode() for batch in decoded for value in batch.column("value").to_pylist())


class Entered(MemoryClient):
    def __enter__(self) -> Entered:
        return self

    def __exit__(self, *_: object) -> None: ...

    def deadline(self, budget_ms: int) -> object:
        return object()  # it is not waited for: the topic is there


class UnknownFirst(MemoryClient):
    """Asks brokers of which the first `answers` do not know the topic."""

    def __init__(self, cluster: MemoryCluster, answers: int = 1) -> None:
        super().__init__(cluster)
        self._unknown = answers
        self.pauses = 0

    def metadata(self, topics: list[str]) -> ClusterMetadata:
        self._unknown -= 1
        if self._unknown < 0:
            return super().metadata(topics)
        return ClusterMetadata("memory", {}, {TOPIC: TopicMetadata(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})

    def deadline(self, budget_ms: int) -> UnknownFirst:
        return self

    def pause(self, reason: object) -> bool:  # type: ignore[override]
        self.pauses += 1
        return self.pauses < 10


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sink:
    one = Sink(tmp_path)
    monkeypatch.setattr(shell, "Client", lambda _: Entered(one.cluster))
    for module in (shell, target):
        monkeypatch.setattr(module, "wall_ms", lambda: one.cluster.now_ms)
    return one


def both(count: int = 20) -> list[str]:
    return sorted(f"task {index} row {n}" for index in (0, 1) for n in range(count))


def test_a_commit_is_refused_although_epochs_and_offsets_agree(sink: Sink) -> None:
    first = sink.task(0)
    sink.cluster.make_again(TOPIC, NEW)
    second = sink.task(1, 40)  # more than the first had: the new log reaches as far as the old one did
    with pytest.raises(DeliveryFailed, match=f"deleted and created again .*: its id was {OLD}, and is {NEW}"):
        sink.commit(first, second)
    assert sink.plan.state().commits() == {}  # type: ignore[union-attr]


@pytest.mark.parametrize("when", ["before the second task", "in the second task", "before the commit"])
def test_run_again_the_micro_batch_is_whole_in_the_new_topic(
    sink: Sink, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    sink.task(0)
    if when == "before the second task":
        sink.cluster.make_again(TOPIC, NEW)
    if when == "in the second task":
        sink.cluster.make_again(TOPIC, OLD)  # it opens the old topic still, and writes to the new one
        report = sink.task(1)
        sink.cluster.ids[TOPIC] = NEW
    else:
        report = sink.task(1)
    if when == "before the commit":
        sink.cluster.make_again(TOPIC, NEW)
    if report.topic_ids[TOPIC] == OLD:
        with pytest.raises(DeliveryFailed, match="deleted and created again"):
            sink.commit(report)
    sink.commit(sink.task(0), sink.task(1))
    assert sink.values() == both()
    assert f"target_made_again topic={TOPIC} micro_batch=3" in caplog.text
    sink.commit(sink.task(0), sink.task(1))
    assert sink.values() == both(), "and again changes nothing"


def test_a_task_in_whose_midst_the_topic_is_made_again_writes_nothing_to_the_new_one(sink: Sink) -> None:
    """By its name the new topic took the task's later rows, behind a gap that no later attempt could fill."""
    first = sink.task(0, 200)
    with pytest.raises(DeliveryFailed, match=f"deleted and created again .*: its id was {OLD}, and is {NEW}"):
        sink.task(1, 200, between=lambda: sink.cluster.make_again(TOPIC, NEW))
    assert sink.values() == []
    with pytest.raises(DeliveryFailed, match="deleted and created again"):
        sink.commit(first, sink.task(1, 200))
    sink.commit(sink.task(0, 200), sink.task(1, 200))
    assert sink.values() == both(200)


def test_a_commit_between_deletion_and_creation_waits_for_the_topic(sink: Sink) -> None:
    """A broker that has heard of the deletion only tells no id: the commit took that for the same topic."""
    reports = [sink.task(0)]
    sink.cluster.make_again(TOPIC, NEW)
    reports.append(sink.task(1, 40))
    client = UnknownFirst(sink.cluster)
    with pytest.raises(DeliveryFailed, match=f"its id was {OLD}, and is {NEW}"):
        commit_micro_batch(client, sink.plan.state(), 3, reports[:1])  # type: ignore[arg-type]
    assert client.pauses == 1


def test_a_commit_into_a_topic_that_stays_deleted_is_refused(sink: Sink) -> None:
    report = sink.task(0)
    client = UnknownFirst(sink.cluster, answers=10**6)
    with pytest.raises(DeliveryFailed, match="'orders' was deleted while it was written to"):
        commit_micro_batch(client, sink.plan.state(), 3, [report])  # type: ignore[arg-type]


def test_tasks_that_wrote_to_two_topics_are_told_apart_without_a_broker() -> None:
    with pytest.raises(DeliveryFailed, match="deleted and created again"):
        check_topics([(TOPIC, OLD), (TOPIC, NEW)], {})
    check_topics([(TOPIC, OLD), ("other", NEW)], {})


def test_brokers_that_can_only_be_asked_by_name_leave_a_gap_that_is_refused_for_good(sink: Sink) -> None:
    """Before Kafka 4.0, or where the old topic's leader is the new one's before Metadata tells so."""
    sink.cluster.asks_by_id = False
    sink.task(0, 200, between=lambda: sink.cluster.make_again(TOPIC, NEW))
    stored = sink.values()
    assert 0 < len(stored) < 200, "the new topic has the task's later rows"
    with pytest.raises(DeliveryFailed, match="records are missing in the middle of what is stored"):
        sink.task(0, 200)
    assert sink.values() == stored, "nothing is doubled"


def test_a_broker_that_is_behind_does_not_open_the_new_topic(sink: Sink) -> None:
    """Its opening was kept under the new topic's id with the old one's, and refused each later attempt."""
    client, fingerprint = Entered(sink.cluster), fingerprint_of({})
    opening = TopicOpening(TOPIC, 3, 5, (1,), (2,), fingerprint, OLD)
    with pytest.raises(DeliveryFailed, match=f"its id was {NEW}, and is {OLD}"):
        propose_again(client, TOPIC, topic_id=NEW, instead_of=opening, fingerprint=fingerprint)  # type: ignore[arg-type]


def test_brokers_and_openings_without_ids_are_not_held_to_them(sink: Sink) -> None:
    sink.cluster.ids = {}
    first = sink.task(0)
    sink.cluster.ids = {TOPIC: NEW}
    sink.commit(first, sink.task(1))
    assert sink.values() == both()


def test_an_opening_keeps_its_topics_id_and_older_ones_have_none() -> None:
    opening = TopicOpening(TOPIC, 3, 5, (1,), (2,), fingerprint_of({}), OLD)
    encoded = encode_opening(opening)
    assert decode_opening(encoded, topic=TOPIC, batch_id=3) == opening
    older = encoded.replace(f',"topicId":"{OLD}"'.encode(), b"")
    assert older != encoded
    assert decode_opening(older, topic=TOPIC, batch_id=3).topic_id == ""
    assert not decode_opening(older, topic=TOPIC, batch_id=3).is_of_another(NEW)


def test_the_new_topics_opening_stands_beside_the_old_ones(tmp_path: Path) -> None:
    state = SinkState(tmp_path)
    for topic_id in ("", NEW):
        opening = TopicOpening(TOPIC, 3, 5, (1,), (2,), fingerprint_of({}), topic_id)
        assert state.opening(3, TOPIC, lambda one=opening: one, topic_id=topic_id) == opening  # type: ignore[misc]
    assert sorted(path.name for path in (tmp_path / "3").iterdir()) == [
        f"{TOPIC}#{NEW}.opening.json",
        f"{TOPIC}.opening.json",
    ]
