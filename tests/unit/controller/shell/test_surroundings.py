"""What is around the engine: log lines, metrics, other processes' listeners, identifiers."""

from __future__ import annotations

import random
import socket

import pytest

from controller.shell.clock import Ids, SystemClock
from controller.shell.engine import Engine
from controller.shell.listeners import ListenerAnswer, TcpListeners, is_proven_dead
from controller.shell.metrics import EngineCollector
from tests.kit.clocks import VirtualClock
from tests.kit.controller.shell import form_cluster, make_engine, running
from tests.kit.memory.zookeeper import MemoryMeta, MemoryZooKeeper


def gauges(engine: Engine) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("cluster", "")): sample.value
        for family in EngineCollector(engine).collect()
        for sample in family.samples
    }


@pytest.mark.anyio
async def test_the_active_controllers_of_all_add_up_to_one_and_only_it_counts_partitions(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    first = make_engine(zookeeper.connect(), clock, name="c1")
    second = make_engine(zookeeper.connect(), clock, name="c2")
    async with running(first, second):
        await form_cluster(first)
        shown = [gauges(engine) for engine in (first, second)]
        name = "kafka_controller_kafkacontroller_activecontrollercount"
        assert [values[(name, "")] for values in shown] == [1, 0]
        assert shown[0][("kafka_controller_kafkacontroller_offlinepartitionscount", "prod")] == 0
        assert shown[0][("kafka_controller_kafkacontroller_activebrokercount", "prod")] == 3
        assert ("kafka_controller_kafkacontroller_activebrokercount", "prod") not in shown[1]
        assert shown[0][("kafka_controller_controllerstats_uncleanleaderelections_total", "")] == 0


@pytest.mark.anyio
async def test_an_engine_that_was_not_started_can_be_scraped(meta: MemoryMeta, clock: VirtualClock) -> None:
    values = gauges(make_engine(meta, clock))
    assert values[("kafka_controller_kafkacontroller_activecontrollercount", "")] == 0


def test_identifiers_have_kafkas_form_and_never_look_like_a_flag() -> None:
    ids = Ids(random.Random(0).randbytes)
    made = [ids.new_id() for _ in range(1_000)]
    assert len(set(made)) == 1_000
    assert all(len(text) == 22 and not text.startswith("-") for text in made)


class TestTcpListeners:
    """Real sockets, so in real time: milliseconds."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_an_open_port_accepts_and_a_closed_one_is_a_proof(self) -> None:
        clock = SystemClock()
        listeners = TcpListeners(clock)
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            assert await listeners.ask("127.0.0.1", port) is ListenerAnswer.ACCEPTED
            assert not await is_proven_dead(listeners, clock, host="127.0.0.1", port=port)
        assert await listeners.ask("127.0.0.1", port) is ListenerAnswer.REFUSED
        assert await is_proven_dead(listeners, clock, host="127.0.0.1", port=port)

    async def test_a_name_that_does_not_resolve_proves_nothing(self) -> None:
        assert await TcpListeners(SystemClock()).ask("nobody.invalid", 1) is ListenerAnswer.SILENT

    async def test_a_full_backlog_proves_nothing(self) -> None:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen(0)
            port = server.getsockname()[1]
            waiting = [socket.socket() for _ in range(4)]
            try:
                for connection in waiting:
                    connection.setblocking(False)
                    connection.connect_ex(("127.0.0.1", port))
                assert await TcpListeners(SystemClock()).ask("127.0.0.1", port) is not ListenerAnswer.REFUSED
            finally:
                for connection in waiting:
                    connection.close()

    async def test_a_held_connection_ends_with_the_other_side(self) -> None:
        listeners = TcpListeners(SystemClock())
        accepted: list[str] = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

            def close() -> None:
                accepted.append("accepted")
                server.accept()[0].close()

            assert await listeners.hold("127.0.0.1", port, on_accepted=close)
        assert accepted == ["accepted"]
        assert not await listeners.hold("127.0.0.1", port, on_accepted=close)
