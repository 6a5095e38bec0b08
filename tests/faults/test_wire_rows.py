"""One bad input of each class on a live connection: the right error code or a closed connection, and
nothing worse.

Codes are Kafka's (Errors.java); where Kafka closes (a frame it cannot parse, an API or version it does not
have), so do we.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import psutil
import pytest

from localcluster.cluster import LocalCluster
from tests.faults import frames
from tests.faults.bad_batches import BAD_BATCHES, MESSAGE_TOO_LARGE
from tests.faults.frames import Batch
from tests.faults.wire import Wire

pytestmark = [pytest.mark.timeout(300)]

OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER = 1, 3, 6
INVALID_TOPIC, INVALID_REQUIRED_ACKS, INVALID_TIMESTAMP, UNSUPPORTED_VERSION = 17, 21, 32, 35
NOT_ENOUGH_REPLICAS, OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH = 19, 45, 47
FETCH_SESSION_NOT_FOUND = 70
UNKNOWN_LEADER_EPOCH = 75

INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class Target:
    """A topic with one partition, and the ports of its leader and of a follower."""

    topic: str
    leader_port: int
    follower_port: int
    leader_epoch: int

    def ask(self, payload: bytes, *, port: int | None = None) -> bytes:
        with Wire(port or self.leader_port) as wire:
            wire.send(frames.frame(payload))
            return wire.receive()

    def produce_code(self, records: bytes | None, **fields: int) -> int:
        return frames.only_partition_error(
            frames.PRODUCE, self.ask(frames.produce(self.topic, records, **fields))
        )


@pytest.fixture(scope="module")
def target(running_cluster: LocalCluster) -> Target:
    topic = "wire-rows"
    running_cluster.create_topic(topic, replication_factor=3)
    view = running_cluster.partition(topic, 0)
    assert view.leader is not None
    follower = next(broker_id for broker_id in view.replicas if broker_id != view.leader)
    described = Target(
        topic=topic,
        leader_port=running_cluster.brokers[view.leader].port,
        follower_port=running_cluster.brokers[follower].port,
        leader_epoch=view.leader_epoch,
    )
    # A topic exists once the controller says so; its leader hears of it a moment later, and clients retry
    # so long.
    running_cluster.wait_until("the leader leads", lambda: described.produce_code(Batch().encode()) == 0)
    return described


@pytest.fixture(autouse=True)
def _everyone_lives_and_serves(running_cluster: LocalCluster, target: Target) -> object:
    yield
    running_cluster.require_alive()
    assert target.produce_code(Batch().encode()) == 0
    return None


# --- frames -----------------------------------------------------------------------------------------------


CLOSES: dict[str, bytes] = {
    "a negative size": struct.pack(">i", -1),
    "a size beyond the limit": struct.pack(">i", INT_MAX) + b"x" * 100,
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "an empty frame": frames.frame(b""),
    "half a header": frames.frame(b"\x00\x12\x00"),
    "a header only": frames.frame(frames.request(frames.PRODUCE, 7, b"")),
    "an unknown api": frames.frame(frames.request(9_999, 0, b"")),
    "a negative api": frames.frame(frames.request(-1, 0, b"")),
    "a version too new": frames.frame(frames.request(frames.METADATA, 99, b"")),
    "a negative version": frames.frame(frames.request(frames.METADATA, -1, b"")),
    "a magic-0 era produce": frames.frame(frames.request(frames.PRODUCE, 0, b"")),
    "a huge array count": frames.frame(frames.request(frames.METADATA, 4, struct.pack(">i", INT_MAX))),
    "a negative array count": frames.frame(
        frames.request(frames.METADATA, 4, struct.pack(">i", -2) + b"\x00")
    ),
    "a string longer than the rest": frames.frame(
        frames.request(frames.FIND_COORDINATOR, 1, struct.pack(">h", 32_000) + b"short\x00")
    ),
    "a null where none may be": frames.frame(
        frames.request(frames.FIND_COORDINATOR, 1, struct.pack(">h", -1) + b"\x00")
    ),
    "text that is not UTF-8": frames.frame(
        frames.request(frames.FIND_COORDINATOR, 1, struct.pack(">h", 2) + b"\xff\xfe\x00")
    ),
    "an endless varint": frames.frame(frames.request(frames.API_VERSIONS, 3, b"\xff" * 20, flexible=True)),
    "a huge compact array": frames.frame(
        frames.request(frames.METADATA, 9, b"\xff\xff\xff\xff\x0f", flexible=True)
    ),
    # The eleven bytes that made one decoder reserve 34 GB and abort its process.
    "a huge produce array": frames.frame(
        frames.request(frames.PRODUCE, 9, bytes.fromhex("00ffff000003e8ffffffff0f"), flexible=True)
    ),
}


@pytest.mark.parametrize("raw", CLOSES.values(), ids=CLOSES.keys())
def test_a_frame_that_cannot_be_understood_closes_the_connection(target: Target, raw: bytes) -> None:
    with Wire(target.leader_port) as wire:
        wire.send(raw)
        assert wire.is_closed_by_broker()


def test_bytes_after_a_clients_request_are_ignored(target: Target) -> None:
    for whole in (
        frames.metadata(target.topic),
        frames.list_offsets(target.topic),
        frames.produce(target.topic, Batch().encode()),
        frames.fetch(target.topic),
    ):
        with Wire(target.leader_port) as wire:
            wire.send(frames.frame(whole + b"junk"))
            assert wire.receive()


def test_a_frame_that_ends_early_is_forgotten(target: Target) -> None:
    with Wire(target.leader_port) as wire:
        wire.send(struct.pack(">i", 100) + b"only this")
        wire.finish_sending()
        assert wire.is_closed_by_broker()


def test_a_frame_that_comes_byte_by_byte_is_answered(target: Target) -> None:
    with Wire(target.leader_port) as wire:
        for byte in frames.frame(frames.api_versions(correlation_id=9)):
            wire.send(bytes([byte]))
        assert wire.receive()[:4] == struct.pack(">i", 9)


def test_an_api_versions_request_too_new_learns_what_is_supported(target: Target) -> None:
    answer = target.ask(frames.request(frames.API_VERSIONS, 99, b"anything", correlation_id=5))
    correlation_id, error, count = struct.unpack_from(">ihi", answer)
    assert (correlation_id, error) == (5, UNSUPPORTED_VERSION)
    ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])}
    assert ranges[frames.API_VERSIONS][0] == 0
    assert ranges[frames.PRODUCE][1] >= 7


@pytest.mark.parametrize("correlation_id", [-1, 0, INT_MAX, -(2**31)])
def test_any_correlation_id_comes_back_as_it_was(target: Target, correlation_id: int) -> None:
    answer = target.ask(frames.api_versions(correlation_id=correlation_id))
    assert answer[:4] == struct.pack(">i", correlation_id)


def test_pipelined_requests_are_answered_in_order(target: Target) -> None:
    with Wire(target.leader_port) as wire:
        wire.send(b"".join(frames.frame(frames.api_versions(correlation_id=number)) for number in range(200)))
        answered = [struct.unpack(">i", wire.receive()[:4])[0] for _ in range(200)]
    assert answered == list(range(200))


def test_unknown_tagged_fields_are_skipped(target: Target) -> None:
    body = frames.compact_string("frames") + frames.compact_string("1.0") + b"\x01\x63\x03abc"
    answer = target.ask(frames.request(frames.API_VERSIONS, 3, body, flexible=True))
    assert struct.unpack_from(">h", answer, 4) == (0,)


# --- produce ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("records", "code"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
def test_a_bad_batch_is_refused_by_its_code(target: Target, records: bytes | None, code: int) -> None:
    assert target.produce_code(records) == code


def test_a_bomb_is_refused_in_bounded_memory(target: Target, running_cluster: LocalCluster) -> None:
    """Leaders open what they take (12.7, checked records): a bomb costs them no more than what one batch may
    hold, and never reaches those who read."""
    squeezed = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(squeezed.compress(bytes(1 << 20)) for _ in range(600)) + squeezed.flush()
    assert len(bomb) < 1_000_000
    leader = next(broker for broker in running_cluster.brokers.values() if broker.port == target.leader_port)
    process = psutil.Process(leader.process.pid)
    before = process.memory_info().rss
    assert target.produce_code(Batch(attributes=0x01, records=bomb).encode()) == MESSAGE_TOO_LARGE
    assert process.memory_info().rss - before < 64 << 20


def test_acks_of_two_do_not_exist(target: Target) -> None:
    assert target.produce_code(Batch().encode(), acks=2) == INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("partition", [-1, 1, INT_MAX])
def test_a_partition_that_does_not_exist_is_unknown(target: Target, partition: int) -> None:
    assert target.produce_code(Batch().encode(), partition=partition) == UNKNOWN_TOPIC


@pytest.mark.parametrize("name", ["absent", "", ".", "..", "x" * 250, "a/b", "nul\0", "\u202ebidi"])
def test_a_topic_that_does_not_exist_is_unknown_whatever_its_name(target: Target, name: str) -> None:
    answer = target.ask(frames.produce(name, Batch().encode()))
    assert frames.only_partition_error(frames.PRODUCE, answer) in (UNKNOWN_TOPIC, INVALID_TOPIC)


def test_a_follower_refuses_writes(target: Target) -> None:
    answer = target.ask(frames.produce(target.topic, Batch().encode()), port=target.follower_port)
    assert frames.only_partition_error(frames.PRODUCE, answer) == NOT_LEADER


def test_sequences_are_checked_like_kafka_does(target: Target) -> None:
    answer = target.ask(frames.init_producer_id())
    error, producer_id, producer_epoch = struct.unpack_from(">hqh", answer, 8)
    assert error == 0
    first = Batch(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0)
    stored = target.ask(frames.produce(target.topic, first.encode()))
    assert frames.only_partition_error(frames.PRODUCE, stored) == 0

    again = target.ask(frames.produce(target.topic, first.encode()))
    assert frames.only_partition_error(frames.PRODUCE, again) == 0
    assert frames.base_offset(again) == frames.base_offset(stored)

    assert target.produce_code(replace(first, base_sequence=2).encode()) == OUT_OF_ORDER_SEQUENCE
    newer = replace(first, producer_epoch=producer_epoch + 1)
    assert target.produce_code(newer.encode()) == 0
    assert target.produce_code(replace(first, base_sequence=1).encode()) == INVALID_PRODUCER_EPOCH


def test_a_new_producers_second_batch_does_not_come_first(target: Target) -> None:
    """A client takes its answer as vouching for the first (S84, a second batch is first): it is told to send
    it again, which it does after the first."""
    _, producer_id, _ = struct.unpack_from(">hqh", target.ask(frames.init_producer_id()), 8)
    first = Batch(producer_id=producer_id, producer_epoch=0, base_sequence=0)
    second = replace(first, base_sequence=1).encode()
    assert target.produce_code(second) == NOT_ENOUGH_REPLICAS
    assert [target.produce_code(first.encode()), target.produce_code(second)] == [0, 0]


def test_a_producer_of_a_topic_that_was_made_again_goes_on(target: Target) -> None:
    """This log never had what comes before: its batch is taken when it comes again, and the next follows."""
    _, producer_id, _ = struct.unpack_from(">hqh", target.ask(frames.init_producer_id()), 8)
    batches = [Batch(producer_id=producer_id, producer_epoch=0, base_sequence=n).encode() for n in (7, 8)]
    assert [target.produce_code(batch) for batch in batches] == [NOT_ENOUGH_REPLICAS] * 2
    assert [target.produce_code(batch) for batch in reversed(batches)] == [NOT_ENOUGH_REPLICAS, 0]
    assert target.produce_code(batches[1]) == 0


# --- fetch and offsets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"fetch_offset": 2**40}, OFFSET_OUT_OF_RANGE),
        ({"fetch_offset": -5}, OFFSET_OUT_OF_RANGE),
        ({"partition": 1}, UNKNOWN_TOPIC),
        ({"partition": -1}, UNKNOWN_TOPIC),
        ({"leader_epoch": 10**6}, UNKNOWN_LEADER_EPOCH),
        ({"session_id": 12_345, "session_epoch": 1}, FETCH_SESSION_NOT_FOUND),
    ],
)
def test_a_bad_fetch_is_refused_by_its_code(target: Target, fields: dict[str, int], code: int) -> None:
    answer = target.ask(frames.fetch(target.topic, **fields))
    assert frames.only_partition_error(frames.FETCH, answer) == code


@pytest.mark.parametrize("make", [frames.list_offsets, frames.offset_for_leader_epoch])
def test_offsets_of_an_unknown_partition_are_refused(target: Target, make: Callable[..., bytes]) -> None:
    payload = make(target.topic, partition=7)
    api_key = struct.unpack_from(">h", payload)[0]
    assert frames.only_partition_error(api_key, target.ask(payload)) == UNKNOWN_TOPIC


def test_offsets_under_a_future_leader_epoch_are_refused(target: Target) -> None:
    answer = target.ask(frames.list_offsets(target.topic, leader_epoch=target.leader_epoch + 10))
    assert frames.only_partition_error(frames.LIST_OFFSETS, answer) == UNKNOWN_LEADER_EPOCH
    answer = target.ask(frames.offset_for_leader_epoch(target.topic, current=target.leader_epoch + 10))
    assert frames.only_partition_error(frames.OFFSET_FOR_LEADER_EPOCH, answer) == UNKNOWN_LEADER_EPOCH
