"""What each step of a replicated write costs, in one process: `python -m bench hot_path [--batch NAME]`.

For work on the hot path: run it, change something, run it again. It takes one batch through the real code of
a leader and of a follower, over logs in real files, without sockets, tasks and other processes, so that a
few per cent show which the whole system's noise would hide. What it leaves out (the kernel's network, epoll,
trio) is most of a small request's cost: a gain here has to be found again by `python -m bench cluster`.

A round is the requests that one pass of a broker starts, and the fetch of both followers that carries them
and commits those before them. The figure is the median over slices of the time, in microseconds a request: a
slice in which the machine did something else drops out.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.cases import HUGE_1KB, LARGE_100B, SMALL
from bench.protocol import encode_produce, encode_produced_batch
from dataplane.core.effects import CompleteProduce
from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import (
    AskedPartition,
    FetchPosition,
    FetchSession,
    FetchSessions,
    FollowerSession,
    SessionRequest,
)
from dataplane.core.replica import Replica
from dataplane.core.results import FetchResult, LeaderAnswer, ReplicaOptions
from dataplane.storage.disk import PosixDisk
from dataplane.storage.log_dir import LogDir, open_log_dir
from dataplane.storage.log_settings import LogOptions, PartitionId
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState
from springtide.contract.session import BrokerStatus, HeartbeatResponse
from springtide.contract.updates import BrokerEndpoint
from springtide.native.record_walk import choose_implementation, use
from springtide.node.lease import Lease
from springtide.node.topic_ids import topic_id_bytes, topic_id_text
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import RequestTemplate, decode_fetch_request
from springtide.wire.fetch_response import decode_fetch_frame, encode_fetch_frame
from springtide.wire.framing import FileChunk, FrameReader, encode_response_frame
from springtide.wire.headers import decode_request_header
from springtide.wire.produce import ProduceOutcome, decode_produce_request, encode_produce_response
from springtide.wire.produced_records import check_produced_records, plain_batch_header
from springtide.wire.record_batch import check_produced_batch, decode_header
from springtide.wire.records import DECOMPRESSED_BYTES_MAX

TOPIC, TOPIC_ID, PARTITION = "hot-path", "c3ByaW5ndGlkZS1iZW5jaA", 0
LEADER, FOLLOWERS = 1, (2, 3)
LEADER_EPOCH, CONTROLLER_EPOCH = 1, 1
NOW_MS, WALL_MS = 1_000, 1_700_000_000_000
LEASE_MS = 2**40
MESSAGE_BYTES_MAX = 1_048_588
RESPONSE_BYTES_MAX = 10 * 1024 * 1024
SEGMENT_BYTES = 32 * 1024 * 1024
KEPT_BYTES = 2 * SEGMENT_BYTES
PRODUCE_VERSION = 7

BATCHES = {"100b": (SMALL, 100), "66k": (LARGE_100B, 100), "1m": (HUGE_1KB, 1024)}
"""Name to records and bytes of a record."""
GROUPS = {"100b": (1, 16), "66k": (1, 8), "1m": (1,)}
"""Requests of a round. What a round appends must fit the memory that followers are served from."""
SLICES = 15

RECEIVE = "receive a frame"
DECODE = "decode the request"
CHECK = "check the batch"
APPEND = "append at the leader"
ASK = "a follower's request, both ends"
READ = "the leader's answer, and commit"
CARRY = "the answer's bytes, both ends"
FOLLOW = "append at a follower"
ANSWER = "answer the producer"
STEPS = (RECEIVE, DECODE, CHECK, APPEND, ASK, READ, CARRY, FOLLOW, ANSWER)


class Node:
    """One broker's replica of the partition, its log in real files."""

    def __init__(self, broker_id: int, directory: Path) -> None:
        self.broker_id = broker_id
        self.log_dir: LogDir = open_log_dir(
            PosixDisk(),
            str(directory / f"broker-{broker_id}"),
            broker_id=broker_id,
            new_dir_id=f"dir-{broker_id}",
            boot_id="boot",
            options=LogOptions(segment_bytes=SEGMENT_BYTES),
        )
        self.log = self.log_dir.create(PartitionId(TOPIC_ID, TOPIC, PARTITION), now_ms=NOW_MS)
        lease = Lease()
        lease.on_applied(controller_epoch=ControllerEpoch(CONTROLLER_EPOCH), sequence=1)
        lease.on_heartbeat_acked(
            HeartbeatResponse(
                controller_epoch=ControllerEpoch(CONTROLLER_EPOCH),
                status=BrokerStatus.ACTIVE,
                lease_ms=LEASE_MS,
                sequence=1,
            ),
            sent_ms=NOW_MS,
            now_ms=NOW_MS,
        )
        self.replica = Replica(
            broker_id=broker_id,
            topic_id=TOPIC_ID,
            partition=PARTITION,
            log=self.log,
            lease=lease,
            brokers={
                one: BrokerEndpoint(
                    broker_id=one, broker_epoch=BrokerEpoch(one), host="h", port=9092, active=True
                )
                for one in (LEADER, *FOLLOWERS)
            },
            options=ReplicaOptions(),
        )
        self.replica.on_partition_state(
            PartitionState(
                topic_id=TOPIC_ID,
                topic=TOPIC,
                partition=PARTITION,
                replicas=(LEADER, *FOLLOWERS),
                leader=LEADER,
                leader_epoch=LeaderEpoch(LEADER_EPOCH),
                partition_epoch=PartitionEpoch(1),
                isr=(LEADER, *FOLLOWERS),
                min_insync_replicas=2,
            ),
            now_ms=NOW_MS,
        )
        self.fetching = FollowerSession()
        self.template = RequestTemplate(
            client_id=f"broker-{broker_id}",
            replica_id=broker_id,
            broker_epoch=broker_id,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=RESPONSE_BYTES_MAX,
        )
        self.session: FetchSession | None = None
        """The leader's end of a follower's session."""

    def retain(self) -> None:
        """What retention does on a broker: the page cache must not grow."""
        if self.log.size_bytes > KEPT_BYTES:
            self.log.advance_log_start(max(self.log.log_start_offset, self.replica.high_watermark))
            self.log.unlink_detached(self.log.detach_old_segments())


class Round:
    """Takes requests through every step and adds up the time of each.

    As in life, one fetch of a follower says what it has, which commits that, and brings what is new: so a
    round's last requests are answered in the next round.
    """

    def __init__(self, directory: Path, *, batch: bytes, group: int) -> None:
        self._leader = Node(LEADER, directory)
        self._followers = [Node(broker_id, directory) for broker_id in FOLLOWERS]
        self._sessions = FetchSessions(iter(range(1, 1000)))
        self._request = encode_produce(
            topic=TOPIC, partition=PARTITION, acks=-1, batch=batch, correlation_id=7
        )
        self._group = group
        self._reader = FrameReader()
        self.spent_s = dict.fromkeys(STEPS, 0.0)
        self.requests = 0
        self.answered = 0

    def clear(self) -> None:
        self.spent_s = dict.fromkeys(STEPS, 0.0)
        self.requests = self.answered = 0

    def run(self) -> None:
        """One round."""
        for frame in self._receive():
            self._append(frame)
        self.requests += self._group
        for follower in self._followers:
            while follower.log.log_end_offset < self._leader.log.log_end_offset:
                self._replicate(follower)
        self._leader.retain()
        for follower in self._followers:
            follower.retain()

    def close(self) -> None:
        for node in (self._leader, *self._followers):
            node.log_dir.abandon()

    def _lap(self, step: str, since: float) -> float:
        now = time.perf_counter()
        self.spent_s[step] += now - since
        return now

    def _receive(self) -> list[memoryview]:
        """As much of the requests as fits goes in with each read, as from a socket that has it all."""
        frames: list[memoryview] = []
        reader = self._reader
        unread = memoryview(self._request * self._group)
        since = time.perf_counter()
        while unread:
            room = reader.writable()
            count = min(len(room), len(unread))
            room[:count] = unread[:count]
            reader.received(count)
            unread = unread[count:]
            while (frame := reader.next_frame()) is not None:
                frames.append(frame)
        self._lap(RECEIVE, since)
        return frames

    def _append(self, frame: memoryview) -> None:
        since = time.perf_counter()
        header = decode_request_header(frame)
        request = decode_produce_request(header[1], frame, header[4])
        since = self._lap(DECODE, since)
        records = request.partitions[0][2]
        batch_header = plain_batch_header(
            records,
            max_message_bytes=MESSAGE_BYTES_MAX,
            needs_keys=False,
            timestamp_ms_min=None,
            timestamp_ms_max=None,
        )
        if batch_header is None:
            batch_header = decode_header(records)
            error = check_produced_batch(records, max_message_bytes=MESSAGE_BYTES_MAX, header=batch_header)
            assert error is ErrorCode.NONE
            checked = check_produced_records(
                records, batch_header, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX
            )
            assert checked.error is ErrorCode.NONE and checked.batch is records
        since = self._lap(CHECK, since)
        result, _ = self._leader.replica.role.append(
            batch_header,
            records,
            acks=request.acks,
            waiter=header[2],
            expires_ms=NOW_MS + request.timeout_ms,
            now_ms=NOW_MS,
            wall_ms=WALL_MS,
        )
        assert result.is_waiting, result
        self._lap(APPEND, since)

    def _replicate(self, follower: Node) -> None:
        """One fetch of one follower, from its position to its append."""
        since = time.perf_counter()
        position = self._ask(follower)
        since = self._lap(ASK, since)
        data, completed = self._read(follower)
        since = self._lap(READ, since)
        fetched = self._carry(follower, data)
        since = self._lap(CARRY, since)
        following = follower.replica.following
        assert following is not None
        following.on_fetched(fetched, asked=position, now_ms=NOW_MS, wall_ms=WALL_MS)
        since = self._lap(FOLLOW, since)
        for _ in range(completed):
            body = encode_produce_response(PRODUCE_VERSION, [ProduceOutcome(TOPIC, PARTITION, 0, 1, -1, 0)])
            encode_response_frame(7, [body], has_flexible_header=False)
        self._lap(ANSWER, since)
        self.answered += completed

    def _ask(self, follower: Node) -> FetchPosition:
        """Builds and encodes what a follower asks, and decodes it as its leader does."""
        replica = follower.replica
        asked = replica.next_fetch()
        assert asked is not None
        follower.fetching.set_position((TOPIC_ID, PARTITION), asked)
        built = follower.fetching.build()
        ((topic_id, partition), position), *_ = built.partitions
        request = follower.template.encode(
            correlation_id=1,
            session_id=built.session_id,
            session_epoch=built.session_epoch,
            topic_id=topic_id_bytes(topic_id),
            partition=partition,
            leader_epoch=position.leader_epoch,
            fetch_offset=position.fetch_offset,
            last_fetched_epoch=position.last_fetched_epoch,
            log_start_offset=position.log_start_offset,
            partition_bytes_max=position.max_bytes,
        )
        frame = memoryview(request)[4:]
        header = decode_request_header(frame)
        message = decode_fetch_request(header[1], frame, header[4])
        opened = self._sessions.open(
            SessionRequest(
                session_id=message.session_id,
                session_epoch=message.session_epoch,
                replica_id=message.replica_id,
                broker_epoch=BrokerEpoch(message.broker_epoch),
                uses_topic_ids=True,
                partitions=[
                    AskedPartition(
                        (
                            topic_id_text(one.topic) if isinstance(one.topic, bytes) else one.topic,
                            one.partition,
                        ),
                        FetchPosition(
                            one.fetch_offset,
                            LeaderEpoch(one.last_fetched_epoch),
                            LeaderEpoch(one.leader_epoch),
                            one.log_start_offset,
                            one.max_bytes,
                            one.wants_producers,
                        ),
                    )
                    for one in message.partitions
                ],
            ),
            now_ms=NOW_MS,
        )
        assert isinstance(opened, FetchSession), opened
        follower.session = opened
        return asked

    def _read(self, follower: Node) -> tuple[FetchResult, int]:
        """The replica's answer, and how many producers it lets go."""
        session = follower.session
        assert session is not None
        (followed,) = session.due()
        fetch = ReplicaFetch(
            session.replica_id,
            session.broker_epoch,
            followed.position,
            followed.position.max_bytes,
            contact=session.contact,
        )
        result, effects = self._leader.replica.role.on_replica_fetch(fetch, now_ms=NOW_MS)
        assert result.error is ErrorCode.NONE and result.records is not None, result
        session.settle(followed, result, is_more_left=False)
        completed = sum(len(effect.waiters) for effect in effects if isinstance(effect, CompleteProduce))
        return result, completed

    def _carry(self, follower: Node, result: FetchResult) -> LeaderAnswer:
        """Encoded, joined (the sockets' part, one copy), and decoded."""
        assert follower.session is not None
        assert result.records is not None
        chunks = encode_fetch_frame(
            correlation_id=1,
            session_id=follower.session.session_id,
            topic_id=topic_id_bytes(TOPIC_ID),
            partition=PARTITION,
            offsets=(result.high_watermark, result.high_watermark, result.log_start_offset),
            records=[part for part in result.records.parts if isinstance(part, memoryview)],
            records_bytes=result.records.size_bytes,
        )
        frame = memoryview(b"".join(chunk for chunk in chunks if not isinstance(chunk, FileChunk)))[4:]
        _, answer = decode_fetch_frame(frame)
        follower.fetching.on_answer(ErrorCode(answer.error_code), session_id=answer.session_id)
        one = answer.partitions[0]
        records = one.records[0] if one.records else b""
        assert isinstance(records, bytes | bytearray | memoryview)
        return LeaderAnswer(
            high_watermark=one.high_watermark, log_start_offset=one.log_start_offset, records=records
        )


def measure(batch_name: str, *, group: int, seconds: float) -> dict[str, float]:
    """Microseconds a request, by step: the median of slices."""
    records, record_bytes = BATCHES[batch_name]
    batch = encode_produced_batch(batch_records=records, record_bytes=record_bytes, timestamp_ms=WALL_MS)
    slices: dict[str, list[float]] = {step: [] for step in STEPS}
    with tempfile.TemporaryDirectory(prefix="hot-path-") as directory:
        rounds = Round(Path(directory), batch=batch, group=group)
        gc.collect()
        gc.freeze()
        for number in range(SLICES + 1):
            rounds.clear()
            deadline = time.perf_counter() + seconds / SLICES
            while time.perf_counter() < deadline:
                rounds.run()
            assert rounds.answered >= rounds.requests - group, "all but the last round's are answered"
            if number:  # the first warms up
                for step in STEPS:
                    slices[step].append(rounds.spent_s[step] / rounds.requests * 1e6)
        rounds.close()
    return {step: median(values) for step, values in slices.items()}


def report(measured: dict[tuple[str, int], dict[str, float]]) -> list[str]:
    """Steps down, batches across."""
    heads = [f"{name} x{group}" for name, group in measured]
    width = max(map(len, STEPS))
    lines = [" " * width + "".join(head.rjust(12) for head in heads)]
    lines += [
        step.ljust(width) + "".join(f"{steps[step]:12.2f}" for steps in measured.values()) for step in STEPS
    ]
    lines.append("sum".ljust(width) + "".join(f"{sum(steps.values()):12.2f}" for steps in measured.values()))
    return lines


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batch", action="append", choices=list(BATCHES), help="only this one; may be repeated"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="for each column (default 2)")


def run(options: argparse.Namespace) -> int:
    native = choose_implementation(os.environ)
    use(native)
    measured: dict[tuple[str, int], dict[str, float]] = {}
    for name in options.batch or BATCHES:
        for group in GROUPS[name]:
            measured[name, group] = measure(name, group=group, seconds=options.seconds)
    sys.stdout.write(f"microseconds a request; xN: requests that one fetch round carries; {native.name}\n")
    sys.stdout.write("".join(f"{line}\n" for line in report(measured)))
    return 0
