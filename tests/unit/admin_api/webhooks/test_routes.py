"""Webhooks are written by admins, listed without their secrets, and told the alarms."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest

from admin_api.settings import ApiSettings
from controller.database.webhook_rows import WEBHOOKS_MAX
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem, silence, speaking
from tests.kit.controller.receiver import MemoryReceiver, is_signed
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

WEBHOOKS = "/clusters/prod/webhooks"
PAGER = f"{WEBHOOKS}/pager"
SILENCES = "/clusters/prod/silences"
URL = "https://pager.example.com/hook/the-slack-token?key=the-url-key"
QUICK = {"url": URL, "wait_s": 0, "settle_s": 1}
CLOSED = ["the-slack-token", "the-url-key"]


async def made(rest: Rest, **fields: Any) -> dict[str, Any]:
    response = await rest.client.put(PAGER, json=QUICK | fields)
    assert response.status_code == 201, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_a_webhook_is_written_shown_changed_and_deleted(
    zookeeper: MemoryZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with controller(zookeeper) as rest:
        await rest.form()
        created = await rest.client.put(PAGER, json={"url": URL, "reason": "nights"})
        assert (created.status_code, created.headers["location"]) == (201, PAGER)
        secret = created.json()["secret"]
        assert secret.startswith("whsec_")
        shown = await rest.client.get(PAGER)
        assert shown.json() == created.json() | {"secret": None}
        assert shown.headers["etag"].split(".")[0] == created.headers["etag"].split(".")[0]
        assert (shown.json()["host"], shown.json()["state"]) == ("pager.example.com", "ok")
        tag = {"If-Match": created.headers["etag"]}
        changed = await rest.client.put(PAGER, json={"wait_s": 5, "enabled": False}, headers=tag)
        assert (changed.status_code, changed.json()["secret"]) == (200, None)
        assert (changed.json()["wait_s"], changed.json()["state"]) == (5, "disabled")
        assert problem(await rest.client.put(PAGER, json={}, headers=tag)) == (412, "precondition_failed")
        renewed = await rest.client.put(PAGER, json={"new_secret": True})
        assert renewed.json()["secret"] not in (None, secret)
        listed = (await rest.client.get(WEBHOOKS)).json()
        assert [item["name"] for item in listed["items"]] == ["pager"]
        assert problem(await rest.client.delete(PAGER, headers=tag)) == (412, "precondition_failed")
        assert (await rest.client.delete(f"{PAGER}?dry_run=true")).json()["name"] == "pager"
        assert (await rest.client.delete(f"{PAGER}?reason=over")).json()["name"] == "pager"
        assert problem(await rest.client.get(PAGER)) == (404, "webhook_not_found")
        rows = await rest.recorded(kind="request", cause="put_webhook")
        assert [row["after"]["host"] for row in rows] == [None, None, None, "pager.example.com"]
        for text in (json.dumps(rows), json.dumps(listed), shown.text, caplog.text):
            assert [one for one in [*CLOSED, secret, secret[6:]] if one in text] == []


async def test_a_secret_that_is_given_is_never_shown(zookeeper: MemoryZooKeeper) -> None:
    secret = "whsec_" + "QUJD" * 8
    async with controller(zookeeper) as rest:
        await rest.form()
        body = await made(rest, secret=secret)
        assert body["secret"] is None
        again = await rest.client.put(PAGER, json={"secret": secret, "new_secret": True})
        assert (problem(again), pointers(again)) == ((422, "invalid_request"), ["/new_secret"])
        bad = await rest.client.put(PAGER, json={"secret": "whsec_short"})
        assert (problem(bad), pointers(bad)) == ((422, "invalid_request"), ["/secret"])
        assert "short" not in bad.text


@pytest.mark.parametrize(
    "url",
    [
        "ftp://pager.example.com/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/x",
        "https:///no-host",
        "https://user:secret@pager.example.com/",
        "https://pager.example.com:99999/",
        "https://pager.example.com/#part",
        "https://[::1/",
        "https://pager.example.com/a b",
        "https://pager.example.com/\r\nx: y",
        "pager",
        "https://pager.example.com/" + "x" * 2_000,
        "",
    ],
)
async def test_urls_of_other_kinds_are_refused(zookeeper: MemoryZooKeeper, url: str) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        refused = await rest.client.put(PAGER, json={"url": url})
        assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), ["/url"])


async def test_only_allowed_hosts_are_named_and_asked(zookeeper: MemoryZooKeeper) -> None:
    settings = ApiSettings(webhook_hosts=("pager.example.com", "*.slack.com"))
    async with controller(zookeeper, settings=settings) as rest:
        await rest.form()
        await made(rest)
        for url in ("https://hooks.slack.com/x", "http://PAGER.example.com:81/"):
            assert (await rest.client.put(PAGER, json={"url": url})).status_code == 200, url
        for url in ("http://127.0.0.1/", "https://slack.com.evil.org/", "https://evilslack.com/"):
            assert problem(await rest.client.put(PAGER, json={"url": url})) == (422, "invalid_request")
        receiver = rest.app.state.notifier.post = MemoryReceiver()
        rest.app.state.notifier.allowed_hosts = ("other.example.com",)
        tried = (await rest.client.post(f"{PAGER}:test", json={})).json()
        assert (tried["delivered"], tried["status"], receiver.requests) == (False, None, [])
        assert "--webhook-hosts" in tried["detail"]


async def test_a_new_webhook_needs_a_url_and_there_is_a_bound(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        assert problem(await rest.client.put(PAGER, json={})) == (422, "invalid_request")
        for number in range(WEBHOOKS_MAX):
            assert (await rest.client.put(f"{WEBHOOKS}/w{number}", json=QUICK)).status_code == 201
        assert problem(await rest.client.put(PAGER, json=QUICK)) == (409, "too_many_webhooks")


async def test_only_an_admin_writes_one_and_a_viewer_sees_it(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        for role in ("viewer", "operator"):
            assert problem(await ask(rest, "PUT", PAGER, role, json=QUICK)) == (403, "forbidden")
        assert (await ask(rest, "PUT", PAGER, "admin", json=QUICK)).status_code == 201
        for verb, path in (("POST", f"{PAGER}:test"), ("DELETE", PAGER)):
            body: dict[str, Any] = {"json": {}} if verb == "POST" else {}
            assert problem(await ask(rest, verb, path, "operator", **body)) == (403, "forbidden")
        assert (await ask(rest, "GET", PAGER, "viewer")).status_code == 200
        new = {"broker_id": 3, "minutes": 5, "reason": "r"}
        assert problem(await ask(rest, "POST", SILENCES, "viewer", json=new)) == (403, "forbidden")
        assert (await ask(rest, "POST", SILENCES, "operator", json=new)).status_code == 201


async def test_a_sample_is_sent_signed_and_its_answer_is_only_a_status(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        secret = (await made(rest))["secret"]
        receiver = rest.app.state.notifier.post = MemoryReceiver()
        tried = await rest.client.post(f"{PAGER}:test", json={})
        assert tried.json() == {"delivered": True, "status": 204, "detail": None}
        ((url, headers, body),) = receiver.requests
        assert url == URL
        assert is_signed(headers, body, secret)
        assert not is_signed(headers, body + b" ", secret)
        assert json.loads(body)["event"] == "test"
        receiver.status = 302
        tried = await rest.client.post(f"{PAGER}:test", json={})
        assert tried.json()["detail"] == "the receiver answered 302, and redirects are not followed"
        assert (await rest.client.post(f"{PAGER}:test?dry_run=true", json={})).json()["delivered"] is False
        assert len(receiver.requests) == 2
        assert problem(await rest.client.post(f"{WEBHOOKS}/other:test", json={}))[0] == 404


async def test_a_broker_that_dies_and_comes_back_is_told(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        brokers = await rest.form()
        receiver = rest.app.state.notifier.post = MemoryReceiver()
        await made(rest)
        tasks.start_soon(rest.app.state.notifier.run)
        await silence(rest, brokers, 1, 2)
        assert receiver.told == [("begin", "broker_fenced")]
        (body,) = receiver.bodies
        assert (body["cluster"], body["link"]) == ("prod", "http://c1:8080/#prod")
        assert body["alarm"]["broker_id"] == 3
        assert (await rest.client.get(PAGER)).json()["delivered"] == 1
        await brokers[2].register()
        async with speaking(rest, brokers):
            await rest.clock.sleep_ms(30_000)
        assert receiver.told == [("begin", "broker_fenced"), ("end", "broker_fenced")]
        metrics = (await rest.client.get("/metrics")).text
        assert 'springtide_webhook_delivered_total{cluster="prod",webhook="pager"} 2.0' in metrics
        tasks.cancel_scope.cancel()


async def test_a_webhook_that_fails_is_an_alarm_that_others_are_told(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        brokers = await rest.form()
        receiver = MemoryReceiver()

        async def post(url: str, body: bytes, headers: dict[str, str]) -> Any:
            return await (receiver if "good" in url else MemoryReceiver(500))(url, body, headers)

        rest.app.state.notifier.post = post
        await made(rest)
        tasks.start_soon(rest.app.state.notifier.run)
        await silence(rest, brokers, 1, 2)
        async with speaking(rest, brokers[:2]):
            await rest.clock.sleep_ms(320_000)
            shown = (await rest.client.get(PAGER)).json()
            assert (shown["state"], shown["waiting"]) == ("failing", 1)
            assert shown["last_error"] == "the receiver answered 500"
            alarms = (await rest.client.get("/clusters/prod/alarms")).json()["items"]
            (fails,) = [alarm for alarm in alarms if alarm["code"] == "webhook_fails"]
            assert "webhooks pager:" in fails["detail"]
            other = QUICK | {"url": "https://good.example.com/"}
            assert (await rest.client.put(f"{WEBHOOKS}/other", json=other)).status_code == 201
            await rest.clock.sleep_ms(5_000)
        assert ("begin", "webhook_fails") in receiver.told
        assert (await rest.client.get(PAGER)).json()["waiting"] == 1
        tasks.cancel_scope.cancel()


async def test_a_silenced_alarm_is_shown_marked_and_not_told(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, anyio.create_task_group() as tasks:
        brokers = await rest.form()
        receiver = rest.app.state.notifier.post = MemoryReceiver()
        await made(rest)
        tasks.start_soon(rest.app.state.notifier.run)
        new = {"code": "broker_fenced", "broker_id": 3, "minutes": 10, "reason": "its board"}
        assert (await rest.client.post(f"{SILENCES}?dry_run=true", json=new)).status_code == 200
        assert (await rest.client.get(SILENCES)).json()["items"] == []
        made_silence = (await rest.client.post(SILENCES, json=new)).json()
        await silence(rest, brokers, 1, 2)
        (alarm,) = (await rest.client.get("/clusters/prod/alarms")).json()["items"]
        assert alarm["silenced"] == {name: made_silence[name] for name in ("id", "reason", "actor", "until")}
        assert (await rest.client.get("/clusters/prod")).json()["health"] == "degraded"
        assert receiver.told == []
        ended = await rest.client.delete(f"{SILENCES}/{made_silence['id']}?reason=done")
        assert (ended.status_code, ended.json()) == (200, made_silence)
        await rest.clock.sleep_ms(3_000)
        assert receiver.told == [("begin", "broker_fenced")]
        gone = await rest.client.delete(f"{SILENCES}/{made_silence['id']}")
        assert problem(gone) == (404, "silence_not_found")
        (row,) = await rest.recorded(kind="request", cause="add_silence")
        assert (row["reason"], row["after"]["broker_id"]) == ("its board", 3)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"minutes": 5, "reason": "r"}, "/code"),
        ({"partition": 0, "minutes": 5, "reason": "r"}, "/code"),
        ({"code": "broker_fenced", "partition": 0, "minutes": 5, "reason": "r"}, "/partition"),
        ({"code": "broker_fenced", "minutes": 43_201, "reason": "r"}, "/minutes"),
        ({"code": "broker_fenced", "minutes": 0, "reason": "r"}, "/minutes"),
        ({"code": "broker_fenced", "minutes": 5, "reason": ""}, "/reason"),
        ({"code": "broker_fenced", "minutes": 5}, "/reason"),
        ({"code": "no_such_alarm", "minutes": 5, "reason": "r"}, "/code"),
        ({"producer_id": -1, "minutes": 5, "reason": "r"}, "/producer_id"),
    ],
)
async def test_silences_have_a_subject_a_reason_and_an_end(
    zookeeper: MemoryZooKeeper, body: dict[str, Any], pointer: str
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        refused = await rest.client.post(SILENCES, json=body)
        assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), [pointer])


async def test_alarms_are_listed_while_sql_is_down(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await silence(rest, brokers, 1, 2)
        rest.sql.down = True
        assert (await rest.client.get("/clusters/prod/alarms")).status_code == 200
        assert problem(await rest.client.get(WEBHOOKS))[0] == 503
