"""Topics that are deleted and created again between two micro-batches: the same offsets, other records."""

from __future__ import annotations

import json
import pickle
from uuid import UUID

import pytest

from pipeline.client.values import FoundOffset, PartitionRange, TopicPartition
from pipeline.errors import DataLossError, InvalidOption
from pipeline.source.offset_json import (
    offsets_from_json,
    offsets_to_json,
    parse_offsets,
    topic_ids_from_json,
)
from pipeline.source.offsets import ranges_between
from pipeline.source.options import parse_options
from pipeline.source.positions import LogEnd
from pipeline.source.stream import RecordStreamReader
from tests.kit.pipeline.stream import Logs, Query

T0, T1, T2, U0 = (*(TopicPartition("t", number) for number in range(3)), TopicPartition("u", 0))
OLD, NEW, OTHER = (str(UUID(int=number)) for number in (7, 8, 9))


def logs_of_one_topic(end: int = 10) -> Logs:
    logs = Logs({T0: end})
    logs.ids = {"t": OLD}
    return logs


def read_all_ten(logs: Logs, **options: str) -> Query:
    query = Query(logs, startingOffsets="earliest", **options)
    query.trigger()
    assert query.trigger() == [PartitionRange("t", 0, 0, 10)]
    return query


def start_again(query: Query, way: str) -> None:
    if way != "running":
        query.restart()
    if way == "availableNow":
        query.planner.freeze()


WAYS = pytest.mark.parametrize("way", ["running", "restart", "availableNow"])


@WAYS
@pytest.mark.parametrize("end", [4, 10, 25])
def test_it_is_an_error_that_says_what_happened_and_what_to_do(way: str, end: int) -> None:
    query = read_all_ten(logs := logs_of_one_topic())
    logs.make_again("t", {T0: end}, NEW)
    for _ in range(2):  # another try does not make it good
        start_again(query, way)
        with pytest.raises(DataLossError) as caught:
            query.trigger()
        told = str(caught.value)
        assert "topic 't' was deleted and created again: the query has read t-0 up to offset 9 of" in told
        assert OLD in told and NEW in told
        assert "with 'failOnDataLoss' 'false' the new one is read from its first record on" in told


@WAYS
@pytest.mark.parametrize("end", [4, 10, 25])
def test_where_losses_are_accepted_nothing_of_the_new_topic_is_skipped(
    way: str, end: int, caplog: pytest.LogCaptureFixture
) -> None:
    query = read_all_ten(logs := logs_of_one_topic(), failOnDataLoss="false")
    logs.make_again("t", {T0: end}, NEW)
    start_again(query, way)
    assert query.trigger() == [PartitionRange("t", 0, 0, end)]
    assert "data_loss_accepted" in caplog.text and "deleted and created again" in caplog.text
    caplog.clear()
    if way == "availableNow":
        query.restart()
    logs.now[T0] = end + 1
    assert query.trigger() == [PartitionRange("t", 0, end, end + 1)]
    assert "deleted and created again" not in caplog.text, "it is told once"


class MadeAgainWhileItsEndIsAskedFor(Logs):
    """Of which the id was told before; what is known later comes with new metadata."""

    is_due = False

    def ends(self, partitions: list[TopicPartition], edge: LogEnd) -> dict[TopicPartition, FoundOffset]:
        if self.is_due:
            self.make_again("t", {T0: 25}, NEW)
        self.is_due = False
        return super().ends(partitions, edge)


@pytest.mark.parametrize("is_loss_an_error", [True, False])
def test_the_end_of_a_new_topic_is_not_planned_under_the_old_ones_id(*, is_loss_an_error: bool) -> None:
    logs = MadeAgainWhileItsEndIsAskedFor({T0: 10})
    logs.ids = {"t": OLD}
    query = read_all_ten(logs, failOnDataLoss=str(is_loss_an_error).lower())
    logs.is_due = True
    if is_loss_an_error:
        with pytest.raises(DataLossError, match="'t' was deleted and created again"):
            query.trigger()
    else:
        assert query.trigger() == [PartitionRange("t", 0, 0, 25)]


def test_a_topic_made_again_after_its_end_was_fixed_is_read_to_its_new_end() -> None:
    query = read_all_ten(logs := logs_of_one_topic(), failOnDataLoss="false")
    logs.now[T0] = 12
    start_again(query, "availableNow")
    logs.make_again("t", {T0: 40, T1: 3}, NEW)
    assert query.trigger() == [PartitionRange("t", 0, 0, 40), PartitionRange("t", 1, 0, 3)]
    logs.now[T0] = 50
    assert query.trigger() == [], "the end is fixed again: the run ends"


def test_a_rate_counts_from_the_new_topics_first_record() -> None:
    query = read_all_ten(logs := logs_of_one_topic(), failOnDataLoss="false", maxOffsetsPerTrigger="20")
    logs.make_again("t", {T0: 25}, NEW)
    assert query.trigger() == [PartitionRange("t", 0, 0, 20)]
    assert query.trigger() == [PartitionRange("t", 0, 20, 25)]


def test_only_the_topic_that_was_made_again_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs({T0: 10, T1: 10, T2: 0, U0: 5})
    logs.ids = {"t": OLD, "u": OTHER}
    query = Query(logs, startingOffsets="earliest", failOnDataLoss="false")
    query.trigger()
    query.trigger()
    logs.make_again("t", {T0: 3}, NEW)  # with fewer partitions
    logs.now[U0] = 6
    assert query.trigger() == [PartitionRange("t", 0, 0, 3), PartitionRange("u", 0, 5, 6)]
    assert [message.count("data_loss_accepted") for message in caplog.messages] == [1], "told as one loss"


def test_a_topic_that_stays_deleted_is_gone_and_one_made_later_is_another() -> None:
    query = read_all_ten(logs := logs_of_one_topic())
    logs.make_again("t", {}, NEW)
    del logs.ids["t"]
    with pytest.raises(DataLossError, match="t-0 is gone; it was read up to offset 9"):
        query.trigger()
    logs.make_again("t", {T0: 25}, NEW)
    with pytest.raises(DataLossError, match="deleted and created again"):
        query.trigger()


def test_a_topic_that_was_gone_for_a_micro_batch_is_read_whole_where_losses_are_accepted() -> None:
    query = read_all_ten(logs := logs_of_one_topic(), failOnDataLoss="false")
    logs.make_again("t", {}, NEW)
    del logs.ids["t"]
    assert query.trigger() == []
    logs.make_again("t", {T0: 25}, NEW)
    assert query.trigger() == [PartitionRange("t", 0, 0, 25)]


def test_an_old_checkpoint_learns_the_ids_when_it_goes_on() -> None:
    logs = logs_of_one_topic(12)
    query = Query(logs)
    query.checkpoint = '{"t": {"0": 10}}'
    assert query.trigger() == [PartitionRange("t", 0, 10, 12)]
    assert query.checkpoint == json.dumps({"t": {"0": 12}, f"t#{OLD}": {}})
    logs.make_again("t", {T0: 25}, NEW)
    query.restart()
    with pytest.raises(DataLossError, match="deleted and created again"):
        query.trigger()


def test_ids_are_learnt_even_where_nothing_is_to_be_read() -> None:
    query = Query(logs_of_one_topic())
    query.checkpoint = '{"t": {"0": 10}}'
    assert query.trigger() == []
    assert query.checkpoint == json.dumps({"t": {"0": 10}, f"t#{OLD}": {}})


def test_brokers_that_tell_no_ids_change_nothing_and_forget_nothing() -> None:
    query = read_all_ten(logs := logs_of_one_topic())
    kept = query.checkpoint
    logs.ids = {}
    assert query.trigger() == []
    assert query.checkpoint == kept


def test_a_plan_that_is_made_again_from_its_offsets_is_the_same() -> None:
    found = ranges_between({T0: 10, T1: 4}, {T0: 25}, known={"t": OLD}, now={"t": NEW})
    assert found.ranges == (PartitionRange("t", 0, 0, 25),)
    assert len(found.losses) == 1
    assert ranges_between({T0: 10}, {T0: 25}, known={}, now={"t": NEW}).losses == ()


# --- what is written ------------------------------------------------------------------------------------


def test_ids_stand_beside_the_offsets_where_other_readers_see_no_partition() -> None:
    told = offsets_to_json({U0: 5, T0: 10, T1: 0}, {"u": OTHER, "t": OLD, "v": NEW})
    assert told == {"t": {"0": 10, "1": 0}, "u": {"0": 5}, f"t#{OLD}": {}, f"u#{OTHER}": {}}
    assert topic_ids_from_json(told) == {"t": OLD, "u": OTHER}
    # As earlier releases, Spark's Kafka source and users' own startingOffsets have it: no partition more.
    assert offsets_from_json(told) == {U0: 5, T0: 10, T1: 0}
    assert parse_offsets(json.dumps(told), "startingOffsets") == {U0: 5, T0: 10, T1: 0}


@pytest.mark.parametrize("told", [{"t#nonsense": {}}, {f"t#{OLD}": {}, f"t#{NEW}": {}}, {"t#": {}}])
def test_ids_that_are_damaged_are_not_believed(told: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="the checkpoint's offset"):
        topic_ids_from_json(told)


def test_tasks_are_told_the_ids_of_their_topics() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t,u", "coalesce": "false"}
    reader = RecordStreamReader(parse_options(options, is_streaming=True))
    start = offsets_to_json({T0: 10, U0: 5}, {"t": OLD, "u": OTHER})
    tasks = reader.partitions(start, offsets_to_json({T0: 12, U0: 6}, {"t": OLD, "u": OTHER}))
    told = [pickle.loads(pickle.dumps(task)).topic_ids for task in tasks]
    assert told == [{"t": OLD}, {"u": OTHER}]
    assert reader.partitions({"t": {"0": 1}}, {"t": {"0": 2}})[0].topic_ids == {}  # type: ignore[attr-defined]


def test_a_batch_that_was_planned_between_the_two_topics_skips_nothing_of_the_new_one() -> None:
    """The driver read the old id, then the new log's end: its tasks got no rows, and the batch was passed
    over where losses are accepted."""
    logs = logs_of_one_topic()
    logs.make_again("t", {T0: 25}, NEW)
    query = Query(logs, failOnDataLoss="false")
    query.checkpoint = json.dumps(offsets_to_json({T0: 25}, {"t": OLD}))
    assert query.trigger() == [PartitionRange("t", 0, 0, 25)]
