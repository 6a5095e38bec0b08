"""An operation is followed as a stream: its states, heartbeats, where a client left off, and every bound."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from admin_api.settings import ApiSettings
from tests.kit.admin_api.rest import Rest, controller, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

#: Of an operation that waits for a broker that never comes.
DEADLINE_MS = 60_000
SETTINGS = ApiSettings(preflight_deadline_ms=DEADLINE_MS)


async def waiting_operation(rest: Rest) -> str:
    """Its id; it fails at its deadline, 60 s later."""
    await rest.form(1)
    response = await rest.post("/clusters/prod/brokers", {"broker_id": 9, "endpoint": "store9:9092"})
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


def events_of(stream: str) -> list[tuple[int, dict[str, Any]]]:
    """Ids and data of the events named `operation`, after checking that nothing else is in the stream."""
    found = []
    for block in stream.removesuffix("\n\n").split("\n\n"):
        if block.startswith((":", "retry: ")):
            continue
        name, data, event_id = block.split("\n")
        assert name == "event: operation"
        found.append((int(event_id.removeprefix("id: ")), json.loads(data.removeprefix("data: "))))
    return found


class Reader:
    """A client below HTTP, which may stop reading or go away."""

    def __init__(self, rest: Rest, operation_id: str, *, reads: int | None = None) -> None:
        self.app = rest.app
        self.path = f"/operations/{operation_id}/events"
        self.messages: list[Any] = []
        self.gone = anyio.Event()
        self.is_over = False
        self._reads = reads
        self._has_asked = False

    async def run(self) -> None:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": b"",
            "headers": [],
            "client": ("10.0.0.7", 50_000),
            "server": ("c1", 8080),
            "scheme": "http",
        }
        await self.app(scope, self._receive, self._send)
        self.is_over = True

    async def _receive(self) -> Any:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._reads is not None and len(self.messages) >= self._reads:
            await anyio.sleep_forever()
        self.messages.append(message)

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.messages).decode()


async def test_a_stream_tells_each_state_until_the_operation_has_ended(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=SETTINGS) as rest:
        operation_id = await waiting_operation(rest)
        response = await rest.client.get(f"/operations/{operation_id}/events")
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "no-store" in response.headers["cache-control"]
        assert response.text.startswith("retry: 1000\n\n")
        seen = events_of(response.text)
        assert seen[0][1]["state"] == "preflight"
        revision, last = seen[-1]
        assert last["state"] == "failed"
        assert last["error"]["code"] == "deadline_exceeded"
        revisions = [event_id for event_id, _ in seen]
        assert revisions == sorted(set(revisions))
        shown = await rest.client.get(f"/operations/{operation_id}")
        assert shown.json() == last
        assert shown.headers["etag"].startswith(f'"{revision}.')


async def test_comments_keep_a_quiet_stream_open(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=SETTINGS) as rest:
        operation_id = await waiting_operation(rest)
        response = await rest.client.get(f"/operations/{operation_id}/events")
        # 60 s of silence, one comment every 15 s.
        assert response.text.count(": still here\n\n") == 3


async def test_a_client_that_comes_back_hears_only_what_is_new(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=SETTINGS) as rest:
        operation_id = await waiting_operation(rest)
        await rest.clock.sleep_ms(1_000)
        now = (await rest.client.get(f"/operations/{operation_id}")).headers["etag"]
        revision = now.strip('"').partition(".")[0]
        path = f"/operations/{operation_id}/events"
        response = await rest.client.get(path, headers={"Last-Event-ID": revision})
        ((last, state),) = events_of(response.text)
        assert state["state"] == "failed"
        over = await rest.client.get(path, headers={"Last-Event-ID": str(last)})
        assert (over.status_code, over.content) == (204, b"")
        again = await rest.client.get(path, headers={"Last-Event-ID": revision})
        assert events_of(again.text) == [(last, state)]


async def test_a_stream_of_no_operation_and_odd_requests_are_problems(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        assert problem(await rest.client.get("/operations/op_none/events")) == (404, "operation_not_found")
        for value in ("-1", "x", "9" * 19, ""):
            response = await rest.client.get("/operations/op_none/events", headers={"Last-Event-ID": value})
            assert problem(response) == (422, "invalid_request")
        for accept in ("application/json", "text/html"):
            response = await rest.client.get("/operations/op_none/events", headers={"Accept": accept})
            assert problem(response) == (406, "not_acceptable")
        response = await rest.client.get("/operations/op_none/events?since=1")
        assert problem(response) == (422, "invalid_request")


async def test_a_stream_is_bounded_in_time_and_in_number(zookeeper: MemoryZooKeeper) -> None:
    settings = ApiSettings(event_streams_max=1, event_stream_ms_max=5_000)
    async with controller(zookeeper, settings=settings) as rest, anyio.create_task_group() as tasks:
        operation_id = await waiting_operation(rest)
        reader = Reader(rest, operation_id)
        tasks.start_soon(reader.run)
        await rest.clock.sleep_ms(1_000)
        refused = await rest.client.get(f"/operations/{operation_id}/events")
        assert problem(refused) == (503, "overloaded")
        assert refused.headers["retry-after"] == "1"
        await rest.clock.sleep_ms(5_000)
        assert reader.is_over
        assert reader.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        assert events_of(reader.text)[-1][1]["state"] == "preflight"
        assert (await rest.client.get(f"/operations/{operation_id}/events")).status_code == 200


async def test_a_client_that_goes_away_frees_its_place_at_once(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        operation_id = await waiting_operation(rest)
        reader = Reader(rest, operation_id)
        tasks.start_soon(reader.run)
        await rest.clock.sleep_ms(1_000)
        feed = rest.app.state.feed
        assert feed.open_streams == 1
        reader.gone.set()
        await rest.clock.sleep_ms(10)
        assert feed.open_streams == 0
        assert reader.is_over


async def test_a_client_that_never_reads_loses_its_place(
    zookeeper: MemoryZooKeeper,
) -> None:
    settings = ApiSettings(event_stream_ms_max=5_000)
    async with controller(zookeeper, settings=settings) as rest, anyio.create_task_group() as tasks:
        operation_id = await waiting_operation(rest)
        reader = Reader(rest, operation_id, reads=2)
        tasks.start_soon(reader.run)
        await rest.clock.sleep_ms(9_000)
        assert not reader.is_over
        await rest.clock.sleep_ms(2_000)
        assert reader.is_over
        assert rest.app.state.feed.open_streams == 0
        assert len(reader.messages) == 2


async def test_a_stream_outlives_an_outage_of_sql(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=SETTINGS) as rest:
        operation_id = await waiting_operation(rest)
        async with (
            controller(zookeeper, name="c2", is_active=False) as standby,
            anyio.create_task_group() as tasks,
        ):
            # Two controllers on one history.
            standby.app.state.feed._store = rest.store
            reader = Reader(standby, operation_id)
            tasks.start_soon(reader.run)
            await rest.clock.sleep_ms(2_000)
            rest.sql.down = True
            await rest.clock.sleep_ms(2_000)
            rest.sql.down = False
            await rest.clock.sleep_ms(DEADLINE_MS)
            assert reader.is_over
        assert ": the audit database is unavailable\n\n" in reader.text
        assert events_of(reader.text)[-1][1]["state"] == "failed"


async def test_a_stream_ends_when_its_controller_is_no_longer_the_active_one(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        operation_id = await waiting_operation(rest)
        reader = Reader(rest, operation_id)
        tasks.start_soon(reader.run)
        await rest.clock.sleep_ms(1_000)
        assert not reader.is_over
        rest.engine.stand_down()
        await rest.clock.sleep_ms(1_000)
        assert reader.is_over


async def test_streams_of_one_operation_share_a_look_at_it(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        operation_id = await waiting_operation(rest)
        looks = 0
        operations = rest.app.state.operations
        original = operations.live

        def counted(rows: Any) -> Any:
            nonlocal looks
            looks += 1
            return original(rows)

        monkeypatch.setattr(operations, "live", counted)
        readers = [Reader(rest, operation_id) for _ in range(5)]
        for reader in readers:
            tasks.start_soon(reader.run)
        await rest.clock.sleep_ms(10_000)
        # One each half a second, not five.
        assert 15 <= looks <= 25
        for reader in readers:
            reader.gone.set()
