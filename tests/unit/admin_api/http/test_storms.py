"""Many at once, the impatient and the deceitful: whatever they send, an effect has one cause and one row."""

from __future__ import annotations

import io
import logging
import re

import anyio
import pytest

from admin_api.http.tokens import load_tokens
from springtide.log_lines import TextFormatter
from tests.hostile.aftermath import differences
from tests.kit.admin_api.rest import controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

TOPIC = {"name": "orders", "cluster": "prod", "partitions": 2, "replication_factor": 3}
ORDERS = "/clusters/prod/topics/orders"


async def test_creations_and_deletions_of_one_name_at_once_leave_one_truth(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, run_outbox=True) as rest:
        await rest.form()
        answers: list[tuple[str, int, str]] = []

        async def ask(number: int) -> None:
            await rest.clock.sleep_ms(number % 7)
            if number % 2:
                answer = await rest.post("/topics", TOPIC)
            else:
                answer = await rest.client.delete(ORDERS)
            answers.append((answer.request.method, answer.status_code, answer.headers["x-request-id"]))

        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(ask, number)
        assert {status for method, status, _ in answers if method == "POST"} == {201, 409}
        assert {status for method, status, _ in answers if method == "DELETE"} == {202, 404}
        created = sum(status == 201 for _, status, _ in answers)
        deleted = sum(status == 202 for _, status, _ in answers)
        left = (await rest.client.get(ORDERS)).status_code == 200
        assert created - deleted == left
        changes = await rest.recorded(entity="topic", kind="change")
        assert sum(row["cause"] == "topic_created" for row in changes) == created
        assert sum(row["cause"] == "topic_deletion_started" for row in changes) == deleted
        told = {row["request_id"]: row["outcome"]["outcome"] for row in await rest.recorded(kind="request")}
        for _, status, request_id in answers:
            if status != 404:  # looked up before it is a write at all
                assert told[request_id] == ("succeeded" if status < 300 else "refused")
        assert await differences(rest, zookeeper) == []


async def test_whoever_hangs_up_has_one_effect_or_none_and_the_audit_knows(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, run_outbox=True) as rest:
        await rest.form()
        rest.meta.hold_writes()
        with anyio.move_on_after(0.05) as impatient:
            await rest.post("/topics", TOPIC, Idempotency_Key="k1")
        assert impatient.cancelled_caught
        rest.meta.release_writes()
        await rest.clock.sleep_ms(1_000)
        shown = await rest.client.get(ORDERS)
        again = await rest.post("/topics", TOPIC, Idempotency_Key="k1")
        assert again.status_code == 201
        assert shown.status_code in (200, 404)
        changes = await rest.recorded(entity="topic", kind="change", cause="topic_created")
        assert len(changes) == 1
        assert again.json()["topic_id"] == changes[0]["after"]["topic_id"]
        assert await differences(rest, zookeeper) == []


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/topics", TOPIC | {"partitions": 2**63}, "/partitions"),
        ("/topics", TOPIC | {"partitions": 2**64}, "/partitions"),
        ("/topics", TOPIC | {"partitions": True}, "/partitions"),
        ("/topics", TOPIC | {"partitions": 1.0}, "/partitions"),
        ("/topics", TOPIC | {"replication_factor": 4}, "/replication_factor"),
        ("/topics", TOPIC | {"configs": {"min.insync.replicas": "0"}}, "/configs/min.insync.replicas"),
        ("/topics", TOPIC | {"name": "a" * 250}, "/name"),
        ("/topics", TOPIC | {"name": "or\u202eders"}, "/name"),
        ("/topics", TOPIC | {"nmae": "orders"}, "/nmae"),
    ],
)
async def test_what_is_out_of_range_is_refused_by_its_field(
    zookeeper: MemoryZooKeeper, path: str, body: dict[str, object], where: str
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        refused = await rest.post(path, body)
        assert problem(refused)[0] == 422
        assert pointers(refused) == [where]
        assert (await rest.client.get("/clusters/prod/topics")).json()["items"] == []


async def test_a_refusal_of_a_role_tells_nobody_what_exists(zookeeper: MemoryZooKeeper) -> None:
    secret = "the-token-of-a-viewer-0123456789"
    tokens = load_tokens(file=None, environment=f"v viewer {secret}")
    async with controller(zookeeper, tokens=tokens) as rest:
        await rest.form()
        headers = {"Authorization": f"Bearer {secret}", "X-Request-Id": "r"}
        answers = [
            await rest.client.delete(f"/clusters/{cluster}/topics/t", headers=headers)
            for cluster in ("prod", "none")
        ]
        bodies = [answer.json() | {"instance": ""} for answer in answers]
        assert problem(answers[0]) == (403, "forbidden")
        assert bodies[0] == bodies[1]


async def test_nobody_writes_a_line_into_the_log(zookeeper: MemoryZooKeeper) -> None:
    """A line end in a name stays in its line, and a traceback can't be taken for another one."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(TextFormatter())
    logging.getLogger().addHandler(handler)
    try:
        async with controller(zookeeper) as rest:
            await rest.form()
            rest.app.state.services = None
            headers = {"X-Request-Id": "asked-by-a-test"}
            assert (await rest.client.get("/clusters/prod", headers=headers)).status_code == 500
            logging.getLogger("controller").warning(
                "topic %s", "x\r\n2026-11-21T00:00:00.000Z level=error forged"
            )
    finally:
        logging.getLogger().removeHandler(handler)
    lines = written.getvalue().splitlines()
    events = [line for line in lines if not line.startswith("    ")]
    (failed,) = (line for line in events if "request_failed" in line)
    assert failed.endswith("request_failed request_id=asked-by-a-test method=GET path=/clusters/prod")
    assert sum("forged" in line for line in events) == 1
    for line in events:
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=[a-z]+ logger=\S+ ", line), line
