"""What a streaming query remembers across restarts: where it began, and under which leader epochs it read."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from pipeline.client.values import TopicPartition
from pipeline.errors import DataLossError, InvalidOption, StateError
from pipeline.source.start_state import EPOCHS, START, Pinned, StartState, state_directory
from pipeline.source.stream_planner import StreamPlanner
from springtide.wire.fetch_response import EpochEnd
from tests.kit.pipeline.stream import Logs, Query

T0, T1 = (TopicPartition("t", number) for number in range(2))
OLD, NEW = str(UUID(int=7)), str(UUID(int=8))


class RememberingQuery(Query):
    """A query whose driver's memory is files."""

    def __init__(self, logs: Logs, directory: Path, **options: str) -> None:
        self._directory = directory
        super().__init__(logs, **options)

    def restart(self) -> None:
        self.planner = StreamPlanner(self.options, self.logs, self.logs.clock_ms, StartState(self._directory))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "query" / "source"


def test_the_start_is_pinned_before_spark_has_written_anything(directory: Path) -> None:
    logs = Logs({T0: 100, T1: 7})
    query = RememberingQuery(logs, directory)
    query.planner.next_end(query.planner.initial(), is_limited=True)
    # The driver is killed before Spark's offset log has the first micro-batch; "latest" moves on meanwhile.
    logs.now = {T0: 300, T1: 9}
    query.restart()
    query.trigger()
    assert query.checkpoint == '{"t": {"0": 100, "1": 7}}'
    assert [(one.start_offset, one.end_offset) for one in query.trigger()] == [(100, 300), (7, 9)]


def test_whoever_pins_first_decides(directory: Path) -> None:
    assert StartState(directory).pinned() is None
    first = Pinned({T0: 5}, {"t": OLD})
    assert StartState(directory).pin({T0: 5}, {"t": OLD, "u": NEW}) == first
    assert StartState(directory).pin({T0: 9}, {"t": NEW}) == first
    assert StartState(directory).pinned() == first


@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_log_that_was_truncated_while_no_driver_ran_is_found_out(
    directory: Path, is_available_now: bool
) -> None:
    logs = Logs({T0: 100})
    query = RememberingQuery(logs, directory, startingOffsets="earliest")
    query.trigger()
    query.trigger()
    assert query.checkpoint == '{"t": {"0": 100}}'
    # An unclean election: the new leader had 80 of the 100 and has taken 40 more since.
    logs.now[T0], logs.epochs[T0] = 120, 5
    logs.epoch_end[T0] = EpochEnd(4, 80)
    for _ in range(2):  # and again: who does not look does not make it good
        query.restart()
        if is_available_now:
            query.planner.freeze()
        with pytest.raises(
            DataLossError, match="leader epoch 4 ended before offset 80: the log was truncated"
        ):
            query.trigger()
    forgetful = Query(logs)
    forgetful.checkpoint = query.checkpoint
    assert forgetful.trigger(), "without the files nobody notices"


def test_a_loss_that_is_accepted_is_told_once(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs({T0: 100})
    query = RememberingQuery(logs, directory, failOnDataLoss="false")
    query.trigger()
    logs.now[T0], logs.epochs[T0] = 120, 5
    logs.epoch_end[T0] = EpochEnd(4, 80)
    query.restart()
    assert [one.end_offset for one in query.trigger()] == [120]
    assert "the log was truncated" in caplog.text
    caplog.clear()
    query.restart()
    logs.now[T0] = 130
    query.trigger()
    assert "truncated" not in caplog.text


def test_a_topic_that_was_created_anew_is_found_out_although_its_log_is_longer(directory: Path) -> None:
    logs = Logs({T0: 100})
    query = RememberingQuery(logs, directory)
    query.trigger()
    logs.now[T0], logs.epochs[T0] = 500, 0
    logs.epoch_end[T0] = EpochEnd(-1, -1)
    query.restart()
    with pytest.raises(DataLossError, match="does not know leader epoch 4: the log is another one"):
        query.trigger()


def test_clean_elections_are_followed_and_written_down_when_they_happen(directory: Path) -> None:
    logs = Logs({T0: 100})
    query = RememberingQuery(logs, directory)
    query.trigger()
    written = (directory / EPOCHS).stat().st_mtime_ns
    logs.now[T0] = 110
    query.trigger()
    assert (directory / EPOCHS).stat().st_mtime_ns == written, "nothing to write where nothing changed"
    logs.now[T0], logs.epochs[T0] = 120, 5
    logs.epoch_end[T0] = EpochEnd(4, 115)
    query.trigger()
    assert StartState(directory).epochs() == {T0: 5}
    logs.epochs[T0] = -1  # a leader that does not say
    logs.now[T0] = 125
    query.trigger()
    assert StartState(directory).epochs() == {T0: 5}


def test_what_is_remembered_needs_no_warning(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs({T0: 100, T1: 7})
    query = RememberingQuery(logs, directory)
    query.trigger()
    logs.now = {T0: 110, T1: 8}
    query.restart()
    query.trigger()
    assert caplog.messages == []
    # An option that is given to an old query knows nothing of what was before it.
    (directory / EPOCHS).unlink()
    query.restart()
    query.trigger()
    assert ["startState" in message for message in caplog.messages] == [True]


def test_epochs_that_say_nothing_are_not_kept(directory: Path) -> None:
    StartState(directory).remember({T0: 3, T1: -1})
    assert StartState(directory).epochs() == {T0: 3}
    assert sorted(path.name for path in directory.iterdir()) == [EPOCHS]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"version":2,"partitions":{}}',
        b'{"version":1}',
        b'{"version":1,"partitions":{"t":{"0":-3}}}',
    ],
)
def test_files_that_are_not_ours_are_not_believed(directory: Path, content: bytes) -> None:
    directory.mkdir(parents=True)
    (directory / START).write_bytes(content)
    (directory / EPOCHS).write_bytes(content)
    for read in (StartState(directory).pinned, StartState(directory).epochs):
        with pytest.raises(StateError, match="is damaged, or not ours"):
            read()


def test_files_are_written_as_spark_writes_offsets(directory: Path) -> None:
    StartState(directory).pin({T1: 7, T0: 100}, {})
    assert json.loads((directory / START).read_bytes()) == {
        "version": 1,
        "partitions": {"t": {"0": 100, "1": 7}},
    }


def test_a_place_where_files_can_not_be_put_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="not on a mounted file system"):
        state_directory("s3://bucket/x")
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="can't be written"):
        StartState(tmp_path / "file").remember({T0: 1})
    with pytest.raises(StateError, match="can't be written"):
        StartState(tmp_path / "file").pin({T0: 1}, {})


def test_a_topic_made_again_before_spark_wrote_the_start_is_found_out(directory: Path) -> None:
    logs = Logs({T0: 10})
    logs.ids = {"t": OLD}
    query = RememberingQuery(logs, directory)
    query.planner.next_end(query.planner.initial(), is_limited=True)
    logs.make_again("t", {T0: 25}, NEW)
    query.restart()
    assert query.trigger() == [], "the start stays pinned, in the topic that it was pinned in"
    with pytest.raises(DataLossError, match="deleted and created again"):
        query.trigger()


def test_leader_epochs_of_the_old_topic_are_not_held_against_the_new_one(directory: Path) -> None:
    logs = Logs({T0: 10})
    logs.ids = {"t": OLD}
    query = RememberingQuery(logs, directory, failOnDataLoss="false")
    query.trigger()
    logs.make_again("t", {T0: 25}, NEW)
    logs.epochs[T0] = 0
    query.restart()
    assert [(one.start_offset, one.end_offset) for one in query.trigger()] == [(0, 25)]
    assert logs.epochs_asked == []
    assert StartState(directory).epochs() == {T0: 0}
