"""What attempts agree on, in files; options and columns that are refused; the commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.client.values import TopicPartition
from pipeline.errors import DeliveryFailed, InvalidOption, InvalidRows, SinkStateError
from pipeline.files import StoredFiles
from pipeline.sink.columns import HEADERS, check_columns
from pipeline.sink.commit import TaskReport, commit_micro_batch, commit_summary
from pipeline.sink.opening import TopicOpening, decode_opening, encode_opening, fingerprint_of
from pipeline.sink.options import DeliveryMode, parse_sink_options
from pipeline.sink.state import BATCHES_RETAINED, SinkState, state_directory
from pipeline.sink.steps import Delivered
from springtide.wire.compression import Compression
from tests.kit.pipeline.memory_cluster import MemoryClient, MemoryCluster

FINGERPRINT = fingerprint_of({"topic": "orders", "columns": "value:binary"})
OPENING = TopicOpening("orders", 7, 1_700_000_000_000, (5, 0, 2**40), (3, 0, -1), FINGERPRINT)
SERVERS = {"kafka.bootstrap.servers": "h:9092"}


def test_an_opening_survives_its_file() -> None:
    assert decode_opening(encode_opening(OPENING), topic="orders", batch_id=7) == OPENING
    assert OPENING.partition_count == 3
    assert OPENING.partition(1).opened_ms == OPENING.opened_ms


def test_damaged_openings_are_errors_never_other_openings() -> None:
    encoded = encode_opening(OPENING)
    for end in range(len(encoded)):
        with pytest.raises(SinkStateError):
            decode_opening(encoded[:end], topic="orders", batch_id=7)
    for old, new in (
        (b'"version":1', b'"version":2'),
        (b"[5,0,", b"[-5,0,"),
        (b"[5,0,", b"[true,0,"),
        (b"[5,0,", b"[0,"),
        (b"[3,0,-1]", b"[3,0,-2]"),
        (b'"value:binary"', b"4"),
        (b'"value:binary"', b'"value:string"'),
    ):
        assert old in encoded
        with pytest.raises(SinkStateError):
            decode_opening(encoded.replace(old, new), topic="orders", batch_id=7)
    for nothing in (b"", b"[]", b"null", b"\xff", b"[" * 100_000):
        with pytest.raises(SinkStateError):
            decode_opening(nothing, topic="orders", batch_id=7)
    with pytest.raises(SinkStateError, match="another one's"):
        decode_opening(encoded, topic="orders", batch_id=8)


def test_a_fingerprint_names_what_changed() -> None:
    OPENING.check(fingerprint_of({"columns": "value:binary", "topic": "orders"}))
    with pytest.raises(SinkStateError, match=r"columns: value:binary -> value:string; sinkId: absent -> x\."):
        OPENING.check(fingerprint_of({"topic": "orders", "columns": "value:string", "sinkId": "x"}))


def test_the_first_opening_stays(tmp_path: Path) -> None:
    state = SinkState(tmp_path / "springtide-sink")
    assert state.opening(7, "orders", lambda: OPENING) == OPENING

    def propose() -> TopicOpening:
        raise AssertionError("it is there already")

    assert state.opening(7, "orders", propose) == OPENING
    assert SinkState(tmp_path / "springtide-sink").opening(7, "orders", propose) == OPENING
    assert [path.name for path in (tmp_path / "springtide-sink" / "7").iterdir()] == ["orders.opening.json"]


def test_who_comes_second_gets_what_is_there(tmp_path: Path) -> None:
    path, files = tmp_path / "deep" / "file", StoredFiles(SinkStateError, bytes_max=9)
    assert files.put_if_absent(path, b"first") == b"first"
    assert files.put_if_absent(path, b"second") == b"first"
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_a_place_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SinkStateError, match="can't be written"):
        StoredFiles(SinkStateError, bytes_max=9).put_if_absent(tmp_path / "file" / "below", b"x")


@pytest.mark.parametrize("topic", ["", "a/b", "..\0", "x" * 250, "a\n"])
def test_a_topic_that_is_none_names_no_file(tmp_path: Path, topic: str) -> None:
    with pytest.raises(SinkStateError, match="no topic name"):
        SinkState(tmp_path).opening(0, topic, lambda: OPENING)
    assert list(tmp_path.iterdir()) == []


def test_a_micro_batch_that_is_committed_twice_must_be_the_same(tmp_path: Path) -> None:
    state = SinkState(tmp_path)
    state.record_commit(4, b"one")
    state.record_commit(4, b"one")
    with pytest.raises(SinkStateError, match="one then, two now"):
        state.record_commit(4, b"two")


def test_old_micro_batches_are_forgotten_and_nothing_else(tmp_path: Path) -> None:
    state = SinkState(tmp_path)
    state.forget_before(10)
    for batch_id in range(3):
        state.record_commit(batch_id, b"{}")
    (tmp_path / "notes").mkdir()
    state.forget_before(BATCHES_RETAINED + 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "notes"]
    SinkState(tmp_path / "nowhere").forget_before(1_000)


def test_checkpoints_are_paths_and_other_places_are_refused() -> None:
    assert state_directory("/a/b") == Path("/a/b/springtide-sink")
    assert state_directory("file:/a%20b/c") == Path("/a b/c/springtide-sink")
    assert state_directory("file:///a/b") == Path("/a/b/springtide-sink")
    for elsewhere in ("s3a://bucket/x", "hdfs://nn:8020/x", "file://host/x", ""):
        with pytest.raises(SinkStateError):
            state_directory(elsewhere)


# The commit.


def report(task: int, *stored: tuple[int, int, int, int]) -> TaskReport:
    """stored: (partition, records, leader epoch, high watermark)."""
    return TaskReport(
        task, {TopicPartition("orders", p): Delivered(n, epoch, mark) for p, n, epoch, mark in stored}
    )


def test_a_summary_is_the_same_whatever_order_tasks_end_in() -> None:
    first, second = report(0, (1, 5, 0, 9), (0, 3, 0, 8)), report(1)
    assert commit_summary(7, [first, second]) == commit_summary(
        7, [second, report(0, (0, 3, 4, 80), (1, 5, 4, 90))]
    )
    assert commit_summary(7, [first]) != commit_summary(7, [first, second])


def test_a_commit_finds_that_an_unclean_election_cut_the_log(tmp_path: Path) -> None:
    cluster = MemoryCluster.of("orders", 2)
    client, state = MemoryClient(cluster), SinkState(tmp_path)
    for partition in cluster.partitions.values():
        partition.produce(
            producer_id=1, producer_epoch=0, base_sequence=0, records=("a", "b"), batch_id=0, now_ms=0
        )
        partition.replicate_all()
    reports = [report(0, (0, 2, 0, 2), (1, 2, 0, 2)), report(1, (1, 1, 0, 1))]
    commit_micro_batch(client, state, 0, reports)  # type: ignore[arg-type]
    cut = cluster.partitions[TopicPartition("orders", 1)]
    cut.ends[2] = 0
    assert cut.elect(2)
    with pytest.raises(DeliveryFailed, match="orders-1 was committed up to offset 2 under leader epoch 0"):
        commit_micro_batch(client, state, 1, reports)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


# Options and columns.


def test_the_defaults_are_exactly_once_and_official_names_mean_what_they_mean() -> None:
    options = parse_sink_options({**SERVERS, "Topic": "orders"})
    assert options.mode is DeliveryMode.EXACTLY_ONCE
    assert options.topic == "orders"
    assert options.batches.compression is Compression.NONE
    options = parse_sink_options(
        {
            **SERVERS,
            "kafka.compression.type": "zstd",
            "kafka.delivery.timeout.ms": "5000",
            "producerStateTrusted": "2h",
            "DELIVERY": "at-least-once",
            "kafka.enable.idempotence": "false",
            "sinkId": "x",
            "batchBytes": "2048",
        }
    )
    assert options.mode is DeliveryMode.AT_LEAST_ONCE
    assert options.batches.compression is Compression.ZSTD
    assert options.batches.batch_bytes_max == 2048
    assert options.delivery.stalled_ms == 5000
    assert options.delivery.memory_trusted_ms == 2 * 60 * 60 * 1000
    assert options.given_sink_id == "x"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("delivery", "transactional", "no transactions"),
        ("delivery", "twice", "must be one of"),
        ("kafka.acks", "1", "acks=all"),
        ("kafka.acks", "0", "acks=all"),
        ("kafka.enable.idempotence", "false", "at-least-once"),
        ("kafka.transactional.id", "x", "no transactions"),
        ("kafka.key.serializer", "x", "not supported"),
        ("kafka.compression.type", "br", "must be one of none, gzip"),
        ("batchBytes", "12", "batchBytes"),
        ("batchBytes", "many", "batchBytes"),
        ("sinkId", "", "sinkId"),
        ("producerStateTrusted", "soon", "producerStateTrusted"),
        ("producerStateTrusted", "0s", "producerStateTrusted"),
        ("kafka.bootstrap.servers", "nowhere", "no host:port"),
    ],
)
def test_options_that_can_not_be_kept_are_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        parse_sink_options({**SERVERS, name: value})


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(InvalidOption, match=r"kafka\.bootstrap\.servers"):
        parse_sink_options({})


def test_columns_are_the_official_ones_and_a_timestamp() -> None:
    check_columns(
        {
            "Key": "string",
            "value": "binary",
            "topic": "string",
            "headers": HEADERS,
            "partition": "int",
            "timestamp": "timestamp",
            "else": "map<string,int>",
        },
        has_topic_option=False,
    )


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"key": "string"}, "'value' not found"),
        ({"value": "int"}, "value attribute type must be string or binary, not int"),
        ({"value": "string", "VALUE": "string"}, "only in case"),
        ({"value": "string", "partition": "bigint"}, "partition attribute"),
        ({"value": "string", "topic": "binary"}, "topic attribute"),
        ({"value": "string", "headers": "map<string,string>"}, "headers attribute"),
        ({"value": "string", "timestamp": "date"}, "timestamp attribute"),
    ],
)
def test_columns_that_make_no_records_are_refused(types: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRows, match=message):
        check_columns(types, has_topic_option=True)


def test_a_topic_is_needed_from_somewhere() -> None:
    with pytest.raises(InvalidRows, match="topic option required"):
        check_columns({"value": "string"}, has_topic_option=False)
