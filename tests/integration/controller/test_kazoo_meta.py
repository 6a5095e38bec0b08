"""The port over a real ZooKeeper: the same answers as the model's, and the faults that only a server has."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.shell.kazoo_meta import KazooMeta
from controller.shell.meta import (
    CheckVersion,
    Committed,
    Create,
    Delete,
    MetaUnavailable,
    Operation,
    Outcome,
    Rejected,
    SessionState,
    SetData,
    Unknown,
    WriteRejection,
)
from localcluster.java import find_java
from localcluster.ports import PortReservation
from localcluster.zookeeper import ZooKeeper, ZooKeeperPorts
from tests.integration.controller.conftest import OpenMeta, until_state
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PATHS = ("/a", "/a/b", "/a/c", "/d")
paths = st.sampled_from(PATHS)
versions = st.integers(min_value=-1, max_value=2)
data = st.binary(max_size=8)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, paths, data, st.just(False)),
    st.builds(CheckVersion, paths, st.integers(min_value=0, max_value=2)),
    st.builds(SetData, paths, data, versions),
    st.builds(Delete, paths, versions),
)
writes = st.lists(st.lists(operations, min_size=1, max_size=4), max_size=12)


def outline(outcome: Outcome) -> tuple[str, int, str]:
    match outcome:
        case Committed():
            return ("committed", -1, "")
        case Rejected(index, reason, _):
            return ("rejected", index, reason)
        case Unknown(detail):
            return ("unknown", -1, detail)


async def test_the_model_and_the_server_answer_alike(open_meta: OpenMeta) -> None:
    told: list[list[list[Operation]]] = []

    # Hypothesis draws the schedules before there is a client: its examples can't be awaited, and it refuses
    # to draw while somebody else uses the shared `random`, as kazoo's threads do for the jitter of pings.
    @given(writes)
    @settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck), deadline=None)
    def draw(schedule: list[list[Operation]]) -> None:
        told.append(schedule)

    draw()
    async with open_meta() as real:
        for run, schedule in enumerate(told, start=1):
            prefix = f"/run-{run}"
            model = MemoryZooKeeper(latency_ms=0).connect()
            for meta in (real, model):
                await meta.start_write([Create(prefix, b"")]).outcome()
            for write in schedule:
                moved = [_moved(operation, prefix) for operation in write]
                answers = [outline(await meta.start_write(moved).outcome()) for meta in (real, model)]
                assert answers[0] == answers[1], write
            for path in PATHS:
                nodes = [await meta.get(prefix + path) for meta in (real, model)]
                contents = [None if node is None else (node.data, node.version) for node in nodes]
                assert contents[0] == contents[1]
                children = [await meta.children(prefix + path) for meta in (real, model)]
                assert children[0] == children[1]


def _moved(operation: Operation, prefix: str) -> Operation:
    match operation:
        case Create(path, bytes_, ephemeral):
            return Create(prefix + path, bytes_, ephemeral)
        case CheckVersion(path, version):
            return CheckVersion(prefix + path, version)
        case SetData(path, bytes_, version):
            return SetData(prefix + path, bytes_, version)
        case Delete(path, version):
            return Delete(prefix + path, version)


async def test_one_failed_operation_of_many_fails_the_write_and_says_which(open_meta: OpenMeta) -> None:
    """kazoo returns the errors of a transaction instead of raising them."""
    async with open_meta() as meta:
        await meta.start_write([Create("/a", b"1"), Create("/b", b"1")]).outcome()
        outcome = await meta.start_write(
            [SetData("/a", b"2", 0), CheckVersion("/b", 7), SetData("/b", b"2", 0)]
        ).outcome()
        assert outline(outcome) == ("rejected", 1, WriteRejection.BAD_VERSION)
        node = await meta.get("/a")
        assert node is not None and (node.data, node.version) == (b"1", 0)


async def test_writes_started_together_are_applied_in_their_order(open_meta: OpenMeta) -> None:
    async with open_meta() as meta:
        await meta.start_write([Create("/a", b"")]).outcome()
        pending = [meta.start_write([SetData("/a", str(n).encode(), n)]) for n in range(50)]
        assert {outline(await write.outcome())[0] for write in pending} == {"committed"}


async def test_a_watch_tells_of_creation_change_and_deletion(open_meta: OpenMeta) -> None:
    async with open_meta() as meta, open_meta() as other:
        for operation in (Create("/a", b"1"), SetData("/a", b"2", -1), Delete("/a", -1)):
            watch = await meta.watch("/a")
            await other.start_write([operation]).outcome()
            with anyio.fail_after(20):
                await watch.changed()


async def test_an_ephemeral_znode_goes_when_its_client_stops(open_meta: OpenMeta) -> None:
    async with open_meta() as meta:
        async with open_meta(session_timeout_ms=10_000) as other:
            await other.start_write([Create("/e", b"", ephemeral=True)]).outcome()
            node = await meta.get_synced("/e")
            assert node is not None and node.owner == other.session.session_id
            watch = await meta.watch("/e")
        with anyio.fail_after(8):  # Less than the session timeout: it was closed, not abandoned.
            await watch.changed()
        assert await meta.get_synced("/e") is None


async def test_a_request_above_jute_maxbuffer_is_an_unknown_outcome_and_the_session_goes_on(
    open_meta: OpenMeta,
) -> None:
    async with open_meta() as meta:
        outcome = await meta.start_write([Create("/big", b"x" * 1_100_000)]).outcome()
        assert isinstance(outcome, Unknown)
        await until_state(meta, SessionState.CONNECTED)
        with anyio.fail_after(20):
            while True:
                try:
                    assert await meta.get_synced("/big") is None
                except MetaUnavailable:
                    await anyio.sleep(0.02)
                else:
                    break


async def test_the_negotiated_session_timeout_is_the_servers(open_meta: OpenMeta) -> None:
    async with open_meta(session_timeout_ms=60_000) as meta:
        assert meta.session.timeout_ms == 10_000  # Twenty ticks of half a second.


async def test_a_server_that_is_gone_suspends_and_its_return_resumes_the_session(
    zookeeper: ZooKeeper, open_meta: OpenMeta
) -> None:
    async with open_meta(session_timeout_ms=10_000) as meta:
        await meta.start_write([Create("/kept", b"1"), Create("/mine", b"", ephemeral=True)]).outcome()
        session_id = meta.session.session_id
        await anyio.to_thread.run_sync(zookeeper.kill)
        await until_state(meta, SessionState.SUSPENDED)
        assert isinstance(await meta.start_write([SetData("/kept", b"2", 0)]).outcome(), Unknown)
        with pytest.raises(MetaUnavailable):
            await meta.get("/kept")
        await anyio.to_thread.run_sync(zookeeper.start)
        await until_state(meta, SessionState.CONNECTED)
        assert meta.session.session_id == session_id
        node = await meta.get_synced("/kept")
        assert node is not None and node.data == b"1"
        assert await meta.get_synced("/mine") is not None


class LossyProxy:
    """Passes everything on to a ZooKeeper, but for `to_lose` of its next answers."""

    def __init__(self, port: int) -> None:
        self.to_lose = 0
        self._port = port

    async def pass_on(self, client: SocketStream) -> None:
        server = await anyio.connect_tcp("127.0.0.1", self._port)
        async with client, server, anyio.create_task_group() as tasks:
            tasks.start_soon(self._requests, client, server)
            tasks.start_soon(self._answers, client, server)

    async def _requests(self, client: SocketStream, server: SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            while True:
                await server.send(await client.receive())
        await server.aclose()

    async def _answers(self, client: SocketStream, server: SocketStream) -> None:
        answers = BufferedByteReceiveStream(server)
        with suppress(
            anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, anyio.IncompleteRead
        ):
            while True:
                size = await answers.receive_exactly(4)
                answer = await answers.receive_exactly(int.from_bytes(size))
                if self.to_lose:
                    self.to_lose -= 1
                else:
                    await client.send(size + answer)
        await client.aclose()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_client_whose_thread_ended_is_replaced_by_another(zookeeper: ZooKeeper, root: str) -> None:
    """As after an answer that ZooKeeper dropped in its own processing ("Destruction averted")."""
    proxy = LossyProxy(int(zookeeper.connection_string.rpartition(":")[2]))
    async with await anyio.create_tcp_listener() as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy.pass_on)
        port = listener.extra(SocketAttribute.local_port)
        meta = KazooMeta(hosts=f"127.0.0.1:{port}", root=root, session_timeout_ms=10_000)
        await tasks.start(meta.run)
        await until_state(meta, SessionState.CONNECTED)
        session_id = meta.session.session_id
        proxy.to_lose = 1
        with pytest.raises(MetaUnavailable):
            await meta.get_many(["/first", "/second"])
        await until_state(meta, SessionState.LOST)
        await until_state(meta, SessionState.CONNECTED)
        assert meta.session.session_id != session_id
        assert await meta.get("/first") is None
        tasks.cancel_scope.cancel()


async def test_a_client_that_has_seen_more_than_a_restored_zookeeper_gets_a_new_session(
    tmp_path: Path,
) -> None:
    """The server refuses whoever has seen a higher zxid than its own, for as long as it lacks it."""
    with PortReservation() as ports:
        server = ZooKeeper(
            directory=tmp_path,
            ports=[ZooKeeperPorts(ports.reserve_free(), ports.reserve_free(), ports.reserve_free())],
            java=find_java(),
            log_directory=tmp_path,
        )
        server.start()
        meta = KazooMeta(hosts=server.connection_string, root="/springtide", session_timeout_ms=2_000)
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(meta.run)
                await until_state(meta, SessionState.CONNECTED)
                await meta.ensure_root()
                data_directory = server.servers[0].data_directory
                await anyio.to_thread.run_sync(server.stop)
                shutil.copytree(data_directory, tmp_path / "backup")
                await anyio.to_thread.run_sync(server.start)
                await until_state(meta, SessionState.CONNECTED)
                for number in range(50):
                    write = meta.start_write([Create(f"/{number}", b"")])
                    assert await write.outcome() == Committed()
                before = meta.session
                await anyio.to_thread.run_sync(server.kill)
                shutil.rmtree(data_directory)
                shutil.copytree(tmp_path / "backup", data_directory)
                await anyio.to_thread.run_sync(server.start)
                with anyio.fail_after(30):
                    session = before
                    while (
                        session.session_id == before.session_id or session.state is not SessionState.CONNECTED
                    ):
                        session = await meta.session_changed(session)
                assert await meta.get_synced("/0") is None
                assert await meta.start_write([Create("/again", b"")]).outcome() == Committed()
                tasks.cancel_scope.cancel()
        finally:
            server.stop()


async def test_many_reads_are_answered_in_order_with_what_is_missing(open_meta: OpenMeta) -> None:
    """More than one request's worth, with empty and large znodes among them."""
    async with open_meta() as meta:
        await until_state(meta, SessionState.CONNECTED)
        await meta.ensure_root()
        sizes = [number * 997 % 40_000 for number in range(300)]
        for start in range(0, 300, 20):
            creations = [Create(f"/n{n}", b"x" * sizes[n]) for n in range(start, start + 20) if n % 7]
            assert await meta.start_write(creations).outcome() == Committed()
        nodes = await meta.get_many([f"/n{number}" for number in range(300)])
        found = [None if node is None else len(node.data) for node in nodes]
        assert found == [sizes[number] if number % 7 else None for number in range(300)]
        assert nodes[8] == await meta.get("/n8")
        assert await meta.get_many([]) == []
