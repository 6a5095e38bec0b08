"""What the sink's fault runs rest on: gates that lose what they are told to, schedules, and the verdict."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from localcluster.ports import LOOPBACK, PortReservation
from tests.pipeline_proof.faults.gate import FRAME_BYTES_MAX, Fate, Gate, Moment, Weather, read_frame
from tests.pipeline_proof.faults.proof import schedules
from tests.pipeline_proof.faults.schedule import Kind, Schedule, Setting, Strike, draw, settings
from tests.pipeline_proof.faults.storm import Storm
from tests.pipeline_proof.faults.verdict import judge

PRODUCE = 0
METADATA = 3


def frame(api_key: int, body: bytes) -> bytes:
    return struct.pack(">ih", 2 + len(body), api_key) + body


class EchoingBroker:
    """Answers every request with itself, and remembers them."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.arrived = threading.Semaphore(0)
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address = (LOOPBACK, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            while (request := read_frame(client)) is not None:
                self.got.append(request)
                self.arrived.release()
                client.sendall(request)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()


class Told(Weather):
    """Does to Produce requests what it is told, in turn, and notes their moments."""

    def __init__(self, *fates: Fate) -> None:
        self.fates = list(fates)
        self.moments: list[Moment] = []
        self.ports: list[int] = []

    def fate(self, *, broker_id: int, source_port: int, request: bytes) -> Fate:
        self.ports.append(source_port)
        return self.fates.pop(0) if self.fates else Fate.PASS

    def at(self, moment: Moment, *, broker_id: int, source_port: int) -> None:
        self.moments.append(moment)


@pytest.fixture
def broker() -> Iterator[EchoingBroker]:
    one = EchoingBroker()
    yield one
    with contextlib.suppress(OSError):
        one.close()


@pytest.fixture
def port() -> Iterator[int]:
    with PortReservation() as reserved:
        yield reserved.reserve_free()


def ask(port: int, *requests: bytes) -> list[bytes | None]:
    with socket.create_connection((LOOPBACK, port), timeout=10) as client:
        answers: list[bytes | None] = []
        for request in requests:
            client.sendall(request)
            try:
                answers.append(read_frame(client))
            except ConnectionResetError:
                answers.append(None)
            if answers[-1] is None:
                break
        return answers


def test_a_gate_passes_requests_and_answers_and_knows_a_produce_request_s_moments(
    broker: EchoingBroker, port: int
) -> None:
    told = Told()
    gate = Gate(1, port, lambda: broker.address, told)
    asked = [frame(METADATA, b"who"), frame(PRODUCE, b"x" * 100_000), frame(METADATA, b"")]
    assert ask(port, *asked) == asked == broker.got
    assert told.moments == [Moment.BEFORE, Moment.MIDDLE, Moment.AFTER]
    gate.close()


@pytest.mark.parametrize(
    ("fate", "arrives"), [(Fate.LOSE, False), (Fate.LOSE_ANSWER, True), (Fate.LATE, True)]
)
def test_what_is_lost_breaks_the_connection_and_arrives_or_not(
    broker: EchoingBroker, port: int, fate: Fate, arrives: bool
) -> None:
    gate = Gate(1, port, lambda: broker.address, Told(fate))
    request = frame(PRODUCE, b"records")
    assert ask(port, request) == [None]
    assert broker.arrived.acquire(timeout=10 if arrives else 0.2) is arrives
    assert broker.got == ([request] if arrives else [])
    assert ask(port, request) == [request]  # the next connection is none the worse
    gate.close()


@pytest.mark.parametrize("size", [-1, 0, 1, FRAME_BYTES_MAX + 1])
def test_what_is_no_frame_ends_the_connection(broker: EchoingBroker, port: int, size: int) -> None:
    gate = Gate(1, port, lambda: broker.address, Told())
    assert ask(port, struct.pack(">i", size) + b"junk") == [None]
    assert broker.got == []
    gate.close()


def test_a_gate_before_a_dead_broker_hangs_up_and_a_closed_one_takes_nobody(
    broker: EchoingBroker, port: int
) -> None:
    broker.close()
    gate = Gate(1, port, lambda: broker.address, Told())
    assert ask(port, frame(METADATA, b"")) == [None]
    gate.close()
    with pytest.raises(OSError, match="refused"):
        ask(port, frame(METADATA, b""))


def schedule_of(*strikes: Strike, lose: float = 0.0) -> Schedule:
    return Schedule(1, Setting.LOCAL, strikes, lose, 0.0, 0.0, 0.1)


def test_a_strike_meets_the_request_that_it_is_meant_for_at_its_moment() -> None:
    struck: list[tuple[Strike, int, int]] = []
    storm = Storm()
    strike = Strike(Kind.KILL_WORKER, 3, Moment.MIDDLE)
    # Everything is lost, but not the request that something strikes at.
    storm.begin(schedule_of(strike, lose=1.0), lambda *seen: struck.append(seen))
    fates = []
    for number in range(1, 5):
        fates.append(storm.fate(broker_id=2, source_port=100 + number, request=b""))
        for moment in Moment:
            storm.at(moment, broker_id=2, source_port=100 + number)
    assert fates == [Fate.LOSE, Fate.LOSE, Fate.PASS, Fate.LOSE]
    assert struck == [(strike, 2, 103)]


def test_zombies_are_counted_apart_and_alarms_ring_by_their_successors() -> None:
    storm = Storm()
    storm.begin(schedule_of(Strike(Kind.KILL_WORKER, 2, Moment.BEFORE)), lambda *seen: None)
    rung: list[int] = []
    storm.watch_zombie(lambda: {7})
    storm.at_request(2, lambda: rung.append(storm.requests))
    for port in (7, 8, 7, 7):
        assert storm.fate(broker_id=1, source_port=port, request=b"") is Fate.PASS
    assert (storm.requests, storm.zombie_requests, rung) == (1, 3, [])
    storm.fate(broker_id=1, source_port=8, request=b"")
    assert rung == [2]
    storm.end()
    storm.fate(broker_id=1, source_port=8, request=b"")
    assert storm.requests == 2


def test_twenty_runs_have_seen_every_kind_in_every_setting() -> None:
    drawn = schedules(20, first=77)
    assert [each.seed for each in drawn] == list(range(77, 97))
    assert {kind for each in drawn for kind in each.kinds} == set(Kind)
    assert {each.setting for each in drawn} == set(Setting)
    assert all(each.late == 0 for each in drawn if each.setting is Setting.FORGETFUL)
    assert not any(Kind.ZOMBIE in each.kinds for each in drawn if each.setting is Setting.FORGETFUL)
    assert schedules(20, first=77) == drawn


def test_strikes_come_in_the_order_of_their_requests() -> None:
    for seed in range(200):
        drawn = draw(seed, Setting.LOCAL, seed, requests=200, batches=6)
        points = [each.at for each in drawn.strikes if each.kind is not Kind.KILL_DRIVER_AT_COMMIT]
        assert points == sorted(points)
        assert all(5 <= point < 200 for point in points)


def test_few_runs_are_in_one_process() -> None:
    assert settings(1) == [(Setting.LOCAL, 0)]
    assert [setting for setting, _ in settings(5)].count(Setting.LOCAL) == 3


def test_the_verdict_counts_what_is_missing_twice_or_out_of_order() -> None:
    wanted = {0: 3, 1: 2}
    assert judge(wanted, [[(0, 0), (1, 0), (0, 2)], [(0, 1), (1, 1)]]) == (5, 0, 0, 0, 0)
    assert judge(wanted, [[(0, 0), (0, 1), (0, 0), (0, 1), (0, 2)], [(1, 1)]]) == (5, 1, 2, 1, 0)
    assert judge(wanted, [[(0, 1), (0, 0), (1, 0), (1, 1), (9, 9)]]) == (5, 1, 0, 1, 1)
    # In another partition no order was promised.
    assert judge(wanted, [[(0, 1), (1, 0)], [(0, 0), (0, 2), (1, 1)]]).is_exact
